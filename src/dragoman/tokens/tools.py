"""Tools as models see them, to be counted: as JSON, or as the types that OpenAI makes of their schemas."""

from collections.abc import Iterable, Iterator, Mapping

from dragoman.hub.content import Tool
from dragoman.wire.fields import encode

#: Tools that a model knows without a schema are explained to it by the vendor, in about so many tokens.
KNOWN_TOOL = 300

#: Schemas can nest without end; what lies deeper is counted as JSON.
MAX_DEPTH = 12

_TYPES = {"integer": "number", "null": "null", "boolean": "boolean"}


def as_json(tools: Iterable[Tool]) -> str:
    """All of them at once; they come by the dozen with every request."""
    fields = [
        {"name": tool.name, "description": tool.description or "", "input_schema": tool.schema or {}}
        for tool in tools
    ]
    return encode(fields).decode()


def as_types(tool: Tool) -> str:
    return "\n".join(_type_lines(tool))


def _type_lines(tool: Tool) -> Iterator[str]:
    yield f"// {tool.description or ''}"
    if not (tool.schema or {}).get("properties"):
        yield f"type {tool.name} = () => any;\n"
        return
    yield f"type {tool.name} = (_: " + _type(tool.schema, 0) + ") => any;\n"


def _type(schema: object, depth: int) -> str:
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return "any"
    choices = schema.get("enum")
    if isinstance(choices, list):
        return " | ".join(encode(choice).decode() for choice in choices)
    for keyword in ("anyOf", "oneOf"):
        choices = schema.get(keyword)
        if isinstance(choices, list):
            return " | ".join(_type(choice, depth + 1) for choice in choices)
    properties = schema.get("properties")
    if isinstance(properties, dict):
        return "{\n" + "\n".join(_members(schema, properties, depth)) + "\n}"
    kind = schema.get("type")
    if kind == "array":
        return f"{_type(schema.get('items'), depth + 1)}[]"
    return _TYPES.get(kind, kind) if isinstance(kind, str) else "any"


def _members(schema: Mapping[str, object], properties: Mapping[str, object], depth: int) -> Iterator[str]:
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    for name, inner in properties.items():
        description = inner.get("description") if isinstance(inner, dict) else None
        if isinstance(description, str):
            yield f"// {description}"
        yield f"{name}{'' if name in needed else '?'}: {_type(inner, depth + 1)},"
