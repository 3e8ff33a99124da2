"""Raw text as the JSON value that a tool's schema wants.

A schema comes from a client and may hold anything; what is not understood counts as not said. What fits no
wanted type stays text, so no conversion loses anything.
"""

import re
from collections.abc import Callable, Collection

from dragoman.governance.harvest.json_text import json_string
from dragoman.governance.harvest.literals import as_json
from dragoman.hub.errors import DragomanError
from dragoman.wire.fields import decode
from dragoman.wire.partial_json import LIMIT

_INTEGER = re.compile(r"([+]?)(-?(?:0|[1-9]\d*))")
_NUMBER = re.compile(r"([+]?)(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)")
_WORDS = {"true": "true", "True": "true", "false": "false", "False": "false"}
_NULLS = frozenset(("null", "None"))
_NAMES = {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object", str: "string"}
#: How many references and branches are followed, so that a schema cannot send us in circles.
_STEPS = 32


def properties_of(schema: object) -> dict[str, object]:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def required_of(schema: object) -> tuple[str, ...]:
    found = schema.get("required") if isinstance(schema, dict) else None
    return tuple(name for name in found if isinstance(name, str)) if isinstance(found, list) else ()


def may_be_all(members: Collection[str], schema: object) -> bool:
    """Whether these may be all members of a call that nothing closed: none of the required ones is missing.

    None at all are all only for a tool that takes none.
    """
    return all(name in members for name in required_of(schema)) and bool(members or not properties_of(schema))


def resolved(schema: object, root: object) -> object:
    """The schema that a reference within the same document leads to."""
    for _ in range(_STEPS):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        schema = root
        for step in reference[2:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            schema = schema.get(name) if isinstance(schema, dict) else None
    return None


def types_of(schema: object, root: object) -> tuple[str, ...]:
    """The types that a value may have, in the schema's order; empty if it does not tell."""
    types: dict[str, None] = {}
    waiting = [schema]
    for _ in range(_STEPS):
        if not waiting:
            break
        current = resolved(waiting.pop(0), root)
        if not isinstance(current, dict):
            continue
        named = current.get("type")
        types.update(dict.fromkeys(_strings(named if isinstance(named, list) else [named])))
        for keyword in ("anyOf", "oneOf", "allOf"):
            branches = current.get(keyword)
            waiting += branches if isinstance(branches, list) else []
        if named is None:
            types.update(dict.fromkeys(_types_of_values(current)))
        if current.get("nullable") is True:
            types["null"] = None
    return tuple(types)


def _strings(values: list[object]) -> list[str]:
    return [value for value in values if isinstance(value, str)]


def _types_of_values(schema: dict[str, object]) -> list[str]:
    values = schema.get("enum")
    listed = values if isinstance(values, list) else []
    if "const" in schema:
        listed = [*listed, schema["const"]]
    return [_NAMES.get(type(value), "null") for value in listed]


def member_schema(schema: object, key: str) -> object:
    """What the schema says of a member; None if it does not know it."""
    return properties_of(resolved(schema, schema)).get(key)


def typed(text: str, schema: object, root: object) -> str:
    """The text as JSON of the first type that it fits, text last. `root` is where references lead."""
    for name in types_of(schema, root):
        read = _READERS.get(name)
        value = read(text.strip()) if read else None
        if value is not None:
            return value
    return json_string(text)


def _integer(text: str) -> str | None:
    found = _INTEGER.fullmatch(text)
    return found[2] if found else None


def _number(text: str) -> str | None:
    found = _NUMBER.fullmatch(text)
    return found[2] if found else None


def _null(text: str) -> str | None:
    return "null" if text in _NULLS else None


def _container(bracket: str) -> Callable[[str], str | None]:
    def read(text: str) -> str | None:
        if not text.startswith(bracket) and not (bracket == "[" and text.startswith("(")):
            return None
        value = text if is_json(text) else as_json(text)
        return value if value and value.startswith(bracket) else None

    return read


_READERS: dict[str, Callable[[str], str | None]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _WORDS.get,
    "null": _null,
    "array": _container("["),
    "object": _container("{"),
}


def is_json(text: str) -> bool:
    try:
        decode(text, limit=LIMIT)
    except DragomanError:
        return False
    return True
