"""One text as it arrives, taken apart into words, thoughts and calls.

Whatever may still turn out to be a marker, and line breaks in front of it, wait; everything else passes at
once. A marker's readers get what follows it; what they refuse is text after all and is not looked into again,
so that the work is linear. The result does not depend on how the text was cut.
"""

import re
from collections.abc import Callable
from enum import Enum, auto

from dragoman.governance.harvest.body import Body
from dragoman.governance.harvest.cursor import Call, Ending, Source
from dragoman.governance.harvest.format import Begins, Layout, Opener, Outcome, Place, Section
from dragoman.governance.harvest.markers import Markers, markers_of
from dragoman.governance.harvest.pieces import (
    Harvested,
    Piece,
    Pieces,
    Thoughts,
    ThoughtsEnd,
    Unfinished,
    Words,
)
from dragoman.governance.harvest.plan import Candidate, KnownTools, Openers, Plan
from dragoman.governance.harvest.prose import Prose
from dragoman.governance.harvest.reasoning import layout_reader

_NOT_BLANK = re.compile(r"\S")
_NOTHING = Openers(())


class _Mode(Enum):
    #: Before any words: blanks wait, and some markers count only here.
    START = auto()
    WORDS = auto()
    #: At the beginning of reasoning, and in it.
    SECTION_START = auto()
    SECTION = auto()
    #: Behind a marker, while its readers read.
    BODY = auto()
    #: In reasoning that is over, if it is never closed, because a call of class B stood in it.
    DOUBT = auto()


