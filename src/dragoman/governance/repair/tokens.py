"""White space, strings and bare values: how models write them, and how JSON does.

Repetitions in patterns are possessive in the whole package: a pattern that fails must fail in linear time.
"""

import re
from collections.abc import Iterator
from typing import Final

from dragoman.governance.repair.schema import allows
from dragoman.governance.repair.steps import RepairStep
from dragoman.wire.fields import encode

# Blanks: what means nothing between tokens. White space, comments, fences and the markers around a call.

#: Where a blank stands. It decides what counts as one.
BlankPlace = str
OUTSIDE: Final = "outside every bracket"
BEFORE: Final = "before a key or a value"
BEHIND: Final = "behind a value"

_SPACE = re.compile(r"[ \t\n\r]*+")
_FENCE = re.compile(r"```[\w+-]{0,20}[ \t]*+|~~~[\w+-]{0,20}[ \t]*+")
#: Tags and tokens that enclose a call in a model's own text: `</tool_call>`, `<|im_end|>`, `[/TOOL_CALLS]`.
MARKER = re.compile(
    r"</?[A-Za-z_][\w:.-]{0,60}>|<\|[\w:.-]{1,60}\|?>|<[\w:.-]{1,60}\|>"
    r"|<\uff5c[^<>\uff5c\r\n]{1,60}\uff5c>|\[/?[A-Z][A-Z_]{2,30}\]"
)
_ODD_SPACE = re.compile(r"[\s\x00-\x1f\x7f\u200b-\u200f\u2060\ufeff]++")
_BYTE_ORDER_MARKS = re.compile(r"\ufeff++")
#: A number sign needs a blank behind it: a colour such as `#fff` has none.
_LINE_COMMENT = re.compile(r"(?://|#(?=[ \t\r\n!#]))[^\r\n]*+")


def find_space_end(text: str, position: int) -> int:
    """Where JSON's own white space at this position ends."""
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _match_blank(text: str, position: int, place: BlankPlace) -> tuple[int, str, RepairStep] | None:
    """Match a removable blank at `position`: a byte order mark, odd space, fence or comment.

    Returns its end, its replacement and the step to report; None if there is no such blank.
    """
    if found := _BYTE_ORDER_MARKS.match(text, position):
        return found.end(), "", RepairStep.WRAPPING
    if found := _ODD_SPACE.match(text, position):
        return found.end(), " ", RepairStep.CONTROL_CHARACTERS
    if place is not BEFORE and (found := MARKER.match(text, position) or _FENCE.match(text, position)):
        return found.end(), "", RepairStep.WRAPPING
    stop = _find_comment_end(text, position, place)
    return None if stop < 0 else (stop, " ", RepairStep.COMMENTS)


def _find_comment_end(text: str, position: int, place: BlankPlace) -> int:
    """The end of the comment at this position; -1 if there is none, or if it may contain what follows."""
    if text.startswith("/*", position):
        stop = text.find("*/", position + 2) + 2
        is_whole = stop > 1
    else:
        found = _LINE_COMMENT.match(text, position)
        stop = found.end() if found else -1
        is_whole = place is OUTSIDE or stop < len(text)
    # An odd number of quotes belongs to a string with wrong quotes.
    return stop if is_whole and stop > 0 and text.count('"', position, stop) % 2 == 0 else -1


def find_blanks(text: str, position: int, place: BlankPlace) -> Iterator[tuple[int, int, str, RepairStep]]:
    """The adjacent blanks from this position on: start, end, replacement, step.

    JSON's own white space between them is skipped.
    """
    position = find_space_end(text, position)
    while position < len(text) and (found := _match_blank(text, position, place)):
        stop, replacement, step = found
        yield position, stop, replacement, step
        position = find_space_end(text, stop)


def skip_blanks(text: str, position: int, place: BlankPlace, steps: set[RepairStep]) -> int:
    """Where the adjacent blanks at this position end, with the white space behind them; adds their steps."""
    end = position
    for blank in find_blanks(text, position, place):
        end = blank[1]
        steps.add(blank[3])
    return find_space_end(text, end)


# Strings. Their content is kept: control characters are escaped, and a backslash that begins no escape of
# JSON stands for itself, because in paths, patterns and commands that is its meaning.

_HEX = "[0-9a-fA-F]"
_PAIR = rf"\\u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}"
_ESCAPE = rf'(?:\\["\\/bfnrt]|\\u(?![dD][89a-fA-F]){_HEX}{{4}}|{_PAIR})'
_PLAIN = r'[^"\\\x00-\x1f]*+'
#: A string of strict JSON.
STRICT_STRING = rf'"{_PLAIN}(?:{_ESCAPE}{_PLAIN})*+"'

#: The characters that end a string, by the one that begins it.
CLOSING_QUOTES: dict[str, str] = {
    '"': '"',
    "'": "'",
    "`": "`",
    "\uff02": "\uff02",
    **dict.fromkeys("\u201c\u201d\u201e", "\u201c\u201d"),
    **dict.fromkeys("\u2018\u2019\u201a", "\u2018\u2019"),
}
QUOTES_CLASS = "".join(CLOSING_QUOTES)
TRIPLE_QUOTES = ('"""', "'''")

