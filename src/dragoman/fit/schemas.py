"""Schemas of tools and of the answer, without what only their source understands.

`required` and `additionalProperties` are never touched, and a schema without anything to change is the
same object afterwards. Targets with Gemini's subset of OpenAPI get it by `openapi_schema`.
"""

import re
from operator import is_, is_not

from dragoman.fit.editing import is_foreign, replace
from dragoman.fit.openapi_schema import as_openapi
from dragoman.hub.content import Tool
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.providers.profile import Target
from dragoman.wire.fields import encode

Schema = dict[str, object]

#: Keywords whose value is one schema, a list of schemas, or schemas by name.
ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")

#: Words of one vendor or one draft that other validators refuse or misread. `encrypted` is Codex's.
MARKS = ("encrypted", "propertyOrdering")

MAX_DEPTH = 100

#: What vendors do not take at the top of a function's schema.
ALTERNATIVES = frozenset({"anyOf", "oneOf", "allOf", "not", "enum"})
PLAIN_MEMBER = re.compile(r"[a-zA-Z0-9_.-]{1,64}")

_WORDS = tuple(f'"{mark}"'.encode() for mark in MARKS)


def schemas(request: Request, target: Target, losses: Losses) -> Request:
    if not is_foreign(request, target) and target.json_schema:
        return request
    is_marked = _may_be_marked([tool.schema for tool in request.tools if tool.schema])
    tools = tuple(_fitted(tool, target, losses, is_marked=is_marked) for tool in request.tools)
    if any(map(is_not, tools, request.tools)):
        request = replace(request, tools=tools)
    output = request.output
    if output and output.schema is not None:
        schema = cleaned(output.schema)
        if not target.json_schema:
            schema = as_openapi(schema)
        if schema is not output.schema:
            request = replace(request, output=replace(output, schema=schema))
    return request


def _fitted(tool: Tool, target: Target, losses: Losses, *, is_marked: bool) -> Tool:
    if tool.kind != "function":
        return tool
    if tool.schema is None and not target.json_schema:
        return tool  # in the subset, no parameters are no schema
    schema = _parameters(tool, losses, is_marked=is_marked)
    if not target.schema_alternatives and not ALTERNATIVES.isdisjoint(schema):
        losses.add(tool.at, "alternatives at the top of the schema became one object with all members")
        schema = _united(schema)
    if target.plain_members:
        schema = _with_plain_members(schema, tool.at, losses)
    subset: Schema | None = schema
    if not target.json_schema:
        converted = as_openapi(schema)
        subset = converted if converted.get("properties") else None
    return tool if subset is tool.schema else replace(tool, schema=subset)


def _parameters(tool: Tool, losses: Losses, *, is_marked: bool) -> Schema:
    """The schema as one of an object with properties, which is what every vendor insists on."""
    schema = _legible(tool.schema, is_marked=is_marked) if tool.schema else {}
    kind = schema.get("type")
    if kind == "object" and isinstance(schema.get("properties"), dict):
        return schema
    if kind not in (None, "object") and not (isinstance(kind, list) and "object" in kind):
        losses.add(tool.at, "the schema is not one of an object")
        schema = {}
    properties = schema.get("properties")
    return {
        "type": "object",
        "properties": properties if isinstance(properties, dict) else {},
        **{name: value for name, value in schema.items() if name not in ("type", "properties")},
    }


def _united(schema: Schema) -> Schema:
    """One object with the members of all alternatives; required is what every alternative requires."""
    properties, required = _members(schema)
    for name in ("allOf", "anyOf", "oneOf"):
        options = schema.get(name)
        listed = options if isinstance(options, list) else []
        found = [_members(_resolved(option, schema)) for option in listed if isinstance(option, dict)]
        for members, _ in found:
            properties = {**members, **properties}
        wanted = [names for _, names in found]
        if wanted:
            required |= set().union(*wanted) if name == "allOf" else set.intersection(*wanted)
    kept = {name: value for name, value in schema.items() if name not in ALTERNATIVES}
    needed = [name for name in properties if name in required]
    return kept | {"properties": properties} | ({"required": needed} if needed else {})


def _members(schema: Schema) -> tuple[Schema, set[str]]:
    properties, required = schema.get("properties"), schema.get("required")
    names = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    return dict(properties) if isinstance(properties, dict) else {}, names


def _resolved(option: Schema, root: Schema) -> Schema:
    reference = option.get("$ref")
    if not isinstance(reference, str):
        return option
    group, _, name = reference.removeprefix("#/").partition("/")
    members = root.get(group)
    found = members.get(name) if isinstance(members, dict) else None
    return found if isinstance(found, dict) else option


def _with_plain_members(schema: Schema, at: str, losses: Losses) -> Schema:
    """Without members whose names would make the target refuse the whole request."""
    properties, required = _members(schema)
    plain = {name: value for name, value in properties.items() if PLAIN_MEMBER.fullmatch(name)}
    if len(plain) == len(properties):
        return schema
    losses.add(at, "members were left out whose names the target does not take")
    needed = [name for name in plain if name in required]
    return {**schema, "properties": plain} | ({"required": needed} if "required" in schema else {})


def _may_be_marked(schemas: list[Schema]) -> bool:
    """Whether there may be anything to clean but a `$schema` at the top, as most have and no more.

    Looking for the words in the text of all of them is much cheaper than looking at each node, and agents
    send dozens of schemas with every request.
    """
    text = encode(schemas, blame=ClientProtocolError)
    declared = sum("$schema" in schema for schema in schemas)
    return any(word in text for word in _WORDS) or text.count(b'"$schema"') > declared


def cleaned(schema: Schema) -> Schema:
    """The same object if there was nothing to clean."""
    return _legible(schema, is_marked=_may_be_marked([schema]))


def _legible(schema: Schema, *, is_marked: bool) -> Schema:
    if is_marked:
        return _cleaned(schema, 0)
    if "$schema" not in schema:
        return schema
    return {name: value for name, value in schema.items() if name != "$schema"}


def _cleaned(schema: Schema, depth: int) -> Schema:
    changes: Schema = {}
    if depth < MAX_DEPTH:
        for name, value in schema.items():
            if type(value) is dict or type(value) is list:
                after = _cleaned_part(name, value, depth)
                if after is not value:
                    changes[name] = after
    marked = "$schema" in schema or any(type(schema.get(mark)) in (bool, list) for mark in MARKS)
    if not changes and not marked:
        return schema
    kept = {name: value for name, value in schema.items() if name != "$schema" and not _is_mark(name, value)}
    return kept | changes


def _is_mark(name: str, value: object) -> bool:
    return name in MARKS and type(value) in (bool, list)


def _cleaned_part(name: str, value: object, depth: int) -> object:
    """A keyword's value; what is no schema (`enum`, `default`, …) is left alone, whatever it holds."""
    if name in NAMED and isinstance(value, dict):
        after = {
            key: _cleaned(child, depth + 1) if isinstance(child, dict) else child
            for key, child in value.items()
        }
        return value if all(after[key] is value[key] for key in value) else after
    if name in ONE and isinstance(value, dict):
        return _cleaned(value, depth + 1)
    if (name in MANY or name == "items") and isinstance(value, list):
        children = [_cleaned(child, depth + 1) if isinstance(child, dict) else child for child in value]
        return value if all(map(is_, children, value)) else children
    return value
