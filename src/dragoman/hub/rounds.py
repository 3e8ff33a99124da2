"""Rounds: one reply to the client that consists of several replies of the upstream.

A stage may withhold a call from the client: the guard denied it, or the gateway runs the tool itself. Then
the model gets a result, and its next reply continues the first one. `RoundJoiner` is the last stage of each
round and the same object for all of them.

Call order: `begin` with the sources of a round, then `feed` with its events. While `waits` is true the reply
is not over: add the missing results with `add_results`, send `take_events` to the client, and, if it still
waits, send `next_request` to the upstream and begin the next round.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from dragoman.hub.blocks import ReplyBlock, Text, ToolCall, ToolResult
from dragoman.hub.events import (
    BlockClosed,
    BlockOpened,
    ReplyEvent,
    ReplyFinished,
    ReplyStarted,
    TextDelta,
    UsageReported,
)
from dragoman.hub.fold import ReplyFolder
from dragoman.hub.request import Message, Request
from dragoman.hub.usage import Usage

replace = msgspec.structs.replace

#: Counts that add up over the rounds. Each prompt contains the earlier ones: of the others the last counts.
_GENERATED = ("output", "reasoning", "audio_output", "web_searches")
#: Parts of a prompt. A round that does not report one has none of it, also if an earlier round had it.
_CACHED = ("cache_read", "cache_write", "cache_write_long")


class WithheldCall(msgspec.Struct, frozen=True):
    """A call that the client does not get. `result` is None until the tool has run."""

    call: ToolCall
    result: ToolResult | None = None


@runtime_checkable
class CallSource(Protocol):
    """A stage that withholds calls. `withheld` is complete at the end of the round."""

    @property
    def withheld(self) -> tuple[WithheldCall, ...]: ...

    @property
    def max_rounds(self) -> int:
        """How often the model may be asked again because of these calls."""
        ...

    def write_stop(self) -> Sequence[str]:
        """The texts for the client if the model may not be asked again."""
        ...


class Round(msgspec.Struct, frozen=True):
    """One round that has ended: what the client got of it, and the calls that it did not get."""

    blocks: tuple[ReplyBlock, ...]
    withheld: tuple[WithheldCall, ...] = ()


class RoundJoiner:
    """Joins the replies of all rounds: one start, one numbering of blocks, one ending, the usage of all."""

    unchanged_kinds: frozenset[type] = frozenset()

    def __init__(self) -> None:
        self._sources: tuple[CallSource, ...] = ()
        self._folder = ReplyFolder()
        self._has_started = False
        #: How often the model was asked again, by the kind of source.
        self._asked_again: Counter[type] = Counter()
        #: The number of blocks before this round, and the next free number.
        self._offset = 0
        self._next = 0
        #: The usage of the rounds before this one, and of this one.
        self._used: Usage | None = None
        self._usage: Usage | None = None
        #: The ending of a round with withheld calls; the client gets it only if its own calls are among it.
        self._ending: ReplyFinished | None = None
        self._shown: tuple[ReplyBlock, ...] = ()
        self._withheld: tuple[WithheldCall, ...] = ()
        #: The rounds that have ended, if any call was withheld.
        self.ended: list[Round] = []

    @property
    def waits(self) -> bool:
        """Whether the round is over and the reply is not."""
        return self._ending is not None

    @property
    def unanswered(self) -> tuple[ToolCall, ...]:
        """The withheld calls whose tools must run."""
        return tuple(each.call for each in self._withheld if each.result is None)

    def begin(self, *sources: CallSource) -> None:
        """Begin a round, whose calls these sources may withhold."""
        self._sources = sources
        self._ending = None
        self._withheld = ()
        self._folder = ReplyFolder()
        self._offset = self._next
        self._used = _add_usage(self._used, self._usage)
        self._usage = None

    def add_results(self, results: Sequence[ToolResult], shown: Sequence[ReplyBlock] = ()) -> None:
        """Add a result for each of `unanswered`. `shown`: blocks that show the client what was done."""
        left = iter(results)
        self._withheld = tuple(
            each if each.result else WithheldCall(each.call, next(left)) for each in self._withheld
        )
        self._shown = tuple(shown)

    def take_events(self) -> list[ReplyEvent]:
        """The events after the results: blocks for the client; and the ending, if its own calls wait."""
        events: list[ReplyEvent] = []
        for block in self._shown:
            events += [BlockOpened(self._next, block), BlockClosed(self._next)]
            self._next += 1
        self._shown = ()
        blocks = self._folder.reply().blocks
        if self._ending is not None and _has_calls(blocks):
            events.append(self._ending)
            self._ending = None
            self.ended.append(Round(blocks, self._withheld))
        return events

    def next_request(self, request: Request) -> Request:
        """The request of this round, plus the model's reply and a result for each withheld call."""
        blocks = self._folder.reply().blocks
        self.ended.append(Round(blocks, self._withheld))
        reply = Message(role="assistant", blocks=(*blocks, *(each.call for each in self._withheld)))
        results = tuple(each.result for each in self._withheld if each.result)
        return replace(request, messages=(*request.messages, reply, Message(role="tool", blocks=results)))

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
        sources = [source for source in self._sources if source.withheld]
        withheld = tuple(each for source in sources for each in source.withheld)
        blocks = self._folder.reply().blocks
        if withheld and all(each.result for each in withheld) and _has_calls(blocks):
            # The client must run calls of its own, and no tool of the gateway must run.
            self.ended.append(Round(blocks, withheld))
            return [event]
        if any(self._asked_again[type(source)] < source.max_rounds for source in sources):
            self._asked_again.update(map(type, sources))
            self._ending = event
            self._withheld = withheld
            return []
        events: list[ReplyEvent] = []
        for text in (text for source in sources for text in source.write_stop()):
            opened = BlockOpened(self._next, Text(text=""))
            events += [opened, TextDelta(self._next, text), BlockClosed(self._next)]
            self._next += 1
        if self.ended:
            self.ended.append(Round(blocks))
        return [*events, event]


def _has_calls(blocks: Sequence[ReplyBlock]) -> bool:
    return any(type(block) is ToolCall for block in blocks)


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
    if other.input is not None:
        counts |= {name: 0 for name in _CACHED if getattr(other, name) is None and getattr(one, name)}
    return replace(other, **counts)


def _add(one: int | None, other: int | None) -> int | None:
    return other if one is None else one + (other or 0)
