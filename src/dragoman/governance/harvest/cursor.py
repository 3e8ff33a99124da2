"""Reading text that is still arriving by plain top-down code: a reader waits by yielding.

A reader is a generator over a `Cursor`. It yields None to wait for more text and returns an outcome, or None
if the text is not what it reads. Behind a marker that is proof enough it may also yield calls, one by one.
What it decides depends on the text alone, never on how that was cut. Text is consumed as it comes, so that
what waits is never longer than a literal's beginning and the work is linear.
"""

import re
from collections.abc import Generator
from enum import Enum, auto
from typing import TypeVar

import msgspec

from dragoman.governance.harvest.markers import markers_of

BLANKS = re.compile(r"\s*")


class Ending(Enum):
    """How a text ended: the model was done, it was cut short, or something else followed in the reply."""

    CLEAN = auto()
    CUT = auto()
    FOLLOWED = auto()


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """`header` is the model's own id for the call, where it wants to see that again."""

    name: str
    arguments: str
    header: str = ""


Result = TypeVar("Result")
Step = Generator[Call | None, None, Result]


class Source:
    """The part of a text that has come and may still be needed. Positions count from the text's beginning."""

    __slots__ = ("base", "ending", "text")

    def __init__(self) -> None:
        self.text = ""
        self.base = 0
        self.ending: Ending | None = None

    @property
    def end(self) -> int:
        return self.base + len(self.text)

    def extend(self, piece: str, keep: int) -> None:
        """More text; what lies before the position `keep` may go."""
        self.text = self.text[keep - self.base :] + piece
        self.base = keep

    def between(self, start: int, end: int) -> str:
        return self.text[start - self.base : end - self.base]


class Cursor:
    """A place in a source. `tape`, while there is one, gets everything that is consumed."""

    __slots__ = ("at", "source", "tape")

    def __init__(self, source: Source, at: int) -> None:
        self.source = source
        self.at = at
        self.tape: list[str] | None = None

    @property
    def ended_well(self) -> bool:
        """Whether no more text comes because the model had said all it wanted to say."""
        return self.source.ending not in (None, Ending.CUT)

    def more(self) -> Step[bool]:
        """Wait for another character; False if none comes."""
        while self.at >= self.source.end:
            if self.source.ending is not None:
                return False
            yield None
        return True

    def peek(self) -> Step[str]:
        if (yield from self.more()):
            return self.source.text[self.at - self.source.base]
        return ""

    def advance(self, count: int) -> str:
        """Consume characters that are there."""
        start = self.at - self.source.base
        taken = self.source.text[start : start + count]
        self.at += len(taken)
        if self.tape is not None:
            self.tape.append(taken)
        return taken

    def back(self, literal: str) -> None:
        """Leave a literal that was just consumed to whoever reads next."""
        self.at -= len(literal)

    def blanks(self) -> Step[str]:
        parts: list[str] = []
        while (yield from self.more()):
            start = self.at - self.source.base
            found = BLANKS.match(self.source.text, start)
            end = found.end() if found else start
            parts.append(self.advance(end - start))
            if end < len(self.source.text):
                break
        return "".join(parts)

    def ahead(self, *options: str) -> Step[str]:
        """Which of the literals comes next, the longest if several do; nothing is consumed."""
        while True:
            text = self.source.text
            start = self.at - self.source.base
            best = ""
            undecided = False
            for option in options:
                if text.startswith(option, start):
                    best = max(best, option, key=len)
                elif len(text) - start < len(option) and option.startswith(text[start:]):
                    undecided = True
            if not undecided or self.source.ending is not None:
                return best
            yield None

    def literal(self, *options: str) -> Step[str]:
        """Consume whichever of the literals comes next; empty if none does."""
        found = yield from self.ahead(*options)
        self.advance(len(found))
        return found

    def closing(self, *options: str) -> Step[bool]:
        """Consume a closing literal, which may be missing, or broken off, where the text ended well."""
        if (yield from self.literal(*options)):
            return True
        if self.stops_short_of(*options):
            self.advance(self.source.end - self.at)
            return True
        return False

    def stops_short_of(self, *options: str) -> bool:
        """Whether the text ended well at a beginning of one of the literals, perhaps an empty one."""
        if not self.ended_well or self.source.end - self.at >= max(map(len, options)):
            return False
        rest = self.source.text[self.at - self.source.base :]
        return any(option.startswith(rest) for option in options)

    def word(self, pattern: re.Pattern[str], limit: int) -> Step[str]:
        """As many characters as match, up to a limit. The pattern matches characters one by one."""
        parts: list[str] = []
        left = limit
        while left and (yield from self.more()):
            start = self.at - self.source.base
            stop = min(start + left, len(self.source.text))
            found = pattern.match(self.source.text, start, stop)
            end = found.end() if found else start
            parts.append(self.advance(end - start))
            left -= end - start
            if end < stop:
                break
        return "".join(parts)

    def until(self, *stops: str, limit: int = 1 << 60) -> Step[tuple[str, str]]:
        """The text before the first of the literals, and which it is; that is empty where none comes.

        It is also empty if none begins within `limit` characters, and then just these are consumed.
        """
        markers = markers_of(*stops)
        parts: list[str] = []
        left = limit
        while True:
            text = self.source.text
            start = self.at - self.source.base
            found = markers.find(text, start)
            if found is not None:
                safe = found.start()
            else:
                safe = len(text) if self.source.ending is not None else markers.hold(text, start)
            if safe - start > left:
                parts.append(self.advance(left))
                return "".join(parts), ""
            parts.append(self.advance(safe - start))
            left -= safe - start
            if found is not None:
                self.advance(len(found[0]))
                return "".join(parts), found[0]
            if self.source.ending is not None:
                return "".join(parts), ""
            yield None
