"""Seals on calls and texts, for clients that have no place for them there.

Such a seal travels in a reasoning block of its own without any text, its form (`hub.seal`) saying what it
belongs to: a call, which follows, or a text, which came before. A seal that comes with a call comes before
its first argument, so the call's opening waits just that long; one that comes later still goes out.
"""

from dragoman.fit.editing import replace
from dragoman.hub.content import Reasoning, Text, ToolCall
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
    ReasoningDelta,
    ReplyEvent,
    ReplyFailed,
    SealAttached,
    TextDelta,
)
from dragoman.hub.seal import CALL_CARRIER, TEXT_CARRIER, Seal


class SealsStage:
    """Blocks that are put in move the numbers of all that follow."""

    def __init__(self) -> None:
        self._next = 0
        self.passes: frozenset[type] = frozenset({TextDelta})
        #: The new number of each open block.
        self._numbers: dict[int, int] = {}
        self._waiting: BlockOpened | None = None
        #: The ids of open calls, and the seals of open texts.
        self._calls: dict[int, str] = {}
        self._texts: dict[int, Seal | None] = {}

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if isinstance(event, TextDelta | ArgumentsDelta | ReasoningDelta | CitationAdded):
            return [*self._released(event.index), self._renumbered(event)]
        if isinstance(event, SealAttached):
            return self._sealed(event)
        if isinstance(event, BlockOpened):
            return self._opened(event)
        if isinstance(event, BlockClosed):
            return self._closed(event)
        if isinstance(event, ReplyFailed):
            return [*self._released(), event]
        return [event]

    def _released(self, index: int | None = None) -> list[ReplyEvent]:
        """The call that waited, if it is this one (or whichever it is)."""
        waiting = self._waiting
        if waiting is None or index not in (None, waiting.index):
            return []
        self._waiting = None
        return [self._open(waiting)]

    def _opened(self, event: BlockOpened) -> list[ReplyEvent]:
        released = self._released()
        block = event.block
        if type(block) is ToolCall:
            self._calls[event.index] = block.id
            if block.seal is None:
                self._waiting = event
                return released
            bare = BlockOpened(event.index, replace(block, seal=None))
            return [*released, *self._carrier(block.seal, CALL_CARRIER + block.id), self._open(bare)]
        if type(block) is Text:
            self._texts[event.index] = block.seal
            if block.seal is not None:
                event = BlockOpened(event.index, replace(block, seal=None))
        return [*released, self._open(event)]

    def _sealed(self, event: SealAttached) -> list[ReplyEvent]:
        if event.index in self._texts:
            self._texts[event.index] = event.seal
            return []
        call_id = self._calls.get(event.index)
        if call_id is None:
            return [self._renumbered(event)]
        carrier = self._carrier(event.seal, CALL_CARRIER + call_id)
        return [*carrier, *self._released(event.index)]

    def _closed(self, event: BlockClosed) -> list[ReplyEvent]:
        released = self._released(event.index)
        self._calls.pop(event.index, None)
        seal = self._texts.pop(event.index, None)
        number = self._numbers.pop(event.index)
        closed = event if number == event.index else BlockClosed(number, event.extras)
        return [*released, closed, *(self._carrier(seal, TEXT_CARRIER) if seal else ())]

    def _open(self, event: BlockOpened) -> BlockOpened:
        number = self._numbers[event.index] = self._next
        self._next += 1
        return event if number == event.index else BlockOpened(number, event.block)

    def _carrier(self, seal: Seal, form: str) -> list[ReplyEvent]:
        number = self._next
        self._next += 1
        self.passes = frozenset()
        return [BlockOpened(number, Reasoning(seal=seal, form=form)), BlockClosed(number)]

    def _renumbered(
        self, event: TextDelta | ArgumentsDelta | ReasoningDelta | CitationAdded | SealAttached
    ) -> ReplyEvent:
        number = self._numbers[event.index]
        return event if number == event.index else replace(event, index=number)
