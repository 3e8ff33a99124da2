"""What a reader can be at, and the patterns it looks for there.

Repetitions are possessive throughout: a pattern that does not match must not try all ways to fail.
"""

import re
from typing import Final

from dragoman.governance.repair.scalars import STRICT_WORD
from dragoman.governance.repair.strings import QUOTES_CLASS, STRICT_STRING

State = str
MEMBER: Final = "before a key"
COLON: Final = "after a key"
VALUE: Final = "before a value"
ITEM: Final = "before an item"
AFTER: Final = "after a value"
DONE: Final = "after the whole"

FIRST: dict[str, State] = {"{": MEMBER, "[": ITEM}

_SPACE = r"[ \t\n\r]*+"
_SCALAR = rf"(?:{STRICT_STRING}|{STRICT_WORD})"


def _nested(value: str) -> str:
    """The pattern of a value, or of an array or object of such values."""
    item = rf"{_SPACE}{value}{_SPACE}"
    member = rf"{_SPACE}{STRICT_STRING}{_SPACE}:{item}"
    lists = [
        rf"{opening}(?:{one}(?:,{one})*+|{_SPACE}){closing}"
        for opening, one, closing in ((r"\[", item, r"\]"), (r"\{", member, r"\}"))
    ]
    return rf"(?:{value}|{'|'.join(lists)})"


# What needs nothing. Flat arrays and objects are passed over whole, so that texts of many small values cost
# little more than others.
_VALUE = _nested(_SCALAR)
STRICT_KEY = re.compile(rf"({STRICT_STRING}){_SPACE}:{_SPACE}")
STRICT_SCALAR = re.compile(_SCALAR)
STRICT_VALUE = re.compile(_VALUE)
#: Members or items with commas behind them, as many as there are, and then as much as there is of another.
STRICT_RUNS: dict[State, re.Pattern[str]] = {
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
SEPARATES = r"\s*+(?:[:\uff1a]|=(?!=))"
SEPARATOR = re.compile(r":[\s:]*+|\uff1a|=>|=(?!=)")
BARE_KEY = re.compile(rf"({NAME})[{QUOTES_CLASS}]?(?={SEPARATES})")
UNCLOSED_KEY = re.compile(rf"[{QUOTES_CLASS}]({NAME})(?=\s*+:\s)")
QUOTED_KEY = re.compile(QUOTED_NAME + SEPARATES)
BARE_KEY_OF_A_LINE = re.compile(rf"{NAME}{SEPARATES}")
LINE_BREAK = re.compile(r"[\r\n]\s*+\Z")
#: How far back a line break is looked for.
LINE_BREAK_REACH = 200

# Commas.
COMMA_RUN = re.compile(r"[,;\uff0c\u3001\s]*+")
OTHER_COMMAS = frozenset(";\uff0c\u3001")
#: What an item begins with beyond doubt, where a comma or a colon is missing.
VALUE_STARTS = frozenset(QUOTES_CLASS + "{[-0123456789")
