"""What the open blocks of a stream remember.

`PendingCall` is a call that the stream reader reads: one part, or several if the client asked for partial
arguments. `PartialArguments` collects such arguments, value by value. `GrowingText` is the open text that it
reads. `OpenPart` is the block that the stream writer writes; `escape_line_ends` makes its frames one line
each.
"""

import re
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Final

from dragoman.dialects.delta_template import TextChange
from dragoman.dialects.gemini.citations import CitedText
from dragoman.dialects.gemini.content_reader import find_extra_data
from dragoman.dialects.gemini.names import NO_ARGUMENTS, NO_ID, to_camel
from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import Citation, Extras, ReplyBlock, ToolCall
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.errors import UpstreamProtocolError
from dragoman.hub.events import count_characters
from dragoman.hub.seal import Seal
from dragoman.wire.fields import encode

_KNOWN_IN_CALL = frozenset({"id", "name", "args", "partialArgs", "willContinue"})
_KNOWN_IN_PART = frozenset({"functionCall", "thought", "thoughtSignature"})

_SEGMENT = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_ESCAPED = re.compile(r"\\(.)")

DEPTH: Final = 100


def collect_call_extras(part: Json, call: Json) -> Extras:
    """The fields of a call's part that the hub does not know; those of `functionCall` stay inside it."""
    stray = find_extra_data(part, "functionCall")
    extras = {key: value for key, value in part.items() if key not in _KNOWN_IN_PART and key not in stray}
    inside = {key: value for key, value in call.items() if key not in _KNOWN_IN_CALL}
    if inside:
        extras["functionCall"] = inside
    return extras


class PendingCall:
    """One call of a reply until its last part. `index` is the number of its block, once it is open."""

    __slots__ = ("_partial", "_text", "block", "index")

    def __init__(self, call: Json, part: Json, call_id: str) -> None:
        form = [] if call.get("id") == call_id else [NO_ID]
        if "args" not in call and "partialArgs" not in call and call.get("willContinue") is not True:
            form.append(NO_ARGUMENTS)
        self.index = -1
        self.block = ToolCall(
            id=call_id, name=str(call["name"]), form=" ".join(form), extras=collect_call_extras(part, call)
        )
        self._text = ""
        self._partial: PartialArguments | None = None

    def add(self, call: Json) -> Iterator[str]:
        """Add one part. Yields a message for each value that could not be used."""
        arguments, pieces = call.get("args"), call.get("partialArgs")
        if isinstance(arguments, str):
            # Some servers send arguments as text: it may be JSON, and if not, it can be repaired later.
            self._text = arguments
        elif arguments is not None:
            self._text = encode(arguments, error_class=UpstreamProtocolError).decode()
        if call.get("willContinue") is True or isinstance(pieces, list):
            if self._partial is None:
                self._partial = PartialArguments(arguments)
            for piece in pieces if isinstance(pieces, list) else []:
                if not self._partial.add(piece):
                    yield "a piece of arguments without a legal place was skipped"

    def arguments(self, *, whole: bool) -> str:
        """The arguments as JSON text. Without the last part the text is left incomplete on purpose."""
        if self._partial is not None:
            text = encode(self._partial.value(), error_class=UpstreamProtocolError).decode()
            return text if whole else text[:-1]
        return self._text or "{}"


