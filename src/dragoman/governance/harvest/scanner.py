"""One text block as it arrives, split into text, reasoning and calls.

Text that may become a marker waits, and so do line breaks before it; everything else passes at once. A
marker's readers get the text behind it. What they refuse is text and is not scanned again, so that the work
is linear. The result does not depend on how the text was cut.
"""

import re
from collections.abc import Callable
from enum import Enum, auto

from dragoman.governance.harvest.candidates import (
    KnownTools,
    MarkerBody,
    MarkerCandidate,
    OpenerTable,
    SearchPlan,
)
from dragoman.governance.harvest.cursor import LiteralSet, TextCall, TextEnding, TextSource, literal_set
from dragoman.governance.harvest.format import (
    FoundCalls,
    Framing,
    MarkerPlace,
    ReaderOutcome,
    ReasoningSection,
    ReasoningStart,
)
from dragoman.governance.harvest.parts import (
    MALFORMED,
    REPEATED,
    TEXT_BEFORE,
    UNFINISHED,
    CallPart,
    PartList,
    ReasoningEnd,
    ReasoningPart,
    RefusedPart,
    ScannedPart,
    TextPart,
)
from dragoman.governance.harvest.plain_text import PlainText
from dragoman.governance.harvest.quoting import QuoteTracker

_NOT_BLANK = re.compile(r"\S")


class _ScanState(Enum):
    #: Before any text: blanks wait, and some markers count only here.
    START = auto()
    TEXT = auto()
    #: At the beginning of reasoning, and inside it.
    SECTION_START = auto()
    SECTION = auto()
    #: Behind a marker, while its readers read.
    BODY = auto()
    #: Behind a call of class B inside reasoning. The call counts only if the reasoning is never closed.
    DOUBT = auto()


