"""Schemas in two spellings: JSON Schema, and Gemini's subset of OpenAPI with types in capitals.

`plain` gives JSON Schema, `capital` the subset's spelling; for a schema that one of them can have written,
they undo each other. Which keywords the subset takes at all is not decided here.
"""

from collections.abc import Callable

from dragoman.dialects.base import Json
from dragoman.dialects.gemini.spelling import snake

TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})

#: Where schemas stand inside a schema.
SCHEMA_MEMBERS = frozenset(
    {"items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"}
)
SCHEMA_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
SCHEMA_MAPS = frozenset(
    {"properties", "$defs", "defs", "definitions", "patternProperties", "dependentSchemas"}
)

#: Sizes are 64 bits wide, which JSON made from protobuf tells as texts.
SIZES = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
KEYWORDS = {snake(name): name for name in (*SIZES, "anyOf", "propertyOrdering", "additionalProperties")}

#: Deeper schemas stay as they are: nobody declares such a tool, but somebody may send one.
DEPTH = 100


def plain(schema: Json, *, openapi: bool) -> Json:
    """JSON Schema: types in lower case; from the subset also `nullable` as a type and sizes as numbers."""
    return _walk(_renamed(schema, 0) if openapi else schema, _plain_openapi if openapi else _lower_types, 0)


def capital(schema: Json) -> Json:
    """The subset's spelling: types in capitals, one more type `null` as `nullable`."""
    return _walk(schema, _capital_one, 0)


def _walk(schema: Json, change: Callable[[Json], Json], depth: int) -> Json:
    if depth > DEPTH:
        return schema
    below = depth + 1
    walked: Json = {}
    for key, value in schema.items():
        if isinstance(value, dict) and key in SCHEMA_MEMBERS:
            walked[key] = _walk(value, change, below)
        elif isinstance(value, dict) and key in SCHEMA_MAPS:
            walked[key] = {
                name: _walk(inner, change, below) if isinstance(inner, dict) else inner
                for name, inner in value.items()
            }
        elif isinstance(value, list) and key in SCHEMA_LISTS:
            walked[key] = [
                _walk(inner, change, below) if isinstance(inner, dict) else inner for inner in value
            ]
        else:
            walked[key] = value
    return change(walked)


def _renamed(schema: Json, depth: int) -> Json:
    """The subset's keywords in camelCase, whichever spelling the client used."""
    if depth > DEPTH:
        return schema
    below = depth + 1
    renamed: Json = {}
    for key, value in schema.items():
        key = KEYWORDS.get(key, key)
        if isinstance(value, dict) and key in SCHEMA_MAPS:
            value = {
                name: _renamed(inner, below) if isinstance(inner, dict) else inner
                for name, inner in value.items()
            }
        elif isinstance(value, dict) and key in SCHEMA_MEMBERS:
            value = _renamed(value, below)
        elif isinstance(value, list) and key in SCHEMA_LISTS:
            value = [_renamed(inner, below) if isinstance(inner, dict) else inner for inner in value]
        renamed[key] = value
    return renamed


def _lower_types(schema: Json) -> Json:
    kind = schema.get("type")
    if isinstance(kind, str):
        schema["type"] = _lower(kind)
    elif isinstance(kind, list):
        schema["type"] = [_lower(inner) if isinstance(inner, str) else inner for inner in kind]
    return schema


def _lower(kind: str) -> str:
    return kind.lower() if kind.lower() in TYPES else kind


def _plain_openapi(schema: Json) -> Json:
    schema = _lower_types(schema)
    kind = schema.get("type")
    if isinstance(kind, str) and kind in TYPES and schema.get("nullable") is True:
        schema["type"] = [kind, "null"]
        del schema["nullable"]
    for name in SIZES:
        size = schema.get(name)
        if isinstance(size, str) and size.isascii() and size.isdigit() and len(size) < 20:
            schema[name] = int(size)
    return schema


def _capital_one(schema: Json) -> Json:
    kind = schema.get("type")
    if isinstance(kind, list):
        types = [inner for inner in kind if inner != "null"]
        if len(types) == 1 and isinstance(types[0], str):
            schema["type"] = types[0].upper()
            if len(kind) > 1:
                schema["nullable"] = True
    elif isinstance(kind, str) and kind in TYPES:
        schema["type"] = kind.upper()
    return schema


def is_empty(schema: Json | None) -> bool:
    """A schema that asks for nothing. The subset refuses an object without properties."""
    return not schema or (
        schema.get("type", "object") == "object"
        and not schema.get("properties")
        and schema.keys() <= {"type", "properties", "required", "additionalProperties", "$schema"}
        and not schema.get("required")
    )
