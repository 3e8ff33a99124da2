"""Stages: steps that take the events of a reply and give events.

`Stage` is the interface of all of them; `Sequencer` is the one that every target needs whose clients
accept only one open block at a time.
"""

from typing import Protocol

from dragoman.hub.events import (
    DELTAS,
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
    ReasoningDelta,
    ReplyEvent,
    SealAttached,
    TextDelta,
)


class Stage(Protocol):
    """A step between a stream reader and a stream writer: grammatical events in, grammatical events out.

    `passes` holds the kinds of event that `feed` would return unchanged at this moment. The pipeline checks
    it before every event and skips `feed` for those: most events of a reply are deltas.
    """

    @property
    def passes(self) -> frozenset[type]: ...

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]: ...


_NOTHING: frozenset[type] = frozenset()

_INDEXED = (TextDelta, ArgumentsDelta, ReasoningDelta, SealAttached, CitationAdded, BlockClosed)


class Sequencer:
    """`feed` gives the events that may go out now."""

    __slots__ = ("_live", "_waiting", "passes")

    def __init__(self) -> None:
        # While no block waits, deltas can only be the live block's.
        self.passes: frozenset[type] = DELTAS
        self._live: int | None = None
        self._waiting: dict[int, list[ReplyEvent]] = {}

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if isinstance(event, _INDEXED):
            if event.index == self._live:
                return [event] if type(event) is not BlockClosed else [event, *self._next_block()]
            self._waiting[event.index].append(event)
            return []
        if isinstance(event, BlockOpened):
            if self._live is None:
                self._live = event.index
                return [event]
            self._waiting[event.index] = [event]
            self.passes = _NOTHING
            return []
        return [event]

    def _next_block(self) -> list[ReplyEvent]:
        """After the live block: every waiting block that is whole, then the first that is not goes live."""
        self._live = None
        released: list[ReplyEvent] = []
        while self._waiting and self._live is None:
            index = next(iter(self._waiting))
            events = self._waiting.pop(index)
            released += events
            if type(events[-1]) is not BlockClosed:
                self._live = index
        if not self._waiting:
            self.passes = DELTAS
        return released
