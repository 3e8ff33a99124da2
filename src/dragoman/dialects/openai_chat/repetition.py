"""Recognises chunks that differ from an earlier chunk only in one text, without decoding the rest again.

Most chunks of a reply have the same bytes except for one JSON string. If the bytes before and after the
string are the same, then the chunk has the same meaning with another text.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from dragoman.dialects.base import Json

_decode = msgspec.json.Decoder().decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode

#: How often a template is learned per reply. A reply whose chunks differ elsewhere gains nothing from more.
MOST_TRIES = 12

#: Replaces the text while a template is tested; no server sends it.
_PROBE = "\x00dragoman\x00"


class TextChange(NamedTuple):
    """The text of a decoded chunk that may differ in the next one, and the function that takes the new text.

    The function returns False if it cannot take the text any more, because the block has closed.
    """

    holder: Json
    field: str
    take: Callable[[str], bool]


class ChunkTemplate:
    """The bytes around the text of the last learned chunk. `take` reads the text of an equal chunk."""

    __slots__ = ("_after", "_before", "_least", "_take", "_text", "_tries")

    def __init__(self) -> None:
        self._before = b""
        self._after = b""
        self._least = 0
        #: The position of the text, with its quotes.
        self._text = slice(0)
        self._take: Callable[[str], bool] | None = None
        self._tries = MOST_TRIES

    def take(self, data: bytes) -> bool:
        """Whether this chunk fits the template and its text was taken."""
        take = self._take
        if (
            take is None
            or not data.startswith(self._before)
            or not data.endswith(self._after)
            or len(data) < self._least
        ):
            return False
        try:
            text = _decode_text(data[self._text])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False
        return take(text)

    @property
    def can_learn(self) -> bool:
        return self._tries > 0

    def learn(self, data: bytes, payload: Json, change: TextChange) -> None:
        """Learn the template of a chunk: its bytes, its decoded payload, and the text inside it."""
        self._tries -= 1
        holder, field, take = change
        text = holder[field]
        name, value = _encode(field), _encode(text)
        # A server with another way to escape characters is not recognised.
        colon = b": " if name + b": " in data else b":"
        before, found, after = data.rpartition(name + colon + value)
        if not found:
            return
        before += name + colon + b'"'
        holder[field] = _PROBE
        is_there = _decodes_to(before + _encode(_PROBE)[1:] + after, payload)
        holder[field] = text
        if is_there:
            self._before, self._after, self._take = before, b'"' + after, take
            self._least = len(before) + 1 + len(after)
            self._text = slice(len(before) - 1, -len(after) or None)


def _decodes_to(data: bytes, payload: Json) -> bool:
    try:
        return bool(_decode(data) == payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
