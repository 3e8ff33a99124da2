"""Values that stand there without quotes: other languages' literals, odd numbers, single words.

Where the schema knows the type it decides: the same five digits are a number here and a postal code there.
"""

import re

from dragoman.governance.repair.schema import allows
from dragoman.governance.repair.steps import BARE_VALUES, LITERALS, NUMBERS
from dragoman.governance.repair.strings import QUOTES_CLASS
from dragoman.wire.fields import encode

_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"

#: A number or a literal that needs nothing, if this is where it ends.
STRICT_WORD = rf"(?:{_NUMBER}|true|false|null)(?=[\s,;\uff0c\u3001\]}}<]|/[/*]|\Z)"

_NOT_IN_WORD = rf"\s,;\uff0c\u3001=<>|&(){{}}\[\]{QUOTES_CLASS}"
#: One word, and then the end of the value, at something that can be seen.
WORD = re.compile(rf"[^:{_NOT_IN_WORD}][^{_NOT_IN_WORD}]*+(?=\s*[,;\uff0c\u3001}}\]]|[ \t]*[\r\n])")
#: Several words in one line, and then the end of the object or another key.
PHRASE = re.compile(
    rf"[^\s,;{{}}\[\]{QUOTES_CLASS}][^,;{{}}\[\]{QUOTES_CLASS}\r\n]*+(?=\}}|,\s*([\w$.-]+)\s*[:=])"
)

LITERALS_BY_WORD: dict[str, str] = {
    **dict.fromkeys(("True", "TRUE", "true"), "true"),
    **dict.fromkeys(("False", "FALSE", "false"), "false"),
    **dict.fromkeys(("None", "NONE", "Null", "NULL", "null", "nil", "undefined"), "null"),
    **dict.fromkeys(("NaN", "nan", "Infinity", "-Infinity", "+Infinity"), "null"),
}
_TYPE_OF_LITERAL = {"true": "boolean", "false": "boolean", "null": "null"}

_DECIMAL = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9_]*+)(?P<point>\.?)(?P<fraction>[0-9_]*+)(?P<power>[eE][+-]?[0-9]++)?"
)
_LEADING_ZERO = re.compile(r"[+-]?0[0-9_]")
_HEXADECIMAL = re.compile(r"([+-]?)0[xX]([0-9a-fA-F]{1,16})")


def read_word(word: str, types: frozenset[str], steps: set[str]) -> str | None:
    """JSON for a bare word, given the types that fit its place; None if nothing does."""
    literal = LITERALS_BY_WORD.get(word)
    if literal and (allows(types, _TYPE_OF_LITERAL[literal]) or not allows(types, "string")):
        steps.add(LITERALS)
        return literal
    number = read_number(word)
    # Leading zeros are layout in a number and data in a code: where nobody says which, nothing is dropped.
    if number and (types or not _LEADING_ZERO.match(word)) and allows(types, _type_of_number(number)):
        steps.add(NUMBERS)
        return number
    if not allows(types, "string") or not any(character.isalnum() for character in word):
        return None
    steps.add(BARE_VALUES)
    return encode(word).decode()


def _type_of_number(number: str) -> str:
    return "integer" if number.lstrip("-").isdigit() else "number"


def read_number(word: str) -> str | None:
    """JSON for a number as other languages write it, digit for digit."""
    found = _HEXADECIMAL.fullmatch(word)
    if found:
        return f"{found[1]}{int(found[2], 16)}".removeprefix("+")
    found = _DECIMAL.fullmatch(word)
    whole = found["whole"].replace("_", "") if found else ""
    fraction = found["fraction"].replace("_", "") if found else ""
    if found is None or not (whole or fraction):
        return None
    sign = found["sign"].removeprefix("+")
    point = f".{fraction or '0'}" if found["point"] else ""
    return f"{sign}{whole.lstrip('0') or '0'}{point}{found['power'] or ''}"
