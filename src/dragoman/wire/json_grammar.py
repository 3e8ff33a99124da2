"""The grammar of strict JSON as tables: which character may follow in each state, and how the state ends.

Outside strings one character is one move. Inside strings regular expressions are used, because nearly all
characters are there. Escaped surrogates must come in pairs: most parsers refuse a lone one.
"""

import re
from typing import Final

State = str

# Between tokens, where white space is allowed.
START: Final = "nothing yet"
VALUE: Final = "before a value"
FIRST_ITEM: Final = "at the start of an array"
ITEM_END: Final = "after an item"
FIRST_KEY: Final = "at the start of an object"
KEY: Final = "before a key"
COLON: Final = "after a key"
MEMBER_END: Final = "after a member"
DONE: Final = "after the value"

# Inside tokens.
TEXT: Final = "in a string"
KEY_TEXT: Final = "in a key"
MINUS: Final = "after a minus"
ZERO: Final = "after a leading zero"
WHOLE: Final = "in a whole number"
POINT: Final = "after a decimal point"
FRACTION: Final = "in a fraction"
EXPONENT: Final = "after an exponent mark"
EXPONENT_SIGN: Final = "after an exponent's sign"
EXPONENT_DIGITS: Final = "in an exponent"

# Moves that change the nesting: the next state depends on the stack of the reader.
OPEN: Final = "a bracket opens"
CLOSE: Final = "a bracket closes"
ENDED: Final = "a value has ended"

#: States in which a number may end, at any character that cannot continue it.
NUMBER_ENDS = frozenset((ZERO, WHOLE, FRACTION, EXPONENT_DIGITS))
STRINGS = frozenset((TEXT, KEY_TEXT))

LITERALS = ("true", "false", "null")
DIGITS = "0123456789"


def _build_literal_moves() -> dict[State, dict[str, State]]:
    return {
        f"after {literal[:length]}": {
            literal[length]: f"after {literal[: length + 1]}" if length + 1 < len(literal) else ENDED
        }
        for literal in LITERALS
        for length in range(1, len(literal))
    }


def _build_spaced_moves(state: State, moves: dict[str, State]) -> dict[State, dict[str, State]]:
    return {state: {**dict.fromkeys(" \t\n\r", state), **moves}}


_FRACTION_OR_EXPONENT = {".": POINT, "e": EXPONENT, "E": EXPONENT}
_VALUE_STARTS = {
    '"': TEXT,
    "{": OPEN,
    "[": OPEN,
    "-": MINUS,
    "0": ZERO,
    **dict.fromkeys("123456789", WHOLE),
    **{literal[0]: f"after {literal[0]}" for literal in LITERALS},
}

MOVES: dict[State, dict[str, State]] = {
    **_build_spaced_moves(START, _VALUE_STARTS),
    **_build_spaced_moves(VALUE, _VALUE_STARTS),
    **_build_spaced_moves(FIRST_ITEM, {**_VALUE_STARTS, "]": CLOSE}),
    **_build_spaced_moves(ITEM_END, {",": VALUE, "]": CLOSE}),
    **_build_spaced_moves(FIRST_KEY, {'"': KEY_TEXT, "}": CLOSE}),
    **_build_spaced_moves(KEY, {'"': KEY_TEXT}),
    **_build_spaced_moves(COLON, {":": VALUE}),
    **_build_spaced_moves(MEMBER_END, {",": KEY, "}": CLOSE}),
    **_build_spaced_moves(DONE, {}),
    MINUS: {"0": ZERO, **dict.fromkeys("123456789", WHOLE)},
    ZERO: _FRACTION_OR_EXPONENT,
    WHOLE: {**dict.fromkeys(DIGITS, WHOLE), **_FRACTION_OR_EXPONENT},
    POINT: dict.fromkeys(DIGITS, FRACTION),
    FRACTION: {**dict.fromkeys(DIGITS, FRACTION), "e": EXPONENT, "E": EXPONENT},
    EXPONENT: {"+": EXPONENT_SIGN, "-": EXPONENT_SIGN, **dict.fromkeys(DIGITS, EXPONENT_DIGITS)},
    EXPONENT_SIGN: dict.fromkeys(DIGITS, EXPONENT_DIGITS),
    EXPONENT_DIGITS: dict.fromkeys(DIGITS, EXPONENT_DIGITS),
    **_build_literal_moves(),
}

