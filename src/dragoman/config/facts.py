"""The facts about models that the file may state, and what each means.

The facts themselves are the fields of `Profile`; this is what a user reads about them.
"""

from functools import cache
from types import NoneType
from typing import Literal, get_args, get_origin, get_type_hints

from dragoman.config.kinds import (
    FLAG,
    INTEGER_PAIR,
    TEXT,
    TEXTS,
    Key,
    Kind,
    integer,
    number,
    one_of,
    several_of,
)
from dragoman.providers.facts import Doc, Facts

_KINDS: dict[object, Kind] = {
    bool: FLAG,
    int: integer(0),
    float: number(0),
    str: TEXT,
    tuple[int, int]: INTEGER_PAIR,
}


@cache
def facts() -> dict[str, Key]:
    """Every fact, its kind and its meaning."""
    hints = get_type_hints(Facts, include_extras=True)
    return {name: _key(hints[name]) for name in Facts.__struct_fields__}


def _key(annotation: object) -> Key:
    value_type, doc = get_args(annotation)
    assert isinstance(doc, Doc)  # noqa: S101 (for the type checker)
    return Key(_kind(value_type), doc.text)


def _kind(annotation: object) -> Kind:
    """The kind of a type, or of `X | None`."""
    parts = [part for part in get_args(annotation) if part is not NoneType]
    inner = parts[0] if NoneType in get_args(annotation) else annotation
    if get_origin(inner) is Literal:
        return one_of(*get_args(inner))
    for part in get_args(inner):
        if get_origin(part) is Literal:
            return several_of(*get_args(part))
    return _KINDS.get(inner, TEXTS)
