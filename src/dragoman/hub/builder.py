"""Builds a reply's events so that they are grammatical whatever the upstream does.

Readers say what they saw; the builder decides what that may become: it starts the reply once, opens
blocks before their deltas, never repeats a close, makes the stop cause agree with the content, and lets
nothing follow the end. It also bounds a reply's size and its number of blocks.
"""

import msgspec

from dragoman.hub.content import AnyBlock, Citation, Extras, Reasoning, Refusal, Text, ToolCall
from dragoman.hub.errors import Failure, UpstreamProtocolError
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
    FailedEnding,
    ReasoningDelta,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    SealAttached,
    StopCause,
    TextDelta,
    UsageReported,
)
from dragoman.hub.seal import Seal
from dragoman.hub.usage import Usage

#: What an open block of each kind makes of a piece of text.
_DELTA_OF_BLOCK: dict[type, type[TextDelta] | type[ReasoningDelta] | type[ArgumentsDelta]] = {
    Text: TextDelta,
    Refusal: TextDelta,
    Reasoning: ReasoningDelta,
    ToolCall: ArgumentsDelta,
}

_SEALABLE = (Text, Reasoning, ToolCall)


class ReplyBuilder:
    """Collects the events of one reply; `take()` hands over what has gathered."""

    MAX_CHARACTERS = 256 * 1024 * 1024
    MAX_BLOCKS = 10_000

    def __init__(self) -> None:
        self._events: list[ReplyEvent] = []
        self._open: dict[int, AnyBlock] = {}
        #: What a piece of text becomes, for each open block that can grow.
        self._growing: dict[int, type[TextDelta] | type[ReasoningDelta] | type[ArgumentsDelta]] = {}
        self._next = 0
        self._calls = 0
        self._characters = 0
        self.is_started = False
        self.is_ended = False

    def take(self) -> list[ReplyEvent]:
        events = self._events
        self._events = []
        return events

    def start(self, started: ReplyStarted | None = None) -> None:
        """Start the reply, once; later calls say nothing new."""
        if not self.is_started and not self.is_ended:
            self.is_started = True
            self._events.append(started or ReplyStarted())

    def open(self, block: AnyBlock) -> int:
        """Open a block; its number is what deltas and the close refer to."""
        if self.is_ended:
            return -1
        self.start()
        if self._next >= self.MAX_BLOCKS:
            raise UpstreamProtocolError(f"more than {self.MAX_BLOCKS} blocks in one reply")
        index = self._next
        self._next += 1
        self._open[index] = block
        if type(block) in _DELTA_OF_BLOCK:
            self._growing[index] = _DELTA_OF_BLOCK[type(block)]
        self._calls += isinstance(block, ToolCall)
        self._events.append(BlockOpened(index, block))
        return index

    def is_open(self, index: int) -> bool:
        return index in self._open

    def append(self, index: int, text: str, part: int = 0) -> None:
        """More text, thought or arguments for an open block. Empty pieces and closed blocks are ignored."""
        delta = self._growing.get(index)
        if delta is None or not text:
            return
        self._characters += len(text)
        if self._characters > self.MAX_CHARACTERS:
            raise UpstreamProtocolError(f"more than {self.MAX_CHARACTERS} characters in one reply")
        self._events.append(ReasoningDelta(index, text, part) if part else delta(index, text))

    def seal(self, index: int, seal: Seal) -> None:
        if isinstance(self._open.get(index), _SEALABLE):
            self._events.append(SealAttached(index, seal))

    def cite(self, index: int, citation: Citation) -> None:
        if isinstance(self._open.get(index), Text):
            self._events.append(CitationAdded(index, citation))

    def close(self, index: int, extras: Extras | None = None) -> None:
        if self._open.pop(index, None) is not None:
            self._growing.pop(index, None)
            self._events.append(BlockClosed(index, extras or {}))

    def close_all(self) -> None:
        for index in sorted(self._open):
            self.close(index)

    def add_block(self, block: AnyBlock) -> None:
        """A block that arrives complete: opened and closed at once."""
        self.close(self.open(block))

    def report_usage(self, usage: Usage) -> None:
        if not self.is_ended:
            self.start()
            self._events.append(UsageReported(usage))

    def finish(self, finished: ReplyFinished) -> None:
        """End well. A cause that contradicts the content gives way to the content."""
        if self.is_ended:
            return
        self.start()
        self.close_all()
        self.is_ended = True
        cause = reconcile_cause(finished.cause, has_calls=self._calls > 0)
        if cause != finished.cause:
            finished = msgspec.structs.replace(finished, cause=cause)
        self._events.append(finished)

    def fail(self, failure: Failure, ending: FailedEnding = "failed") -> None:
        """End badly, leaving open what was open: nothing half-written is called whole."""
        if not self.is_ended:
            self.is_ended = True
            self._open.clear()
            self._growing.clear()
            self._events.append(ReplyFailed(ending, failure))

    def truncate(self) -> None:
        """The upstream stopped in the middle without a word."""
        self.fail(Failure(kind="overloaded", message=TRUNCATED_MESSAGE, status=502), "truncated")


TRUNCATED_MESSAGE = "the upstream closed the stream before the reply was complete"


def reconcile_cause(cause: StopCause, *, has_calls: bool) -> StopCause:
    """The cause that agrees with the content: calls mean `tool_calls`, no calls mean it was not that."""
    if has_calls and cause in ("end", "other", "stop_sequence"):
        return "tool_calls"
    if not has_calls and cause == "tool_calls":
        return "end"
    return cause
