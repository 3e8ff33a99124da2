"""The lanes a reply can take: forwarded as it is, or written anew; and the forms a stream can have.

Every flow reads the reply as it passes, so that its usage, its ending and its first word are known either
way. What a flow gives out always ends between two events, so that something may be said in between.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import msgspec

from dragoman.dialects.base import Dialect, StreamReader
from dragoman.exchange.chat_usage import without_usage
from dragoman.exchange.tails import tail_of
from dragoman.hub.events import ReplyEvent, ReplyFailed
from dragoman.hub.tally import TALLY_EVENTS, Tally
from dragoman.wire.sse import LIMIT, Frame, SseReader, encode_sse, split_plain_events, write_frame


class Flow(Protocol):
    """Bytes of the upstream in, bytes for the client out.

    `ended`: the reply has had its last word. `trails`: what follows it is the client's all the same.
    `over`: this upstream has; if the reply has not ended, it will `go_on` with another answer.
    """

    @property
    def trails(self) -> bool: ...

    @property
    def ended(self) -> bool: ...

    @property
    def over(self) -> bool: ...

    @property
    def tally(self) -> Tally: ...

    def feed(self, data: bytes) -> bytes: ...

    def tick(self) -> bytes:
        """Time has passed: what has been held back for as long as it may."""
        ...

    def go_on(self) -> None:
        """Another answer follows, and belongs to the same reply."""
        ...

    def close(self) -> bytes:
        """The upstream is done: what is left, and an ending if there was none."""
        ...

    def fail(self, failure: ReplyFailed) -> bytes:
        """Somebody else ended it."""
        ...


class Line(Protocol):
    """What `translate.line.ReplyLine` offers."""

    ended: bool
    tally: Tally

    def feed(self, data: bytes) -> list[Frame]: ...

    def feed_frames(self, frames: Iterable[Frame]) -> list[Frame]: ...

    def close(self) -> list[Frame]: ...

    def fail(self, failure: ReplyFailed) -> list[Frame]: ...


class WrittenFlow:
    """The reply is read, changed where it must be, and written in the client's dialect."""

    trails = False

    def __init__(self, line: Line) -> None:
        self._line = line
        self.tally = line.tally

    def feed(self, data: bytes) -> bytes:
        return encode_sse(self._line.feed(data))

    def feed_frames(self, frames: Iterable[Frame]) -> bytes:
        return encode_sse(self._line.feed_frames(frames))

    def close(self) -> bytes:
        return encode_sse(self._line.close())

    def fail(self, failure: ReplyFailed) -> bytes:
        return encode_sse(self._line.fail(failure))

    @property
    def ended(self) -> bool:
        return self._line.ended

    @property
    def over(self) -> bool:
        return self._line.ended

    def tick(self) -> bytes:
        return b""

    def go_on(self) -> None:
        """There is one answer."""


#: Bytes of events that are looked at together.
SLICE = 4096

#: How an event ends, whatever line ends a server uses.
_EVENT_ENDS = (b"\n\n", b"\n\r\n", b"\r\r")
_DONE = b"data: [DONE]"


# What a reply says between its first and its last word tells a tally nothing. These recognise it by what
# must stand there; a quote or line end inside a JSON text is escaped, so no answer can look like it.


def _is_anthropic_delta(events: bytes) -> bool:
    deltas = events.count(b"event: content_block_delta\ndata: ")
    return deltas > 0 and events.count(b"\n\n") == deltas


def _is_chat_delta(events: bytes) -> bool:
    unfinished = events.count(b'"finish_reason":null')
    return (
        unfinished > 0
        and events.count(b"\n\n") == unfinished
        and events.count(b'"usage"') == events.count(b'"usage":null')
        and b'"error"' not in events
    )


def _is_responses_delta(events: bytes) -> bool:
    deltas = events.count(b".delta\ndata: ")
    return deltas > 0 and events.count(b"\n\n") == deltas


def _is_never_delta(events: bytes) -> bool:
    """Every chunk of Gemini's may hold the usage, and most do."""
    return False


_IS_DELTA: dict[str, Callable[[bytes], bool]] = {
    "anthropic": _is_anthropic_delta,
    "openai_chat": _is_chat_delta,
    "openai_responses": _is_responses_delta,
    "gemini": _is_never_delta,
}


def _completed(event: bytes) -> bytes:
    """The last event with its blank line, which some servers leave out. Half an event is none."""
    completed = event.rstrip(b"\r\n") + b"\n\n"
    payloads = [frame.data for frame in SseReader().feed(completed)]
    return completed if payloads and all(map(_is_whole, payloads)) else b""


def _is_whole(payload: bytes) -> bool:
    try:
        msgspec.json.decode(payload)
    except (ValueError, RecursionError):
        return payload.strip() == b"[DONE]"
    return True


def _slices(events: bytes) -> Iterator[bytes]:
    """A fast upstream's events in runs, so that the few that matter do not make all of them be read."""
    start, size = 0, len(events)
    while size - start > SLICE:
        end = events.find(b"\n\n", start + SLICE - 2) + 2
        yield events[start:end]
        start = end
    if start < size:
        yield events[start:] if start else events


def _all(events: bytes) -> bytes:
    return events


def _only_data(events: bytes) -> bytes:
    """Gemini's clients take `data: {json}` and a blank line, and die of anything else."""
    plain = events.replace(b"\r\n", b"\n") if b"\r" in events else events
    if _DONE not in plain and split_plain_events(plain):
        return events
    payloads = [frame.data.strip() for frame in SseReader().feed(plain)]
    return b"".join(
        [write_frame(data) for data in payloads if data[:1] in (b"{", b"[") and data != b"[DONE]"]
    )


