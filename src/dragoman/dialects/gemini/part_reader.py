"""Parts that say everything at once, as blocks: media, code that was run, tools of the server.

Requests and streams hold the same parts, so both readers come here. What the vendor's own tools said is
kept whole in the extras, for Gemini clients; blocks have what others can use of it.
"""

from collections.abc import Callable

from dragoman.dialects.base import Json
from dragoman.dialects.gemini.signature import is_base64
from dragoman.dialects.gemini.spelling import Spelling, camel, snake
from dragoman.hub.content import Extras, HostedCall, HostedResult, Media, MediaKind, Opaque, ReplyBlock
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
    """The family of a declared tool."""
    return FAMILIES.get(name) or snake(name)


def family_of_type(kind: str) -> str:
    """The family of a tool that was called."""
    return FAMILIES.get(kind) or kind.lower()


def media_kind(media_type: str) -> MediaKind:
    return KINDS_OF_MEDIA.get(media_type.partition("/")[0].lower(), "document")


class PartReader:
    """Reads whole parts. `make_id` names a server's call that came without an id."""

    def __init__(self, spelling: Spelling, make_id: Callable[[], str]) -> None:
        self._spelling = spelling
        self._make_id = make_id
        self._last_call = ""

    def read(self, part: Fields) -> ReplyBlock:
        """The block that a part other than text, call or response is; the part's names are canonical."""
        values = part.rest()
        whole = {name: dict(value) if isinstance(value, dict) else value for name, value in values.items()}
        for name, read in _READERS.items():
            if isinstance(values.get(name), dict):
                block = read(self, part)
                # Pictures and code that were only thought of are no part of the answer.
                thought = whole.get("thought") is True
                return Opaque(kind="thought", value=whole, at=part.path) if thought else block
        kind = next((name for name, value in values.items() if isinstance(value, dict)), "part")
        return Opaque(kind=kind, value=whole, at=part.path)

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
        arguments = {"language": code.text("language"), "code": code.text("code")}
        return self._hosted_call(part, whole, code, "code_execution", arguments)

    def code_result(self, part: Fields) -> HostedResult:
        whole, result = _whole(part, "codeExecutionResult")
        return HostedResult(
            call_id=result.text_or("id", self._last_call),
            tool="code_execution",
            text=result.text_or("output", ""),
            is_error=result.text("outcome") != OUTCOME_OK,
            at=part.path,
            extras=whole,
        )

    def tool_call(self, part: Fields) -> HostedCall:
        whole, call = _whole(part, "toolCall")
        tool = family_of_type(call.text("toolType"))
        return self._hosted_call(part, whole, call, tool, call.raw("args", {}))

    def tool_response(self, part: Fields) -> HostedResult:
        whole, response = _whole(part, "toolResponse")
        return HostedResult(
            call_id=response.text_or("id", self._last_call),
            tool=family_of_type(response.text("toolType")),
            text=encode(response.raw("response", {})).decode(),
            at=part.path,
            extras=whole,
        )

    def _hosted_call(
        self, part: Fields, whole: Extras, call: Fields, tool: str, arguments: object
    ) -> HostedCall:
        self._last_call = call.maybe_text("id") or self._make_id()
        return HostedCall(
            id=self._last_call, tool=tool, arguments=encode(arguments).decode(), at=part.path, extras=whole
        )


_READERS: dict[str, Callable[[PartReader, Fields], ReplyBlock]] = {
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


def _whole(part: Fields, name: str) -> tuple[Extras, Fields]:
    """The part as it came, for the extras, and a copy of its inner object to take apart."""
    values = part.rest()
    inner = values[name]
    return {WHOLE: values}, part.child(dict(camel(inner)) if isinstance(inner, dict) else inner, name)


#: A part holds one of these.
_DATA = ("text", "functionCall", "functionResponse", *_READERS)


def stray_data(part: Json, kept: str = "") -> list[str]:
    """The data of other kinds that a part holds beside the one that is kept."""
    return [name for name in _DATA if name in part and name != kept]


def cleaned(part: Json) -> Json | None:
    """A whole part of a reply without what no client would take; None if nothing is left to tell."""
    names = [name for name in _DATA if name in part]
    kept = next((name for name in names if isinstance(part[name], dict)), "")
    if not kept and (names or not any(isinstance(value, dict) for value in part.values())):
        return None
    signature = part.get("thoughtSignature")
    dropped = {*stray_data(part, kept)}
    if not isinstance(signature, str) or not is_base64(signature):
        dropped.add("thoughtSignature")
    if type(part.get("thought")) is not bool:
        dropped.add("thought")
    return {name: value for name, value in part.items() if name not in dropped}
