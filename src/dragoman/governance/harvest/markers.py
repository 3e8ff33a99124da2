"""Finding any of a set of literals in a text, and the beginning of one at its end.

Where one literal begins another, the longer one counts.
"""

import re
from collections.abc import Iterable
from functools import lru_cache


class Markers:
    __slots__ = ("_firsts", "_longest", "_pattern", "_prefixes", "firsts", "literals")

    def __init__(self, literals: Iterable[str]) -> None:
        self.literals = tuple(dict.fromkeys(literals))
        self._longest = max(map(len, self.literals), default=0)
        self._pattern = re.compile(
            "|".join(map(re.escape, sorted(self.literals, key=len, reverse=True))) or r"(?!)"
        )
        #: The characters that begin a literal, as they stand in a pattern.
        self.firsts = "".join(map(re.escape, sorted({literal[0] for literal in self.literals})))
        self._firsts = re.compile(f"[{self.firsts}]" if self.firsts else r"(?!)")
        self._prefixes = frozenset(
            literal[:length] for literal in self.literals for length in range(1, len(literal))
        )

    def find(self, text: str, start: int) -> re.Match[str] | None:
        return self._pattern.search(text, start)

    def standing(self, text: str, at: int) -> str:
        """The literal that stands at this place."""
        found = self._pattern.match(text, at)
        return found[0] if found else ""

    def hold(self, text: str, start: int) -> int:
        """Where the longest end of the text begins that may become a literal; its length if there is none."""
        end = len(text)
        for found in self._firsts.finditer(text, max(start, end - self._longest + 1)):
            if text[found.start() :] in self._prefixes:
                return found.start()
        return end


@lru_cache(maxsize=256)
def markers_of(*literals: str) -> Markers:
    return Markers(literals)
