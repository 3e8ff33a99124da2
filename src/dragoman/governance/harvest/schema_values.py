"""Raw text as the JSON value that a tool's schema declares.

A schema comes from a client and may hold anything; what is not understood counts as absent. Text that fits no
declared type stays a string, so that a conversion loses nothing.
"""

import re
from collections.abc import Callable, Collection

from dragoman.governance.harvest.json_text import is_json, write_string
from dragoman.governance.harvest.python_literals import convert_literal
from dragoman.schema import TYPE_NAMES, properties_of, required_of, resolve, types_of
from dragoman.wire.partial_json import parse_object

_INTEGER = re.compile(r"[+]?(-?(?:0|[1-9]\d*))")
_NUMBER = re.compile(r"[+]?(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)")
_BOOLEANS = {"true": "true", "True": "true", "false": "false", "False": "false"}
_NULLS = {"null": "null", "None": "null"}


def is_complete(members: Collection[str], schema: object) -> bool:
    """Whether these can be all members of a call that has no end mark: every required member is there.

    No members at all are complete only for a tool that declares none.
    """
    return all(name in members for name in required_of(schema)) and bool(members or not properties_of(schema))


def fits_schema(arguments: str, schema: object) -> bool:
    """Whether the arguments have every required member, no undeclared one, and no wrong type."""
    values = parse_object(arguments)
    known = resolve(schema, schema)
    declared = properties_of(known)
    if values is None or not set(required_of(known)) <= set(values) <= set(declared):
        return False
    return all(_has_type(value, types_of(declared[name], schema)) for name, value in values.items())


def _has_type(value: object, types: tuple[str, ...]) -> bool:
    name = TYPE_NAMES[type(value)]
    return not types or name in types or (name == "integer" and "number" in types)


def find_member_schema(schema: object, key: str) -> object:
    """The schema of a member; None if the schema does not declare it."""
    return properties_of(resolve(schema, schema)).get(key)


def convert_text(text: str, schema: object, root: object) -> str:
    """The text as JSON of the first declared type that it fits, or a string. `root` resolves references."""
    for name in types_of(schema, root):
        read = _READERS.get(name)
        value = read(text.strip()) if read else None
        if value is not None:
            return value
    return write_string(text)


def _read_pattern(pattern: re.Pattern[str]) -> Callable[[str], str | None]:
    def read(text: str) -> str | None:
        found = pattern.fullmatch(text)
        return found[1] if found else None

    return read


def _read_container(bracket: str) -> Callable[[str], str | None]:
    def read(text: str) -> str | None:
        if not text.startswith(bracket) and not (bracket == "[" and text.startswith("(")):
            return None
        value = text if is_json(text) else convert_literal(text)
        return value if value and value.startswith(bracket) else None

    return read


_READERS: dict[str, Callable[[str], str | None]] = {
    "integer": _read_pattern(_INTEGER),
    "number": _read_pattern(_NUMBER),
    "boolean": _BOOLEANS.get,
    "null": _NULLS.get,
    "array": _read_container("["),
    "object": _read_container("{"),
}
