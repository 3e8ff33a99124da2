"""Stages: objects that take the events of a reply and return events.

`Stage` is the interface of all of them. `Sequencer` is the last one of every reply: no client accepts blocks
that are open at the same time without a rule. `BlockNumbers` numbers the blocks of a stage that changes their
order.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, Protocol, assert_never, runtime_checkable

import msgspec

from dragoman.hub.blocks import ToolCall
from dragoman.hub.events import (
    DELTAS,
    REPLY_KINDS,
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
    DeltaRun,
    ReasoningDelta,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    SealAttached,
    TextDelta,
    UsageReported,
)


class Stage(Protocol):
    """Stands between a stream reader and a stream writer: grammatical events in, grammatical events out.

    `unchanged_kinds`: the kinds of event that `feed` would return unchanged at this moment. The pipeline
    reads it before every event and skips `feed` for those kinds: most events of a reply are deltas.
    """

    @property
    def unchanged_kinds(self) -> frozenset[type]: ...

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]: ...


@runtime_checkable
class HoldingStage(Protocol):
    """A stage that holds events back for a limited time."""

    def take_overdue(self) -> list[ReplyEvent]:
        """Return the events that were held back for their full time."""
        ...


@runtime_checkable
class TimedStage(HoldingStage, Protocol):
    """A holding stage that can also hold a call's opening, so that the client has nothing of it yet."""

    @property
    def holds_for_a_time(self) -> bool:
        """Whether a call is held back that `take_overdue` returns when its time is over."""
        ...


def feed_each(stage: Stage, events: list[ReplyEvent]) -> list[ReplyEvent]:
    """What a stage makes of several events."""
    changed: list[ReplyEvent] = []
    for event in events:
        changed += (event,) if type(event) in stage.unchanged_kinds else stage.feed(event)
    return changed


#: A stage that handles texts may offer, as its attribute `skim`, a cheap test: `feed` returns a text
#: unchanged if the test holds. It is valid until the next event that is no delta. A text that passes the test
#: also passes it in pieces.
Skim = Callable[[str], bool]


#: A stage may offer, as its attribute `feed_run`, a way to take a run of deltas at once. It returns the texts
#: that go on, or none: what `feed` would return for each. If it returns None, it has taken nothing: feed each
#: delta.
FeedRun = Callable[[DeltaRun], list[str] | None]

#: What the `Sequencer` never holds while all blocks come one after another.
_IN_ORDER: frozenset[type] = DELTAS | REPLY_KINDS
#: The events that name a block by its number. The most frequent ones come first: `isinstance` tries them in
#: this order.
INDEXED = (BlockClosed, TextDelta, ArgumentsDelta, ReasoningDelta, SealAttached, CitationAdded)


class BlockNumbers:
    """Numbers the blocks of a reply in the order in which a stage sends them."""

    __slots__ = ("_next", "_numbers", "has_moved")

    def __init__(self) -> None:
        #: The number that the next stage knows, by the number before this stage.
        self._numbers: dict[int, int] = {}
        self._next = 0
        #: Whether a block has another number than before: then every later event must be renumbered.
        self.has_moved = False

    def add_block(self) -> int:
        """Reserve the next number for a block that the stage adds."""
        self._next += 1
        self.has_moved = True
        return self._next - 1

    def renumber(self, event: ReplyEvent) -> ReplyEvent:
        """The event with the number of its block; an opening block gets the next one."""
        if type(event) is BlockOpened:
            number = self._numbers[event.index] = self._next
            self._next += 1
            self.has_moved |= number != event.index
            return event if number == event.index else BlockOpened(number, event.block)
        if type(event) not in REPLY_KINDS and isinstance(event, INDEXED):
            number = self._numbers[event.index]
            if type(event) is BlockClosed:
                del self._numbers[event.index]
            return event if number == event.index else msgspec.structs.replace(event, index=number)
        return event


#: When the calls of a reply are sent, beside its other blocks:
#: `in_turn`: all blocks come one after another.
#: `beside`: other blocks may come while a call is open. Calls come one after another.
#: `whole`: a call comes when it is complete, and opens with its arguments. Other blocks do not wait for it.
CallOrder = Literal["in_turn", "beside", "whole"]


