"""Raw text as the JSON value that a tool's schema declares.

A schema comes from a client and may hold anything; what is not understood counts as absent. Text that fits no
declared type stays a string, so that a conversion loses nothing.
"""

import re
from collections.abc import Callable, Collection

from dragoman.governance.harvest.json_text import is_json, write_string
from dragoman.governance.harvest.python_literals import convert_literal
from dragoman.governance.repair.schema import TYPE_NAMES, properties_of, required_of

_INTEGER = re.compile(r"[+]?(-?(?:0|[1-9]\d*))")
_NUMBER = re.compile(r"[+]?(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)")
_BOOLEANS = {"true": "true", "True": "true", "false": "false", "False": "false"}
_NULLS = {"null": "null", "None": "null"}
#: How many references and branches are followed: a schema may refer to itself.
_MAX_REFERENCES = 32


def is_complete(members: Collection[str], schema: object) -> bool:
    """Whether these can be all members of a call that has no end mark: every required member is there.

    No members at all are complete only for a tool that declares none.
    """
    return all(name in members for name in required_of(schema)) and bool(members or not properties_of(schema))


def resolve_reference(schema: object, root: object) -> object:
    """The schema that a reference within the same document points to."""
    for _ in range(_MAX_REFERENCES):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        schema = root
        for step in reference[2:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            schema = schema.get(name) if isinstance(schema, dict) else None
    return None


def list_types(schema: object, root: object) -> tuple[str, ...]:
    """The types that a value may have, in the schema's order; empty if the schema does not state them."""
    types: dict[str, None] = {}
    waiting = [schema]
    for _ in range(_MAX_REFERENCES):
        if not waiting:
            break
        current = resolve_reference(waiting.pop(0), root)
        if not isinstance(current, dict):
            continue
        named = current.get("type")
        types.update(dict.fromkeys(_strings(named if isinstance(named, list) else [named])))
        for keyword in ("anyOf", "oneOf", "allOf"):
            branches = current.get(keyword)
            waiting += branches if isinstance(branches, list) else []
        if named is None:
            types.update(dict.fromkeys(_list_value_types(current)))
        if current.get("nullable") is True:
            types["null"] = None
    return tuple(types)


def _strings(values: list[object]) -> list[str]:
    return [value for value in values if isinstance(value, str)]


def _list_value_types(schema: dict[str, object]) -> list[str]:
    values = schema.get("enum")
    listed = values if isinstance(values, list) else []
    if "const" in schema:
        listed = [*listed, schema["const"]]
    return [TYPE_NAMES.get(type(value), "null") for value in listed]


def find_member_schema(schema: object, key: str) -> object:
    """The schema of a member; None if the schema does not declare it."""
    return properties_of(resolve_reference(schema, schema)).get(key)


def convert_text(text: str, schema: object, root: object) -> str:
    """The text as JSON of the first declared type that it fits, or a string. `root` resolves references."""
    for name in list_types(schema, root):
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
