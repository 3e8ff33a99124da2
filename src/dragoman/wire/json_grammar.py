"""The grammar of strict JSON as tables: which character may follow where, and what would end it.

Outside strings one character is one move. Inside strings patterns do the work, because that is where
nearly all characters are. Escaped surrogates must come in pairs: half a rune is no text, and most
parsers refuse it.
"""

import re
from typing import Final

State = str

# Between tokens, where white space may stand.
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

# Moves that also change the nesting: the reader knows where they lead.
OPEN: Final = "a bracket opens"
CLOSE: Final = "a bracket closes"
ENDED: Final = "a value has ended"

#: Where a number may end, at whatever cannot continue it.
NUMBER_ENDS = frozenset((ZERO, WHOLE, FRACTION, EXPONENT_DIGITS))
STRINGS = frozenset((TEXT, KEY_TEXT))

WORDS = ("true", "false", "null")
DIGITS = "0123456789"


def _within_words() -> dict[State, dict[str, State]]:
    return {
        f"after {word[:length]}": {
            word[length]: f"after {word[: length + 1]}" if length + 1 < len(word) else ENDED
        }
        for word in WORDS
        for length in range(1, len(word))
    }


def _spaced(state: State, moves: dict[str, State]) -> dict[State, dict[str, State]]:
    return {state: {**dict.fromkeys(" \t\n\r", state), **moves}}


_FRACTION_OR_EXPONENT = {".": POINT, "e": EXPONENT, "E": EXPONENT}
_VALUE_STARTS = {
    '"': TEXT,
    "{": OPEN,
    "[": OPEN,
    "-": MINUS,
    "0": ZERO,
    **dict.fromkeys("123456789", WHOLE),
    **{word[0]: f"after {word[0]}" for word in WORDS},
}

MOVES: dict[State, dict[str, State]] = {
    **_spaced(START, _VALUE_STARTS),
    **_spaced(VALUE, _VALUE_STARTS),
    **_spaced(FIRST_ITEM, {**_VALUE_STARTS, "]": CLOSE}),
    **_spaced(ITEM_END, {",": VALUE, "]": CLOSE}),
    **_spaced(FIRST_KEY, {'"': KEY_TEXT, "}": CLOSE}),
    **_spaced(KEY, {'"': KEY_TEXT}),
    **_spaced(COLON, {":": VALUE}),
    **_spaced(MEMBER_END, {",": KEY, "}": CLOSE}),
    **_spaced(DONE, {}),
    MINUS: {"0": ZERO, **dict.fromkeys("123456789", WHOLE)},
    ZERO: _FRACTION_OR_EXPONENT,
    WHOLE: {**dict.fromkeys(DIGITS, WHOLE), **_FRACTION_OR_EXPONENT},
    POINT: dict.fromkeys(DIGITS, FRACTION),
    FRACTION: {**dict.fromkeys(DIGITS, FRACTION), "e": EXPONENT, "E": EXPONENT},
    EXPONENT: {"+": EXPONENT_SIGN, "-": EXPONENT_SIGN, **dict.fromkeys(DIGITS, EXPONENT_DIGITS)},
    EXPONENT_SIGN: dict.fromkeys(DIGITS, EXPONENT_DIGITS),
    EXPONENT_DIGITS: dict.fromkeys(DIGITS, EXPONENT_DIGITS),
    **_within_words(),
}

#: The state in a container's beginning, after one of its values, and the bracket that ends it.
AT_FIRST = {"{": FIRST_KEY, "[": FIRST_ITEM}
AFTER_VALUE = {"{": MEMBER_END, "[": ITEM_END}
CLOSERS = {"{": "}", "[": "]"}

#: The shortest text that ends what a state has begun; a value that is owed is null.
ENDINGS: dict[State, str] = {
    **dict.fromkeys((FIRST_ITEM, ITEM_END, FIRST_KEY, MEMBER_END, DONE, *NUMBER_ENDS), ""),
    **dict.fromkeys((START, VALUE), "null"),
    **dict.fromkeys((MINUS, POINT, EXPONENT, EXPONENT_SIGN), "0"),
    **{f"after {word[:length]}": word[length:] for word in WORDS for length in range(1, len(word))},
    KEY: '"":null',
    COLON: ":null",
    TEXT: '"',
    KEY_TEXT: '":null',
}

#: What kind of value each first character begins.
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

#: Characters that stand for themselves, and nothing else.
PLAIN_TEXT = re.compile(_PLAIN)
#: The inside of a string, up to its end or to an escape that is not whole.
STRING_BODY = re.compile(rf"{_PLAIN}(?:{_ESCAPE}{_PLAIN})*")

#: As much of an escape as can still become a whole one.
ESCAPE_BEGINNING = re.compile(
    rf"\\(?:u(?:[0-9abcefABCEF]{_HEX}{{0,2}}"
    rf"|[dD](?:[0-7]{_HEX}?|[89abAB](?:{_HEX}(?:{_HEX}(?:\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?)?)?)?)?)?)?"
)
HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB]")

# What models take for a string: line breaks as they are, escapes that are none, half a surrogate pair.

#: The inside of a string read with a kind eye, up to its end or to a backslash that begins no whole escape.
LENIENT_BODY = re.compile(rf'[^"\\]*(?:\\(?:["\\/bfnrt]|u{_HEX}{{4}})[^"\\]*)*')
LENIENT_ESCAPE = re.compile(rf'\\(?:(["\\/bfnrt])|u({_HEX}{{4}}))')
LENIENT_ESCAPE_BEGINNING = re.compile(rf"\\(?:u{_HEX}{{0,3}})?")
MEANINGS = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
SURROGATE = re.compile("[\ud800-\udfff]")


def unescape(body: str) -> str:
    """The text that a lenient body stands for; it may hold halves of surrogate pairs."""
    return LENIENT_ESCAPE.sub(_meaning, body) if "\\" in body else body


def _meaning(escape: re.Match[str]) -> str:
    letter, code = escape.groups()
    return MEANINGS[letter] if letter else chr(int(code, 16))


def pair_surrogates(text: str) -> str:
    """Join halves that belong together; a half that stands alone becomes the replacement character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def escape_ending(escape: str) -> str:
    """What makes the beginning of an escape whole."""
    if len(escape) < 2:
        return escape
    if len(escape) >= 6:
        return r"\udc00"[len(escape) - 6 :]
    ending = "000a"[len(escape) - 2 :]
    return ending + (r"\udc00" if HIGH_SURROGATE.match(escape + ending) else "")
