"""Parts that say everything at once, as blocks: media, code that was run, tools of the server.

Requests and streams hold the same parts, so both readers come here. What the vendor's own tools said is
kept whole in the extras, for Gemini clients; blocks have what others can use of it.
"""

from collections.abc import Callable

from dragoman.dialects.base import Json
from dragoman.dialects.gemini.spelling import Spelling, camel, snake
from dragoman.hub.content import AnyBlock, Extras, HostedCall, HostedResult, Media, MediaKind, Opaque
from dragoman.wire.fields import Fields, encode

#: Families of the server's tools, by the names of declarations and by those of calls.
FAMILIES: dict[str, str] = {
    "googleSearch": "web_search",
    "googleSearchRetrieval": "web_search",
    "enterpriseWebSearch": "web_search",
    "urlContext": "web_fetch",
    "codeExecution": "code_execution",
    "GOOGLE_SEARCH_WEB": "web_search",
    "GOOGLE_SEARCH_IMAGE": "image_search",
    "URL_CONTEXT": "web_fetch",
}

KINDS_OF_MEDIA: dict[str, MediaKind] = {"image": "image", "audio": "audio", "video": "video"}

#: Files that only the vendor can open.
VENDOR_FILES = ("files/", "gs://", "https://generativelanguage.googleapis.com/")

OUTCOME_OK = "OUTCOME_OK"

#: In the extras of what the server's tools did: the whole part, a note to our own writer.
WHOLE = "@part"


def family_of(name: str) -> str:
    return FAMILIES.get(name) or snake(name)


def media_kind(media_type: str) -> MediaKind:
    return KINDS_OF_MEDIA.get(media_type.partition("/")[0].lower(), "document")


class PartReader:
    """Reads whole parts. `make_id` names a server's call that came without an id."""

    def __init__(self, spelling: Spelling, make_id: Callable[[], str]) -> None:
        self._spelling = spelling
        self._make_id = make_id
        self._last_call = ""

    def read(self, part: Fields) -> AnyBlock:
        """The block that a part other than text, call or response is; the part's names are canonical."""
        values = part.rest()
        if values.get("thought") is True:
            # Pictures and code that were only thought of are no part of the answer.
            return Opaque(kind="thought", value=dict(values), at=part.path)
        for name, read in _READERS.items():
            if isinstance(values.get(name), dict):
                return read(self, part)
        kind = next((name for name, value in values.items() if isinstance(value, dict)), "part")
        return Opaque(kind=kind, value=dict(values), at=part.path)

    def inline(self, part: Fields) -> Media:
        blob = self._spelling.canonical(part.object("inlineData"))
        media_type = blob.text_or("mimeType", "")
        return Media(
            kind=media_kind(media_type),
            media_type=media_type,
            data=blob.text("data"),
            title=blob.text_or("displayName", ""),
            at=part.path,
            extras=_extras(part, "inlineData", blob),
        )

    def file(self, part: Fields) -> Media:
        file = self._spelling.canonical(part.object("fileData"))
        media_type = file.text_or("mimeType", "")
        uri = file.text("fileUri")
        private = uri.startswith(VENDOR_FILES)
        return Media(
            kind=media_kind(media_type),
            media_type=media_type,
            url="" if private else uri,
            file_id=uri if private else "",
            title=file.text_or("displayName", ""),
            at=part.path,
            extras=_extras(part, "fileData", file),
        )

    def code(self, part: Fields) -> HostedCall:
        whole, code = _whole(part, "executableCode")
        arguments = {name: code[name] for name in ("language", "code") if isinstance(code.get(name), str)}
        return self._hosted_call(part, whole, code, "code_execution", arguments)

    def code_result(self, part: Fields) -> HostedResult:
        whole, result = _whole(part, "codeExecutionResult")
        output = result.get("output")
        return HostedResult(
            call_id=_id(result) or self._last_call,
            tool="code_execution",
            text=output if isinstance(output, str) else "",
            is_error=result.get("outcome") != OUTCOME_OK,
            at=part.path,
            extras=whole,
        )

    def tool_call(self, part: Fields) -> HostedCall:
        whole, call = _whole(part, "toolCall")
        return self._hosted_call(part, whole, call, _family_of_type(call), call.get("args", {}))

    def tool_response(self, part: Fields) -> HostedResult:
        whole, response = _whole(part, "toolResponse")
        return HostedResult(
            call_id=_id(response) or self._last_call,
            tool=_family_of_type(response),
            text=encode(response.get("response", {})).decode(),
            at=part.path,
            extras=whole,
        )

    def _hosted_call(
        self, part: Fields, whole: Extras, call: Json, tool: str, arguments: object
    ) -> HostedCall:
        self._last_call = _id(call) or self._make_id()
        return HostedCall(
            id=self._last_call, tool=tool, arguments=encode(arguments).decode(), at=part.path, extras=whole
        )


_READERS: dict[str, Callable[[PartReader, Fields], AnyBlock]] = {
    "inlineData": PartReader.inline,
    "fileData": PartReader.file,
    "executableCode": PartReader.code,
    "codeExecutionResult": PartReader.code_result,
    "toolCall": PartReader.tool_call,
    "toolResponse": PartReader.tool_response,
}


def _extras(part: Fields, name: str, inner: Fields) -> Extras:
    """What is left of a part, and what is left inside it under its own name."""
    extras = part.rest()
    if inner.rest():
        extras[name] = inner.rest()
    return extras


def _whole(part: Fields, name: str) -> tuple[Extras, Json]:
    """The part as it came, for the extras, and its inner object to look at."""
    values = part.rest()
    inner = values[name]
    return {WHOLE: values}, camel(inner) if isinstance(inner, dict) else {}


def _id(value: Json) -> str:
    given = value.get("id")
    return given if isinstance(given, str) else ""


def _family_of_type(value: Json) -> str:
    kind = value.get("toolType", value.get("tool_type"))
    return FAMILIES.get(kind) or kind.lower() if isinstance(kind, str) else "unknown"
