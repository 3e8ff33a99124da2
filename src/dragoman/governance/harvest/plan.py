"""What to look for in a reply: the openers of one family, or of all that are safe without knowing the family.

Calls are looked for only if tools were declared. Several formats may share a marker; then all of them read
on, and the first to be satisfied wins.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from dragoman.governance.harvest.format import Context, Format, Opener, Place, Reasoning, Section
from dragoman.governance.harvest.markers import Markers
from dragoman.governance.harvest.prose import TELLING
from dragoman.governance.harvest.reasoning import reasoning_openers, section_of
from dragoman.governance.harvest.registry import AUTO, families
from dragoman.governance.tool_names import DeclaredTool


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """An opener, the format it belongs to, and what its reader may know: the tools, or none."""

    format: str
    opener: Opener
    calls: bool = False
    strict: bool = False


class KnownTools:
    """The declared tools, for the readers of one reply."""

    __slots__ = ("_loose", "_strict")

    def __init__(self, tools: Sequence[DeclaredTool]) -> None:
        known = {tool.name: tool for tool in tools if tool.name}
        longest = max(map(len, known), default=0)
        self._loose = Context(tools=known, longest=longest)
        self._strict = Context(tools=known, longest=longest, strict=True)

    def __bool__(self) -> bool:
        return bool(self._loose.tools)

    def context(self, candidate: Candidate) -> Context:
        if not candidate.calls:
            return _NO_TOOLS
        return self._strict if candidate.strict else self._loose


_NO_TOOLS = Context(tools={})


class Openers:
    """Candidates by their marker."""

    __slots__ = ("by_marker", "markers", "stops")

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        self.by_marker: dict[str, tuple[Candidate, ...]] = {}
        for candidate in candidates:
            marker = candidate.opener.marker
            self.by_marker[marker] = (*self.by_marker.get(marker, ()), candidate)
        self.markers = Markers(self.by_marker)
        #: Every character that may begin a marker, or change whether one counts.
        self.stops = re.compile(f"[{self.markers.firsts}{TELLING}]")

    def __bool__(self) -> bool:
        return bool(self.by_marker)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`calls`: what opens calls, wherever it stands. `anywhere`: that, and reasoning that comes again.

    `opening`: what counts before any visible text, and `first`: before anything at all.
    """

    calls: Openers
    anywhere: Openers
    opening: Openers
    first: Openers
    implied: Section | None = None

    @property
    def idle(self) -> bool:
        """Whether there is nothing to look for."""
        return not (self.anywhere or self.first or self.implied)


@lru_cache(maxsize=64)
def plan_for(family: str, *, has_tools: bool) -> Plan:
    """The plan for a family's name or `auto`; raises KeyError for a name that is neither.

    Made once for all replies: it would take as long as reading a hundred events.
    """
    if family == AUTO:
        chosen: Iterable[Format] = families().values()
    else:
        chosen = (families()[family],)
    calls: list[Candidate] = []
    sections: list[Candidate] = []
    for each in chosen:
        calls += _calls(each, has_tools=has_tools, auto=family == AUTO)
        sections += _sections(each, auto=family == AUTO)
    # Formats that share a marker often share what reads it.
    calls = list({(each.opener.marker, each.opener.read): each for each in reversed(calls)}.values())[::-1]
    sections = list({each.opener.marker: each for each in sections}.values())
    everything = [*calls, *sections]
    return Plan(
        calls=Openers(c for c in calls if c.opener.place is Place.ANYWHERE),
        anywhere=Openers(c for c in everything if c.opener.place is Place.ANYWHERE),
        opening=Openers(c for c in everything if c.opener.place is Place.OPENING),
        first=Openers(c for c in everything if c.opener.place is not Place.ANYWHERE),
        implied=None if family == AUTO else _implied(families()[family]),
    )


def _calls(each: Format, *, has_tools: bool, auto: bool) -> list[Candidate]:
    """Markers that frame more than calls are looked for even if no call can be."""
    found: list[Candidate] = []
    for opener in each.openers:
        wanted = opener.auto and opener.safety != "C" if auto else True
        if wanted and (has_tools or opener.frames):
            strict = opener.safety == "C" or (auto and opener.safety == "B")
            found.append(Candidate(format=each.name, opener=opener, calls=True, strict=strict))
    return found


def _sections(each: Format, *, auto: bool) -> list[Candidate]:
    """Of an unknown family only a tag before everything else is believed."""
    known = each.reasoning
    if auto:
        known = tuple(Reasoning(opens=r.opens, closes=r.closes, label=r.label) for r in known if r.certain)
    return [
        Candidate(format=each.name, opener=opener)
        for reasoning in known
        for opener in reasoning_openers(reasoning)
    ]


def _implied(each: Format) -> Section | None:
    return next((section_of(reasoning) for reasoning in each.reasoning if reasoning.implied), None)
