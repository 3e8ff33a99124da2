"""What to look for in a reply, and the readers that read behind one marker.

Calls are looked for only if tools are declared. Several families may share a marker: then all their readers
read, and the first that accepts the text wins.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache

import msgspec
from msgspec.structs import replace

from dragoman.governance.harvest.call_formats import AUTO, families
from dragoman.governance.harvest.cursor import CursorReading, LiteralSet, TextCall, TextCursor, TextSource
from dragoman.governance.harvest.format import (
    FamilyFormat,
    FoundCalls,
    Framing,
    MarkerPlace,
    Opener,
    ReaderContext,
    ReaderOutcome,
    Reading,
    ReasoningSection,
    ReasoningTags,
    constant_reader,
)
from dragoman.governance.harvest.parts import TEXT_BEHIND
from dragoman.governance.harvest.quoting import QUOTING, SIGNIFICANT, QuoteTracker
from dragoman.governance.tool_names import DeclaredTool


class MarkerCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """An opener and its family. `reads_calls`: its reader gets the declared tools, otherwise none."""

    family: str
    opener: Opener
    reads_calls: bool = False
    strict: bool = False

    @property
    def is_bare(self) -> bool:
        """Whether a call has no marker: then what begins like one proves nothing."""
        return self.opener.safety == "C"

    def may_follow(self, quotes: QuoteTracker) -> bool:
        """Whether the marker can begin a call at the tracker's place. Markers of other things always can.

        A call begins its line. Behind text it counts if the family's chat template puts no blank between
        them, and, unless `strict`, if the text is a whole sentence.
        """
        opener = self.opener
        if not self.reads_calls:
            return True
        if self.strict and not opener.inline:
            return quotes.column == 0
        if quotes.column >= 0:
            return quotes.column <= _MAX_INDENT
        is_inline = not opener.text_behind and (opener.inline or opener.safety == "A")
        return quotes.is_after_sentence or (is_inline and not quotes.is_after_blank)


_NO_TOOLS = ReaderContext(tools={})

#: A line with more blanks at its beginning is indented code.
_MAX_INDENT = 3
_SPACES = re.compile(r"[ \t]+")
_LINE_ENDS = frozenset(("", "\n", "\r"))
#: Beginnings of end tokens that a server may deliver as text behind a call.
_END_TOKENS = ("<|", "<\uff5c", "</s>", "<eos>", "<end_of_turn>")


class KnownTools:
    """The declared tools of one reply. `folds_case`: a name that differs only in case counts too."""

    def __init__(self, tools: Sequence[DeclaredTool], *, folds_case: bool = False) -> None:
        self._tools = tools
        self._folds_case = folds_case

    def __bool__(self) -> bool:
        return any(tool.name for tool in self._tools)

    @cached_property
    def _lenient(self) -> ReaderContext:
        """What readers know of the tools. Most replies contain nothing that needs a reader."""
        known = {tool.name: tool for tool in self._tools if tool.name}
        counts = Counter(map(str.casefold, known))
        folded = {name.casefold(): tool for name, tool in known.items() if counts[name.casefold()] == 1}
        return ReaderContext(
            tools=known,
            longest=max(map(len, known), default=0),
            by_folded_name=folded if self._folds_case else {},
        )

    @cached_property
    def _strict(self) -> ReaderContext:
        return replace(self._lenient, strict=True)

    def context_for(self, candidate: MarkerCandidate) -> ReaderContext:
        if not candidate.reads_calls:
            return _NO_TOOLS
        return self._strict if candidate.strict else self._lenient


class OpenerTable:
    """Candidates by their marker."""

    __slots__ = ("by_marker", "distinct", "line_stops", "markers", "stops")

    def __init__(self, candidates: Iterable[MarkerCandidate]) -> None:
        self.by_marker: dict[str, tuple[MarkerCandidate, ...]] = {}
        for candidate in candidates:
            marker = candidate.opener.marker
            self.by_marker[marker] = (*self.by_marker.get(marker, ()), candidate)
        self.markers = LiteralSet(self.by_marker)
        #: The markers that no other text has: they may follow a call on its line.
        self.distinct = tuple(marker for marker, known in self.by_marker.items() if not known[0].is_bare)
        #: Every character that may begin a marker within a line, or change whether one counts.
        self.stops = re.compile(f"[{LiteralSet(self.distinct).firsts}{SIGNIFICANT}]")
        #: Every character that may begin any marker, or change whether one counts, without line breaks.
        self.line_stops = re.compile(f"[{self.markers.firsts}{QUOTING}]")

    def __bool__(self) -> bool:
        return bool(self.by_marker)

    def with_framing(self, literals: Iterable[str]) -> "OpenerTable":
        """A copy of the table in which these literals are framing too."""
        framing = constant_reader(Framing())
        new = [
            MarkerCandidate(family="", opener=Opener(literal, framing, "A"))
            for literal in literals
            if literal not in self.by_marker
        ]
        known = [each for candidates in self.by_marker.values() for each in candidates]
        return OpenerTable([*known, *new]) if new else self


_NO_OPENERS = OpenerTable(())


class SearchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The openers to look for, by place.

    `calls`: those of calls that count anywhere, also in reasoning; `anywhere`: these, calls without a marker
    and reasoning that repeats; `opening`:
    those that count before any visible text; `first`: these and those that count before anything else.
    `in_prompt`: the section that the reply begins in.
    """

    calls: OpenerTable
    anywhere: OpenerTable
    opening: OpenerTable
    first: OpenerTable
    in_prompt: ReasoningSection | None = None

    def openers_at(self, place: MarkerPlace) -> OpenerTable:
        """The openers that count at this place and not everywhere."""
        return {MarkerPlace.FIRST: self.first, MarkerPlace.OPENING: self.opening}.get(place, _NO_OPENERS)

    @property
    def is_empty(self) -> bool:
        return not (self.anywhere or self.first or self.in_prompt)


