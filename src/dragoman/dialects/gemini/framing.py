"""Reads the frames of a reply in any of the three formats that servers send.

With `alt=sse` a server sends `data:` lines, otherwise one JSON array of the same chunks. Some servers send a
single object, and an error may be a list inside a `data:` line. The first byte decides the format.
"""

from dragoman.wire.json_array import JsonArrayReader
from dragoman.wire.sse import Frame, SseReader

_BLANK = b" \t\r\n\xef\xbb\xbf"


class ChunkReader(SseReader):
    """Reads one frame per chunk, in any of the formats."""

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
            return self._note_frames(self._array.feed(data))
        return self._unwrap_lists(super().feed(data))

    def close(self) -> list[Frame]:
        if self._array is not None:
            return self._note_frames(self._array.close())
        return self._unwrap_lists(super().close())

    def _note_frames(self, frames: list[Frame]) -> list[Frame]:
        self.saw_event = self.saw_event or bool(frames)
        return frames

    def _unwrap_lists(self, frames: list[Frame]) -> list[Frame]:
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