#: By opening bracket: the first state in the container, the state after a value, the closing bracket.
AT_FIRST = {"{": FIRST_KEY, "[": FIRST_ITEM}
AFTER_VALUE = {"{": MEMBER_END, "[": ITEM_END}
CLOSERS = {"{": "}", "[": "]"}

#: The shortest text that completes each state; a missing value becomes null.
ENDINGS: dict[State, str] = {
    **dict.fromkeys((FIRST_ITEM, ITEM_END, FIRST_KEY, MEMBER_END, DONE, *NUMBER_ENDS), ""),
    **dict.fromkeys((START, VALUE), "null"),
    **dict.fromkeys((MINUS, POINT, EXPONENT, EXPONENT_SIGN), "0"),
    **{
        f"after {literal[:length]}": literal[length:]
        for literal in LITERALS
        for length in range(1, len(literal))
    },
    KEY: '"":null',
    COLON: ":null",
    TEXT: '"',
    KEY_TEXT: '":null',
}

#: The kind of value that each first character begins.
KINDS = {
    "{": "object",
    "[": "array",
    '"': "string",
    "t": "boolean",
    "f": "boolean",
    "n": "null",
    **dict.fromkeys("-" + DIGITS, "number"),
}

_HEX = "[0-9a-fA-F]"
_LOW = rf"\\u[dD][c-fC-F]{_HEX}{{2}}"
_ESCAPE = (
    rf'\\(?:["\\/bfnrt]'
    rf"|u(?:[0-9abcefABCEF]{_HEX}{{3}}|[dD][0-7]{_HEX}{{2}}|[dD][89abAB]{_HEX}{{2}}{_LOW}))"
)
_PLAIN = r'[^"\\\x00-\x1f\ud800-\udfff]*'

#: Characters that need no escape.
PLAIN_TEXT = re.compile(_PLAIN)
#: The inside of a string, up to its end or to an incomplete escape.
STRING_BODY = re.compile(rf"{_PLAIN}(?:{_ESCAPE}{_PLAIN})*")

#: The beginning of an escape that can still become valid.
ESCAPE_BEGINNING = re.compile(
    rf"\\(?:u(?:[0-9abcefABCEF]{_HEX}{{0,2}}"
    rf"|[dD](?:[0-7]{_HEX}?|[89abAB](?:{_HEX}(?:{_HEX}(?:\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?)?)?)?)?)?)?"
)
HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB]")

# Strings as models write them: bare line breaks, invalid escapes, lone surrogates.

#: The inside of a lenient string, up to its end or to a backslash without a complete escape.
LENIENT_BODY = re.compile(rf'[^"\\]*(?:\\(?:["\\/bfnrt]|u{_HEX}{{4}})[^"\\]*)*')
LENIENT_ESCAPE = re.compile(rf'\\(?:(["\\/bfnrt])|u({_HEX}{{4}}))')
LENIENT_ESCAPE_BEGINNING = re.compile(rf"\\(?:u{_HEX}{{0,3}})?")
MEANINGS = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
SURROGATE = re.compile("[\ud800-\udfff]")


def unescape(body: str) -> str:
    """Decode the escapes of a string's content (without quotes). The result may hold lone surrogates."""
    return LENIENT_ESCAPE.sub(_decode_escape, body) if "\\" in body else body


def _decode_escape(escape: re.Match[str]) -> str:
    letter, code = escape.groups()
    return MEANINGS[letter] if letter else chr(int(code, 16))


def pair_surrogates(text: str) -> str:
    """Join surrogate pairs; a lone surrogate becomes the replacement character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def complete_escape(escape: str) -> str:
    """The characters that complete the beginning of an escape."""
    if len(escape) < 2:
        return escape
    if len(escape) >= 6:
        return r"\udc00"[len(escape) - 6 :]
    ending = "000a"[len(escape) - 2 :]
    return ending + (r"\udc00" if HIGH_SURROGATE.match(escape + ending) else "")