@lru_cache(maxsize=64)
def build_plan(family: str, *, has_tools: bool) -> SearchPlan:
    """The plan for a family's name or `auto`; raises KeyError for another name.

    Cached for all replies: it takes as long as a hundred events.
    """
    is_auto = family == AUTO
    chosen = tuple(families().values()) if is_auto else (families()[family],)
    calls = [each for known in chosen for each in _call_candidates(known, has_tools=has_tools, auto=is_auto)]
    sections = [each for known in chosen for each in _reasoning_candidates(known, auto=is_auto)]
    # Families that share a marker often share its reader: the first family counts.
    calls = list({(each.opener.marker, each.opener.read): each for each in reversed(calls)}.values())[::-1]
    sections = list({each.opener.marker: each for each in sections}.values())
    everything = [*calls, *sections]
    return SearchPlan(
        calls=OpenerTable(
            each for each in calls if each.opener.place is MarkerPlace.ANYWHERE and not each.is_bare
        ),
        anywhere=OpenerTable(each for each in everything if each.opener.place is MarkerPlace.ANYWHERE),
        opening=OpenerTable(each for each in everything if each.opener.place is MarkerPlace.OPENING),
        first=OpenerTable(each for each in everything if each.opener.place is not MarkerPlace.ANYWHERE),
        in_prompt=None
        if is_auto
        else next((tags.section for tags in chosen[0].reasoning if tags.in_prompt), None),
    )


def _call_candidates(known: FamilyFormat, *, has_tools: bool, auto: bool) -> list[MarkerCandidate]:
    """The candidates for calls. Markers that enclose other things too count without declared tools."""
    return [
        MarkerCandidate(
            family=known.name,
            opener=opener,
            reads_calls=True,
            strict=opener.safety == "C" or (auto and opener.safety == "B"),
        )
        for opener in known.openers
        if (not auto or opener.auto) and (has_tools or opener.frames)
    ]


def _reasoning_candidates(known: FamilyFormat, *, auto: bool) -> list[MarkerCandidate]:
    """The candidates for reasoning. Under `auto` only a tag before everything else counts."""
    all_tags = known.reasoning
    if auto:
        all_tags = tuple(
            ReasoningTags(tags.opens, tags.closes, label=tags.label) for tags in all_tags if tags.is_distinct
        )
    return [MarkerCandidate(family=known.name, opener=opener) for tags in all_tags for opener in tags.openers]


