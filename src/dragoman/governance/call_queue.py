"""The queue of calls that wait for a decision: the base of the stages that can remove or change a call.

Calls leave in the order in which they opened; all other blocks pass. A block that is removed, replaced or
late changes the numbers of the blocks after it, so the stage renumbers. If the reply fails, the waiting calls
are dropped: the client has not seen them.
"""

from abc import ABC, abstractmethod
from io import StringIO

import msgspec

from dragoman.hub.blocks import Text, ToolCall
from dragoman.hub.builder import reconcile_cause
from dragoman.hub.events import (
    DELTAS,
    REPLY_NOTES,
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    Delta,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    SealAttached,
    TextDelta,
)
from dragoman.hub.stage import INDEXED, BlockNumbers

replace = msgspec.structs.replace

_CALL_DELTAS = frozenset({ArgumentsDelta, SealAttached})
_NOTHING: frozenset[type] = frozenset()


class HeldCall:
    """A call in the queue, with all its events so far."""

    __slots__ = ("_arguments", "call", "events", "index", "is_closed", "size")

    def __init__(self, opened: BlockOpened, call: ToolCall) -> None:
        self.index = opened.index
        self.call = call
        self.events: list[ReplyEvent] = [opened]
        self.is_closed = False
        self._arguments = StringIO()
        self.size = self._arguments.write(call.arguments)

    def add(self, event: Delta | BlockClosed) -> int:
        """Add an event; return how many characters of arguments it has."""
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
        """The call with the arguments and the seal of all events so far."""
        seals = [event.seal for event in self.events if type(event) is SealAttached]
        return replace(self.call, arguments=self.arguments, seal=seals[-1] if seals else self.call.seal)

    def read_part(self, start: int, length: int) -> str:
        self._arguments.seek(start)
        return self._arguments.read(length)


class CallQueueStage(ABC):
    """A stage that decides about calls. A subclass defines `must_wait` and `decide`.

    It may override `note_passed`, which does nothing by default.

    `limit`: characters of arguments that may wait at a time. `watched`: kinds of delta that `note_passed`
    needs even while no call waits.
    """

    def __init__(self, limit: int, *, watched: frozenset[type] = _NOTHING) -> None:
        self._limit = limit
        self._held: dict[int, HeldCall] = {}
        self._size = 0
        self._numbers = BlockNumbers()
        self._open_calls: set[int] = set()
        #: Blocks that the client does not get, and that the upstream has not closed yet.
        self._dropped: set[int] = set()
        self._has_removed = False
        #: How many calls the client gets.
        self.calls = 0
        #: What passes while no call waits, and while one does.
        self._unchanged_idle = (DELTAS | REPLY_NOTES) - watched
        self._unchanged_busy = self._unchanged_idle - _CALL_DELTAS
        self.unchanged_kinds: frozenset[type] = self._unchanged_idle

    @abstractmethod
    def must_wait(self, call: ToolCall) -> bool:
        """Whether a call that opens must wait for a decision."""

    @abstractmethod
    def decide(self, held: HeldCall, *, is_full: bool) -> list[ReplyEvent] | None:
        """Return the events to send for the first call of the queue. `[]` removes it, None lets it wait.

        `is_full`: the limit is exceeded, so None must not be returned.
        """

    def note_passed(self, event: ReplyEvent) -> None:  # noqa: B027 (not every subclass needs it)
        """Called with each event of a call that is sent. Its block number is the upstream's."""

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        out = self._route(event)
        if type(event) not in DELTAS or len(out) != 1:
            self.unchanged_kinds = self._find_unchanged()
        return out

    def append_text(self, text: str) -> list[ReplyEvent]:
        """The events of a new text block with the next free number."""
        return write_text_block(self._numbers.add_block(), text)

    def _find_unchanged(self) -> frozenset[type]:
        if self._numbers.has_moved:
            return _NOTHING
        return self._unchanged_busy if self._held or self._dropped else self._unchanged_idle

    def _route(self, event: ReplyEvent) -> list[ReplyEvent]:
        if isinstance(event, INDEXED):
            held = self._held.get(event.index)
            if held is None:
                return self._pass_on(event)
            self._size += held.add(event)
            return self._advance()
        if type(event) is BlockOpened:
            return self._open(event)
        if type(event) is ReplyFinished:
            return [self._finish(event)]
        if type(event) is ReplyFailed:
            self._held.clear()
        return [event]

    def _open(self, event: BlockOpened) -> list[ReplyEvent]:
        call = event.block
        if type(call) is not ToolCall:
            return [self._numbers.renumber(event)]
        if self._held or self.must_wait(call):
            held = self._held[event.index] = HeldCall(event, call)
            self._size += held.size
            return self._advance()
        return self._release([event])

    def _pass_on(self, event: Delta | BlockClosed) -> list[ReplyEvent]:
        if event.index in self._dropped:
            if type(event) is BlockClosed:
                self._dropped.discard(event.index)
            return []
        if event.index not in self._open_calls:
            return [self._numbers.renumber(event)]
        return [*self._release([event]), *(self._advance() if self._held else ())]

    def _advance(self) -> list[ReplyEvent]:
        """Decide about the calls from the first in the queue, until one must wait."""
        out: list[ReplyEvent] = []
        while self._held:
            held = next(iter(self._held.values()))
            events = self.decide(held, is_full=self._size > self._limit)
            if events is None:
                break
            del self._held[held.index]
            self._size -= held.size
            if not held.is_closed and (not events or type(events[-1]) is BlockClosed):
                self._dropped.add(held.index)
            out += self._release(events)
            self._has_removed |= not any(_opens_call(event) for event in events)
        return out

    def _release(self, events: list[ReplyEvent]) -> list[ReplyEvent]:
        """Send events of one call."""
        for event in events:
            if _opens_call(event) or (isinstance(event, INDEXED) and event.index in self._open_calls):
                self._note_call(event)
        return [self._numbers.renumber(event) for event in events]

    def _note_call(self, event: ReplyEvent) -> None:
        if type(event) is BlockOpened:
            self._open_calls.add(event.index)
            self.calls += 1
        elif type(event) is BlockClosed:
            self._open_calls.discard(event.index)
        self.note_passed(event)

    def _finish(self, event: ReplyFinished) -> ReplyFinished:
        """Correct the stop cause `tool_calls` of a reply whose calls were all removed."""
        if not self._has_removed:
            return event
        cause = reconcile_cause(event.cause, has_calls=self.calls > 0)
        return event if cause == event.cause else replace(event, cause=cause, raw_cause="")


def _opens_call(event: ReplyEvent) -> bool:
    return type(event) is BlockOpened and type(event.block) is ToolCall


def write_text_block(index: int, text: str) -> list[ReplyEvent]:
    """The events of one whole text block."""
    return [BlockOpened(index, Text(text="")), TextDelta(index, text), BlockClosed(index)]
