"""Python literals as JSON: strings, numbers, lists, tuples, dictionaries with string keys, and constants.

`true`, `false` and `null` count as constants too, because models mix the two languages. Nothing is evaluated.
"""

import re

from dragoman.governance.harvest.json_text import write_object, write_string

DEPTH = 64

_BLANKS = re.compile(r"\s*")
_NUMBER = re.compile(r"([+-]?)(0|[1-9]\d*|(?=\.\d))(\.\d*)?([eE][+-]?\d+)?(?![\w.])")
_CONSTANT = re.compile(r"(?:True|False|None|true|false|null)(?!\w)")
_STRING_START = re.compile(r"(r?)(\"\"\"|'''|\"|')")
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|(\r\n|.))", re.DOTALL
)

_CONSTANTS = {"True": "true", "False": "false", "None": "null"}
_ESCAPES = {
    **{"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a"},
    **{"\\": "\\", "'": "'", '"': '"', "\n": "", "\r\n": ""},
}
_CLOSERS = {"[": "]", "(": ")", "{": "}"}
#: Where a string of each kind ends or an escape begins.
_STRING_STOPS = {quote: re.compile(rf"\\|{quote}") for quote in ('"""', "'''", '"', "'")}


class _NotALiteral(ValueError):
    """The text is not a literal."""


def convert_literal(text: str) -> str | None:
    """The JSON of a text that is exactly one literal; None if it is not."""
    try:
        value, end = _read_value(text, _skip_blanks(text, 0), DEPTH)
    except _NotALiteral:
        return None
    return value if _skip_blanks(text, end) == len(text) else None


def _skip_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


def _read_value(text: str, at: int, depth: int) -> tuple[str, int]:
    if (found := _STRING_START.match(text, at)) is not None:
        string, end = _read_string(text, found)
        return write_string(string), end
    if (found := _CONSTANT.match(text, at)) is not None:
        return _CONSTANTS.get(found[0], found[0]), found.end()
    if (found := _NUMBER.match(text, at)) is not None:
        return _write_number(found), found.end()
    if text[at : at + 1] in ("[", "("):
        return _read_sequence(text, at, depth)
    if text[at : at + 1] == "{":
        return _read_dictionary(text, at, depth)
    raise _NotALiteral


def _write_number(found: re.Match[str]) -> str:
    sign, whole, fraction, exponent = found.groups(default="")
    fraction = "" if fraction == "." and exponent else fraction + "0" * (fraction == ".")
    return ("-" if sign == "-" else "") + (whole or "0") + fraction + exponent


def _read_string(text: str, start: re.Match[str]) -> tuple[str, int]:
    """The content of a string, and where it ends."""
    raw, quote = start[1], start[2]
    stops = _STRING_STOPS[quote]
    parts: list[str] = []
    at = start.end()
    while (stop := stops.search(text, at)) is not None:
        parts.append(text[at : stop.start()])
        if stop[0] == quote:
            return "".join(parts), stop.end()
        escape = _ESCAPE.match(text, stop.start())
        if escape is None:
            break
        if raw:
            escape_end = stop.start() + 2
            parts.append(text[stop.start() : escape_end])
            at = escape_end
        else:
            parts.append(_decode_escape(escape))
            at = escape.end()
    raise _NotALiteral


def _decode_escape(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2] or escape[3]
    if code:
        number = int(code, 16)
    elif escape[4]:
        number = int(escape[4], 8)
    else:
        return _ESCAPES.get(escape[5], escape[0])
    return chr(number) if number <= 0x10FFFF else escape[0]


def _read_sequence(text: str, at: int, depth: int) -> tuple[str, int]:
    closer = _CLOSERS[text[at]]
    items: list[str] = []
    comma = True
    at = _skip_blanks(text, at + 1)
    while text[at : at + 1] != closer:
        if not comma or not depth:
            raise _NotALiteral
        item, at = _read_value(text, at, depth - 1)
        items.append(item)
        at, comma = _skip_comma(text, at)
    if closer == ")" and len(items) == 1 and not comma:
        return items[0], at + 1
    return "[" + ",".join(items) + "]", at + 1


def _read_dictionary(text: str, at: int, depth: int) -> tuple[str, int]:
    members: dict[str, str] = {}
    comma = True
    at = _skip_blanks(text, at + 1)
    while text[at : at + 1] != "}":
        start = _STRING_START.match(text, at)
        if start is None or not comma or not depth:
            raise _NotALiteral
        key, at = _read_string(text, start)
        at = _skip_blanks(text, at)
        if text[at : at + 1] != ":":
            raise _NotALiteral
        members[key], at = _read_value(text, _skip_blanks(text, at + 1), depth - 1)
        at, comma = _skip_comma(text, at)
    return write_object(members), at + 1


def _skip_comma(text: str, at: int) -> tuple[int, bool]:
    at = _skip_blanks(text, at)
    if text[at : at + 1] == ",":
        return _skip_blanks(text, at + 1), True
    return at, False
