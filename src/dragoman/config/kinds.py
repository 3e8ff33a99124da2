"""What a value in the file may be: a test, and the words for it in messages and docs."""

from collections.abc import Callable
from typing import NamedTuple

TOML_TYPES: dict[type, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "a table",
}


def toml_type(value: object) -> str:
    """The type of a TOML value, in words."""
    return TOML_TYPES.get(type(value), "a date or time")


#: Beyond every sensible number; infinity and its kin are not numbers here.
A_LOT = 1e9


class Kind(NamedTuple):
    words: str
    accepts: Callable[[object], bool]
    #: The texts to choose from, if there are only so many.
    choices: tuple[str, ...] = ()


class Key(NamedTuple):
    kind: Kind
    about: str


def _is_flag(value: object) -> bool:
    return type(value) is bool


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


FLAG = Kind("true or false", _is_flag)
TEXT = Kind("a string", _is_text)
TEXTS = Kind("a list of strings", _are_texts)
TEXT_OR_TEXTS = Kind(
    "a string or a list of strings", lambda value: _is_text(value) or (_are_texts(value) and value != [])
)
FLAG_OR_TEXT = Kind("true, false or a string", lambda value: _is_flag(value) or _is_text(value))
TABLE = Kind("a table", lambda value: isinstance(value, dict))
TABLES = Kind(
    "a list of tables",
    lambda value: isinstance(value, list) and all(isinstance(item, dict) for item in value),
)
INTEGER_PAIR = Kind(
    "a list of two integers",
    lambda value: isinstance(value, list) and [type(item) for item in value] == [int, int],
)


def integer(low: int, high: int | None = None) -> Kind:
    words = f"an integer from {low}" + (" on" if high is None else f" to {high}")
    return Kind(words, lambda value: type(value) is int and value >= low and (high is None or value <= high))


def number(low: float) -> Kind:
    return Kind(
        f"a number from {low:g} on",
        lambda value: isinstance(value, int | float) and type(value) is not bool and low <= value <= A_LOT,
    )


def one_of(*choices: str) -> Kind:
    return Kind(listed(choices), lambda value: value in choices, choices)


def several_of(*choices: str) -> Kind:
    return Kind(
        f"a list of some of {listed(choices, ' and ')}",
        lambda value: isinstance(value, list) and all(item in choices for item in value),
        choices,
    )


def listed(choices: tuple[str, ...], last: str = " or ") -> str:
    """`"a", "b" or "c"`."""
    quoted = [f'"{choice}"' for choice in choices]
    return last.join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else "".join(quoted)
