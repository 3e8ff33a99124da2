"""Cuts a byte stream into frames, and writes frames as bytes.

The frames never depend on where the network cut the bytes, and the work is linear in their number
however small the pieces. Payloads stay bytes: nothing here decodes them, so a rune cut in two is no case.
"""

from collections.abc import Iterable
from itertools import chain

import msgspec

from dragoman.hub.errors import UpstreamProtocolError

LIMIT = 16 * 1024 * 1024
#: A whole reply may come where a stream was asked for; it must fit, or it cannot be read.
STRAY_LIMIT = 4 * 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

#: Fields of the format that mean nothing to us.
IGNORED_FIELDS = frozenset((b"id", b"retry"))


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One event of a stream: its name, empty where the stream gave none, and its payload."""

    event: str
    data: bytes


#: What one event of a reply is written as; mostly one frame, often none.
Frames = tuple[Frame, ...]


def join_frames(parts: Iterable[Frames]) -> Frames:
    """The frames of all parts, in order."""
    return tuple(chain.from_iterable(parts))


def encode_sse(frames: Iterable[Frame]) -> bytes:
    """The frames as server-sent events."""
    return b"".join([write_frame(frame.data, frame.event) for frame in frames])


def write_frame(data: bytes, event: str = "") -> bytes:
    """One event in the only spelling that every client reads: LF, `data: ` with the space, one line."""
    if b"\n" in data or b"\r" in data:
        # In JSON a bare line break can only be white space between tokens.
        data = b" ".join(data.splitlines())
    if event:
        return b"event: %b\ndata: %b\n\n" % (event.encode(), data)
    return b"data: %b\n\n" % data


# Nearly every read is a run of events of one shape. Counting the line ends proves that there is nothing
# else in it, at a fraction of what reading line by line costs.


def plain_run(data: bytes) -> list[Frame]:
    """The frames of events that are one `data` line each; none if any event is anything else."""
    if data[:6] != b"data: ":
        return []
    lines = data.count(b"\n")
    if lines == 2:
        return [Frame("", data[6:-2])]
    payloads = data[6:-2].split(b"\n\ndata: ")
    if lines != 2 * len(payloads):
        return []
    return [Frame("", payload) for payload in payloads]


def named_run(data: bytes) -> list[Frame]:
    """The frames of events that are an `event` and a `data` line each; none if any event is anything else."""
    if data[:7] != b"event: ":
        return []
    events = data[7:-2].split(b"\n\nevent: ")
    if data.count(b"\n") != 3 * len(events):
        return []
    frames = []
    for event in events:
        name, found, payload = event.partition(b"\ndata: ")
        if not found:
            return []
        frames.append(Frame(name.decode("utf-8", "replace"), payload))
    return frames


class SseReader:
    """Server-sent events from bytes cut anywhere.

    `comments` counts comment lines. `saw_event` and `stray` (the start of what was no field of the
    format) tell a caller that the upstream answered with something else, such as JSON or HTML.
    """

    __slots__ = (
        "_after_return",
        "_begun",
        "_held",
        "_limit",
        "_overflown",
        "_stray",
        "comments",
        "saw_event",
    )

    def __init__(self, *, limit: int = LIMIT) -> None:
        self.comments = 0
        self.saw_event = False
        self._stray = bytearray()
        self._limit = limit
        self._begun = False
        self._overflown = False
        self._after_return = False
        #: The beginning of an event that has not ended; it grows in place, so that small reads cost little.
        self._held = bytearray()

    @property
    def stray(self) -> bytes:
        return bytes(self._stray.rstrip(b"\n"))

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete."""
        # The commonest read by far: one whole event of one line, with nothing left from before.
        if (
            self.saw_event
            and data[:6] == b"data: "
            and data[-2:] == b"\n\n"
            and data.count(b"\n") == 2
            and not self._held
            and data.find(b"\r") < 0
            and not self._after_return
            and len(data) <= self._limit
        ):
            return [Frame("", data[6:-2])]
        if self._overflown:
            raise self._too_long()
        if self._after_return or data.find(b"\r") >= 0:
            data = self._with_plain_line_ends(data)
        held = self._held
        if held:
            if data.find(b"\n\n") < 0 and not (data.startswith(b"\n") and held.endswith(b"\n")):
                return self._hold(data, [])
            held += data
            data = bytes(held)
            held.clear()
        if not self._begun:
            data = self._begin(data)
        end = data.rfind(b"\n\n") + 2
        if end < 2:
            return self._hold(data, [])
        if end == len(data):
            return self._frames(data)
        return self._hold(data[end:], self._frames(data[:end]))

    def close(self) -> list[Frame]:
        """The frame of a last event that lacks its blank line, or even its line end."""
        if self._overflown:
            raise self._too_long()
        part = bytes(self._held)
        self._held.clear()
        self._after_return = False
        return self._frames_by_lines([part if self._begun else part.removeprefix(BYTE_ORDER_MARK)])

    def _begin(self, data: bytes) -> bytes:
        """Without the byte order mark, once the first event is whole: until then the mark may be cut too."""
        data = data.lstrip(b"\n")
        if data.find(b"\n\n") >= 0:
            self._begun = True
            data = data.removeprefix(BYTE_ORDER_MARK)
        return data

    def _frames(self, data: bytes) -> list[Frame]:
        """The frames of whole events. `data` ends with a blank line."""
        if len(data) <= self._limit:
            frames = named_run(data) if data[:1] == b"e" else plain_run(data)
            if frames:
                self.saw_event = True
                return frames
        return self._frames_by_lines(data.split(b"\n\n"))

    def _frames_by_lines(self, parts: list[bytes]) -> list[Frame]:
        frames: list[Frame] = []
        for part in parts:
            if len(part.strip(b"\n")) > self._limit:
                self._overflow(frames)
                break
            frame = self._frame_by_lines(part)
            if frame is not None:
                self.saw_event = True
                frames.append(frame)
        return frames

    def _frame_by_lines(self, part: bytes) -> Frame | None:
        name = b""
        data: list[bytes] = []
        for line in part.split(b"\n"):
            field, colon, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                data.append(value)
            elif field == b"event":
                name = value
            elif not field:
                self.comments += len(colon)
            elif field not in IGNORED_FIELDS:
                self._stray_line(line)
        return Frame(name.decode("utf-8", "replace"), b"\n".join(data)) if data else None

    def _stray_line(self, line: bytes) -> None:
        room = STRAY_LIMIT - len(self._stray)
        if room > 0:
            self._stray += (line + b"\n")[:room]

    def _with_plain_line_ends(self, data: bytes) -> bytes:
        """CRLF and CR become LF; a line feed that completes the CRLF of the last read is dropped."""
        if not data:
            return data
        if self._after_return:
            data = data.removeprefix(b"\n")
        self._after_return = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _hold(self, data: bytes, frames: list[Frame]) -> list[Frame]:
        """Keep the beginning of an event; `frames` are those that were whole before it."""
        held = self._held
        if not self._overflown:
            held += data if held else data.lstrip(b"\n")
            # The line end may turn out to belong to the blank line that ends the event.
            if len(held) - held.endswith(b"\n") > self._limit:
                self._overflow(frames)
        return frames

    def _overflow(self, frames: list[Frame]) -> None:
        """Refuse the stream: now, or at the next call when there are whole frames to hand out first."""
        self._overflown = True
        self._held.clear()
        if not frames:
            raise self._too_long()

    def _too_long(self) -> UpstreamProtocolError:
        return UpstreamProtocolError(f"an event of the stream is longer than {self._limit} bytes")
