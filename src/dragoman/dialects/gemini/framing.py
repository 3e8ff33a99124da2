"""The frames of a reply in any of the three ways that servers send it.

Asked for SSE they send `data:` lines, otherwise one JSON array of the same chunks; some send a single
object, and errors may come list-wrapped inside a `data:` line. The first byte tells which it is.
"""

from dragoman.wire.json_array import JsonArrayReader
from dragoman.wire.sse import Frame, SseReader

_BLANK = b" \t\r\n\xef\xbb\xbf"


class ChunkReader(SseReader):
    """One frame per chunk, whichever way the chunks came."""

    __slots__ = ("_array", "_known")

    def __init__(self) -> None:
        super().__init__()
        self._known = False
        self._array: JsonArrayReader | None = None

    def feed(self, data: bytes) -> list[Frame]:
        if not self._known:
            beginning = data.lstrip(_BLANK)[:1]
            if not beginning:
                return []
            self._known = True
            if beginning in (b"[", b"{"):
                self._array = JsonArrayReader()
        if self._array is not None:
            return self._noted(self._array.feed(data))
        return self._unwrapped(super().feed(data))

    def close(self) -> list[Frame]:
        if self._array is not None:
            return self._noted(self._array.close())
        return self._unwrapped(super().close())

    def _noted(self, frames: list[Frame]) -> list[Frame]:
        self.saw_event = self.saw_event or bool(frames)
        return frames

    def _unwrapped(self, frames: list[Frame]) -> list[Frame]:
        for frame in frames:
            if frame.data.startswith(b"["):
                break
        else:
            return frames
        unwrapped: list[Frame] = []
        for frame in frames:
            if frame.data[:1] == b"[":
                inner = JsonArrayReader()
                unwrapped += inner.feed(frame.data)
            else:
                unwrapped.append(frame)
        return unwrapped