class _ReaderRun:
    """One reader while it reads the text behind a marker."""

    __slots__ = ("candidate", "cursor", "reading", "result")

    def __init__(
        self,
        candidate: MarkerCandidate,
        source: TextSource,
        start: int,
        tools: KnownTools,
        followers: tuple[str, ...],
    ) -> None:
        opener = candidate.opener
        inside = len(opener.marker) if opener.inside is None else opener.inside
        self.candidate = candidate
        self.cursor = TextCursor(source, start + inside)
        self.reading: Reading = opener.read(self.cursor, tools.context_for(candidate))
        if candidate.reads_calls and not opener.text_behind:
            closing_tag = f"</{opener.marker[1:]}"
            self.reading = _require_line_end(self.cursor, self.reading, (*followers, closing_tag))
        self.result: TextCall | ReaderOutcome | None = None

    def resume(self) -> bool | None:
        """Read on: True with a result, False if the reader refuses the text, None while it needs more."""
        try:
            self.result = next(self.reading)
        except StopIteration as stopped:
            self.result = stopped.value
            return self.result is not None
        return True if self.result is not None else None


def _require_line_end(cursor: TextCursor, reading: Reading, followers: tuple[str, ...]) -> Reading:
    """The result of `reading`; None if text stands behind the calls on their line.

    A call inside a sentence is a quotation. End tokens, closing tags and other markers may follow.
    """
    outcome = yield from reading
    if isinstance(outcome, FoundCalls) and not (yield from _is_line_end(cursor, followers)):
        cursor.refusal = TEXT_BEHIND
        return None
    return outcome


def _is_line_end(cursor: TextCursor, followers: tuple[str, ...]) -> CursorReading[bool]:
    if "\n" in cursor.blanks or "\r" in cursor.blanks:
        return True
    cursor.is_complete = True
    yield from cursor.take_matching(_SPACES, 1 << 60)
    is_end = (yield from cursor.peek()) in _LINE_ENDS or bool((yield from cursor.peek_literal(*followers)))
    cursor.is_complete = False
    return is_end


class MarkerBody:
    """The text behind a marker while all its readers read it. `start` is where the undecided text begins.

    What leaves the source is saved, so that a refused text is still complete. `refusal` states why a reader
    refused it, if one knows.
    """

    __slots__ = ("_furthest", "_runs", "_saved", "_saved_to", "_source", "refusal", "start")

    def __init__(
        self,
        source: TextSource,
        start: int,
        candidates: tuple[MarkerCandidate, ...],
        tools: KnownTools,
        followers: tuple[str, ...] = (),
    ) -> None:
        self._source = source
        followers = (*_END_TOKENS, *followers)
        self._runs = [_ReaderRun(each, source, start, tools, followers) for each in candidates]
        self._furthest = max(run.cursor.at for run in self._runs)
        self._saved: list[str] = []
        self._saved_to = start
        self.refusal = ""
        self.start = start

    @property
    def is_complete(self) -> bool:
        """Whether a reader has a complete call, and only the text after it is missing."""
        return any(run.cursor.is_complete for run in self._runs)

    def save(self) -> int:
        """Copy the text before the slowest reader, and return its position: earlier text may be dropped."""
        needed = min(run.cursor.at for run in self._runs)
        self._saved.append(self._source.between(self._saved_to, needed))
        self._saved_to = needed
        return needed

    def read(self) -> tuple[MarkerCandidate, TextCall | ReaderOutcome | None, int] | None:
        """The candidate that found something, what it found and where that ends; None while text is missing.

        If every reader refuses the text there is no result, and the end is where the last one stopped.
        """
        best: _ReaderRun | None = None
        waiting: list[_ReaderRun] = []
        refused = self._runs[0]
        for run in self._runs:
            state = run.resume()
            if state is None:
                waiting.append(run)
            elif not state:
                self._furthest = max(self._furthest, run.cursor.at)
                self.refusal = run.cursor.refusal or self.refusal
            elif best is None or run.cursor.at < best.cursor.at:
                best = run
        if best is not None:
            self._runs = [best]
            return best.candidate, best.result, best.cursor.at
        if waiting:
            self._runs = waiting
            return None
        return refused.candidate, None, self._furthest

    def text(self, end: int) -> str:
        """The undecided text."""
        return "".join(self._saved) + self._source.between(self._saved_to, end)

    def restart(self, at: int) -> None:
        """Forget the text before this position, because its parts have been returned."""
        self._saved = []
        self._saved_to = self.start = at
