"""The stage that turns calls and reasoning written as text into calls and reasoning.

Each text block of the reply has its own scanner. A structured call from the server ends the harvest: what was
found stays, and the rest is text. A harvested call leaves as a whole, as soon as it is complete.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from dragoman.governance.harvest.candidates import KnownTools, build_plan
from dragoman.governance.harvest.cursor import TextCall, TextEnding
from dragoman.governance.harvest.format import MarkerPlace
from dragoman.governance.harvest.parts import CallPart, ReasoningEnd, ReasoningPart, ScannedPart, TextPart
from dragoman.governance.harvest.scanner import TextScanner
from dragoman.governance.interventions import Intervention, Report
from dragoman.governance.tool_names import DeclaredTool
from dragoman.hub.blocks import Reasoning, Text, ToolCall
from dragoman.hub.builder import reconcile_cause
from dragoman.hub.events import (
    DELTAS,
    REPLY_NOTES,
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
    Delta,
    DeltaRun,
    ReasoningDelta,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    SealAttached,
    StopCause,
    TextDelta,
)
from dragoman.hub.ids import IdSource

#: How many characters may wait, unless the caller sets another limit.
LIMIT = 4 * 1024 * 1024
TOO_MUCH = "more than may be held"
TOO_LONG = "held for as long as allowed"

#: Causes with which the model itself ended its reply. A stop sequence may be a closing tag.
_ENDED_WELL: frozenset[StopCause] = frozenset(("end", "tool_calls", "stop_sequence", "other"))


class _ScannedBlock:
    """A text block of the upstream, and the block that it has open in the output."""

    __slots__ = (
        "block",
        "close",
        "has_output",
        "index",
        "is_altered",
        "is_reasoning",
        "number",
        "reasoning_length",
        "scanner",
        "waiting",
        "waiting_since",
    )

    def __init__(self, index: int, block: Text, scanner: TextScanner) -> None:
        self.index = index
        self.block = block
        self.scanner = scanner
        #: The number of the open block, and whether it is reasoning.
        self.number: int | None = None
        self.is_reasoning = False
        self.reasoning_length = 0
        #: Whether any output exists, and whether some of it is not text.
        self.has_output = False
        self.is_altered = False
        #: Its own close, which waits until the end of the reply is known.
        self.close: BlockClosed | None = None
        #: How many characters came since the last output, and when the first of them came.
        self.waiting = 0
        self.waiting_since = 0.0


class HarvestStage:
    """Harvests one reply. `family` names a format, or is `auto`: what is safe to accept from any model.

    If more than `limit` characters wait, or any for more than `seconds`, the rest of the reply is text.
    `folds_case`: a tool's name may differ in case; a later stage corrects it. `is_repeated` tests whether a
    text stands in the request: then it is not a call.
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
        folds_case: bool = False,
        is_repeated: Callable[[str], bool] | None = None,
    ) -> None:
        self._is_repeated = is_repeated
        self._limit = limit
        self._seconds = seconds
        self._clock = clock
        self._tools = KnownTools(tools, folds_case=folds_case)
        self._plan = build_plan(family, has_tools=bool(self._tools))
        self._family = family
        self._ids = ids
        self._report = report
        self._used_ids: set[str] = set()
        self._next_number = 0
        #: The output number of each open block that is not scanned, and whether any number has changed.
        self._numbers: dict[int, int] = {}
        self._has_renumbered = False
        self._scanned: dict[int, _ScannedBlock] = {}
        self._place = MarkerPlace.FIRST
        self._is_over = self._plan.is_empty
        self._has_calls = False
        #: The harvested calls as they opened, and their arguments.
        self.found: list[tuple[ToolCall, str]] = []

    @property
    def unchanged_kinds(self) -> frozenset[type]:
        """The kinds of delta that this stage returns unchanged at the moment."""
        if self._has_renumbered:
            return frozenset()
        return DELTAS if self._is_over and not self._scanned else _NOT_SCANNED

    @property
    def skim(self) -> Callable[[str], bool] | None:
        """A test for texts that `feed` returns unchanged; None unless exactly one text block is open."""
        if self._is_over or self._has_renumbered or len(self._scanned) != 1:
            return None
        (scanned,) = self._scanned.values()
        return scanned.scanner.is_plain if scanned.number == scanned.index else None

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        """Replace an event by the events that are sent for it."""
        if type(event) is TextDelta:
            scanned = self._scanned.get(event.index)
            return self._renumber(event) if scanned is None else self._scan(event, scanned)
        if (handler := _HANDLERS.get(type(event))) is None:
            return [event]
        events = self._write_complete_calls()
        return [*events, *handler(self, event)] if events else handler(self, event)

    def feed_run(self, run: DeltaRun) -> list[str] | None:
        """The texts that go on for a run of lines without any marker; None: nothing was taken."""
        scanned = self._scanned.get(run.index)
        may_pass = scanned and not (self._is_over or scanned.waiting) and scanned.number == run.index
        return scanned.scanner.take_lines(run.texts) if scanned and may_pass else None

    def _write_complete_calls(self) -> list[ReplyEvent]:
        """Write the complete calls that were held back for the rest of their line."""
        open_blocks = () if self._is_over else self._scanned.values()
        return [
            event
            for scanned in open_blocks
            for event in self._write_parts(scanned, scanned.scanner.take_complete())
        ]

    def take_overdue(self) -> list[ReplyEvent]:
        """Return the events that were held back for their full time."""
        if not self._seconds or self._is_over:
            return []
        now = self._clock()
        for scanned in self._scanned.values():
            if scanned.waiting and now - scanned.waiting_since > self._seconds:
                return self._write_complete_calls() or self._release(scanned, TOO_LONG)
        return []

    # Events of the upstream.

    def _scan(self, event: TextDelta, scanned: _ScannedBlock) -> list[ReplyEvent]:
        if self._is_over or scanned.scanner.is_plain(event.text):
            is_in_place = scanned.number == event.index and not self._is_over
            return [event] if is_in_place else self._write_text(scanned, event.text)
        parts = scanned.scanner.feed(event.text)
        if parts:
            events = self._write_parts(scanned, parts)
            scanned.waiting = 0
            return events
        scanned.waiting_since = scanned.waiting_since if scanned.waiting else self._clock()
        scanned.waiting += len(event.text)
        return self._release(scanned, TOO_MUCH) if scanned.waiting > self._limit else []

    def _release(self, scanned: _ScannedBlock, reason: str) -> list[ReplyEvent]:
        """Treat the rest of the reply as text, because text was held back for too long."""
        self._report(
            Intervention(
                kind="harvest", detail=(self._family,), before=scanned.waiting, ok=False, reason=reason
            )
        )
        return self._stop_harvest()

    def _on_opened(self, event: BlockOpened) -> list[ReplyEvent]:
        block = event.block
        events = self._stop_harvest() if isinstance(block, ToolCall) else []
        if not isinstance(block, Reasoning):
            events += self._end_closed_blocks(TextEnding.FOLLOWED)
        if isinstance(block, Text) and not self._is_over:
            scanner = TextScanner(self._plan, self._tools, self._place, self._is_repeated)
            scanned = _ScannedBlock(event.index, block, scanner)
            self._scanned[event.index] = scanned
            return [*events, *self._write_parts(scanned, scanned.scanner.feed(block.text))]
        if isinstance(block, Reasoning):
            self._place = MarkerPlace.OPENING if self._place is MarkerPlace.FIRST else self._place
        else:
            self._place = MarkerPlace.ANYWHERE
        self._numbers[event.index] = number = self._take_number(event.index)
        return [*events, event if number == event.index else BlockOpened(number, block)]

    def _on_closed(self, event: BlockClosed) -> list[ReplyEvent]:
        scanned = self._scanned.get(event.index)
        if scanned is None:
            number = self._numbers.pop(event.index)
            return [event if number == event.index else replace(event, index=number)]
        scanned.close = event
        if not self._is_over and scanned.scanner.is_undecided:
            return []
        return self._end_block(event.index, TextEnding.FOLLOWED)

    def _on_attached(self, event: CitationAdded | SealAttached) -> list[ReplyEvent]:
        """Attach a citation or seal to the text. Drop the seal of a text that changed."""
        scanned = self._scanned.get(event.index)
        if scanned is None:
            return self._renumber(event)
        if scanned.is_altered:
            if isinstance(event, SealAttached) or scanned.number is None or scanned.is_reasoning:
                return []
            event = CitationAdded(event.index, replace(event.citation, start=-1, end=-1))
        opened = self._open_text(scanned)
        return [*opened, replace(event, index=_number_of(scanned))]

    def _on_finished(self, event: ReplyFinished) -> list[ReplyEvent]:
        is_clean = event.cause in _ENDED_WELL and not event.implied
        events = self._end_closed_blocks(TextEnding.CLEAN if is_clean else TextEnding.CUT)
        cause = reconcile_cause(event.cause, has_calls=self._has_calls)
        if self._has_calls and cause != event.cause:
            event = replace(event, cause=cause, raw_cause="", stop_sequence=None)
        return [*events, event]

    def _on_failed(self, event: ReplyFailed) -> list[ReplyEvent]:
        return [*(each for i in list(self._scanned) for each in self._end_block(i, TextEnding.CUT)), event]

    def _end_closed_blocks(self, ending: TextEnding) -> list[ReplyEvent]:
        """End the closed blocks whose parts depend on how the reply continues."""
        waiting = [index for index, scanned in self._scanned.items() if scanned.close]
        return [event for index in waiting for event in self._end_block(index, ending)]

    def _end_block(self, index: int, ending: TextEnding) -> list[ReplyEvent]:
        scanned = self._scanned.pop(index)
        events = [] if self._is_over else self._write_parts(scanned, scanned.scanner.end(ending))
        if scanned.close is None:
            return events
        if scanned.number is None and not scanned.has_output:
            events += self._open_text(scanned)
        return [*events, *self._close_block(scanned, scanned.close)]

    def _stop_harvest(self) -> list[ReplyEvent]:
        """Treat the rest of the reply as text."""
        events: list[ReplyEvent] = []
        if not self._is_over:
            for scanned in self._scanned.values():
                events += self._write_parts(scanned, scanned.scanner.give_up())
            self._is_over = True
        return events

    # Events of the output.

    def _write_parts(self, scanned: _ScannedBlock, parts: Sequence[ScannedPart]) -> list[ReplyEvent]:
        events: list[ReplyEvent] = []
        for part in parts:
            if isinstance(part, TextPart):
                events += self._write_text(scanned, part.text)
            elif isinstance(part, ReasoningPart):
                events += self._write_reasoning(scanned, part.text)
            elif isinstance(part, ReasoningEnd):
                events += self._end_reasoning(scanned)
            elif isinstance(part, CallPart):
                events += self._write_call(scanned, part)
            else:
                detail = (part.family,)
                self._report(
                    Intervention(
                        kind="harvest", detail=detail, before=part.length, ok=False, reason=part.reason
                    )
                )
        return events

    def _write_text(self, scanned: _ScannedBlock, text: str) -> list[ReplyEvent]:
        if not text:
            return []
        self._place = MarkerPlace.ANYWHERE
        opened = self._open_text(scanned)
        return [*opened, TextDelta(_number_of(scanned), text)]

    def _open_text(self, scanned: _ScannedBlock) -> list[ReplyEvent]:
        """Open a text block unless one is open. The first one is the upstream's own."""
        if scanned.number is not None and not scanned.is_reasoning:
            return []
        events = self._end_reasoning(scanned)
        scanned.number = self._take_number(None if scanned.has_output else scanned.index)
        block = Text(text="", at=scanned.block.at) if scanned.has_output else replace(scanned.block, text="")
        scanned.has_output = True
        return [*events, BlockOpened(scanned.number, block)]

    def _write_reasoning(self, scanned: _ScannedBlock, text: str) -> list[ReplyEvent]:
        events: list[ReplyEvent] = []
        if not scanned.is_reasoning:
            events += self._close_block(scanned)
            scanned.number = self._take_number(None)
            scanned.is_reasoning = scanned.has_output = scanned.is_altered = True
            scanned.reasoning_length = 0
            events.append(BlockOpened(scanned.number, Reasoning(raw=True)))
            self._place = MarkerPlace.OPENING if self._place is MarkerPlace.FIRST else self._place
        scanned.reasoning_length += len(text)
        return [*events, ReasoningDelta(_number_of(scanned), text)]

    def _end_reasoning(self, scanned: _ScannedBlock) -> list[ReplyEvent]:
        if not scanned.is_reasoning:
            return []
        length = scanned.reasoning_length
        detail = (self._family, "reasoning")
        self._report(Intervention(kind="harvest", detail=detail, before=length, after=length))
        return self._close_block(scanned)

    def _write_call(self, scanned: _ScannedBlock, part: CallPart) -> list[ReplyEvent]:
        call = part.call
        events = [*self._end_reasoning(scanned), *self._close_block(scanned)]
        self._has_calls = scanned.has_output = scanned.is_altered = True
        self._place = MarkerPlace.ANYWHERE
        number = self._take_number(None)
        self._report(
            Intervention(
                kind="harvest",
                tool=call.name,
                detail=(part.family,),
                before=part.length,
                after=len(call.arguments),
                held=self._clock() - scanned.waiting_since if scanned.waiting else 0.0,
            )
        )
        opened = ToolCall(id=self._make_id(call), name=call.name)
        self.found.append((opened, call.arguments))
        return [
            *events,
            BlockOpened(number, opened),
            ArgumentsDelta(number, call.arguments),
            BlockClosed(number),
        ]

    def _make_id(self, call: TextCall) -> str:
        """The model's own id where it expects that back, unless it was already used; else a new one."""
        call_id = call.header
        if not call_id or call_id in self._used_ids:
            call_id = self._ids.make("call_")
        self._used_ids.add(call_id)
        return call_id

    def _close_block(self, scanned: _ScannedBlock, close: BlockClosed | None = None) -> list[ReplyEvent]:
        if scanned.number is None:
            return []
        kept = close if close and not scanned.is_reasoning else BlockClosed(0)
        event = BlockClosed(scanned.number, kept.extras, () if scanned.is_altered else kept.logprobs)
        scanned.number = None
        scanned.is_reasoning = False
        return [event]

    def _take_number(self, wanted: int | None) -> int:
        number = self._next_number
        self._next_number += 1
        self._has_renumbered = self._has_renumbered or number != wanted
        return number

    def _renumber(self, event: Delta) -> list[ReplyEvent]:
        number = self._numbers[event.index]
        return [event if number == event.index else replace(event, index=number)]


def _number_of(scanned: _ScannedBlock) -> int:
    return -1 if scanned.number is None else scanned.number


_NOT_SCANNED = REPLY_NOTES | {ReasoningDelta, ArgumentsDelta}

_HANDLERS: dict[type, Callable[[HarvestStage, Any], list[ReplyEvent]]] = {
    BlockOpened: HarvestStage._on_opened,
    BlockClosed: HarvestStage._on_closed,
    CitationAdded: HarvestStage._on_attached,
    SealAttached: HarvestStage._on_attached,
    ReasoningDelta: HarvestStage._renumber,
    ArgumentsDelta: HarvestStage._renumber,
    ReplyFinished: HarvestStage._on_finished,
    ReplyFailed: HarvestStage._on_failed,
}