#: What of an upstream's events a client of its dialect may see.
_FIT_TO_SEE: dict[str, Callable[[bytes], bytes]] = {"gemini": _only_data}


class ForwardFlow:
    """Client and upstream speak the same dialect and nothing changes: whole events go on as they are.

    The beginning of an event waits for its end. No client can use it earlier, and a reply that breaks off
    in the middle of one can still be ended properly.
    """

    def __init__(self, reader: StreamReader, dialect: Dialect, *, hides_usage: bool = False) -> None:
        self._reader = reader
        self._dialect = dialect
        #: The beginning of an event. It grows in place, so that small pieces cost little.
        self._begun = bytearray()
        self._is_delta = _IS_DELTA[dialect.name]
        self._fit_to_see = without_usage if hides_usage else _FIT_TO_SEE.get(dialect.name, _all)
        self._tail = tail_of(dialect)
        self._last = b""
        #: The upstream has said that it failed, but not yet in the event that must be its last.
        self._owes_last_word = False
        self.tally = Tally()

    @property
    def trails(self) -> bool:
        return self._owes_last_word or not isinstance(self.tally.ending, ReplyFailed)

    @property
    def ended(self) -> bool:
        return self.tally.ending is not None

    @property
    def over(self) -> bool:
        return self.ended

    def tick(self) -> bytes:
        return b""

    def go_on(self) -> None:
        """There is one answer."""

    def feed(self, data: bytes) -> bytes:
        was_ended = self.ended
        if data[-2:] == b"\n\n" and not self._begun:
            out = data
            for events in _slices(data):
                if not (self.tally.has_content and self._is_delta(events)):
                    self._note(self._reader.feed(events))
                    self._tail.note(events)
        else:
            self._note(self._reader.feed(data))
            out = self._whole_events(data)
            self._tail.note(out)
        out = self._fit_to_see(out)
        self._last = out or self._last
        ending = self.tally.ending
        if isinstance(ending, ReplyFailed):
            return out + self._told(ending, out, was_ended=was_ended)
        return out

    def _told(self, ending: ReplyFailed, events: bytes, *, was_ended: bool) -> bytes:
        """What must be added to the events of a reply that has failed."""
        if was_ended:
            self._owes_last_word = self._owes_last_word and not self._tail.has_last_word(events)
        elif self._tail.tells_failure(events):
            self._owes_last_word = not self._tail.has_last_word(events)
        else:
            return self._ending(ending)
        return b""

    def _whole_events(self, data: bytes) -> bytes:
        begun = self._begun
        looked_at = max(0, len(begun) - 2)
        begun += data
        end = 0
        for mark in _EVENT_ENDS:
            at = begun.rfind(mark, looked_at)
            if at >= 0:
                end = max(end, at + len(mark))
        out = bytes(begun[:end])
        del begun[:end]
        if len(begun) > LIMIT:
            # The reader has given up on it by now.
            begun.clear()
        return out

    def close(self) -> bytes:
        """Nothing to add, unless the upstream fell silent in the middle: then the client is told."""
        was_ended = self.ended
        self._note(self._reader.close())
        rest = self._fit_to_see(_completed(bytes(self._begun)))
        self._begun.clear()
        ending = self.tally.ending
        if not isinstance(ending, ReplyFailed):
            # It was clear from the last words but one that the reply was whole.
            return rest if was_ended else rest + self._tail.closing(rest)
        if not was_ended and not self._tail.tells_failure(rest):
            # Half an event is of no use to anybody.
            return self._ending(ending)
        self._told(ending, rest, was_ended=was_ended)
        if not self._owes_last_word:
            return rest
        self._owes_last_word = False
        return self._tail.write(ending, self.tally.started, self._last, is_told=True)

    def fail(self, failure: ReplyFailed) -> bytes:
        if self.ended:
            return b""
        self.tally.add(failure)
        return self._ending(failure)

    def _note(self, events: list[ReplyEvent]) -> None:
        for event in events:
            if type(event) in TALLY_EVENTS:
                self.tally.add(event)

    def _ending(self, failed: ReplyFailed) -> bytes:
        """The ending alone, behind the events that were forwarded."""
        return self._tail.write(failed, self.tally.started, self._last)


class ArrayFlow:
    """A flow of Gemini chunks as one JSON array, for clients that did not ask for server-sent events."""

    trails = False

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._frames = SseReader()
        self._before = b"["
        self._is_over = False
        self.tally = flow.tally

    @property
    def ended(self) -> bool:
        return self._flow.ended

    @property
    def over(self) -> bool:
        return self._flow.over

    def feed(self, data: bytes) -> bytes:
        return self._told(self._flow.feed(data))

    def tick(self) -> bytes:
        return self._told(self._flow.tick())

    def go_on(self) -> None:
        self._flow.go_on()

    def close(self) -> bytes:
        return self._told(self._flow.close())

    def fail(self, failure: ReplyFailed) -> bytes:
        return self._told(self._flow.fail(failure))

    def _told(self, stream: bytes) -> bytes:
        """The chunks as elements; with the last one the array ends."""
        if self._is_over:
            return b""
        frames = self._frames.feed(stream) if stream else []
        self._is_over = self._flow.ended
        if self._is_over:
            frames += self._frames.close()
        told: list[bytes] = []
        for frame in frames:
            if not _is_whole(frame.data):
                # It would make the whole array unreadable.
                continue
            told += (self._before, frame.data)
            self._before = b",\r\n"
        if self._is_over:
            told.append(b"[]" if self._before == b"[" else b"]")
        return b"".join(told)
