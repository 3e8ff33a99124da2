"""Reads complete parts: media, code that Gemini ran, calls and results of the tools that Gemini runs.

Requests and streams hold the same parts, so both readers use this module. The extras keep a part of Gemini's
tools unchanged for Gemini clients; the block has what other dialects can use.
"""

from collections.abc import Callable

from dragoman.dialects.base import Json
from dragoman.dialects.gemini.signature import is_base64
from dragoman.dialects.gemini.spelling import NameConverter, to_camel, to_snake
from dragoman.hub.content import Extras, HostedCall, HostedResult, Media, MediaKind, Opaque, ReplyBlock
from dragoman.wire.fields import Fields, encode

#: Families of the tools that Gemini runs, by their names in declarations and in calls.
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

#: Addresses that only Google can open.
VENDOR_FILES = ("files/", "gs://", "https://generativelanguage.googleapis.com/")

OUTCOME_OK = "OUTCOME_OK"

#: A note in the extras for our own writer: the unchanged part of a tool that Gemini runs.
WHOLE = "@part"


def find_family(name: str) -> str:
    """The family of a declared tool."""
    return FAMILIES.get(name) or to_snake(name)


def find_called_family(kind: str) -> str:
    """The family of a called tool."""
    return FAMILIES.get(kind) or kind.lower()


def find_media_kind(media_type: str) -> MediaKind:
    return KINDS_OF_MEDIA.get(media_type.partition("/")[0].lower(), "document")


class PartReader:
    """Reads complete parts. `make_id` makes the id of a call of Gemini's tools that has none."""

    def __init__(self, converter: NameConverter, make_id: Callable[[], str]) -> None:
        self._converter = converter
        self._make_id = make_id
        self._last_call = ""

    def read(self, part: Fields) -> ReplyBlock:
        """The block of a part other than text, call or response; its names are in camelCase."""
        values = part.rest()
        whole = {name: dict(value) if isinstance(value, dict) else value for name, value in values.items()}
        for name, read in _READERS.items():
            if isinstance(values.get(name), dict):
                block = read(self, part)
                # Images and code inside a thought are not part of the answer.
                thought = whole.get("thought") is True
                return Opaque(kind="thought", value=whole, at=part.path) if thought else block
        kind = next((name for name, value in values.items() if isinstance(value, dict)), "part")
        return Opaque(kind=kind, value=whole, at=part.path)

    def read_inline(self, part: Fields) -> Media:
        blob = self._converter.convert(part.object("inlineData"))
        media_type = blob.text_or("mimeType", "")
        return Media(
            kind=find_media_kind(media_type),
            media_type=media_type,
            data=blob.text("data"),
            title=blob.text_or("displayName", ""),
            at=part.path,
            extras=_collect_extras(part, "inlineData", blob),
        )

    def read_file(self, part: Fields) -> Media:
        file = self._converter.convert(part.object("fileData"))
        media_type = file.text_or("mimeType", "")
        uri = file.text("fileUri")
        private = uri.startswith(VENDOR_FILES)
        return Media(
            kind=find_media_kind(media_type),
            media_type=media_type,
            url="" if private else uri,
            file_id=uri if private else "",
            title=file.text_or("displayName", ""),
            at=part.path,
            extras=_collect_extras(part, "fileData", file),
        )

    def read_code(self, part: Fields) -> HostedCall:
        whole, code = _copy_part(part, "executableCode")
        arguments = {"language": code.text("language"), "code": code.text("code")}
        return self._build_hosted_call(part, whole, code, "code_execution", arguments)

    def read_code_result(self, part: Fields) -> HostedResult:
        whole, result = _copy_part(part, "codeExecutionResult")
        return HostedResult(
            call_id=result.text_or("id", self._last_call),
            tool="code_execution",
            text=result.text_or("output", ""),
            is_error=result.text("outcome") != OUTCOME_OK,
            at=part.path,
            extras=whole,
        )

    def read_tool_call(self, part: Fields) -> HostedCall:
        whole, call = _copy_part(part, "toolCall")
        tool = find_called_family(call.text("toolType"))
        return self._build_hosted_call(part, whole, call, tool, call.raw("args", {}))

    def read_tool_response(self, part: Fields) -> HostedResult:
        whole, response = _copy_part(part, "toolResponse")
        return HostedResult(
            call_id=response.text_or("id", self._last_call),
            tool=find_called_family(response.text("toolType")),
            text=encode(response.raw("response", {})).decode(),
            at=part.path,
            extras=whole,
        )

    def _build_hosted_call(
        self, part: Fields, whole: Extras, call: Fields, tool: str, arguments: object
    ) -> HostedCall:
        self._last_call = call.maybe_text("id") or self._make_id()
        return HostedCall(
            id=self._last_call, tool=tool, arguments=encode(arguments).decode(), at=part.path, extras=whole
        )


_READERS: dict[str, Callable[[PartReader, Fields], ReplyBlock]] = {
    "inlineData": PartReader.read_inline,
    "fileData": PartReader.read_file,
    "executableCode": PartReader.read_code,
    "codeExecutionResult": PartReader.read_code_result,
    "toolCall": PartReader.read_tool_call,
    "toolResponse": PartReader.read_tool_response,
}


def _collect_extras(part: Fields, name: str, inner: Fields) -> Extras:
    """The remaining fields of a part; those of its inner object stay below the name of that object."""
    extras = part.rest()
    if inner.rest():
        extras[name] = inner.rest()
    return extras


def _copy_part(part: Fields, name: str) -> tuple[Extras, Fields]:
    """The unchanged part for the extras, and a copy of its inner object to read."""
    values = part.rest()
    inner = values[name]
    return {WHOLE: values}, part.child(dict(to_camel(inner)) if isinstance(inner, dict) else inner, name)


#: A part holds exactly one of these fields.
_DATA = ("text", "functionCall", "functionResponse", *_READERS)


def find_extra_data(part: Json, kept: str = "") -> list[str]:
    """The data fields of a part other than the one that is kept."""
    return [name for name in _DATA if name in part and name != kept]


def remove_invalid_fields(part: Json) -> Json | None:
    """A complete part of a reply without the fields that clients reject; None if nothing is left."""
    names = [name for name in _DATA if name in part]
    kept = next((name for name in names if isinstance(part[name], dict)), "")
    if not kept and (names or not any(isinstance(value, dict) for value in part.values())):
        return None
    signature = part.get("thoughtSignature")
    dropped = {*find_extra_data(part, kept)}
    if not isinstance(signature, str) or not is_base64(signature):
        dropped.add("thoughtSignature")
    if type(part.get("thought")) is not bool:
        dropped.add("thought")
    return {name: value for name, value in part.items() if name not in dropped}
