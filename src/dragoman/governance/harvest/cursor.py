"""Top-down readers of text that is still arriving.

A reader is a generator over a `TextCursor`. It yields None to wait for more text. It returns an outcome, or
None if the text is not what it reads. Behind a marker that is sufficient proof it may also yield calls one by
one. The result depends on the text alone, never on how the text was cut. A cursor consumes text as it comes,
so that only the beginning of a literal ever waits and the work is linear.
"""

import re
from collections.abc import Generator, Iterable
from enum import Enum, auto
from functools import lru_cache
from typing import TypeVar

import msgspec

BLANKS = re.compile(r"\s*")


class TextEnding(Enum):
    """How a text block ended: by the model, cut off, or with another block behind it."""

    CLEAN = auto()
    CUT = auto()
    FOLLOWED = auto()


class TextCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was read from text. `header` is the model's own id, where the model expects it back."""

    name: str
    arguments: str
    header: str = ""


Result = TypeVar("Result")
#: A generator that reads text (see the docstring of this module) and returns what it has read.
CursorReading = Generator[TextCall | None, None, Result]
CallReading = CursorReading[TextCall | None]


class LiteralSet:
    """Finds any of several literals in a text, and the beginning of one at its end.

    Where one literal begins another, the longer one counts.
    """

    __slots__ = ("_firsts", "_longest", "_pattern", "_prefixes", "firsts", "literals")

    def __init__(self, literals: Iterable[str]) -> None:
        self.literals = tuple(dict.fromkeys(literals))
        self._longest = max(map(len, self.literals), default=0)
        self._pattern = re.compile(
            "|".join(map(re.escape, sorted(self.literals, key=len, reverse=True))) or r"(?!)"
        )
        #: The characters that begin a literal, for use in a character class.
        self.firsts = "".join(map(re.escape, sorted({literal[0] for literal in self.literals})))
        self._firsts = re.compile(f"[{self.firsts}]" if self.firsts else r"(?!)")
        self._prefixes = frozenset(
            literal[:length] for literal in self.literals for length in range(1, len(literal))
        )

    def find(self, text: str, start: int) -> re.Match[str] | None:
        return self._pattern.search(text, start)

    def match(self, text: str, position: int) -> str:
        """The literal at this position; empty if there is none."""
        found = self._pattern.match(text, position)
        return found[0] if found else ""

    def find_partial(self, text: str, start: int) -> int:
        """Where the longest end of the text begins that may become a literal; its length if none may."""
        end = len(text)
        for found in self._firsts.finditer(text, max(start, end - self._longest + 1)):
            if text[found.start() :] in self._prefixes:
                return found.start()
        return end


@lru_cache(maxsize=256)
def literal_set(*literals: str) -> LiteralSet:
    return LiteralSet(literals)


class TextSource:
    """The part of a text that has arrived and is still needed. Positions count from the text's beginning."""

    __slots__ = ("base", "ending", "text")

    def __init__(self) -> None:
        self.text = ""
        self.base = 0
        self.ending: TextEnding | None = None

    @property
    def end(self) -> int:
        return self.base + len(self.text)

    def extend(self, piece: str, keep: int) -> None:
        """Append a piece and drop the text before the position `keep`."""
        self.text = self.text[keep - self.base :] + piece
        self.base = keep

    def between(self, start: int, end: int) -> str:
        return self.text[start - self.base : end - self.base]


