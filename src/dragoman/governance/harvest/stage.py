"""The stage that turns calls and reasoning written as text into calls and reasoning.

Each text block of the reply is taken apart by a scanner of its own. A call that the upstream itself made ends
all harvesting: what was found stays, and the rest is text. Calls go out whole, once they are complete.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from dragoman.governance.harvest.cursor import Call, Ending
from dragoman.governance.harvest.format import Place
from dragoman.governance.harvest.pieces import Harvested, Piece, Thoughts, ThoughtsEnd, Words
from dragoman.governance.harvest.plan import KnownTools, plan_for
from dragoman.governance.harvest.scanner import Scanner
from dragoman.governance.interventions import Intervention, Report
from dragoman.governance.tool_names import DeclaredTool
from dragoman.hub.builder import reconcile_cause
from dragoman.hub.content import Reasoning, Text, ToolCall
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
    SealAttached,
    StopCause,
    TextDelta,
)
from dragoman.hub.ids import IdSource

#: How many characters may wait, unless a caller says otherwise.
LIMIT = 4 * 1024 * 1024
TOO_MUCH = "more than may be held"
TOO_LONG = "held for as long as allowed"

#: Causes with which the model itself ended its reply. A watched-for stop sequence may be a closing tag.
_ENDED_WELL: frozenset[StopCause] = frozenset(("end", "tool_calls", "stop_sequence", "other"))


class _Watched:
    """A text block that is under way, and the block that it has open in what goes out."""

    __slots__ = (
        "altered",
        "block",
        "closed",
        "index",
        "number",
        "said",
        "scanner",
        "since",
        "thinking",
        "thought",
        "waiting",
    )

    def __init__(self, index: int, block: Text, scanner: Scanner) -> None:
        self.index = index
        self.block = block
        self.scanner = scanner
        #: The number of the open block, and whether that is reasoning.
        self.number: int | None = None
        self.thinking = False
        #: Whether anything of it has gone out, not all of it as words, and how much of the open reasoning.
        self.said = False
        self.altered = False
        self.thought = 0
        #: Its own close, which waits for what ends the reply.
        self.closed: BlockClosed | None = None
        #: How many characters have come since something last went out, and when the first of them came.
        self.waiting = 0
        self.since = 0.0


class HarvestStage:
    """`family` names a format, or is `auto`: what is safe to believe of any model, and nothing else.

    When more than `limit` characters wait, or any for more than `seconds`, the reply is text after all.
    """

    def __init__(
        self,
        tools: Sequence[DeclaredTool],
        *,
        family: str,
        ids: IdSource,
        report: Report,
        limit: int = LIMIT,
        seconds: float = 0.0,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._limit = limit
        self._seconds = seconds
        self._clock = clock
        self._tools = KnownTools(tools)
        self._plan = plan_for(family, has_tools=bool(self._tools))
        self._family = family
        self._ids = ids
        self._report = report
        self._used_ids: set[str] = set()
        self._next = 0
        #: The new number of each open block that is not watched, and whether any number has changed.
        self._numbers: dict[int, int] = {}
        self._shifted = False
        self._watched: dict[int, _Watched] = {}
        self._place = Place.FIRST
        self._over = self._plan.idle
        self._harvested = False
        #: The calls that were found, as they opened, and their arguments.
        self.found: list[tuple[ToolCall, str]] = []

    @property
    def passes(self) -> frozenset[type]:
        if self._shifted:
            return frozenset()
        return DELTAS if self._over and not self._watched else _UNWATCHED

    @property
    def skim(self) -> Callable[[str], bool] | None:
        """While one text goes by: whether a piece of it is mere words, which need not be fed then."""
        if self._over or self._shifted or len(self._watched) != 1:
            return None
        (watched,) = self._watched.values()
        return watched.scanner.passes if watched.number == watched.index else None

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if type(event) is TextDelta:
            watched = self._watched.get(event.index)
            if watched is None:
                return self._renumbered(event)
            is_in_place = watched.number == event.index and not self._over
            if is_in_place and watched.scanner.passes(event.text):
                return [event]
            return self._text(event, watched)
        handler = _HANDLERS.get(type(event))
        return handler(self, event) if handler else [event]

    def _text(self, event: TextDelta, watched: _Watched) -> list[ReplyEvent]:
        if self._over:
            return self._words(watched, event.text)
        if watched.scanner.passes(event.text):
            return [event] if watched.number == event.index else self._words(watched, event.text)
        pieces = watched.scanner.feed(event.text)
        if pieces:
            watched.waiting = 0
            return self._give(watched, pieces)
        watched.since = watched.since if watched.waiting else self._clock()
        watched.waiting += len(event.text)
        return self._let_go(watched, TOO_MUCH) if watched.waiting > self._limit else []

    def overdue(self) -> list[ReplyEvent]:
        """What has been held for as long as it may."""
        if not self._seconds or self._over:
            return []
        now = self._clock()
        late = [each for each in self._watched.values() if each.waiting and now - each.since > self._seconds]
        return self._let_go(late[0], TOO_LONG) if late else []

    def _let_go(self, watched: _Watched, reason: str) -> list[ReplyEvent]:
        """Whoever keeps people waiting for so long writes no calls."""
        self._report(
            Intervention(
                kind="harvest", detail=(self._family,), before=watched.waiting, ok=False, reason=reason
            )
        )
        return self._stop_harvest()

    def _opened(self, event: BlockOpened) -> list[ReplyEvent]:
        block = event.block
        events = self._stop_harvest() if isinstance(block, ToolCall) else []
        if not isinstance(block, Reasoning):
            events += self._settle(Ending.FOLLOWED)
        if isinstance(block, Text) and not self._over:
            watched = _Watched(event.index, block, Scanner(self._plan, self._tools, self._place))
            self._watched[event.index] = watched
            return [*events, *self._give(watched, watched.scanner.feed(block.text))]
        if isinstance(block, Reasoning):
            self._place = Place.OPENING if self._place is Place.FIRST else self._place
        else:
            self._place = Place.ANYWHERE
        self._numbers[event.index] = number = self._take_number(event.index)
        return [*events, event if number == event.index else BlockOpened(number, block)]

    def _closed(self, event: BlockClosed) -> list[ReplyEvent]:
        watched = self._watched.get(event.index)
        if watched is None:
            number = self._numbers.pop(event.index)
            return [event if number == event.index else BlockClosed(number, event.extras)]
        watched.closed = event
        if not self._over and watched.scanner.undecided:
            return []
        return self._end(event.index, Ending.FOLLOWED)

    def _attached(self, event: CitationAdded | SealAttached) -> list[ReplyEvent]:
        """Citations and seals belong to the words; once these are not what they were, a seal is void."""
        watched = self._watched.get(event.index)
        if watched is None:
            return self._renumbered(event)
        if watched.altered:
            if isinstance(event, SealAttached) or watched.number is None or watched.thinking:
                return []
            event = CitationAdded(event.index, replace(event.citation, start=-1, end=-1))
        opened = self._speak(watched)
        return [*opened, replace(event, index=self._number_of(watched))]

    def _finished(self, event: ReplyFinished) -> list[ReplyEvent]:
        is_clean = event.cause in _ENDED_WELL and not event.implied
        events = self._settle(Ending.CLEAN if is_clean else Ending.CUT)
        cause = reconcile_cause(event.cause, has_calls=self._harvested)
        if self._harvested and cause != event.cause:
            event = replace(event, cause=cause, raw_cause="", stop_sequence=None)
        return [*events, event]

    def _failed(self, event: ReplyFailed) -> list[ReplyEvent]:
        events: list[ReplyEvent] = []
        for index in list(self._watched):
            events += self._end(index, Ending.CUT)
        return [*events, event]

    def _settle(self, ending: Ending) -> list[ReplyEvent]:
        """End the blocks that only waited to learn how the reply goes on."""
        waiting = [index for index, watched in self._watched.items() if watched.closed]
        return [event for index in waiting for event in self._end(index, ending)]

    def _end(self, index: int, ending: Ending) -> list[ReplyEvent]:
        watched = self._watched.pop(index)
        events = [] if self._over else self._give(watched, watched.scanner.end(ending))
        if watched.closed is None:
            return events
        if watched.number is None and not watched.said:
            events += self._speak(watched)
        return [*events, *self._close(watched, watched.closed)]

    def _stop_harvest(self) -> list[ReplyEvent]:
        """The upstream makes calls itself: its text is text."""
        events: list[ReplyEvent] = []
        if not self._over:
            for watched in self._watched.values():
                events += self._give(watched, watched.scanner.give_up())
            self._over = True
        return events

    def _give(self, watched: _Watched, pieces: Sequence[Piece]) -> list[ReplyEvent]:
        events: list[ReplyEvent] = []
        for piece in pieces:
            if isinstance(piece, Words):
                events += self._words(watched, piece.text)
            elif isinstance(piece, Thoughts):
                events += self._thoughts(watched, piece.text)
            elif isinstance(piece, ThoughtsEnd):
                events += self._end_thoughts(watched)
            elif isinstance(piece, Harvested):
                events += self._call(watched, piece)
            else:
                detail = (piece.format,)
                self._report(
                    Intervention(
                        kind="harvest", detail=detail, before=piece.length, ok=False, reason="unfinished"
                    )
                )
        return events

    def _words(self, watched: _Watched, text: str) -> list[ReplyEvent]:
        if not text:
            return []
        self._place = Place.ANYWHERE
        opened = self._speak(watched)
        return [*opened, TextDelta(self._number_of(watched), text)]

    def _speak(self, watched: _Watched) -> list[ReplyEvent]:
        """Have a text block open; the first one is the upstream's own."""
        if watched.number is not None and not watched.thinking:
            return []
        events = self._end_thoughts(watched)
        watched.number = self._take_number(None if watched.said else watched.index)
        block = Text(text="", at=watched.block.at) if watched.said else replace(watched.block, text="")
        watched.said = True
        return [*events, BlockOpened(watched.number, block)]

    def _thoughts(self, watched: _Watched, text: str) -> list[ReplyEvent]:
        events: list[ReplyEvent] = []
        if not watched.thinking:
            events += self._close(watched)
            watched.number = self._take_number(None)
            watched.thinking = watched.said = watched.altered = True
            watched.thought = 0
            events.append(BlockOpened(watched.number, Reasoning(raw=True)))
            self._place = Place.OPENING if self._place is Place.FIRST else self._place
        watched.thought += len(text)
        return [*events, ReasoningDelta(self._number_of(watched), text)]

    def _end_thoughts(self, watched: _Watched) -> list[ReplyEvent]:
        if not watched.thinking:
            return []
        detail = (self._family, "reasoning")
        self._report(
            Intervention(kind="harvest", detail=detail, before=watched.thought, after=watched.thought)
        )
        return self._close(watched)

    def _call(self, watched: _Watched, piece: Harvested) -> list[ReplyEvent]:
        call = piece.call
        events = [*self._end_thoughts(watched), *self._close(watched)]
        self._harvested = watched.said = watched.altered = True
        self._place = Place.ANYWHERE
        number = self._take_number(None)
        self._report(
            Intervention(
                kind="harvest",
                tool=call.name,
                detail=(piece.format,),
                before=piece.length,
                after=len(call.arguments),
            )
        )
        opened = ToolCall(id=self._id_of(call), name=call.name)
        self.found.append((opened, call.arguments))
        return [
            *events,
            BlockOpened(number, opened),
            ArgumentsDelta(number, call.arguments),
            BlockClosed(number),
        ]

    def _id_of(self, call: Call) -> str:
        """The model's own header where it wants to see that again, unless it has used it twice."""
        made = call.header
        if not made or made in self._used_ids:
            made = self._ids.make("call_")
        self._used_ids.add(made)
        return made

    def _close(self, watched: _Watched, closed: BlockClosed | None = None) -> list[ReplyEvent]:
        if watched.number is None:
            return []
        extras = closed.extras if closed and not watched.thinking else {}
        event = BlockClosed(watched.number, extras)
        watched.number = None
        watched.thinking = False
        return [event]

    def _take_number(self, wanted: int | None) -> int:
        number = self._next
        self._next += 1
        self._shifted = self._shifted or number != wanted
        return number

    def _number_of(self, watched: _Watched) -> int:
        return -1 if watched.number is None else watched.number

    def _renumbered(self, event: Delta) -> list[ReplyEvent]:
        number = self._numbers[event.index]
        return [event if number == event.index else replace(event, index=number)]


_UNWATCHED = frozenset({ReasoningDelta, ArgumentsDelta})


_HANDLERS: dict[type, Callable[[HarvestStage, Any], list[ReplyEvent]]] = {
    BlockOpened: HarvestStage._opened,
    BlockClosed: HarvestStage._closed,
    CitationAdded: HarvestStage._attached,
    SealAttached: HarvestStage._attached,
    ReasoningDelta: HarvestStage._renumbered,
    ArgumentsDelta: HarvestStage._renumbered,
    ReplyFinished: HarvestStage._finished,
    ReplyFailed: HarvestStage._failed,
}