class _TextPieces:
    """A text in pieces, joined at the end: joining them one by one takes quadratic time."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[str] = []


def _parse_path(path: str) -> list[str | int] | None:
    """The names and indexes of a path such as `$.a.b[0]`, or None if it is no such path."""
    segments: list[str | int] = []
    position = 1
    while position < len(path) and len(segments) <= DEPTH:
        found = _SEGMENT.match(path, position)
        if found is None:
            return None
        name, index, single, double = found.groups()
        if index is not None:
            segments.append(int(index))
        else:
            segments.append(name if name is not None else _ESCAPED.sub(r"\1", single or double or ""))
        position = found.end()
    return segments if path[:1] == "$" and 0 < len(segments) <= DEPTH else None


class PartialArguments:
    """The arguments of one call so far, which arrive value by value, each with its path.

    Values of the same path are appended if they are texts, and replaced otherwise. A list grows only at its
    end, so a path cannot use more memory than its own length.
    """

    def __init__(self, start: object = None) -> None:
        self._root: Json = dict(start) if isinstance(start, dict) else {}

    def add(self, item: object) -> bool:
        """Add one item of `partialArgs`; False if its path is invalid."""
        if not isinstance(item, dict):
            return False
        item = to_camel(item)
        path = item.get("jsonPath")
        segments = _parse_path(path) if isinstance(path, str) else None
        if segments is None:
            return False
        for name in ("stringValue", "numberValue", "boolValue"):
            if item.get(name) is not None:
                return self._store(segments, item[name])
        # An item that will continue and has no value is an empty text; any other is null.
        return self._store(segments, None if "nullValue" in item or not item.get("willContinue") else "")

    def _store(self, segments: list[str | int], value: object) -> bool:
        place: object = self._root
        for segment, following in pairwise(segments):
            inner = _get(place, segment)
            if not isinstance(inner, dict | list):
                inner = [] if isinstance(following, int) else {}
                if not _set(place, segment, inner):
                    return False
            place = inner
        if not isinstance(value, str):
            return _set(place, segments[-1], value)
        growing = _get(place, segments[-1])
        if not isinstance(growing, _TextPieces):
            growing = _TextPieces()
            if not _set(place, segments[-1], growing):
                return False
        growing.pieces.append(value)
        return True

    def value(self) -> Json:
        """The arguments that have arrived."""
        return {key: _join_pieces(inner) for key, inner in self._root.items()}


def _get(place: object, segment: str | int) -> object:
    if isinstance(place, dict):
        return place.get(segment)
    if isinstance(place, list) and isinstance(segment, int) and segment < len(place):
        return place[segment]
    return None


def _set(place: object, segment: str | int, value: object) -> bool:
    if isinstance(place, dict) and isinstance(segment, str):
        place[segment] = value
        return True
    if isinstance(place, list) and isinstance(segment, int) and segment <= len(place):
        place[segment : segment + 1] = [value]
        return True
    return False


def _join_pieces(value: object) -> object:
    if isinstance(value, _TextPieces):
        return "".join(value.pieces)
    if isinstance(value, dict):
        return {key: _join_pieces(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_join_pieces(inner) for inner in value]
    return value


#: Clients that split decoded text into lines treat these characters as line ends, so they are escaped.
_LINE_ENDS = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))


def escape_line_ends(data: bytes) -> bytes:
    """The JSON text as one line for every client."""
    if data.isascii():
        return data
    for raw, escaped in _LINE_ENDS:
        data = data.replace(raw, escaped)
    return data


class OpenPart:
    """The block that is open: its text, thoughts or arguments so far, its seal and its citations."""

    __slots__ = ("block", "citations", "parts", "pieces", "seal", "text")

    def __init__(self, block: ReplyBlock, *, may_be_cited: bool) -> None:
        self.block = block
        self.text = CitedText(keep=may_be_cited)
        self.seal: Seal | None = getattr(block, "seal", None)
        self.pieces: list[str] = []
        self.parts: dict[int, list[str]] = {}
        self.citations: list[Citation] = []


class GrowingText:
    """The open text or thought of a reply that is read. `block`: its number; -1 if none is open.

    It has no reference to the stream reader, so a finished reply has no reference cycle.
    """

    __slots__ = ("_builder", "block", "cited", "sealed", "thinking")

    def __init__(self, builder: ReplyBuilder) -> None:
        self._builder = builder
        self.block = -1
        self.thinking = False
        self.sealed = False
        self.cited = CitedText(keep=False)

    def find_change(self, part: Json) -> TextChange:
        """The text of a part that has extended this one; the next part may differ in it."""
        take, take_run = partial(self._take, self.block), partial(self._take_run, self.block)
        return TextChange(part, "text", take, take_run, self._count)

    def _take(self, block: int, text: str) -> bool:
        if self.block != block or self.sealed:
            return False
        if not self.thinking:
            self.cited.add(text)
        self._builder.append(block, text)
        return True

    def _take_run(self, block: int, texts: list[str]) -> bool:
        if self.block != block or self.sealed:
            return False
        if not self.thinking:
            self.cited.add("".join(texts))
        self._builder.append_run(block, texts, count_characters(texts))
        return True

    def _count(self, texts: list[str], characters: int) -> None:
        if not self.thinking:
            self.cited.add("".join(texts))
        self._builder.count_text(characters)
