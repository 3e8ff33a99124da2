"""Converts between JSON Schema and Gemini's subset of OpenAPI, which writes types in capitals.

`read_schema` gives JSON Schema and `write_schema` the subset. Each reverses the other for a schema that the
other could have written. `schema.convert_to_openapi` decides which keywords the subset accepts.
"""

from dragoman.dialects.base import Json
from dragoman.dialects.gemini.spelling import to_snake
from dragoman.schema import edit_schema

TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})

#: These numbers have 64 bits, which the JSON of protobuf writes as strings.
SIZES = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
#: The subset's keywords in camelCase by their name in snake_case: clients use both.
KEYWORDS = {to_snake(name): name for name in (*SIZES, "anyOf", "propertyOrdering", "additionalProperties")}


def read_schema(schema: Json, *, is_openapi: bool) -> Json:
    """The schema as JSON Schema: types in lower case; from the subset, `nullable` as a type, and numbers."""
    return edit_schema(schema, _read_openapi if is_openapi else _lower_types)


def write_schema(schema: Json) -> Json:
    """The schema in the subset: types in capitals, and `nullable` for a second type `null`."""
    return edit_schema(schema, _write_openapi)


def _lower_types(schema: Json) -> Json:
    kind = schema.get("type")
    if isinstance(kind, str):
        return {**schema, "type": _lower(kind)}
    if isinstance(kind, list):
        return {**schema, "type": [_lower(inner) if isinstance(inner, str) else inner for inner in kind]}
    return schema


def _lower(kind: str) -> str:
    return kind.lower() if kind.lower() in TYPES else kind


def _read_openapi(schema: Json) -> Json:
    schema = _lower_types({KEYWORDS.get(name, name): value for name, value in schema.items()})
    kind = schema.get("type")
    if isinstance(kind, str) and kind in TYPES and schema.get("nullable") is True:
        schema["type"] = [kind, "null"]
        del schema["nullable"]
    for name in SIZES:
        size = schema.get(name)
        if isinstance(size, str) and size.isascii() and size.isdigit() and len(size) < 20:
            schema[name] = int(size)
    return schema


def _write_openapi(schema: Json) -> Json:
    kind = schema.get("type")
    if isinstance(kind, list):
        types = [inner for inner in kind if inner != "null"]
        if len(types) == 1 and isinstance(types[0], str):
            nullable: Json = {"nullable": True} if len(kind) > 1 else {}
            return {**schema, "type": types[0].upper(), **nullable}
    elif isinstance(kind, str) and kind in TYPES:
        return {**schema, "type": kind.upper()}
    return schema


def is_empty(schema: Json | None) -> bool:
    """Whether a schema has no rules. The subset rejects an object without properties."""
    return not schema or (
        schema.get("type", "object") == "object"
        and not schema.get("properties")
        and schema.keys() <= {"type", "properties", "required", "additionalProperties", "$schema"}
        and not schema.get("required")
    )
