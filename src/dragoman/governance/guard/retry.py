"""Retry on denial: if every call of a reply was denied, the model gets the reasons and is asked again.

`DenialRetry` is the last stage of each round, the same object for all rounds. While `waits` is true, the
reply is not over: send `next_request` to the upstream, and feed the events of the next reply.
"""

from collections.abc import Sequence

from dragoman.governance.call_queue import replace, said
from dragoman.governance.guard.stage import DeniedCall, GuardStage, denial
from dragoman.hub.content import AnyBlock, Text, ToolResult
from dragoman.hub.events import (
    BlockOpened,
    ReplyEvent,
    ReplyFinished,
    ReplyStarted,
    UsageReported,
)
from dragoman.hub.fold import ReplyFolder
from dragoman.hub.request import Request, Turn
from dragoman.hub.usage import Usage

#: What the rounds generated adds up; every prompt holds the ones before it, so there the last one counts.
_GENERATED = ("output", "reasoning", "audio_output", "web_searches")


class DenialRetry:
    """`limit` is how often the model may be asked again; after that the client is told what was denied."""

    def __init__(self, limit: int = 3) -> None:
        self.passes: frozenset[type] = frozenset()
        self._left = limit
        self._guard: GuardStage | None = None
        self._denied: tuple[DeniedCall, ...] = ()
        self._folder = ReplyFolder()
        self._has_started = False
        #: How many blocks the rounds before this one had, and their tokens.
        self._before = 0
        self._next = 0
        self._used: Usage | None = None
        self._usage: Usage | None = None

    @property
    def waits(self) -> bool:
        """Whether a round is over and the reply is not."""
        return bool(self._denied)

    def begin(self, guard: GuardStage) -> None:
        """A round begins; this is its guard."""
        self._guard = guard
        self._denied = ()
        self._folder = ReplyFolder()
        self._before = self._next
        self._used = _sum(self._used, self._usage)
        self._usage = None

    def next_request(self, request: Request) -> Request:
        """The request again, with what the model said in this round and why its calls were denied."""
        return with_denials(request, self._folder.reply().blocks, self._denied)

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        self._folder.feed(event)
        match event:
            case ReplyStarted():
                started, self._has_started = self._has_started, True
                return [] if started else [event]
            case UsageReported():
                self._usage = self._usage.merge(event.usage) if self._usage else event.usage
                total = _sum(self._used, self._usage)
                return [event if self._used is None or total is None else UsageReported(total)]
            case ReplyFinished():
                return self._finished(event)
            case BlockOpened():
                self._next = self._before + event.index + 1
        return [_moved(event, self._before)]

    def _finished(self, event: ReplyFinished) -> list[ReplyEvent]:
        denied = self._guard.denied if self._guard else ()
        if denied and self._left:
            self._left -= 1
            self._denied = denied
            return []
        texts: list[ReplyEvent] = []
        for each in denied:
            texts += said(self._next, denial(each))
            self._next += 1
        return [*texts, event]


def with_denials(request: Request, blocks: Sequence[AnyBlock], denied: Sequence[DeniedCall]) -> Request:
    """The request with one more turn of the model, and a result for each of its calls that tells why not."""
    results = tuple(
        ToolResult(
            call_id=each.call.id,
            name=each.call.name,
            kind=each.call.kind,
            content=(Text(text=denial(each)),),
            is_error=True,
        )
        for each in denied
    )
    spoken = Turn(role="assistant", blocks=(*blocks, *(each.call for each in denied)))
    return replace(request, turns=(*request.turns, spoken, Turn(role="tool", blocks=results)))


def _moved(event: ReplyEvent, by: int) -> ReplyEvent:
    if not by:
        return event
    if type(event) is BlockOpened:
        return BlockOpened(event.index + by, event.block)
    index = getattr(event, "index", None)
    return event if index is None else replace(event, index=index + by)


def _sum(one: Usage | None, other: Usage | None) -> Usage | None:
    if one is None or other is None:
        return one or other
    counts = {name: _added(getattr(one, name), getattr(other, name)) for name in _GENERATED}
    return replace(other, **counts)


def _added(one: int | None, other: int | None) -> int | None:
    return other if one is None else one + (other or 0)