class TextScanner:
    """Scans one text block. `place` states what came before it: nothing, nothing visible, or text.

    `is_repeated` tests whether a text stands in the request: then it is not a call.
    """

    def __init__(
        self,
        plan: SearchPlan,
        tools: KnownTools,
        place: MarkerPlace,
        is_repeated: Callable[[str], bool] | None = None,
    ) -> None:
        self._is_repeated = is_repeated
        self._plan = plan
        self._tools = tools
        self._source = TextSource()
        self._at = 0
        self._parts = PartList()
        self._quotes = QuoteTracker()
        self._plain = PlainText(plan.anywhere)
        self.is_plain = self._plain.is_plain
        self._starts = plan.openers_at(place)
        self._state = _ScanState.START if self._starts else _ScanState.TEXT
        self._section: ReasoningSection | None = None
        self._section_markers = LiteralSet(())
        self._doubtful: list[str] = []
        #: Where the last refused text ends: a marker there may begin a call.
        self._refused_end = -1
        #: Whether the marker at hand cannot begin a call because of the text before it.
        self._has_text_before = False
        self._body: MarkerBody | None = None
        self._origin = self._state
        if plan.in_prompt is not None and place is MarkerPlace.FIRST:
            self._enter_section(plan.in_prompt)

    @property
    def is_undecided(self) -> bool:
        """Whether the result depends on how the text ends."""
        return self._state in (_ScanState.BODY, _ScanState.DOUBT)

    def take_lines(self, texts: list[str]) -> list[str] | None:
        """Take pieces without any marker. Returns the text sent for each; None: nothing was taken."""
        may_take = self._state is _ScanState.TEXT and self._at == self._source.end
        taken = self._plain.take_lines(texts, self._parts, self._quotes) if may_take else None
        if taken is not None:
            self._refused_end = -1
            self._note_clear()
        return taken

    def feed(self, text: str) -> list[ScannedPart]:
        """Add a piece of text. Returns the parts that are complete now."""
        self._source.extend(text, self._body.save() if self._body else self._at)
        self._run()
        return self._parts.take()

    def end(self, ending: TextEnding) -> list[ScannedPart]:
        """End the text block. Returns the remaining parts."""
        self._source.ending = ending
        self._run()
        if self._state is _ScanState.DOUBT:
            self._accept_doubtful()
        if self._section is not None:
            self._parts.add_layout(ReasoningPart)
            self._leave_section()
        self._parts.add_layout(TextPart)
        return self._parts.take()

    def take_complete(self) -> list[ScannedPart]:
        """Return a complete call that was held back for the text after it. Called when no text follows."""
        if self._body is None or not self._body.is_complete:
            return []
        self._source.ending = TextEnding.FOLLOWED
        self._run()
        self._source.ending = None
        return self._parts.take()

    def give_up(self) -> list[ScannedPart]:
        """Return all that is held back as text or reasoning. `feed` must not be called afterwards."""
        waiting = self._source.text[self._at - self._source.base :]
        if self._body is not None:
            waiting = self._body.text(self._source.end)
        kind = TextPart if self._section is None else ReasoningPart
        self._parts.add_layout(kind, *self._doubtful, waiting)
        self._parts.add(ReasoningEnd())
        return self._parts.take()

    def _run(self) -> None:
        if self._plain.settle(self._quotes):
            self._refused_end = -1
        while _HANDLERS[self._state](self):
            pass
        self._note_clear()

    def _note_clear(self) -> None:
        waits = self._parts.layout or self._parts.skips_blanks or self._at != self._source.end
        self._plain.is_clear = self._state is _ScanState.TEXT and not waits and self._quotes.is_steady

    # One handler per state. It returns whether another one can go on.

    def _scan_start(self) -> bool:
        source = self._source
        found = _NOT_BLANK.search(source.text, self._at - source.base)
        stop = found.start() if found else len(source.text)
        if not self._parts.skips_blanks:
            self._parts.layout.append(source.text[self._at - source.base : stop])
        self._at = source.base + stop
        if found is None:
            return False
        self._state = _ScanState.TEXT
        if self._plain.openers.markers.match(source.text, stop):
            return True
        tables = (self._plain.openers, self._starts) if source.ending is None else ()
        if any(table.markers.find_partial(source.text, stop) == stop for table in tables):
            self._state = _ScanState.START
            return False
        if marker := self._starts.markers.match(source.text, stop):
            self._state = _ScanState.START
            self._open_body(self._starts.by_marker[marker])
        return True

    def _scan_text(self) -> bool:
        before, candidates = self._find_marker(self._plain.openers.markers, self._plain.openers, ())
        self._add_text(before)
        if not isinstance(candidates, tuple):
            return False
        self._open_body(candidates)
        return True

    def _scan_section_start(self) -> bool:
        source = self._source
        section = self._section
        found = _NOT_BLANK.search(source.text, self._at - source.base)
        start = found.start() if found else len(source.text)
        self._at = source.base + start
        if found is None or section is None:
            return False
        if section.opens and source.text.startswith(section.opens, start):
            self._at += len(section.opens)
            return True
        possible = filter(None, (section.opens, section.label and section.label + "\n"))
        if source.ending is None and literal_set(*possible).find_partial(source.text, start) == start:
            return False
        self._state = _ScanState.SECTION
        if section.label and re.match(re.escape(section.label) + r"(?=[\r\n]|\Z)", source.text[start:]):
            self._at += len(section.label)
            self._parts.skips_blanks = True
        return True

    def _scan_section(self) -> bool:
        closers = self._section.closers if self._section else ()
        before, found = self._find_marker(self._section_markers, self._plan.calls, closers)
        self._parts.add_reasoning(before)
        if isinstance(found, tuple):
            self._open_body(found)
        elif found:
            self._at += len(found)
            self._resume_answer()
        return bool(found)

    def _find_marker(
        self, markers: LiteralSet, openers: OpenerTable, closers: tuple[str, ...]
    ) -> tuple[str, tuple[MarkerCandidate, ...] | str]:
        """The text that may pass, and the candidates or the closer behind it; empty if there is none yet.

        An opener does not count where it is quoted; a closer does.
        """
        source, quotes = self._source, self._quotes
        text = source.text
        start = scanned = position = self._at - source.base
        while (found := markers.find(text, position)) is not None:
            quotes.advance(text, scanned, found.start())
            scanned, position = found.start(), found.end()
            self._at = source.base + scanned
            before = text[start:scanned]
            if found[0] in closers:
                return before, found[0]
            if quotes.is_enclosed or quotes.is_in_quotation:
                continue
            known = openers.by_marker[found[0]]
            is_free = self._at == self._refused_end or (self._parts.skips_blanks and not before.strip())
            candidates = tuple(each for each in known if is_free or each.may_follow(quotes))
            self._has_text_before = quotes.is_quoted or not candidates
            if self._has_text_before and known[0].is_bare:
                continue
            return before, known if self._has_text_before else candidates
        safe = len(text) if source.ending is not None else markers.find_partial(text, position)
        quotes.advance(text, scanned, safe)
        if safe < len(text) and not closers and quotes.is_enclosed:
            quotes.advance(text, safe, len(text))
            safe = len(text)
        self._at = source.base + safe
        return text[start:safe], ""

    def _scan_doubt(self) -> bool:
        source = self._source
        closers = literal_set(*(self._section.closers if self._section else ()))
        start = self._at - source.base
        found = closers.find(source.text, start)
        if found is None:
            safe = len(source.text) if source.ending is not None else closers.find_partial(source.text, start)
            self._doubtful.append(source.text[start:safe])
            self._at = source.base + safe
            return False
        self._parts.add_reasoning("".join(self._doubtful) + source.text[start : found.start()])
        self._at = source.base + found.end()
        self._resume_answer()
        return True

    def _scan_body(self) -> bool:
        body = self._body
        read = body.read() if body else None
        if body is None or read is None:
            return False
        candidate, result, end = read
        text = body.text(end)
        refusal = self._find_rejection(result, text)
        if isinstance(result, TextCall) and not refusal:
            self._add_calls(candidate, (result,), len(text))
            body.restart(end)
            return True
        self._at = end
        self._body = None
        self._state = self._origin
        if result is None or isinstance(result, TextCall) or refusal:
            self._refuse(candidate, text, refusal or body.refusal)
        elif self._section is not None and candidate.opener.safety != "A":
            self._doubtful.append(text)
            self._state = _ScanState.DOUBT
        else:
            self._apply_outcome(candidate, result, len(text))
        return True

    # What readers found.

    def _find_rejection(self, result: TextCall | ReaderOutcome | None, text: str) -> str:
        """Why what a reader found must stay text; empty if it is accepted or nothing was found."""
        if result is None:
            return ""
        if self._has_text_before:
            return TEXT_BEFORE
        has_calls = isinstance(result, TextCall | FoundCalls)
        return REPEATED if has_calls and self._is_repeated and self._is_repeated(text) else ""

    def _open_body(self, candidates: tuple[MarkerCandidate, ...]) -> None:
        self._origin = self._state
        followers = (*self._plain.openers.distinct, *(self._section.closers if self._section else ()))
        self._body = MarkerBody(self._source, self._at, candidates, self._tools, followers)
        self._state = _ScanState.BODY

    def _add_calls(self, candidate: MarkerCandidate, calls: tuple[TextCall, ...], length: int) -> None:
        self._leave_section()
        self._origin = _ScanState.TEXT
        self._interrupt_text()
        for call in calls:
            self._parts.add(CallPart(call, candidate.family, length))

    def _apply_outcome(self, candidate: MarkerCandidate, outcome: ReaderOutcome, length: int) -> None:
        if isinstance(outcome, ReasoningStart):
            self._leave_section()
            self._enter_section(outcome.section)
        elif isinstance(outcome, Framing):
            if self._section is not None:
                self._resume_answer()
            self._interrupt_text()
            self._plain.openers = self._plain.openers.with_framing(outcome.literals)
        else:
            self._add_calls(candidate, outcome.calls, length)
            self._state = self._origin

    def _interrupt_text(self) -> None:
        self._parts.interrupt()
        self._quotes.start_line()

    def _refuse(self, candidate: MarkerCandidate, text: str, reason: str) -> None:
        """Keep a text that no reader accepted as text or reasoning."""
        self._quotes.advance(text, 0, len(text))
        if self._section is None:
            self._state = _ScanState.TEXT
            self._add_text(text)
        else:
            self._parts.add_reasoning(text)
        # JSON, code and mentions begin like calls: then only a reason of its own is worth a report.
        is_unclear = self._has_text_before or candidate.is_bare
        if candidate.reads_calls and self._tools and (reason or not is_unclear):
            is_at_end = self._source.ending is not None and self._at == self._source.end
            reason = reason or (UNFINISHED if is_at_end else MALFORMED)
            self._parts.add(RefusedPart(candidate.family, len(text), reason))
        if self._has_text_before:
            self._quotes.quote_line()
        else:
            self._quotes.forget_last()
            self._refused_end = self._at
        self._has_text_before = False

    # Sections of reasoning.

    def _enter_section(self, section: ReasoningSection) -> None:
        self._parts.layout = []
        self._parts.skips_blanks = False
        self._section = section
        self._section_markers = LiteralSet((*section.closers, *self._plan.calls.by_marker))
        self._quotes = QuoteTracker()
        self._state = _ScanState.SECTION_START

    def _leave_section(self) -> None:
        if self._section is None:
            return
        self._parts.layout = []
        self._section = None
        self._doubtful = []
        self._quotes = QuoteTracker()
        self._parts.add(ReasoningEnd())

    def _resume_answer(self) -> None:
        """End the reasoning section and begin the visible answer."""
        self._leave_section()
        self._parts.skips_blanks = True
        self._starts = self._plan.opening
        self._state = _ScanState.START

    def _accept_doubtful(self) -> None:
        """End a section that was never closed before the call in it, and scan the text from there again."""
        text = "".join(self._doubtful)
        self._leave_section()
        self._source.text, self._source.base, self._at = text, 0, 0
        self._state = _ScanState.TEXT
        self._run()

    def _add_text(self, text: str) -> None:
        self._parts.add_text(text, keeps_breaks=self._quotes.is_fenced or not self._plain.openers)


_HANDLERS: dict[_ScanState, Callable[[TextScanner], bool]] = {
    _ScanState.START: TextScanner._scan_start,
    _ScanState.TEXT: TextScanner._scan_text,
    _ScanState.SECTION_START: TextScanner._scan_section_start,
    _ScanState.SECTION: TextScanner._scan_section,
    _ScanState.BODY: TextScanner._scan_body,
    _ScanState.DOUBT: TextScanner._scan_doubt,
}
