"""Cuts a JSON array that arrives in pieces into elements: Gemini's stream when it is not asked for SSE.

Elements are found by counting brackets outside strings and come out as they were sent. Whether each
is good JSON is for the decoder to say; what is plainly no array ends up in `stray`.
"""

import re
from collections.abc import Callable
from typing import Final

from dragoman.hub.errors import UpstreamProtocolError
from dragoman.wire.sse import LIMIT, STRAY_LIMIT, Frame

#: Bytes looked at in one go, so that what a regular expression remembers stays small.
WINDOW = 64 * 1024

# A byte order mark counts as white space: its bytes cannot begin anything.
SEPARATORS = re.compile(rb"[ \t\r\n,\xef\xbb\xbf]*")
UP_TO_TEXT_OR_BRACKET = re.compile(rb'[^"\[\]{}]*(?:"[^"\\]*(?:\\.[^"\\]*)*"[^"\[\]{}]*)*', re.DOTALL)
UP_TO_TEXT_END = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
SCALAR_BYTES = re.compile(rb"[-+.0-9A-Za-z]*")
SCALAR = re.compile(rb"-?[0-9][-+.0-9eE]*|true|false|null")

BETWEEN: Final = "between elements"
NEST: Final = "inside brackets"
TEXT: Final = "inside a string"
SCALAR_ELEMENT: Final = "inside a number or word"
LOST: Final = "not an array"
NO_ELEMENT = frozenset((BETWEEN, LOST))


class JsonArrayReader:
    """The elements of one JSON array, or of bare values one after another, from bytes cut anywhere.

    Speaks like `SseReader`: `feed`, `close`, `saw_event`, `stray`, and the same limit for each frame.
    """

    __slots__ = (
        "_depth",
        "_escaped",
        "_held",
        "_limit",
        "_mode",
        "_opened",
        "_overflown",
        "_ready",
        "_start",
        "saw_event",
        "stray",
    )

    def __init__(self, *, limit: int = LIMIT) -> None:
        self.saw_event = False
        self.stray = b""
        self._limit = limit
        self._mode = BETWEEN
        self._opened = False
        self._overflown = False
        self._depth = 0
        self._escaped = False
        #: Where the open element begins in the window being read, and what earlier windows held of it.
        self._start = 0
        self._held = bytearray()
        self._ready: list[Frame] = []

    def feed(self, data: bytes) -> list[Frame]:
        """The elements that these bytes complete."""
        for offset in range(0, len(data), WINDOW):
            if self._overflown:
                break
            self._read(data[offset : offset + WINDOW])
        return self._take()

    def close(self) -> list[Frame]:
        """What is left of an element that did not end: a number may be whole, anything else was cut short."""
        if self._held:
            self._emit(b"", 0)
        return self._take()

    def _take(self) -> list[Frame]:
        frames, self._ready = self._ready, []
        if frames:
            self.saw_event = True
        elif self._overflown:
            raise UpstreamProtocolError(f"an element of the stream is longer than {self._limit} bytes")
        return frames

    def _read(self, data: bytes) -> None:
        self._start = 0
        position = 0
        while position < len(data) and not self._overflown:
            position = READERS[self._mode](self, data, position)
        if self._mode not in NO_ELEMENT:
            self._hold(data[self._start :])

    def _hold(self, piece: bytes) -> None:
        self._held += piece
        if len(self._held) > self._limit:
            self._overflow()

    def _overflow(self) -> None:
        """From here on the stream is refused; elements that were whole before still come out first."""
        self._overflown = True
        self._mode = LOST
        self._held.clear()

    def _emit(self, data: bytes, end: int) -> None:
        """The open element ends before `end`."""
        self._hold(data[self._start : end])
        if self._overflown:
            return
        element = bytes(self._held)
        self._held.clear()
        if self._mode is SCALAR_ELEMENT and not SCALAR.fullmatch(element):
            self._lose(element)
            return
        self._mode = BETWEEN
        self._ready.append(Frame("", element))

    def _lose(self, data: bytes) -> None:
        self._mode = LOST
        room = STRAY_LIMIT - len(self.stray)
        self.stray += data[:room]

    def _between(self, data: bytes, position: int) -> int:
        found = SEPARATORS.match(data, position)
        position = found.end() if found else position
        byte = data[position : position + 1]
        if byte == b"[" and not self._opened:
            self._opened = True
            return position + 1
        if byte == b"]" and self._opened:
            return position + 1
        self._start = position
        if byte in (b"{", b"["):
            self._depth = 1
            self._mode = NEST
            return position + 1
        if byte == b'"':
            self._depth = 0
            self._mode = TEXT
            return position + 1
        if byte:
            self._mode = SCALAR_ELEMENT if SCALAR_BYTES.fullmatch(byte) else LOST
        return position

    def _nest(self, data: bytes, position: int) -> int:
        found = UP_TO_TEXT_OR_BRACKET.match(data, position)
        position = found.end() if found else position
        byte = data[position : position + 1]
        if byte == b'"':
            self._mode = TEXT
        elif byte in (b"{", b"["):
            self._depth += 1
        elif byte:
            self._depth -= 1
            if not self._depth:
                self._emit(data, position + 1)
        return position + 1

    def _text(self, data: bytes, position: int) -> int:
        if self._escaped:
            self._escaped = False
            position += 1
        found = UP_TO_TEXT_END.match(data, position)
        position = found.end() if found else position
        byte = data[position : position + 1]
        if byte == b"\\":
            self._escaped = True
        elif byte and self._depth:
            self._mode = NEST
        elif byte:
            self._emit(data, position + 1)
        return position + 1

    def _scalar(self, data: bytes, position: int) -> int:
        found = SCALAR_BYTES.match(data, position)
        position = found.end() if found else position
        if position < len(data):
            self._emit(data, position)
        return position

    def _lost(self, data: bytes, position: int) -> int:
        self._lose(data[position:])
        return len(data)


READERS: dict[str, Callable[[JsonArrayReader, bytes, int], int]] = {
    BETWEEN: JsonArrayReader._between,
    NEST: JsonArrayReader._nest,
    TEXT: JsonArrayReader._text,
    SCALAR_ELEMENT: JsonArrayReader._scalar,
    LOST: JsonArrayReader._lost,
}
