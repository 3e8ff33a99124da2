"""Configuration keys: the kind of value that each accepts, and its meaning.

The keys of a table are the fields of its struct in `model`. A field is a key if its annotation has a `Doc`.
A `Kind` in the annotation narrows the accepted values; without it the kind follows from the field's type.
"""

from collections.abc import Callable
from functools import cache
from types import NoneType
from typing import Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from dragoman.providers.facts import Doc

TOML_TYPES: dict[type, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "a table",
}
#: The largest accepted number. It excludes infinity and NaN, which TOML allows.
LARGEST_NUMBER = 1e9


class Kind:
    """A kind of value: its description in messages and docs, and its test.

    `list_choices` gives all accepted strings, if they can be listed. It is called at each use, because some
    names are registered: a description that is empty is the list.
    """

    def __init__(
        self,
        expected: str,
        accepts: Callable[[object], bool],
        list_choices: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self._expected = expected
        self.accepts = accepts
        self._list_choices = list_choices

    @property
    def choices(self) -> tuple[str, ...]:
        return self._list_choices()

    @property
    def expected(self) -> str:
        return self._expected or quote_choices(self.choices)


class ConfigKey(NamedTuple):
    """One key of a table. `about` is its meaning in one sentence."""

    kind: Kind
    about: str


def describe_type(value: object) -> str:
    """The type of a TOML value, in words."""
    return TOML_TYPES.get(type(value), "a date or time")


def quote_choices(choices: tuple[str, ...], last: str = " or ") -> str:
    """The choices as `"a", "b" or "c"`."""
    quoted = [f'"{choice}"' for choice in choices]
    return last.join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else "".join(quoted)


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


WEIGHTS = Kind(
    "a list of integers from 1 on",
    lambda value: isinstance(value, list) and all(type(item) is int and item > 0 for item in value),
)


def integer(low: int, high: int | None = None) -> Kind:
    """Integers from `low` to `high`, both included."""
    expected = f"an integer from {low}" + (" on" if high is None else f" to {high}")
    return Kind(
        expected, lambda value: type(value) is int and value >= low and (high is None or value <= high)
    )


def number(low: float) -> Kind:
    """Integers and floats from `low` on."""
    return Kind(
        f"a number from {low:g} on",
        lambda value: (
            isinstance(value, int | float) and type(value) is not bool and low <= value <= LARGEST_NUMBER
        ),
    )


def one_of(*choices: str) -> Kind:
    return one_name_of(lambda: choices)


def one_name_of(list_names: Callable[[], tuple[str, ...]]) -> Kind:
    """One of the names that are registered at the time of use."""
    return Kind("", lambda value: value in list_names(), list_names)


def several_of(*choices: str) -> Kind:
    return Kind(
        f"a list of some of {quote_choices(choices, ' and ')}",
        lambda value: isinstance(value, list) and all(item in choices for item in value),
        lambda: choices,
    )


def some_of(*choices: str) -> Kind:
    """One of the choices, or a list of some of them."""
    return Kind(
        f"{quote_choices(choices)}, or a list of them",
        lambda value: (
            value in choices or (isinstance(value, list) and all(each in choices for each in value))
        ),
        lambda: choices,
    )


#: The kinds of the types that a field may have without naming a kind.
_KINDS_OF_TYPES: dict[object, Kind] = {
    bool: FLAG,
    int: integer(0),
    float: number(0),
    str: TEXT,
    frozenset[str]: TEXTS,
    dict[str, object]: TABLE,
    tuple[str, ...]: TEXTS,
    tuple[int, int]: INTEGER_PAIR,
}


@cache
def read_keys(struct: type[msgspec.Struct]) -> dict[str, ConfigKey]:
    """The keys that the fields of a struct declare, by their names in the file."""
    hints = get_type_hints(struct, include_extras=True)
    found = ((field.encode_name, _read_key(hints[field.name])) for field in msgspec.structs.fields(struct))
    return {name: key for name, key in found if key is not None}


def _read_key(annotation: object) -> ConfigKey | None:
    value_type, *metadata = get_args(annotation) if hasattr(annotation, "__metadata__") else (annotation,)
    about = next((item.text for item in metadata if isinstance(item, Doc)), "")
    if not about:
        return None
    kind = next((item for item in metadata if isinstance(item, Kind)), None)
    return ConfigKey(kind or _find_kind(value_type), about)


def _find_kind(value_type: object) -> Kind:
    """The accepted values of a key whose field has this type. `None` in a union is ignored."""
    arguments = get_args(value_type)
    if NoneType in arguments:
        (value_type,) = (part for part in arguments if part is not NoneType)
        arguments = get_args(value_type)
    if get_origin(value_type) is Literal:
        return one_of(*arguments)
    if arguments and get_origin(arguments[0]) is Literal:
        return several_of(*get_args(arguments[0]))
    return _KINDS_OF_TYPES[value_type]