class _Track:
    """Blocks that are sent one after another: the open one, and the events of those behind it.

    `sends_whole`: a block is sent when it is complete.
    """

    __slots__ = ("held", "live", "sends_whole")

    def __init__(self, *, sends_whole: bool = False) -> None:
        self.live: int | None = None
        self.held: dict[int, list[ReplyEvent]] = {}
        self.sends_whole = sends_whole

    def open(self, event: BlockOpened) -> list[ReplyEvent]:
        if self.live is None and not self.sends_whole:
            self.live = event.index
            return [event]
        self.held[event.index] = [event]
        return []

    def add(self, index: int, event: ReplyEvent) -> list[ReplyEvent]:
        """Add a delta or the end of an open block. Returns the events that may be sent now."""
        if index != self.live:
            self.held[index].append(event)
            return []
        if type(event) is BlockClosed:
            self.live = None
        return [event]

    def take_next(self) -> list[ReplyEvent]:
        """The complete blocks that no other block is before, then the first incomplete one, which is live."""
        released: list[ReplyEvent] = []
        while self.held and self.live is None:
            index, events = next(iter(self.held.items()))
            is_complete = type(events[-1]) is BlockClosed
            if self.sends_whole and not is_complete:
                break
            del self.held[index]
            released += join_call(events) if self.sends_whole else events
            if not is_complete:
                self.live = index
        return released


def join_call(events: list[ReplyEvent]) -> list[ReplyEvent]:
    """The events of one complete call as its opening, with all arguments and the seal, and its end."""
    opened, *deltas, closed = events
    if type(opened) is not BlockOpened or type(opened.block) is not ToolCall:
        return events
    call = opened.block
    pieces = [event.text for event in deltas if type(event) is ArgumentsDelta]
    seals = [event.seal for event in deltas if type(event) is SealAttached]
    whole = msgspec.structs.replace(
        call, arguments=call.arguments + "".join(pieces), seal=seals[-1] if seals else call.seal
    )
    return [BlockOpened(opened.index, whole), closed]


class Sequencer:
    """Brings interleaved blocks into an order that the client accepts; `feed` returns what may be sent now.

    The first open block is sent live, the others are held back in the order in which they opened. The order
    inside a block does not change. When a reply fails, the blocks that are held back are never sent.
    `call_order` states which blocks wait for which.
    """

    __slots__ = ("_blocks", "_calls", "_numbers", "_others", "unchanged_kinds")

    def __init__(self, call_order: CallOrder = "in_turn") -> None:
        # While no block is held back, every delta belongs to a live block.
        self.unchanged_kinds: frozenset[type] = _IN_ORDER
        self._others = _Track()
        self._calls = self._others if call_order == "in_turn" else _Track(sends_whole=call_order == "whole")
        #: The track of each open block.
        self._blocks: dict[int, _Track] = {}
        self._numbers = BlockNumbers()

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        match event:
            case BlockClosed():
                sent = self._blocks.pop(event.index).add(event.index, event)
                sent += self._take_next()
            case BlockOpened():
                track = self._calls if type(event.block) is ToolCall else self._others
                self._blocks[event.index] = track
                sent = track.open(event)
            case TextDelta() | ArgumentsDelta() | ReasoningDelta() | SealAttached() | CitationAdded():
                sent = self._blocks[event.index].add(event.index, event)
            case ReplyStarted() | UsageReported() | ReplyFinished() | ReplyFailed():
                return [event]
            case _:
                assert_never(event)
        sent = [self._numbers.renumber(each) for each in sent]
        is_idle = not (self._calls.held or self._others.held or self._numbers.has_moved)
        self.unchanged_kinds = _IN_ORDER if is_idle else REPLY_KINDS
        return sent

    def _take_next(self) -> list[ReplyEvent]:
        """Return the events that may be sent after a block closed. A whole call goes between two blocks."""
        released = self._others.take_next()
        if self._calls is not self._others and not (
            self._calls.sends_whole and self._others.live is not None
        ):
            released += self._calls.take_next()
        return released


@lru_cache(maxsize=1024)
def find_handlers(unchanged: tuple[frozenset[type], ...]) -> dict[type, tuple[int, ...]]:
    """The positions of the stages that may change a delta, by its kind. Cached: few cases recur."""
    return {
        kind: tuple(position for position, kinds in enumerate(unchanged) if kind not in kinds)
        for kind in DELTAS
    }