class TextCursor:
    """A position in a source. `record`, if it is a list, receives all consumed text.

    `blanks` is the white space right before the position. `is_complete`: the reader has a complete call.
    `refusal`: why the reader refuses the text, if it knows.
    """

    __slots__ = ("at", "blanks", "is_complete", "record", "refusal", "source")

    def __init__(self, source: TextSource, at: int) -> None:
        self.source = source
        self.at = at
        self.blanks = ""
        self.is_complete = False
        self.refusal = ""
        self.record: list[str] | None = None

    @property
    def has_ended_well(self) -> bool:
        """Whether the text has ended and was not cut off."""
        return self.source.ending not in (None, TextEnding.CUT)

    def wait(self) -> CursorReading[bool]:
        """Wait for another character; False if none comes."""
        while self.at >= self.source.end:
            if self.source.ending is not None:
                return False
            yield None
        return True

    def peek(self) -> CursorReading[str]:
        """The next character; empty at the end of the text."""
        if (yield from self.wait()):
            return self.source.text[self.at - self.source.base]
        return ""

    def advance(self, count: int) -> str:
        """Consume characters that have arrived."""
        start = self.at - self.source.base
        taken = self.source.text[start : start + count]
        self.at += len(taken)
        content = taken.rstrip()
        self.blanks = ("" if content else self.blanks) + taken[len(content) :]
        if self.record is not None:
            self.record.append(taken)
        return taken

    def step_back(self, literal: str) -> None:
        """Return a literal that was just consumed."""
        self.at -= len(literal)

    def skip_blanks(self) -> CursorReading[str]:
        """Consume white space and return it."""
        parts: list[str] = []
        while (yield from self.wait()):
            start = self.at - self.source.base
            found = BLANKS.match(self.source.text, start)
            end = found.end() if found else start
            parts.append(self.advance(end - start))
            if end < len(self.source.text):
                break
        return "".join(parts)

    def peek_literal(self, *options: str) -> CursorReading[str]:
        """The literal that comes next, the longest if several do; empty if none does."""
        while True:
            text = self.source.text
            start = self.at - self.source.base
            best = ""
            is_undecided = False
            for option in options:
                if text.startswith(option, start):
                    best = max(best, option, key=len)
                elif len(text) - start < len(option) and option.startswith(text[start:]):
                    is_undecided = True
            if not is_undecided or self.source.ending is not None:
                return best
            yield None

    def take(self, *options: str) -> CursorReading[str]:
        """Consume the literal that comes next; empty if none does."""
        found = yield from self.peek_literal(*options)
        self.advance(len(found))
        return found

    def take_closer(self, *options: str, strict: bool = False) -> CursorReading[bool]:
        """Consume a closing literal.

        Unless `strict` it may be incomplete, if the reply finished (was not cut off) inside the literal.
        """
        if (yield from self.take(*options)):
            return True
        if not strict and self.ends_inside(*options):
            self.advance(self.source.end - self.at)
            return True
        return False

    def ends_inside(self, *options: str) -> bool:
        """Whether the reply finished (was not cut off) before or inside one of the literals."""
        if not self.has_ended_well or self.source.end - self.at >= max(map(len, options)):
            return False
        rest = self.source.text[self.at - self.source.base :]
        return any(option.startswith(rest) for option in options)

    def take_matching(self, pattern: re.Pattern[str], limit: int) -> CursorReading[str]:
        """Consume up to `limit` matching characters. The pattern matches a run of single characters."""
        parts: list[str] = []
        left = limit
        while left and (yield from self.wait()):
            start = self.at - self.source.base
            stop = min(start + left, len(self.source.text))
            found = pattern.match(self.source.text, start, stop)
            end = found.end() if found else start
            parts.append(self.advance(end - start))
            left -= end - start
            if end < stop:
                break
        return "".join(parts)

    def take_until(self, *stops: str, limit: int = 1 << 60) -> CursorReading[tuple[str, str]]:
        """Consume the text before the first of the literals, and the literal: both are returned.

        The literal is empty if none comes, or if none begins within `limit` characters; then `limit`
        characters are consumed.
        """
        literals = literal_set(*stops)
        parts: list[str] = []
        left = limit
        while True:
            text = self.source.text
            start = self.at - self.source.base
            found = literals.find(text, start)
            if found is not None:
                safe = found.start()
            else:
                safe = len(text) if self.source.ending is not None else literals.find_partial(text, start)
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

    def skip_to(self, pattern: re.Pattern[str]) -> str:
        """Consume text up to the pattern's next match, or all that has arrived; the match, or empty."""
        start = self.at - self.source.base
        found = pattern.search(self.source.text, start)
        self.advance((found.start() if found else len(self.source.text)) - start)
        return found[0] if found else ""