class Scanner:
    """`place`: what came before this text in the reply; nothing, nothing visible, or words."""

    def __init__(self, plan: Plan, tools: KnownTools, place: Place) -> None:
        self._plan = plan
        self._tools = tools
        self._source = Source()
        self._at = 0
        self._pieces = Pieces()
        self._prose = Prose()
        self._anywhere = plan.anywhere
        #: Whether nothing waits, and the characters with which something could begin to.
        self._clear = False
        self._stops = plan.anywhere.stops
        #: The last of what passed.
        self._passed = ""
        #: Blanks that wait, and whether blanks that come now are layout.
        self._layout: list[str] = []
        self._skip = False
        #: The line break between words and a call behind them, for words that may follow the call.
        self._break = ""
        self._starts = {Place.FIRST: plan.first, Place.OPENING: plan.opening}.get(place, _NOTHING)
        self._mode = _Mode.START if self._starts else _Mode.WORDS
        self._section: Section | None = None
        self._section_markers = Markers(())
        self._doubtful: list[str] = []
        self._body: Body | None = None
        self._origin = self._mode
        if plan.implied is not None and place is Place.FIRST:
            self._enter(plan.implied)

    @property
    def undecided(self) -> bool:
        """Whether it matters how the text ends."""
        return self._mode in (_Mode.BODY, _Mode.DOUBT)

    def passes(self, text: str) -> bool:
        """Whether this is nothing but words, as most text is; if so it is dealt with, and need not be fed."""
        if not self._clear or self._stops.search(text):
            return False
        self._passed = text if len(text) > 1 else self._passed[-1:] + text
        return True

    def feed(self, text: str) -> list[Piece]:
        self._source.extend(text, self._body.save() if self._body else self._at)
        self._run()
        return self._pieces.take()

    def end(self, ending: Ending) -> list[Piece]:
        """No more text comes: what waited is decided."""
        self._source.ending = ending
        self._run()
        if self._mode is _Mode.DOUBT:
            self._take_back()
        if self._section is not None:
            self._pieces.text(Thoughts, "".join(self._layout))
            self._leave()
        self._pieces.text(Words, "".join(self._layout))
        self._layout = []
        return self._pieces.take()

    def give_up(self) -> list[Piece]:
        """What waited is what it says, and there will be no more of it."""
        waiting = self._source.text[self._at - self._source.base :]
        if self._body is not None:
            waiting = self._body.text(self._source.end)
        kind = Words if self._section is None else Thoughts
        for text in (*self._layout, *self._doubtful, waiting):
            self._pieces.text(kind, text)
        self._pieces.add(ThoughtsEnd())
        return self._pieces.take()

    def _run(self) -> None:
        if self._passed:
            self._prose.follow(self._passed)
            self._passed = ""
        while _STEPS[self._mode](self):
            pass
        waits = self._layout or self._skip or self._at != self._source.end
        self._clear = self._mode is _Mode.WORDS and not waits and self._prose.flows

    def _start(self) -> bool:
        source = self._source
        found = _NOT_BLANK.search(source.text, self._at - source.base)
        stop = found.start() if found else len(source.text)
        if not self._skip:
            self._layout.append(source.text[self._at - source.base : stop])
        self._at = source.base + stop
        if found is None:
            return False
        standing = self._anywhere.markers.standing(source.text, stop)
        if not standing and source.ending is None:
            waits = (each.markers.hold(source.text, stop) == stop for each in (self._anywhere, self._starts))
            if any(waits):
                return False
        marker = "" if standing else self._starts.markers.standing(source.text, stop)
        if marker:
            self._open(self._starts.by_marker[marker])
        else:
            self._mode = _Mode.WORDS
        return True

    def _words(self) -> bool:
        before, candidates = self._up_to_marker(self._anywhere.markers, self._anywhere, ())
        self._say(before)
        if not isinstance(candidates, tuple):
            return False
        self._open(candidates)
        return True

    def _section_start(self) -> bool:
        source = self._source
        section = self._section
        found = _NOT_BLANK.search(source.text, self._at - source.base)
        start = found.start() if found else len(source.text)
        self._at = source.base + start
        if found is None or section is None:
            return False
        text = source.text
        if section.opens and text.startswith(section.opens, start):
            self._at += len(section.opens)
            return True
        possible = filter(None, (section.opens, section.label and section.label + "\n"))
        if source.ending is None and markers_of(*possible).hold(text, start) == start:
            return False
        self._mode = _Mode.SECTION
        if section.label and text.startswith(section.label, start):
            behind = text[start + len(section.label) : start + len(section.label) + 1]
            if behind in ("", "\r", "\n"):
                self._at += len(section.label)
                self._skip = True
        return True

    def _in_section(self) -> bool:
        closers = self._section.closers if self._section else ()
        before, found = self._up_to_marker(self._section_markers, self._plan.calls, closers)
        self._think(before)
        if isinstance(found, tuple):
            self._open(found)
        elif found:
            self._at += len(found)
            self._resume()
        return bool(found)

    def _up_to_marker(
        self, markers: Markers, openers: Openers, closers: tuple[str, ...]
    ) -> tuple[str, tuple[Candidate, ...] | str]:
        """The text that may pass, and what opens or closes something behind it; empty if nothing does yet.

        An opener does not count where it is quoted; a closer does.
        """
        source, prose = self._source, self._prose
        text = source.text
        start = scanned = position = self._at - source.base
        while (found := markers.find(text, position)) is not None:
            prose.advance(text, scanned, found.start())
            scanned, position = found.start(), found.end()
            if found[0] in closers or not prose.quoted:
                self._at = source.base + scanned
                is_closer = found[0] in closers
                return text[start:scanned], found[0] if is_closer else openers.by_marker[found[0]]
        safe = len(text) if source.ending is not None else markers.hold(text, position)
        prose.advance(text, scanned, safe)
        if safe < len(text) and not closers and prose.quoted:
            prose.advance(text, safe, len(text))
            safe = len(text)
        self._at = source.base + safe
        return text[start:safe], ""

    def _doubt(self) -> bool:
        source = self._source
        closers = markers_of(*(self._section.closers if self._section else ()))
        start = self._at - source.base
        found = closers.find(source.text, start)
        if found is None:
            safe = len(source.text) if source.ending is not None else closers.hold(source.text, start)
            self._doubtful.append(source.text[start:safe])
            self._at = source.base + safe
            return False
        self._think("".join(self._doubtful) + source.text[start : found.start()])
        self._at = source.base + found.end()
        self._resume()
        return True

    def _read_body(self) -> bool:
        body = self._body
        read = body.read() if body else None
        if body is None or read is None:
            return False
        candidate, result, end = read
        if isinstance(result, Call):
            self._accept(candidate, (result,), body.length(end))
            body.restart(end)
            return True
        text = body.text(end)
        self._at = end
        self._body = None
        self._mode = self._origin
        if result is None:
            self._refuse(candidate, text)
        elif self._section is not None and candidate.opener.safety != "A":
            self._doubtful.append(text)
            self._mode = _Mode.DOUBT
        else:
            self._conclude(candidate, result, len(text))
        return True

    def _open(self, candidates: tuple[Candidate, ...]) -> None:
        self._origin = self._mode
        self._body = Body(self._source, self._at, candidates, self._tools)
        self._mode = _Mode.BODY

    def _accept(self, candidate: Candidate, calls: tuple[Call, ...], length: int) -> None:
        if self._section is not None:
            self._leave()
        self._origin = _Mode.WORDS
        self._break_off()
        self._prose.break_off()
        for call in calls:
            self._pieces.add(Harvested(call, candidate.format, length))

    def _conclude(self, candidate: Candidate, outcome: Outcome, length: int) -> None:
        if isinstance(outcome, Begins):
            if self._section is not None:
                self._leave()
            self._enter(outcome.section)
        elif isinstance(outcome, Layout):
            if self._section is not None:
                self._resume()
            self._break_off()
            self._prose.break_off()
            self._ignore(outcome.literals)
        else:
            self._accept(candidate, outcome.calls, length)
            self._mode = self._origin

    def _break_off(self) -> None:
        """The blanks around a call are no words; but words on both sides of it stay apart."""
        self._break = "".join(self._layout) or self._break
        self._layout = []
        self._skip = True

    def _refuse(self, candidate: Candidate, text: str) -> None:
        self._prose.advance(text, 0, len(text))
        if self._section is None:
            self._mode = _Mode.WORDS
            self._say(text)
        else:
            self._think(text)
        if (
            self._source.ending is not None
            and self._at == self._source.end
            and candidate.calls
            and self._tools
        ):
            self._pieces.add(Unfinished(candidate.format, len(text)))

    def _ignore(self, literals: tuple[str, ...]) -> None:
        """From here on these are layout."""
        new = [literal for literal in literals if literal not in self._anywhere.by_marker]
        if new:
            known = [each for candidates in self._anywhere.by_marker.values() for each in candidates]
            self._anywhere = Openers([*known, *map(_layout, new)])
            self._stops = self._anywhere.stops

    def _enter(self, section: Section) -> None:
        self._layout = []
        self._skip = False
        self._section = section
        self._section_markers = Markers((*section.closers, *self._plan.calls.by_marker))
        self._prose = Prose()
        self._mode = _Mode.SECTION_START

    def _leave(self) -> None:
        self._layout = []
        self._section = None
        self._doubtful = []
        self._prose = Prose()
        self._pieces.add(ThoughtsEnd())

    def _resume(self) -> None:
        """The section is over, and what is visible of the answer begins."""
        self._leave()
        self._skip = True
        self._starts = self._plan.opening
        self._mode = _Mode.START

    def _take_back(self) -> None:
        """The section was never closed: it ended where the call stood."""
        text = "".join(self._doubtful)
        self._leave()
        self._source.text, self._source.base, self._at = text, 0, 0
        self._mode = _Mode.WORDS
        self._run()

    def _say(self, text: str) -> None:
        if self._skip:
            text = text.lstrip()
            self._skip = not text
        kept = text if self._prose.fenced or not self._anywhere else text.rstrip("\r\n")
        self._pass_on(Words, kept, text)

    def _think(self, text: str) -> None:
        if self._skip:
            text = text.lstrip()
            self._skip = not text
        self._pass_on(Thoughts, text.rstrip(), text)

    def _pass_on(self, kind: type[Words] | type[Thoughts], kept: str, text: str) -> None:
        if kept:
            if self._break and kind is Words:
                self._pieces.text(kind, self._break)
                self._break = ""
            for waiting in self._layout:
                self._pieces.text(kind, waiting)
            self._layout = []
            self._pieces.text(kind, kept)
        if len(kept) < len(text):
            self._layout.append(text[len(kept) :])


def _layout(literal: str) -> Candidate:
    opener = Opener(marker=literal, read=layout_reader(), safety="A")
    return Candidate(format="", opener=opener)


_STEPS: dict[_Mode, Callable[[Scanner], bool]] = {
    _Mode.START: Scanner._start,
    _Mode.WORDS: Scanner._words,
    _Mode.SECTION_START: Scanner._section_start,
    _Mode.SECTION: Scanner._in_section,
    _Mode.BODY: Scanner._read_body,
    _Mode.DOUBT: Scanner._doubt,
}
