"""Cuts a JSON array that arrives in pieces into elements: Gemini's stream without `alt=sse`.

Elements are found by counting brackets outside strings and are returned as they were sent. The decoder
decides whether each is valid JSON; bytes that cannot be an array are collected in `stray`.
"""

import re
from collections.abc import Callable
from typing import Final

from dragoman.hub.errors import UpstreamProtocolError
from dragoman.wire.sse import LIMIT, STRAY_LIMIT, Frame

#: Bytes that one regular expression reads at most, which bounds its memory.
WINDOW = 64 * 1024

# A byte order mark counts as white space: no value begins with its bytes.
SEPARATORS = re.compile(rb"[ \t\r\n,\xef\xbb\xbf]*")
UP_TO_TEXT_OR_BRACKET = re.compile(rb'[^"\[\]{}]*(?:"[^"\\]*(?:\\.[^"\\]*)*"[^"\[\]{}]*)*', re.DOTALL)
UP_TO_TEXT_END = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
SCALAR_BYTES = re.compile(rb"[-+.0-9A-Za-z]*")
SCALAR = re.compile(rb"-?[0-9][-+.0-9eE]*|true|false|null")

# The modes of the reader.
BETWEEN: Final = "between elements"
NEST: Final = "inside brackets"
TEXT: Final = "inside a string"
SCALAR_ELEMENT: Final = "inside a number or literal"
INVALID: Final = "not an array"
NO_ELEMENT = frozenset((BETWEEN, INVALID))


class JsonArrayReader:
    """Reads the elements of one JSON array, or of bare values in sequence, from bytes cut anywhere.

    Has the interface of `SseReader`: `feed`, `close`, `saw_event`, `stray`, and the same limit per frame.
    """

    __slots__ = (
        "_depth",
        "_held",
        "_is_escaped",
        "_is_opened",
        "_is_refused",
        "_limit",
        "_mode",
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
        self._is_opened = False
        self._is_refused = False
        self._depth = 0
        self._is_escaped = False
        #: Where the open element begins in the current window, and its part in earlier windows.
        self._start = 0
        self._held = bytearray()
        self._ready: list[Frame] = []

    def feed(self, data: bytes) -> list[Frame]:
        """The elements that these bytes complete, as frames."""
        for offset in range(0, len(data), WINDOW):
            if self._is_refused:
                break
            self._read(data[offset : offset + WINDOW])
        return self._take()

    def close(self) -> list[Frame]:
        """The rest of the last element: a number may be complete, everything else is cut off."""
        if self._held:
            self._emit(b"", 0)
        return self._take()

    def _take(self) -> list[Frame]:
        frames, self._ready = self._ready, []
        if frames:
            self.saw_event = True
        elif self._is_refused:
            raise UpstreamProtocolError(f"an element of the stream is longer than {self._limit} bytes")
        return frames

    def _read(self, data: bytes) -> None:
        self._start = 0
        position = 0
        while position < len(data) and not self._is_refused:
            position = READERS[self._mode](self, data, position)
        if self._mode not in NO_ELEMENT:
            self._hold(data[self._start :])

    def _hold(self, piece: bytes) -> None:
        self._held += piece
        if len(self._held) > self._limit:
            self._refuse()

    def _refuse(self) -> None:
        """Refuse the stream from here on; the elements that are complete are returned first."""
        self._is_refused = True
        self._mode = INVALID
        self._held.clear()

    def _emit(self, data: bytes, end: int) -> None:
        """Return the open element, which ends before `end`."""
        self._hold(data[self._start : end])
        if self._is_refused:
            return
        element = bytes(self._held)
        self._held.clear()
        if self._mode is SCALAR_ELEMENT and not SCALAR.fullmatch(element):
            self._reject(element)
            return
        self._mode = BETWEEN
        self._ready.append(Frame("", element))

    def _reject(self, data: bytes) -> None:
        self._mode = INVALID
        room = STRAY_LIMIT - len(self.stray)
        self.stray += data[:room]

    def _read_between(self, data: bytes, position: int) -> int:
        found = SEPARATORS.match(data, position)
        position = found.end() if found else position
        byte = data[position : position + 1]
        if byte == b"[" and not self._is_opened:
            self._is_opened = True
            return position + 1
        if byte == b"]" and self._is_opened:
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
            self._mode = SCALAR_ELEMENT if SCALAR_BYTES.fullmatch(byte) else INVALID
        return position

    def _read_nest(self, data: bytes, position: int) -> int:
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

    def _read_text(self, data: bytes, position: int) -> int:
        if self._is_escaped:
            self._is_escaped = False
            position += 1
        found = UP_TO_TEXT_END.match(data, position)
        position = found.end() if found else position
        byte = data[position : position + 1]
        if byte == b"\\":
            self._is_escaped = True
        elif byte and self._depth:
            self._mode = NEST
        elif byte:
            self._emit(data, position + 1)
        return position + 1

    def _read_scalar(self, data: bytes, position: int) -> int:
        found = SCALAR_BYTES.match(data, position)
        position = found.end() if found else position
        if position < len(data):
            self._emit(data, position)
        return position

    def _read_invalid(self, data: bytes, position: int) -> int:
        self._reject(data[position:])
        return len(data)


READERS: dict[str, Callable[[JsonArrayReader, bytes, int], int]] = {
    BETWEEN: JsonArrayReader._read_between,
    NEST: JsonArrayReader._read_nest,
    TEXT: JsonArrayReader._read_text,
    SCALAR_ELEMENT: JsonArrayReader._read_scalar,
    INVALID: JsonArrayReader._read_invalid,
}
