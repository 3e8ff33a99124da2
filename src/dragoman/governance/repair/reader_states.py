"""The reader's states and patterns, and where a string ends whose quotes are wrong.

A string's quotes are wrong if the last one is missing or if it holds quotes without escapes. An end counts
only if the rest of the text agrees with it. A wrong end would give the tool a value that the model did not
write, so where two ends are possible neither is used.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from dragoman.governance.repair.tokens import (
    CLOSING_QUOTES,
    MARKER,
    QUOTES_CLASS,
    STRICT_LITERAL,
    STRICT_STRING,
)
from dragoman.wire.json_grammar import CLOSERS

ReaderState = str
MEMBER: Final = "before a key"
COLON: Final = "after a key"
VALUE: Final = "before a value"
ITEM: Final = "before an item"
AFTER: Final = "after a value"
DONE: Final = "after the whole"

#: The state behind an opening bracket.
FIRST: dict[str, ReaderState] = {"{": MEMBER, "[": ITEM}

# Strict JSON. Flat arrays and objects match as a whole, so that texts of many small values cost little more
# than others.
_SPACE = r"[ \t\n\r]*+"
_SCALAR = rf"(?:{STRICT_STRING}|{STRICT_LITERAL})"
_ITEM = rf"{_SPACE}{_SCALAR}{_SPACE}"
_MEMBER = rf"{_SPACE}{STRICT_STRING}{_SPACE}:{_ITEM}"
_VALUE = rf"(?:{_SCALAR}|\[(?:{_ITEM}(?:,{_ITEM})*+|{_SPACE})\]|\{{(?:{_MEMBER}(?:,{_MEMBER})*+|{_SPACE})\}})"
STRICT_KEY = re.compile(rf"({STRICT_STRING}){_SPACE}:{_SPACE}")
STRICT_SCALAR = re.compile(_SCALAR)
STRICT_VALUE = re.compile(_VALUE)
#: Members or items with commas behind them, then as much as there is of another one.
STRICT_RUNS: dict[ReaderState, re.Pattern[str]] = {
    MEMBER: re.compile(
        rf"(?P<run>(?:{STRICT_STRING}{_SPACE}:{_SPACE}{_VALUE}{_SPACE},{_SPACE})++)?+"
        rf"(?:(?P<key>{STRICT_STRING}){_SPACE}:{_SPACE}(?P<value>{_VALUE})?+)?+"
    ),
    ITEM: re.compile(rf"(?P<run>(?:{_VALUE}{_SPACE},{_SPACE})++)?+(?P<value>{_VALUE})?+"),
}
#: The first characters of JSON's tokens: no blank begins with one of these.
TOKEN_STARTS = frozenset('{}[]",:-0123456789tfn')

# Keys.
NAME = r"[\w$][\w$.\-]{0,199}+"
QUOTED_NAME = rf"[{QUOTES_CLASS}](?P<name>[^{QUOTES_CLASS}\\\r\n]{{1,200}}+)[{QUOTES_CLASS}]"
_SEPARATES = r"\s*+(?:[:\uff1a]|=(?!=))"
SEPARATOR = re.compile(r":[\s:]*+|\uff1a|=>|=(?!=)")
BARE_KEY = re.compile(rf"({NAME})[{QUOTES_CLASS}]?(?={_SEPARATES})")
UNCLOSED_KEY = re.compile(rf"[{QUOTES_CLASS}]({NAME})(?=\s*+:\s)")
QUOTED_KEY = re.compile(QUOTED_NAME + _SEPARATES)
BARE_KEY_OF_A_LINE = re.compile(rf"{NAME}{_SEPARATES}")
LINE_BREAK = re.compile(r"[\r\n]\s*+\Z")
#: How far back the reader looks for a line break.
LINE_BREAK_DISTANCE = 200

# Commas.
COMMA_RUN = re.compile(r"[,;\uff0c\u3001\s]*+")
OTHER_COMMAS = frozenset(";\uff0c\u3001")
#: The characters that begin a value beyond doubt, where a comma or a colon is missing.
VALUE_STARTS = frozenset(QUOTES_CLASS + "{[-0123456789")

# Ends of strings.
_NEXT_MEMBER = (
    rf"\s*+(?:,\s*+(?:{QUOTED_NAME}|(?P<bare>{NAME}))|{QUOTED_NAME.replace('name', 'other')}){_SEPARATES}"
)
_NEXT_ITEM = rf"\s*+,\s*+[{QUOTES_CLASS}{{\[\-0-9]"
_END_OF_TEXT = r"[\s}\]]*+(?:\Z|<|```)"
#: What can follow a value: in the outermost object, in an inner object, in an array.
_FOLLOWING = {
    "outermost": rf"{_NEXT_MEMBER}|\s*+\}}{_END_OF_TEXT}",
    "{": rf"{_NEXT_MEMBER}|\s*+\}}\s*+(?:[,}}\]]|\Z)",
    "[": rf"{_NEXT_ITEM}|\s*+\]\s*+(?:[,}}\]]|\Z)",
}
_FOLLOWS = {place: re.compile(pattern) for place, pattern in _FOLLOWING.items()}
_MEMBER_BEHIND = re.compile(rf"[}}\]]\s*+,\s*+(?:{QUOTED_NAME}|{NAME}){_SEPARATES}")
_CLOSING_TAIL = re.compile(r"\s*+[}\]][}\]\s]*+\Z")
#: How far from the end of a text its closing brackets and its marker may begin.
_TAIL_DISTANCE = 1000
_MARKER_DISTANCE = 100


def has_member_behind(text: str, position: int) -> bool:
    """Whether another member follows the closing bracket at this position."""
    return bool(_MEMBER_BEHIND.match(text, position))


def can_string_end(text: str, position: int, brackets: Sequence[str], names: frozenset[str]) -> bool:
    """Whether a string can end just before `position`.

    It can if the text from there on is legal after a string inside `brackets`.
    """
    found = _FOLLOWS[_place_of(brackets)].match(text, position)
    if found is None:
        return False
    groups = found.groupdict()
    name = groups.get("name") or groups.get("bare") or groups.get("other")
    return name is None or not names or name in names


def find_inner_end(text: str, position: int, brackets: Sequence[str], names: frozenset[str]) -> int:
    """The closing quote of the string at this position, which may hold its own quote; -1 if not certain.

    The quotes inside must come in pairs, each first one next to what it quotes.
    """
    opener = text[position]
    scanner = _scanner_to_end(CLOSING_QUOTES[opener], _place_of(brackets))
    stop = position + 1
    while True:
        found = scanner.match(text, stop)
        stop = found.end() if found else stop
        if stop >= len(text):
            return -1
        if can_string_end(text, stop + 1, brackets, names):
            break
        stop += 1
    body = text[position + 1 : stop]
    return stop if _is_plausible(body, opener, names) else -1


def find_unfinished_end(text: str, position: int, opener: str, brackets: Sequence[str]) -> tuple[str, int]:
    """The content and the end of a string without its last quote; the end is -1 if not certain.

    Brackets at the end belong to the string if it opened them, and to the structure if they close exactly
    what is open. A marker at the end belongs to neither. Without either, nothing shows that the model had
    finished the string: a server may hide that it cut the reply, and half a command must not run.
    """
    end = _without_marker(text, position)
    body = text[position:end]
    tail = _CLOSING_TAIL.search(text, max(position, end - _TAIL_DISTANCE), end)
    if tail is None or all(body.count(CLOSERS[bracket]) <= body.count(bracket) for bracket in CLOSERS):
        return body, end if end < len(text.rstrip()) else -1
    body = text[position : tail.start()]
    if "".join(tail[0].split()) != "".join([CLOSERS[bracket] for bracket in reversed(brackets)]):
        return body, -1
    # An escaped quote right before the structure ends was meant to end the string, unless it is the second of
    # a pair.
    escaped = "\\" + opener
    if body.endswith(escaped) and body.count(escaped) % 2:
        body = body[:-1]
    return body, -1 if _ends_in_doubt(body, opener) else tail.start()


def _ends_in_doubt(body: str, opener: str) -> bool:
    """Whether the last character may belong to the structure instead of the string."""
    last = body[-1:]
    is_other_quote = last in CLOSING_QUOTES and last not in CLOSING_QUOTES[opener]
    return last in (",", ":") or (is_other_quote and body.count(last) % 2 == 1)


def _without_marker(text: str, position: int) -> int:
    end = len(text.rstrip())
    for found in MARKER.finditer(text, max(position, end - _MARKER_DISTANCE), end):
        if found.end() == end:
            return found.start()
    return len(text)


def _place_of(brackets: Sequence[str]) -> str:
    return "outermost" if len(brackets) == 1 and brackets[0] == "{" else brackets[-1] if brackets else "["


@cache
def _scanner_to_end(closers: str, place: str) -> re.Pattern[str]:
    """Matches the inside of a string up to a quote that something fitting follows."""
    return re.compile(rf"(?:[^{closers}\\]++|\\.|[{closers}](?!{_FOLLOWING[place]}))*+", re.DOTALL)


@cache
def _pairs_of(closers: str) -> re.Pattern[str]:
    plain = rf"[^{closers}\\]*+(?:\\.[^{closers}\\]*+)*+"
    return re.compile(
        rf"{plain}(?:[{closers}](?![\s,:]|[{closers}]\w){plain}[{closers}]{plain})*+", re.DOTALL
    )


@cache
def _member_inside(closers: str) -> re.Pattern[str]:
    return re.compile(rf",\s*+[{closers}]([^{closers}\\\r\n]{{1,200}}+)[{closers}]\s*+:")


def _is_plausible(body: str, opener: str, names: frozenset[str]) -> bool:
    closers = CLOSING_QUOTES[opener]
    # Apostrophes stand alone; quotation marks come in pairs.
    if opener in '"`' and not _pairs_of(closers).fullmatch(body):
        return False
    return not any(not names or found[1] in names for found in _member_inside(closers).finditer(body))
