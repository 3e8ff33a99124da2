"""Recognises chunks that differ from the one before in a single text, without decoding the rest again.

A reply is mostly one chunk said over and over with other words in it. The bytes before a JSON string settle
what the string means, so a chunk with the same bytes before and after it says the same about another text.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from dragoman.dialects.base import Json

_decode = msgspec.json.Decoder().decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode

#: How often a reply's chunks may turn out to differ elsewhere before it is not worth looking any more.
MOST_TRIES = 12

#: Stands for the text while a chunk is taken apart; what matters is that no server sends it.
_PROBE = "\x00dragoman\x00"


class Change(NamedTuple):
    """The text of a decoded chunk that the next one may say otherwise, and who takes it then.

    The taker says whether it still can: what the chunk continues may have ended.
    """

    holder: Json
    field: str
    take: Callable[[str], bool]


class Repetition:
    """Learns one chunk at a time; `take` gives the text to whoever took the first one's."""

    __slots__ = ("_after", "_before", "_least", "_take", "_text", "_tries")

    def __init__(self) -> None:
        self._before = b""
        self._after = b""
        self._least = 0
        #: Where the text stands, quotes included.
        self._text = slice(0)
        self._take: Callable[[str], bool] | None = None
        self._tries = MOST_TRIES

    def take(self, data: bytes) -> bool:
        """Whether this chunk repeats the one that was learned, and its text was taken."""
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
    def learns(self) -> bool:
        return self._tries > 0

    def learn(self, data: bytes, payload: Json, change: Change) -> None:
        """`data` says `payload`, of which `change` is a part."""
        self._tries -= 1
        holder, field, take = change
        text = holder[field]
        name, value = _encode(field), _encode(text)
        # A server that escapes otherwise than we do is not recognised.
        colon = b": " if name + b": " in data else b":"
        before, found, after = data.rpartition(name + colon + value)
        if not found:
            return
        before += name + colon + b'"'
        holder[field] = _PROBE
        is_there = _says(before + _encode(_PROBE)[1:] + after, payload)
        holder[field] = text
        if is_there:
            self._before, self._after, self._take = before, b'"' + after, take
            self._least = len(before) + 1 + len(after)
            self._text = slice(len(before) - 1, -len(after) or None)


def _says(data: bytes, payload: Json) -> bool:
    try:
        return bool(_decode(data) == payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
