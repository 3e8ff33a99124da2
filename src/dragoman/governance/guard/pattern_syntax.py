"""Reads patterns: the part of regular expressions that can be matched without ever going back.

Taken: literals, `.`, classes, groups, `|`, `* + ? {m,n}` (also lazy, which changes nothing about whether
there is a match), `^ $ \\b \\A \\z`, `\\d \\w \\s` and their opposites, and the flags `(?i)`, `(?s)` and
`(?m)` at the very front. `$` is the end of the text, or of a line with `m`. Refused: back references,
looking around.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

MAX_LENGTH = 1000
MAX_DEPTH = 40
MAX_REPEAT = 250

Anchor = Literal["text_start", "text_end", "line_start", "line_end", "boundary"]


class PatternError(ValueError):
    """The text is no pattern of this kind; the message says why."""


class Chars(msgspec.Struct, frozen=True):
    """One character out of a set."""

    singles: frozenset[str] = frozenset()
    ranges: tuple[tuple[str, str], ...] = ()
    kinds: str = ""
    negated: bool = False
    folds: bool = False

    def accepts(self, character: str) -> bool:
        if not self.folds:
            return self._holds(character) != self.negated
        forms = {character, character.lower(), character.upper()}
        return any(self._holds(form) for form in forms) != self.negated

    def _holds(self, character: str) -> bool:
        if character in self.singles:
            return True
        if any(low <= character <= high for low, high in self.ranges):
            return True
        return any(KINDS[kind](character) for kind in self.kinds)


class Assertion(msgspec.Struct, frozen=True):
    """A place between characters."""

    anchor: Anchor


class Chain(msgspec.Struct, frozen=True):
    items: tuple["Node", ...]


class Either(msgspec.Struct, frozen=True):
    options: tuple["Node", ...]


class Repeat(msgspec.Struct, frozen=True):
    """`high` None: as often as one likes."""

    item: "Node"
    low: int
    high: int | None


Node = Chars | Assertion | Chain | Either | Repeat


def is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


KINDS: dict[str, Callable[[str], bool]] = {
    "d": str.isdecimal,
    "D": lambda character: not character.isdecimal(),
    "w": is_word,
    "W": lambda character: not is_word(character),
    "s": str.isspace,
    "S": lambda character: not character.isspace(),
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0", "a": "\a"}
_HEX = {"x": 2, "u": 4}
_ANCHORS: dict[str, Anchor] = {
    "b": "boundary",
    "A": "text_start",
    "z": "text_end",
}
_QUANTIFIERS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def parse(text: str) -> Node:
    """The pattern in `text`, or a `PatternError`."""
    if len(text) > MAX_LENGTH:
        raise PatternError(f"longer than {MAX_LENGTH} characters")
    return _Parser(text).pattern()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._flags = ""

    def pattern(self) -> Node:
        if self._text.startswith("(?") and self._text[2:3] in ("i", "s", "m"):
            end = self._text.find(")")
            self._flags = self._text[2 : max(end, 2)]
            if set(self._flags) - set("ism"):
                raise PatternError("only the flags i, s and m are known")
            self._at = end + 1
        node = self._either()
        if self._at < len(self._text):
            raise PatternError("a `)` too many")
        return node

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        character = self._peek()
        if not character:
            raise PatternError("it breaks off")
        self._at += 1
        return character

    def _takes(self, expected: str) -> bool:
        found = self._text.startswith(expected, self._at)
        self._at += len(expected) if found else 0
        return found

    def _either(self) -> Node:
        options = [self._chain()]
        while self._takes("|"):
            options.append(self._chain())
        return options[0] if len(options) == 1 else Either(tuple(options))

    def _chain(self) -> Node:
        items: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            items.append(self._quantified(self._atom()))
        return items[0] if len(items) == 1 else Chain(tuple(items))

    def _quantified(self, item: Node) -> Node:
        bounds = self._quantifier()
        if bounds is None:
            return item
        self._takes("?")
        if self._peek() in ("*", "+", "?") or self._bounds_follow():
            raise PatternError("one quantifier behind another")
        return Repeat(item, *bounds)

    def _quantifier(self) -> tuple[int, int | None] | None:
        if self._peek() in _QUANTIFIERS:
            return _QUANTIFIERS[self._next()]
        if not self._bounds_follow():
            return None
        end = self._text.index("}", self._at)
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        self._at = end + 1
        least = int(low or "0")
        most = (int(high) if high else None) if comma else least
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise PatternError(f"repetitions must rise and not exceed {MAX_REPEAT}")
        return least, most

    def _bounds_follow(self) -> bool:
        """Whether `{m}`, `{m,}`, `{,n}` or `{m,n}` stands here; any other brace is a character."""
        if self._peek() != "{":
            return False
        end = self._text.find("}", self._at)
        low, comma, high = self._text[self._at + 1 : max(end, self._at + 1)].partition(",")
        digits = low + high
        return digits.isascii() and digits.isdigit() and len(digits) < 10 and (bool(comma) or bool(low))

    def _atom(self) -> Node:
        character = self._next()
        match character:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case "\\":
                return self._escape()
            case ".":
                return Chars(negated=True) if "s" in self._flags else Chars(frozenset("\n"), negated=True)
            case "^":
                return Assertion("line_start" if "m" in self._flags else "text_start")
            case "$":
                return Assertion("line_end" if "m" in self._flags else "text_end")
            case "*" | "+" | "?":
                raise PatternError("a quantifier with nothing before it")
            case _:
                return self._single(character)

    def _single(self, character: str) -> Chars:
        return Chars(frozenset(character), folds="i" in self._flags)

    def _group(self) -> Node:
        if self._takes("?") and not self._takes(":"):
            raise PatternError("only plain groups and `(?:` are known")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise PatternError(f"groups nest deeper than {MAX_DEPTH}")
        node = self._either()
        if not self._takes(")"):
            raise PatternError("a `)` is missing")
        self._depth -= 1
        return node

    def _escape(self) -> Node:
        character = self._next()
        if character in KINDS:
            return Chars(kinds=character)
        if character in _ANCHORS:
            return Assertion(_ANCHORS[character])
        return self._single(self._literal(character))

    def _literal(self, character: str) -> str:
        """The character that an escape stands for."""
        if character in _HEX:
            digits = self._text[self._at : self._at + _HEX[character]]
            if len(digits) < _HEX[character] or not set(digits) <= set("0123456789abcdefABCDEF"):
                raise PatternError("an escape that is not whole")
            self._at += len(digits)
            return chr(int(digits, 16))
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character.isascii() and character.isalnum():
            raise PatternError("back references and this escape are not known")
        return character

    def _class(self) -> Chars:
        negated = self._takes("^")
        singles: set[str] = set()
        ranges: list[tuple[str, str]] = []
        kinds = ""
        first = True
        while first or self._peek() != "]":
            first = False
            low, kind = self._member()
            if kind:
                kinds += kind
            elif self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high, kind = self._member()
                if kind or high < low:
                    raise PatternError("a range in a class that does not rise")
                ranges.append((low, high))
            else:
                singles.add(low)
        self._at += 1
        return Chars(frozenset(singles), tuple(ranges), kinds, negated, "i" in self._flags)

    def _member(self) -> tuple[str, str]:
        """A character of a class, or a kind of characters."""
        character = self._next()
        if character != "\\":
            return character, ""
        character = self._next()
        if character in KINDS:
            return "", character
        return "\b" if character == "b" else self._literal(character), ""