#: The inside of a string up to a quote that could end it, by its first quote.
_BODIES: dict[str, re.Pattern[str]] = {
    opener: re.compile(rf"[^{closers}\\]*+(?:\\.[^{closers}\\]*+)*+", re.DOTALL)
    for opener, closers in CLOSING_QUOTES.items()
}
_SPECIAL = re.compile(
    rf'(?P<whole>{_ESCAPE})|(?P<half>\\u{_HEX}{{4}})|\\(?P<quote>[{QUOTES_CLASS}]?)|["\x00-\x1f]'
)
_SPELLINGS = {
    '"': '\\"',
    **{chr(code): f"\\u{code:04x}" for code in range(0x20)},
    **{"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"},
}


def find_quote(text: str, position: int, opener: str) -> int:
    """The first quote that could end the string whose inside begins here, or the end of the text."""
    found = _BODIES[opener].match(text, position)
    stop = found.end() if found else position
    # A lone backslash at the very end escapes nothing.
    return len(text) if text[stop : stop + 1] == "\\" else stop


def write_string(body: str, opener: str, steps: set[RepairStep]) -> str:
    """The JSON string for the text between two quotes; adds the steps that it needs."""
    closers = CLOSING_QUOTES[opener]

    def spell(found: re.Match[str]) -> str:
        if found["whole"]:
            return found[0]
        if found["half"]:
            steps.add(RepairStep.ESCAPES)
            return "\\ufffd"
        quote = found["quote"]
        if quote is None:
            if found[0] != '"':
                steps.add(RepairStep.CONTROL_CHARACTERS)
            return _SPELLINGS[found[0]]
        if quote and quote in closers:
            return quote
        steps.add(RepairStep.ESCAPES)
        return "\\\\" + quote

    return f'"{_SPECIAL.sub(spell, body)}"'


# Bare values: literals of other languages, odd numbers, text without quotes. The schema decides the type
# where it states one: the same five digits are a number in one tool and a postal code in another.

_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
#: A number or a literal of strict JSON, with the end of the value behind it.
STRICT_LITERAL = rf"(?:{_NUMBER}|true|false|null)(?=[\s,;\uff0c\u3001\]}}<]|/[/*]|\Z)"

_NOT_BARE = rf"\s,;\uff0c\u3001=<>|&(){{}}\[\]{QUOTES_CLASS}"
#: One bare value without blanks, with a visible end of the value behind it.
BARE_VALUE = re.compile(rf"[^:{_NOT_BARE}][^{_NOT_BARE}]*+(?=\s*[,;\uff0c\u3001}}\]]|[ \t]*[\r\n])")
#: Bare text with blanks in one line, with the end of the object or another key behind it.
BARE_PHRASE = re.compile(
    rf"[^\s,;{{}}\[\]{QUOTES_CLASS}][^,;{{}}\[\]{QUOTES_CLASS}\r\n]*+(?=\}}|,\s*([\w$.-]+)\s*[:=])"
)

LITERALS: dict[str, str] = {
    **dict.fromkeys(("True", "TRUE", "true"), "true"),
    **dict.fromkeys(("False", "FALSE", "false"), "false"),
    **dict.fromkeys(("None", "NONE", "Null", "NULL", "null", "nil", "undefined"), "null"),
    **dict.fromkeys(("NaN", "nan", "Infinity", "-Infinity", "+Infinity"), "null"),
}
_LITERAL_TYPES = {"true": "boolean", "false": "boolean", "null": "null"}
_DECIMAL = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9_]*+)(?P<point>\.?)(?P<fraction>[0-9_]*+)(?P<power>[eE][+-]?[0-9]++)?"
)
_LEADING_ZERO = re.compile(r"[+-]?0[0-9_]")
_HEXADECIMAL = re.compile(r"([+-]?)0[xX]([0-9a-fA-F]{1,16})")


def read_bare_value(text: str, types: frozenset[str], steps: set[RepairStep]) -> str | None:
    """JSON for a bare value, given the types that its place allows; None if none fits. Adds its step."""
    literal = LITERALS.get(text)
    if literal and (allows(types, _LITERAL_TYPES[literal]) or not allows(types, "string")):
        steps.add(RepairStep.LITERALS)
        return literal
    number = read_number(text)
    # Leading zeros mean nothing in a number and something in a code: without a type none is dropped.
    if number and (types or not _LEADING_ZERO.match(text)) and allows(types, _number_type(number)):
        steps.add(RepairStep.NUMBERS)
        return number
    if not allows(types, "string") or not any(character.isalnum() for character in text):
        return None
    steps.add(RepairStep.BARE_VALUES)
    return encode(text).decode()


def _number_type(number: str) -> str:
    return "integer" if number.lstrip("-").isdigit() else "number"


def read_number(text: str) -> str | None:
    """JSON for a number as other languages write it, with all its digits; None if it is not a number."""
    found = _HEXADECIMAL.fullmatch(text)
    if found:
        return f"{found[1]}{int(found[2], 16)}".removeprefix("+")
    found = _DECIMAL.fullmatch(text)
    whole = found["whole"].replace("_", "") if found else ""
    fraction = found["fraction"].replace("_", "") if found else ""
    if found is None or not (whole or fraction):
        return None
    sign = found["sign"].removeprefix("+")
    point = f".{fraction or '0'}" if found["point"] else ""
    return f"{sign}{whole.lstrip('0') or '0'}{point}{found['power'] or ''}"
