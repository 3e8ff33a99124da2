"""The grammar of replies: two transition tables and one checker.

Everything that decides whether a sequence of events is legal lives in these tables. A block of a
given kind takes only the deltas listed for it; a failed reply may leave blocks open, a finished
one may not.
"""

from enum import Enum, auto

from dragoman.hub.content import (
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
    NEW = auto()
    LIVE = auto()
    ENDED = auto()


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

#: The deltas that an open block of each kind takes. Kinds that open complete take none.
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

_DELTAS = (TextDelta, ArgumentsDelta, ReasoningDelta, SealAttached, CitationAdded)


class GrammarChecker:
    """Follows one reply and raises at the first event that the tables do not allow."""

    __slots__ = ("_calls", "_moves", "_next", "_open", "_phase")

    def __init__(self) -> None:
        self._phase = ReplyPhase.NEW
        self._moves = REPLY_MOVES[ReplyPhase.NEW]
        self._open: dict[int, frozenset[type]] = {}
        self._next = 0
        self._calls = 0

    @property
    def is_ended(self) -> bool:
        return self._phase is ReplyPhase.ENDED

    def check(self, event: ReplyEvent) -> None:
        kind = type(event)
        if kind not in self._moves:
            raise UpstreamProtocolError(f"{kind.__name__} in a reply that is {self._phase.name}")
        if isinstance(event, _DELTAS):
            takes = self._open.get(event.index)
            if takes is None:
                raise UpstreamProtocolError(f"{kind.__name__} for block {event.index}, which is not open")
            if kind not in takes:
                raise UpstreamProtocolError(f"{kind.__name__} does not fit block {event.index}")
            return
        phase = self._moves[kind]
        if phase is not self._phase:
            self._phase, self._moves = phase, REPLY_MOVES[phase]
        self._check_boundary(event)

    def _check_boundary(self, event: ReplyEvent) -> None:
        match event:
            case BlockOpened():
                if event.index != self._next:
                    raise UpstreamProtocolError(f"block {event.index} opened, expected {self._next}")
                takes = BLOCK_DELTAS.get(type(event.block))
                if takes is None:
                    raise UpstreamProtocolError(f"a reply cannot hold a {type(event.block).__name__}")
                self._open[event.index] = takes
                self._next += 1
                self._calls += isinstance(event.block, ToolCall)
            case BlockClosed():
                if self._open.pop(event.index, None) is None:
                    raise UpstreamProtocolError(f"block {event.index} closed, which is not open")
            case ReplyFinished():
                self._check_finish(event)
            case _:
                pass

    def _check_finish(self, event: ReplyFinished) -> None:
        if self._open:
            raise UpstreamProtocolError(f"finished with block {min(self._open)} open")
        if event.cause == "tool_calls" and not self._calls:
            raise UpstreamProtocolError("finished for tool calls, but there are none")
        if event.cause == "end" and self._calls:
            raise UpstreamProtocolError("finished as an answer, but there are tool calls")
