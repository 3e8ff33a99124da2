"""The grammar of replies: two tables and one checker.

The tables decide which sequences of events are legal. `REPLY_MOVES` has the phases of a reply and the events
that each phase accepts; `BLOCK_DELTAS` has the deltas that an open block of each kind accepts. A finished
reply has no open block; a failed reply may leave blocks open. Readers produce legal sequences from any
input, writers rely on them. docs/ARCHITECTURE.md draws both tables (`tools/diagrams.py`).
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Any

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
        phase = self._moves.get(kind)
        if phase is None:
            raise UpstreamProtocolError(f"{kind.__name__} in a reply that is {self._phase.name}")
        _CHECKS[kind](self, event)
        if phase is not self._phase:
            self._phase, self._moves = phase, REPLY_MOVES[phase]
            # No phase begins or ends with open blocks: a failed reply leaves them incomplete.
            self._open.clear()

    def _check_delta(self, event: Delta) -> None:
        kind, accepted = type(event), self._open.get(event.index)
        if accepted is None or kind not in accepted:
            fault = "has no open block" if accepted is None else "does not fit block"
            raise UpstreamProtocolError(f"{kind.__name__} {fault} {event.index}")

    def _check_nothing(self, event: ReplyStarted | UsageReported | ReplyFailed) -> None:
        """The phase alone decides."""

    def _check_opening(self, event: BlockOpened) -> None:
        if event.index != self._next:
            raise UpstreamProtocolError(f"block {event.index} opened, expected {self._next}")
        accepted = BLOCK_DELTAS.get(type(event.block))
        if accepted is None:
            raise UpstreamProtocolError(f"a reply cannot hold a {type(event.block).__name__}")
        self._open[event.index] = accepted
        self._next += 1
        self._calls += isinstance(event.block, ToolCall)

    def _check_closing(self, event: BlockClosed) -> None:
        if self._open.pop(event.index, None) is None:
            raise UpstreamProtocolError(f"block {event.index} closed, which is not open")

    def _check_finish(self, event: ReplyFinished) -> None:
        if self._open:
            raise UpstreamProtocolError(f"finished with block {min(self._open)} open")
        if event.cause == "tool_calls" and not self._calls:
            raise UpstreamProtocolError("finished for tool calls, but there are none")
        if event.cause == "end" and self._calls:
            raise UpstreamProtocolError("finished as an answer, but there are tool calls")


#: What is checked of each kind of event, besides the phase.
_CHECKS: dict[type, Callable[[GrammarChecker, Any], None]] = {
    **dict.fromkeys(DELTAS, GrammarChecker._check_delta),
    BlockOpened: GrammarChecker._check_opening,
    BlockClosed: GrammarChecker._check_closing,
    ReplyFinished: GrammarChecker._check_finish,
    ReplyStarted: GrammarChecker._check_nothing,
    UsageReported: GrammarChecker._check_nothing,
    ReplyFailed: GrammarChecker._check_nothing,
}
