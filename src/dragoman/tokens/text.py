"""The tokens of a text, estimated from the kinds of its characters.

A tokenizer cuts a text where the kind of character changes, and cuts long words again. So a text is reduced
to the kinds of its characters. Its cost is the sum over the patterns below: the number of occurrences without
overlap, times the cost of the pattern. The costs were fitted to the true counts of about five hundred texts;
docs/token-counts.md has the errors. An estimate takes a few milliseconds for 100 kB of any text.
"""

import re
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from operator import mul
from typing import get_args

from dragoman.dialects.interfaces import Tokenizer

TOKENIZERS: tuple[Tokenizer, ...] = get_args(Tokenizer)

#: The kinds of ASCII characters, each named by one of its characters. All others are an `x`.
KINDS = {
    "a": "abcdefghijklmnopqrstuvwxyz",
    "A": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "0": "0123456789",
    " ": " ",
    "\t": "\t",
    "\n": "\n",
    "\r": "\r",
    "_": "_",
    '"': "\"'`",
    "(": "()[]{}<>",
    ".": ".,;:!?",
    "-": "-=/*#+|\\&%$@^~",
}

#: Costs in the order of `TOKENIZERS`.
PATTERNS: dict[str, tuple[float, float, float, float, float]] = {
    # Words: after a space, the long ones at a higher cost; then after something else.
    " a": (0.99, 0.97, 0.92, 0.91, 1.00),
    "aaaaa": (0.02, 0.08, 0.13, 0.28, 0.91),
    "aaaaaaaaaaaa": (0.86, 0.68, 0.15, 0.54, 2.11),
    "\na": (1.33, 1.23, 0.83, 0.82, 1.13),
    "_a": (0.55, 0.68, 0.81, 0.40, 0.86),
    '"a': (1.17, 1.23, 1.48, 1.28, 1.27),
    "(a": (2.09, 2.03, 1.89, 2.28, 2.38),
    ".a": (0.56, 0.74, 1.64, 1.37, 1.71),
    "-a": (1.47, 1.52, 1.70, 1.85, 2.08),
    # Capital letters: alone, at the beginning of a word, inside a word, several together.
    "A": (0.22, 0.31, 0.27, 0.37, 0.63),
    "Aa": (0.71, 0.57, 0.60, 0.38, 0.59),
    "aA": (0.14, 0.21, 0.16, 0.97, 1.52),
    "-A": (1.56, 1.61, 1.41, 1.65, 2.05),
    "AAA": (0.22, 0.00, 0.00, 0.00, 0.66),
    # Digits: some tokenizers join three, others none.
    "0": (0.54, 0.85, 1.12, 0.47, 0.49),
    " 0": (1.95, 1.48, 1.07, 2.23, 2.27),
    "a0": (0.97, 0.67, 0.60, 1.19, 1.42),
    "A0": (1.95, 1.72, 1.83, 2.96, 1.02),
    # Punctuation.
    '"': (0.21, 0.24, 0.05, 0.17, 0.37),
    "(": (0.23, 0.22, 0.23, 0.29, 0.28),
    ".": (0.60, 0.51, 0.53, 0.73, 0.86),
    "-": (0.30, 0.26, 0.26, 0.30, 0.48),
    "_": (0.42, 0.49, 0.95, 1.07, 1.00),
    "x": (0.14, 0.22, 0.59, 0.83, 1.37),
    " -": (0.76, 0.86, 1.17, 1.05, 1.19),
    ' "': (0.80, 0.73, 0.92, 0.89, 0.62),
    ". ": (0.32, 0.42, 0.64, 0.26, 0.47),
    "-(": (1.70, 1.47, 0.72, 0.50, 1.13),
    # White space.
    "\n": (0.87, 0.92, 1.35, 1.33, 1.12),
    "\t": (0.93, 0.96, 1.08, 1.34, 1.20),
    "  ": (0.08, 0.07, 0.10, 0.12, 0.08),
}

