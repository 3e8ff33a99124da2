"""Retry on denial: if the guard denied every call of a reply, the model gets the reasons and is asked again.

`DenialRetry` is the last stage of each round, the same object for all rounds: it joins the replies of the
upstream into one reply for the client. Call order: `begin` with the guard of a round, then `feed` with its
events. While `waits` is true the reply is not over: send `next_request` to the upstream, and begin the next
round.
"""

from dragoman.governance.call_queue import replace, write_text_block
from dragoman.governance.guard.stage import DeniedCall, GuardStage, write_denial
from dragoman.hub.content import Text, ToolResult
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

#: Counts that add up over the rounds. Each prompt contains the earlier ones: of the others the last counts.
_GENERATED = ("output", "reasoning", "audio_output", "web_searches")


class DenialRetry:
    """Asks the model again after denied calls, at most `limit` times. Then the client gets the denials."""

    unchanged_kinds: frozenset[type] = frozenset()

    def __init__(self, limit: int = 3) -> None:
        self._left = limit
        self._guard: GuardStage | None = None
        self._denied: tuple[DeniedCall, ...] = ()
        self._folder = ReplyFolder()
        self._has_started = False
        #: The number of blocks before this round, and the next free number.
        self._offset = 0
        self._next = 0
        #: The usage of the rounds before this one, and of this one.
        self._used: Usage | None = None
        self._usage: Usage | None = None

    @property
    def waits(self) -> bool:
        """Whether the round is over and the next one must begin."""
        return bool(self._denied)

    def begin(self, guard: GuardStage) -> None:
        """Begin a round, whose calls pass this guard."""
        self._guard = guard
        self._denied = ()
        self._folder = ReplyFolder()
        self._offset = self._next
        self._used = _add_usage(self._used, self._usage)
        self._usage = None

    def next_request(self, request: Request) -> Request:
        """The request of this round, plus the model's reply and a result with the denial for each call."""
        results = tuple(
            ToolResult(
                call_id=denied.call.id,
                name=denied.call.name,
                kind=denied.call.kind,
                content=(Text(text=write_denial(denied)),),
                is_error=True,
            )
            for denied in self._denied
        )
        calls = (denied.call for denied in self._denied)
        reply = Turn(role="assistant", blocks=(*self._folder.reply().blocks, *calls))
        return replace(request, turns=(*request.turns, reply, Turn(role="tool", blocks=results)))

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        self._folder.feed(event)
        match event:
            case ReplyStarted():
                has_started, self._has_started = self._has_started, True
                return [] if has_started else [event]
            case UsageReported():
                self._usage = self._usage.merge(event.usage) if self._usage else event.usage
                total = _add_usage(self._used, self._usage)
                return [event if self._used is None or total is None else UsageReported(total)]
            case ReplyFinished():
                return self._finish(event)
            case BlockOpened():
                self._next = self._offset + event.index + 1
        return [_renumber(event, self._offset)]

    def _finish(self, event: ReplyFinished) -> list[ReplyEvent]:
        denied = self._guard.denied if self._guard else ()
        if denied and self._left:
            self._left -= 1
            self._denied = denied
            return []
        texts: list[ReplyEvent] = []
        for each in denied:
            texts += write_text_block(self._next, write_denial(each))
            self._next += 1
        return [*texts, event]


def _renumber(event: ReplyEvent, offset: int) -> ReplyEvent:
    if not offset:
        return event
    if type(event) is BlockOpened:
        return BlockOpened(event.index + offset, event.block)
    index = getattr(event, "index", None)
    return event if index is None else replace(event, index=index + offset)


def _add_usage(one: Usage | None, other: Usage | None) -> Usage | None:
    if one is None or other is None:
        return one or other
    counts = {name: _add(getattr(one, name), getattr(other, name)) for name in _GENERATED}
    return replace(other, **counts)


def _add(one: int | None, other: int | None) -> int | None:
    return other if one is None else one + (other or 0)
