"""Stages: steps that take the events of a reply and give events.

`Stage` is the interface of all of them; `Sequencer` is the one that every target needs whose clients
accept only one open block at a time.
"""

from typing import Protocol, assert_never

from dragoman.hub.events import (
    DELTAS,
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
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
    """A step between a stream reader and a stream writer: grammatical events in, grammatical events out.

    `passes` holds the kinds of event that `feed` would return unchanged at this moment. The pipeline checks
    it before every event and skips `feed` for those: most events of a reply are deltas.
    """

    @property
    def passes(self) -> frozenset[type]: ...

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]: ...


_NOTHING: frozenset[type] = frozenset()


class Sequencer:
    """Writes interleaved blocks one after another; `feed` returns the events that may be sent now.

    The first open block is sent live, the others are held back in the order in which they opened. The order
    inside a block does not change. When a reply fails, the blocks that are held back are never sent.
    """

    __slots__ = ("_held", "_live", "passes")

    def __init__(self) -> None:
        # While no block is held back, every delta belongs to the live block.
        self.passes: frozenset[type] = DELTAS
        self._live: int | None = None
        self._held: dict[int, list[ReplyEvent]] = {}

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        match event:
            case TextDelta() | ArgumentsDelta() | ReasoningDelta() | SealAttached() | CitationAdded():
                return self._send_or_hold(event.index, event)
            case BlockClosed():
                sent = self._send_or_hold(event.index, event)
                return [event, *self._next_block()] if sent else sent
            case BlockOpened():
                if self._live is None:
                    self._live = event.index
                    return [event]
                self._held[event.index] = [event]
                self.passes = _NOTHING
                return []
            case ReplyStarted() | UsageReported() | ReplyFinished() | ReplyFailed():
                return [event]
            case _:
                assert_never(event)

    def _send_or_hold(self, index: int, event: ReplyEvent) -> list[ReplyEvent]:
        if index == self._live:
            return [event]
        self._held[index].append(event)
        return []

    def _next_block(self) -> list[ReplyEvent]:
        """The live block closed: send every complete block, then the first incomplete one becomes live."""
        self._live = None
        released: list[ReplyEvent] = []
        while self._held and self._live is None:
            index = next(iter(self._held))
            events = self._held.pop(index)
            released += events
            if type(events[-1]) is not BlockClosed:
                self._live = index
        if not self._held:
            self.passes = DELTAS
        return released