#: Characters beyond ASCII: a character class for each script, and the cost of one character.
SCRIPTS: dict[str, tuple[float, float, float, float, float]] = {
    # Latin letters with accents: their words are cut more often than English words.
    "\u00c0-\u024f\u1e00-\u1eff": (1.95, 2.72, 1.26, 2.28, 2.44),
    # Cyrillic.
    "\u0400-\u052f": (0.30, 0.38, 0.28, 0.43, 0.43),
    # Greek, Armenian, Hebrew, Arabic.
    "\u0370-\u03ff\u0530-\u08ff": (0.42, 0.60, 0.44, 0.76, 0.76),
    # The scripts of India and of south-east Asia.
    "\u0900-\u1dff": (0.39, 0.83, 0.34, 1.09, 1.09),
    # Kana, Chinese characters, Hangul.
    "\u3040-\u30ff": (0.81, 0.81, 0.57, 0.75, 0.75),
    "\u3100-\u9fff\uf900-\ufaff": (0.78, 0.57, 0.64, 1.10, 1.09),
    "\uac00-\ud7af": (0.69, 0.83, 0.68, 1.50, 1.50),
    # Punctuation of the world, lines of tables and trees, other symbols, emoji.
    "\u0080-\u00bf\u2000-\u20cf\u3000-\u303f\uff00-\uffef": (0.39, 0.71, 0.33, 0.69, 0.52),
    "\u2500-\u257f": (0.95, 0.88, 0.70, 1.02, 1.02),
    "\u20d0-\u24ff\u2580-\u2fff": (1.29, 1.30, 1.15, 3.06, 3.06),
    "\U00010000-\U0010ffff": (2.00, 2.50, 1.67, 4.00, 4.00),
}

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
#: Replaces a run of characters beyond ASCII; the run costs as much as one `x`, besides its characters.
_RUN = "\x01"


#: Separates texts whose patterns are counted together. It has no kind, so no pattern contains it.
SEPARATOR = "\x00"


def _build_kind_table() -> bytes:
    """The kind of each byte, for `bytes.translate`."""
    kind_of = {character: kind for kind, characters in KINDS.items() for character in characters}
    kind_of[SEPARATOR] = SEPARATOR
    return b"".join(kind_of.get(chr(code), "x").encode() for code in range(256))


_KIND_OF = _build_kind_table()
_PATTERNS = [pattern.encode() for pattern in PATTERNS]
_SCRIPTS = [re.compile(f"[{script}]") for script in SCRIPTS]
_COSTS: dict[Tokenizer, list[float]] = {
    tokenizer: [costs[column] for costs in (*PATTERNS.values(), *SCRIPTS.values())]
    for column, tokenizer in enumerate(TOKENIZERS)
}

#: The counts of a text without any pattern.
NO_PATTERNS = (0,) * (len(PATTERNS) + len(SCRIPTS))


def estimate_text_tokens(text: str, tokenizer: Tokenizer) -> float:
    """The number of tokens that the tokenizer makes of the text, estimated."""
    return add_costs(count_patterns(text), tokenizer)


def count_patterns(text: str) -> list[int]:
    """How often each pattern is in the text. The counts are the same for all tokenizers."""
    foreign = "" if text.isascii() else "".join(_BEYOND_ASCII.findall(text))
    plain = _BEYOND_ASCII.sub(_RUN, text) if foreign else text
    kinds = plain.encode("ascii").translate(_KIND_OF)
    counts = [kinds.count(pattern) for pattern in _PATTERNS]
    counts += [len(script.findall(foreign)) if foreign else 0 for script in _SCRIPTS]
    return counts


@cache
def find_highest_cost(tokenizer: Tokenizer, length: int, *, is_ascii: bool) -> float:
    """The most that one character costs, on average over any text of at most `length` characters."""
    cost_of = dict(zip(PATTERNS, _COSTS[tokenizer], strict=False))
    own = {kind: cost_of.get(kind, 0.0) for kind in (*KINDS, "x")}
    for pattern, cost in cost_of.items():
        if len(pattern) > 2:
            own[pattern[0]] += cost / len(pattern)
    if not is_ascii:
        own["beyond ASCII"] = own["x"] + max(_COSTS[tokenizer][len(PATTERNS) :])
    #: The highest costs of texts of a length, by the kind of their last character.
    costs, highest = own, max(own.values())
    for count in range(2, length + 1):
        costs = {
            kind: own[kind] + max(costs[last] + cost_of.get(last + kind, 0.0) for last in own) for kind in own
        }
        highest = max(highest, max(costs.values()) / count)
    return highest


class CountMemo:
    """The counts of the last samples, by their digests.

    The texts of an agent's last messages are sampled again when the next messages follow. No text is kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts: dict[bytes, tuple[int, ...]] = {}

    def count(self, text: str) -> tuple[int, ...]:
        """The same as `count_patterns`."""
        name = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        found = self._counts.get(name)
        if found is None:
            if len(self._counts) >= self._limit:
                self._counts.clear()
            found = self._counts[name] = tuple(count_patterns(text))
        return found


def add_costs(counts: Sequence[int], tokenizer: Tokenizer) -> float:
    """The tokens of a text with these counts, for this tokenizer."""
    return float(sum(map(mul, counts, _COSTS[tokenizer])))
