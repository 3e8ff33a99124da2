"""Server-sent events: cuts a byte stream into frames, and writes frames as bytes.

The frames do not depend on where the network cuts the bytes, and time is linear in their number, also for
small pieces. Payloads stay bytes: nothing here decodes them, so a cut inside a character is no problem.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import final

import msgspec

from dragoman.hub.errors import UpstreamProtocolError

LIMIT = 16 * 1024 * 1024
#: Event names whose encoded form is kept.
MAX_PREFIXES = 200
#: Enough for a whole reply: some servers send one where a stream was requested.
STRAY_LIMIT = 4 * 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

#: Fields of the format that no dialect uses.
IGNORED_FIELDS = frozenset((b"id", b"retry"))


@final
class Frame(msgspec.Struct, frozen=True, gc=False):
    """One event of a stream: its name, empty if the stream has none, and its payload."""

    event: str
    data: bytes


#: The frames that one event of a reply becomes: mostly one, often none.
Frames = tuple[Frame, ...]


class FrameRun(msgspec.Struct, frozen=True, gc=False):
    """Frames with one name whose data differs only in one JSON value.

    `values` has these values, at least one, each with a line end.
    """

    event: str
    head: bytes
    values: bytes
    tail: bytes

    def expand(self) -> list[Frame]:
        event, head, tail = self.event, self.head, self.tail
        return [Frame(event, head + value + tail) for value in self.values.split(b"\n")[:-1]]


class FrameRuns(msgspec.Struct, frozen=True, gc=False):
    """Frames of our own, some of them as runs. Iteration gives single frames."""

    parts: Sequence[Frame | FrameRun]

    def __iter__(self) -> Iterator[Frame]:
        for part in self.parts:
            if type(part) is Frame:
                yield part
            else:
                yield from part.expand()

    def __bool__(self) -> bool:
        return bool(self.parts)


class RawEvents(msgspec.Struct, frozen=True, gc=False):
    """Whole server-sent events as an upstream sent them, perhaps followed by frames of our own.

    A transport for server-sent events sends `data` unchanged. Other transports iterate over the frames;
    only then are the events parsed.
    """

    data: bytes
    added: Frames = ()

    def __iter__(self) -> Iterator[Frame]:
        for frame in SseReader().feed(self.data) if self.data else ():
            yield Frame(frame.event, _join_lines(frame.data)) if b"\n" in frame.data else frame
        yield from self.added

    def __bool__(self) -> bool:
        return bool(self.data or self.added)


#: What a reply pipeline gives to a transport for one piece of the upstream's reply.
Output = Sequence[Frame] | FrameRuns | RawEvents


def join_frames(parts: Iterable[Frames]) -> Frames:
    """The frames of all parts, in order."""
    return tuple(chain.from_iterable(parts))


def join_output(outputs: Sequence[Output]) -> Output:
    """Several outputs as one, in order. Forwarded events stay as the upstream sent them."""
    if len(outputs) == 1:
        return outputs[0]
    if all(isinstance(output, RawEvents) and not output.added for output in outputs):
        return RawEvents(b"".join([output.data for output in outputs if isinstance(output, RawEvents)]))
    return [frame for output in outputs for frame in output]


def encode_sse(output: Output) -> bytes:
    """The output as server-sent events. Forwarded events stay as the upstream sent them.

    The data of a frame is one line: writers encode JSON without line breaks, and `RawEvents` joins lines.
    """
    # Most reads hold one event, which passes as it is or takes the express path.
    if isinstance(output, RawEvents):
        return output.data + encode_sse(output.added) if output.added else output.data
    if isinstance(output, FrameRuns):
        parts = output.parts
        if len(parts) == 1:
            return _encode_part(parts[0])
        return b"".join([_encode_part(part) for part in parts]) if parts else b""
    if not output:
        return b""
    prefixes = EVENT_PREFIXES
    # One concatenation per frame: formatting each frame takes three times as long.
    return b"\n\n".join([prefixes[frame.event] + frame.data for frame in output]) + b"\n\n"


def _encode_part(part: Frame | FrameRun) -> bytes:
    if type(part) is Frame:
        return EVENT_PREFIXES[part.event] + part.data + b"\n\n"
    start, end = EVENT_PREFIXES[part.event] + part.head, part.tail + b"\n\n"
    # The last value has a line end, too: what replaces it ends with a beginning too many.
    return start + part.values.replace(b"\n", end + start)[: -len(start)]


class _EventPrefixes(dict[str, bytes]):
    """What stands before the data of an event, by its name. Writers use a fixed set of names."""

    def __missing__(self, event: str) -> bytes:
        prefix = b"event: %b\ndata: " % event.encode()
        if len(self) < MAX_PREFIXES:
            self[event] = prefix
        return prefix


EVENT_PREFIXES = _EventPrefixes({"": b"data: "})


def _join_lines(data: bytes) -> bytes:
    """JSON in one line: a bare line break can only be white space between tokens."""
    return b" ".join(data.splitlines())


def write_frame(data: bytes, event: str = "") -> bytes:
    """One event in the form that every client reads: LF, a space after `data:`, one line of data."""
    if b"\n" in data or b"\r" in data:
        data = _join_lines(data)
    if event:
        return b"event: %b\ndata: %b\n\n" % (event.encode(), data)
    return b"data: %b\n\n" % data


# Nearly every read holds events of one shape only. Counting the line ends proves it, in a fraction of the
# time of reading line by line.


def split_plain_events(data: bytes) -> list[Frame]:
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


def split_named_events(data: bytes) -> list[Frame]:
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
    """Reads server-sent events from bytes cut anywhere.

    `stray` is the beginning of the bytes that are no field of the format:
    together with `saw_event` it shows that the upstream sent something else, such as JSON or HTML.
    """

    __slots__ = (
        "_after_return",
        "_has_begun",
        "_held",
        "_is_refused",
        "_limit",
        "_stray",
        "saw_event",
    )

    def __init__(self, *, limit: int = LIMIT) -> None:
        self.saw_event = False
        self._stray = bytearray()
        self._limit = limit
        self._has_begun = False
        self._is_refused = False
        self._after_return = False
        #: The beginning of an incomplete event. It grows in place, so that small reads are cheap.
        self._held = bytearray()

    @property
    def stray(self) -> bytes:
        return bytes(self._stray.rstrip(b"\n"))

    @property
    def is_between_events(self) -> bool:
        """An event was read, and nothing of the next one."""
        return self.saw_event and not self._held and not self._after_return

    def complete_held(self, data: bytes) -> bytes:
        """The next bytes together with the beginning of the event that they complete, which is held no more.

        `data` itself if nothing is held, or if the event goes on behind it.
        """
        held = self._held
        if not held or not self.saw_event or self._after_return or not self._completes(data):
            return data
        whole = b"".join((held, data))
        held.clear()
        return whole

    def _completes(self, data: bytes) -> bool:
        """Whether the next bytes contain the end of the event that is held."""
        return data.find(b"\n\n") >= 0 or (data.startswith(b"\n") and self._held.endswith(b"\n"))

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete."""
        # The most frequent read by far: one complete event of one line, and nothing held from before.
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
        if self._is_refused:
            raise self._build_too_long()
        if self._after_return or data.find(b"\r") >= 0:
            data = self._normalize_line_ends(data)
        held = self._held
        if held:
            if not self._completes(data):
                return self._hold(data, [])
            held += data
            data = bytes(held)
            held.clear()
        if not self._has_begun:
            data = self._begin(data)
        end = data.rfind(b"\n\n") + 2
        if end < 2:
            return self._hold(data, [])
        if end == len(data):
            return self._frames(data)
        return self._hold(data[end:], self._frames(data[:end]))

    def close(self) -> list[Frame]:
        """The frame of a last event without its blank line, or without its line end."""
        if self._is_refused:
            raise self._build_too_long()
        part = bytes(self._held)
        self._held.clear()
        self._after_return = False
        return self._frames_by_lines([part if self._has_begun else part.removeprefix(BYTE_ORDER_MARK)])

    def _begin(self, data: bytes) -> bytes:
        """Remove the byte order mark once the first event is complete.

        An incomplete first event may hold only a part of the mark.
        """
        data = data.lstrip(b"\n")
        if data.find(b"\n\n") >= 0:
            self._has_begun = True
            data = data.removeprefix(BYTE_ORDER_MARK)
        return data

    def _frames(self, data: bytes) -> list[Frame]:
        """The frames of complete events. `data` ends with a blank line."""
        if len(data) <= self._limit:
            frames = split_named_events(data) if data[:1] == b"e" else split_plain_events(data)
            if frames:
                self.saw_event = True
                return frames
        return self._frames_by_lines(data.split(b"\n\n"))

    def _frames_by_lines(self, parts: list[bytes]) -> list[Frame]:
        frames: list[Frame] = []
        for part in parts:
            if len(part.strip(b"\n")) > self._limit:
                self._refuse(frames)
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
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                data.append(value)
            elif field == b"event":
                name = value
            elif field and field not in IGNORED_FIELDS:
                self._add_stray(line)
        return Frame(name.decode("utf-8", "replace"), b"\n".join(data)) if data else None

    def _add_stray(self, line: bytes) -> None:
        room = STRAY_LIMIT - len(self._stray)
        if room > 0:
            self._stray += (line + b"\n")[:room]

    def _normalize_line_ends(self, data: bytes) -> bytes:
        """Replace CRLF and CR by LF; an LF that completes the CRLF of the last read is removed."""
        if not data:
            return data
        if self._after_return:
            data = data.removeprefix(b"\n")
        self._after_return = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _hold(self, data: bytes, frames: list[Frame]) -> list[Frame]:
        """Keep the beginning of an event; `frames` are the complete ones before it."""
        held = self._held
        if not self._is_refused:
            held += data if held else data.lstrip(b"\n")
            # The line end may belong to the blank line that ends the event.
            if len(held) - held.endswith(b"\n") > self._limit:
                self._refuse(frames)
        return frames

    def _refuse(self, frames: list[Frame]) -> None:
        """Refuse the stream: now, or at the next call if there are complete frames to return first."""
        self._is_refused = True
        self._held.clear()
        if not frames:
            raise self._build_too_long()

    def _build_too_long(self) -> UpstreamProtocolError:
        return UpstreamProtocolError(f"an event of the stream is longer than {self._limit} bytes")


def complete_event(event: bytes) -> bytes:
    """The last event with its blank line, which some servers leave out; empty if the event is incomplete."""
    completed = event.rstrip(b"\r\n") + b"\n\n"
    payloads = [frame.data for frame in SseReader().feed(completed)]
    return completed if payloads and all(map(is_whole_payload, payloads)) else b""


def is_whole_payload(payload: bytes) -> bool:
    """Whether a payload is complete JSON, or the closing `[DONE]`."""
    try:
        msgspec.json.decode(payload)
    except (ValueError, RecursionError):
        return payload.strip() == b"[DONE]"
    return True
