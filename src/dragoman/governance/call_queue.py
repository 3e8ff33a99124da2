"""Calls that wait to be judged: they leave in the order they opened, and everything else passes them by.

Blocks may be left out, replaced, or go out later than they opened; the numbers of those that follow move.
A reply that fails takes with it what still waited: it was never promised.
"""

from io import StringIO
from typing import Protocol

import msgspec

from dragoman.hub.builder import reconcile_cause
from dragoman.hub.content import Text, ToolCall
from dragoman.hub.events import (
    DELTAS,
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
    Delta,
    ReasoningDelta,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    SealAttached,
    TextDelta,
)

replace = msgspec.structs.replace

_INDEXED = (ArgumentsDelta, TextDelta, ReasoningDelta, SealAttached, CitationAdded, BlockClosed)
_CALL_DELTAS = frozenset({ArgumentsDelta, SealAttached})
_NOTHING: frozenset[type] = frozenset()


class HeldCall:
    """A call and its events, until they may go."""

    __slots__ = ("_arguments", "call", "events", "index", "is_closed", "size")

    def __init__(self, opened: BlockOpened, call: ToolCall) -> None:
        self.index = opened.index
        self.call = call
        self.events: list[ReplyEvent] = [opened]
        self.is_closed = False
        self._arguments = StringIO()
        self.size = self._arguments.write(call.arguments)

    def add(self, event: Delta | BlockClosed) -> int:
        """How many characters this one adds."""
        self.events.append(event)
        if type(event) is ArgumentsDelta:
            self._arguments.seek(0, 2)
            added = self._arguments.write(event.text)
            self.size += added
            return added
        self.is_closed = type(event) is BlockClosed
        return 0

    @property
    def arguments(self) -> str:
        return self._arguments.getvalue()

    @property
    def whole(self) -> ToolCall:
        """The call with all that came of it."""
        seals = [event.seal for event in self.events if type(event) is SealAttached]
        return replace(self.call, arguments=self.arguments, seal=seals[-1] if seals else self.call.seal)

    def part(self, start: int, length: int) -> str:
        self._arguments.seek(start)
        return self._arguments.read(length)


#: What becomes of a held call: the events to send in its place, none to leave it out.
Outcome = list[ReplyEvent]


class Judge(Protocol):
    """Decides about calls on behalf of a `CallQueueStage`."""

    #: Kinds of delta that it wants to see even while no call waits.
    wants: frozenset[type]

    def waits(self, call: ToolCall) -> bool:
        """Whether a call that opens must wait."""
        ...

    def outcome(self, held: HeldCall, *, is_full: bool) -> Outcome | None:
        """What becomes of the first waiting call; None: it has to wait on, which is no answer when full."""
        ...

    def passed(self, event: ReplyEvent) -> None:
        """An event of a call goes out; numbers are still the upstream's."""
        ...


class CallQueueStage:
    """The line in which calls wait. `limit` is how many characters may wait at a time."""

    def __init__(self, judge: Judge, limit: int) -> None:
        self._judge = judge
        self._limit = limit
        self._held: dict[int, HeldCall] = {}
        self._size = 0
        self._numbers: dict[int, int] = {}
        self._next = 0
        self._open_calls: set[int] = set()
        #: Blocks that are gone for the client while the upstream still speaks of them.
        self._gone: set[int] = set()
        self._has_moved = False
        self._has_removed = False
        #: How many calls the client gets.
        self.calls = 0
        #: What passes while no call waits, and while one does.
        self._free = DELTAS - judge.wants
        self._bound = self._free - _CALL_DELTAS
        self.passes: frozenset[type] = self._free

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        out = self._fed(event)
        if type(event) not in DELTAS or len(out) != 1:
            self.passes = self._passing()
        return out

    def _passing(self) -> frozenset[type]:
        if self._has_moved:
            return _NOTHING
        return self._bound if self._held or self._gone else self._free

    def _fed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if isinstance(event, _INDEXED):
            held = self._held.get(event.index)
            return self._passed(event) if held is None else self._more(held, event)
        if type(event) is BlockOpened:
            return self._opened(event)
        if type(event) is ReplyFinished:
            return [self._settled(event)]
        if type(event) is ReplyFailed:
            self._held.clear()
        return [event]

    def _opened(self, event: BlockOpened) -> list[ReplyEvent]:
        call = event.block
        if type(call) is not ToolCall:
            return [self._numbered(event)]
        if self._held or self._judge.waits(call):
            held = self._held[event.index] = HeldCall(event, call)
            self._size += held.size
            return self._advanced()
        return self._released([event])

    def _passed(self, event: Delta | BlockClosed) -> list[ReplyEvent]:
        if event.index in self._gone:
            if type(event) is BlockClosed:
                self._gone.discard(event.index)
            return []
        if event.index not in self._open_calls:
            return [self._numbered(event)]
        return [*self._released([event]), *(self._advanced() if self._held else ())]

    def _more(self, held: HeldCall, event: Delta | BlockClosed) -> list[ReplyEvent]:
        self._size += held.add(event)
        return self._advanced()

    def _advanced(self) -> list[ReplyEvent]:
        """Whatever may go now, from the front."""
        out: list[ReplyEvent] = []
        while self._held:
            held = next(iter(self._held.values()))
            outcome = self._judge.outcome(held, is_full=self._size > self._limit)
            if outcome is None:
                break
            del self._held[held.index]
            self._size -= held.size
            if not held.is_closed and (not outcome or type(outcome[-1]) is BlockClosed):
                self._gone.add(held.index)
            out += self._released(outcome)
            self._has_removed |= not any(_opens_call(event) for event in outcome)
        return out

    def _released(self, events: list[ReplyEvent]) -> list[ReplyEvent]:
        """Events of one call on their way out."""
        for event in events:
            if _opens_call(event) or (isinstance(event, _INDEXED) and event.index in self._open_calls):
                self._note_call(event)
        return [self._numbered(event) for event in events]

    def _note_call(self, event: ReplyEvent) -> None:
        if type(event) is BlockOpened:
            self._open_calls.add(event.index)
            self.calls += 1
        elif type(event) is BlockClosed:
            self._open_calls.discard(event.index)
        self._judge.passed(event)

    def _numbered(self, event: ReplyEvent) -> ReplyEvent:
        if type(event) is BlockOpened:
            number = self._numbers[event.index] = self._next
            self._next += 1
            self._has_moved |= number != event.index
            return event if number == event.index else BlockOpened(number, event.block)
        if isinstance(event, _INDEXED):
            number = self._numbers[event.index]
            if type(event) is BlockClosed:
                del self._numbers[event.index]
            return event if number == event.index else replace(event, index=number)
        return event

    def appended(self, text: str) -> list[ReplyEvent]:
        """A further block of text, behind all others."""
        number = self._next
        self._next += 1
        return said(number, text)

    def _settled(self, event: ReplyFinished) -> ReplyFinished:
        if not self._has_removed:
            return event
        cause = reconcile_cause(event.cause, has_calls=self.calls > 0)
        return event if cause == event.cause else replace(event, cause=cause, raw_cause="")


def _opens_call(event: ReplyEvent) -> bool:
    return type(event) is BlockOpened and type(event.block) is ToolCall


def said(index: int, text: str) -> list[ReplyEvent]:
    """A whole block of text."""
    return [BlockOpened(index, Text(text="")), TextDelta(index, text), BlockClosed(index)]
