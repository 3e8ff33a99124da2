"""The grammar of replies: two tables and one checker.

The tables decide which sequences of events are legal. `REPLY_MOVES` has the phases of a reply and the events
that each phase accepts; `BLOCK_DELTAS` has the deltas that an open block of each kind accepts. A finished
reply has no open block; a failed reply may leave blocks open. Readers produce legal sequences from any
input, writers rely on them. docs/ARCHITECTURE.md draws both tables (`tools/diagrams.py`).
"""

from enum import Enum, auto
from typing import Final, assert_never

from dragoman.hub.blocks import (
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
)
from dragoman.hub.errors import UpstreamProtocolError
from dragoman.hub.events import (
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


class ReplyPhase(Enum):
    """The phases of a reply."""

    NEW = auto()
    LIVE = auto()
    ENDED = auto()


#: For each phase: the events that it accepts, and the phase that follows.
REPLY_MOVES: dict[ReplyPhase, dict[type, ReplyPhase]] = {
    ReplyPhase.NEW: {ReplyStarted: ReplyPhase.LIVE, ReplyFailed: ReplyPhase.ENDED},
    ReplyPhase.LIVE: {
        BlockOpened: ReplyPhase.LIVE,
        TextDelta: ReplyPhase.LIVE,
        ReasoningDelta: ReplyPhase.LIVE,
        ArgumentsDelta: ReplyPhase.LIVE,
        SealAttached: ReplyPhase.LIVE,
        CitationAdded: ReplyPhase.LIVE,
        BlockClosed: ReplyPhase.LIVE,
        UsageReported: ReplyPhase.LIVE,
        ReplyFinished: ReplyPhase.ENDED,
        ReplyFailed: ReplyPhase.ENDED,
    },
    ReplyPhase.ENDED: {},
}

#: The deltas that an open block of each kind accepts. Kinds that open complete accept none.
BLOCK_DELTAS: dict[type, frozenset[type]] = {
    Text: frozenset({TextDelta, CitationAdded, SealAttached}),
    Refusal: frozenset({TextDelta}),
    Reasoning: frozenset({ReasoningDelta, SealAttached}),
    ToolCall: frozenset({ArgumentsDelta, SealAttached}),
    Media: frozenset(),
    HostedCall: frozenset(),
    HostedResult: frozenset(),
    Opaque: frozenset(),
}

#: The events of an open block. Most events of a reply are the first kind; `isinstance` tests it first.
_BLOCK_EVENTS: Final = (TextDelta, ArgumentsDelta, ReasoningDelta, SealAttached, CitationAdded)

_NOTHING: frozenset[type] = frozenset()


class GrammarChecker:
    """Follows one reply and raises `UpstreamProtocolError` at the first event that the tables forbid."""

    __slots__ = ("_calls", "_moves", "_next", "_open", "_phase")

    def __init__(self) -> None:
        self._phase = ReplyPhase.NEW
        self._moves = REPLY_MOVES[ReplyPhase.NEW]
        #: The deltas that each open block accepts.
        self._open: dict[int, frozenset[type]] = {}
        self._next = 0
        self._calls = 0

    @property
    def is_ended(self) -> bool:
        return self._phase is ReplyPhase.ENDED

    def check(self, event: ReplyEvent) -> None:
        """Accept the next event of the reply. Raises if the event is illegal here."""
        kind = type(event)
        # A block is open only in a phase that accepts deltas, so the phase needs no test here.
        if isinstance(event, _BLOCK_EVENTS) and kind in self._open.get(event.index, _NOTHING):
            return
        if kind not in self._moves:
            raise UpstreamProtocolError(f"{kind.__name__} in a reply that is {self._phase.name}")
        match event:
            case BlockOpened():
                self._check_opening(event)
            case BlockClosed():
                if self._open.pop(event.index, None) is None:
                    raise UpstreamProtocolError(f"block {event.index} closed, which is not open")
            case ReplyFinished():
                self._check_finish(event)
            case ReplyStarted() | UsageReported() | ReplyFailed():
                pass
            case TextDelta() | ArgumentsDelta() | ReasoningDelta() | SealAttached() | CitationAdded():
                fault = "does not fit block" if event.index in self._open else "has no open block"
                raise UpstreamProtocolError(f"{kind.__name__} {fault} {event.index}")
            case _:
                assert_never(event)
        phase = self._moves[kind]
        if phase is not self._phase:
            self._phase, self._moves = phase, REPLY_MOVES[phase]
            # No phase begins or ends with open blocks: a failed reply leaves them incomplete.
            self._open.clear()

    def _check_opening(self, event: BlockOpened) -> None:
        if event.index != self._next:
            raise UpstreamProtocolError(f"block {event.index} opened, expected {self._next}")
        accepted = BLOCK_DELTAS.get(type(event.block))
        if accepted is None:
            raise UpstreamProtocolError(f"a reply cannot hold a {type(event.block).__name__}")
        self._open[event.index] = accepted
        self._next += 1
        self._calls += isinstance(event.block, ToolCall)

    def _check_finish(self, event: ReplyFinished) -> None:
        if self._open:
            raise UpstreamProtocolError(f"finished with block {min(self._open)} open")
        if event.cause == "tool_calls" and not self._calls:
            raise UpstreamProtocolError("finished for tool calls, but there are none")
        if event.cause == "end" and self._calls:
            raise UpstreamProtocolError("finished as an answer, but there are tool calls")
