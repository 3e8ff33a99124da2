"""The schemas of tools and of the answer, and the format of the answer.

Schemas lose the keywords that only their source understands. `additionalProperties` changes for strict tools
alone, `required` where the target refuses it. A schema without anything to change stays the same object.
"""

import re
from operator import is_not

from dragoman.fit.editing import find_first_non_instruction_message, is_foreign, replace
from dragoman.hub.blocks import Text, Tool
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, OutputFormat, Request
from dragoman.providers.profile import TargetFacts
from dragoman.schema import (
    Schema,
    add_properties,
    close_schema,
    convert_to_openapi,
    edit_schema,
    has_irregular_objects,
    is_irregular_object,
    make_valid,
    properties_of,
    remove_stale_names,
    required_of,
    resolve,
)
from dragoman.wire.fields import encode, encode_lines

#: Keywords of one vendor that other validators refuse or misread. `encrypted` is Codex's.
VENDOR_KEYWORDS = ("encrypted", "propertyOrdering")

#: What vendors do not accept at the top of a function's schema.
ALTERNATIVES = frozenset({"anyOf", "oneOf", "allOf", "not", "enum"})
PLAIN_MEMBER = re.compile(r"[a-zA-Z0-9_.-]{1,64}")

JSON_OBJECT = "Answer with one JSON object and nothing else: no other words, no code fence."
JSON_SCHEMA = (
    "Answer with one JSON value and nothing else: no other words, no code fence. "
    "It must match this JSON schema:\n"
)

#: The name of the answer's schema if the client gives none: some vendors demand one.
OUTPUT_NAME = "answer"

#: How the JSON text of a schema describes an object.
_OBJECT = b'"type":"object"'

_QUOTED_KEYWORDS = tuple(f'"{keyword}"'.encode() for keyword in VENDOR_KEYWORDS)


def fit_schemas(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Clean the schemas of functions and of the answer, and write them as the target accepts them."""
    takes_any_schema = (
        target.json_schema
        and target.schema_alternatives
        and not target.plain_members
        and not target.valid_schemas
    )
    if not is_foreign(request, target) and takes_any_schema:
        return request
    schemas = [tool.schema for tool in request.tools if tool.schema]
    text = encode_lines(schemas, error_class=ClientProtocolError)
    has_keywords = _may_have_vendor_keywords(schemas, text)
    # OpenAI refuses an object without `properties`, Google a required name that is no property. Clients send
    # both, because tools of MCP servers hold them.
    is_exact = target.declared_required or target.object_properties
    nested = _find_nested(schemas, text) if is_exact else frozenset[int]()

    def fit_tool(tool: Tool) -> Tool:
        if tool.kind != "function":
            return tool
        if tool.schema is None and not target.json_schema:
            return tool  # in the subset, a function without parameters has no schema
        cleaned = _clean(tool.schema, has_keywords=has_keywords) if tool.schema else {}
        schema = _fit_schema(cleaned, target, tool.at, losses)
        if is_exact and (schema is not cleaned or id(tool.schema) in nested or is_irregular_object(schema)):
            schema = _fit_objects(schema, target, tool.at, losses)
        fitted: Schema | None = schema
        if not target.json_schema:
            converted = convert_to_openapi(schema)
            fitted = converted if converted.get("properties") else None
        return tool if fitted is tool.schema else replace(tool, schema=fitted)

    tools = tuple(map(fit_tool, request.tools))
    if any(map(is_not, tools, request.tools)):
        request = replace(request, tools=tools)
    output = request.output
    if output and output.schema is not None:
        schema = clean_schema(output.schema)
        if not target.json_schema:
            schema = convert_to_openapi(schema)
        if schema is not output.schema:
            request = replace(request, output=replace(output, schema=schema))
    return request


def _fit_schema(schema: Schema, target: TargetFacts, at: str, losses: Losses) -> Schema:
    """Make a function's schema describe an object, without keywords that the target refuses."""
    if target.valid_schemas and (valid := make_valid(schema)) is not schema:
        losses.add(at, "the schema is no valid JSON Schema and was corrected")
        schema = valid
    schema = _write_as_object(schema, at, losses)
    if not target.schema_alternatives and not ALTERNATIVES.isdisjoint(schema):
        losses.add(at, "alternatives at the top of the schema became one object with all members")
        schema = _unite_alternatives(schema)
    return _remove_odd_members(schema, at, losses) if target.plain_members else schema


def _write_as_object(schema: Schema, at: str, losses: Losses) -> Schema:
    """The schema with type `object` and with properties: every vendor refuses a function without."""
    kind = schema.get("type")
    if kind == "object" and isinstance(schema.get("properties"), dict):
        return schema
    if kind not in (None, "object") and not (isinstance(kind, list) and "object" in kind):
        losses.add(at, "the schema is not one of an object")
        schema = {}
    return {
        "type": "object",
        "properties": properties_of(schema),
        **{name: value for name, value in schema.items() if name not in ("type", "properties")},
    }


def _unite_alternatives(schema: Schema) -> Schema:
    """One object with the members of all alternatives; required is what every alternative requires."""
    properties, required = dict(properties_of(schema)), set(required_of(schema))
    for name in ("allOf", "anyOf", "oneOf"):
        options = schema.get(name)
        listed = options if isinstance(options, list) else []
        resolved = [resolve(option, schema) for option in listed if isinstance(option, dict)]
        for option in resolved:
            properties = {**properties_of(option), **properties}
        demands = [set(required_of(option)) for option in resolved]
        if demands:
            required |= set().union(*demands) if name == "allOf" else set.intersection(*demands)
    kept = {name: value for name, value in schema.items() if name not in ALTERNATIVES}
    needed = [name for name in properties if name in required]
    return kept | {"properties": properties} | ({"required": needed} if needed else {})


def _remove_odd_members(schema: Schema, at: str, losses: Losses) -> Schema:
    """Remove members whose names would make the target refuse the whole request."""
    properties = properties_of(schema)
    if all(map(PLAIN_MEMBER.fullmatch, properties)):
        return schema
    losses.add(at, "members whose names the target refuses were removed")
    plain = {name: value for name, value in properties.items() if PLAIN_MEMBER.fullmatch(name)}
    required = required_of(schema)
    needed = [name for name in plain if name in required]
    return {**schema, "properties": plain} | ({"required": needed} if "required" in schema else {})


def _fit_objects(schema: Schema, target: TargetFacts, at: str, losses: Losses) -> Schema:
    """Add `properties` to objects without, and remove stale names of `required`, as the target asks."""
    if not has_irregular_objects(schema):
        return schema
    if target.declared_required:
        declared = edit_schema(schema, remove_stale_names)
        if declared is not schema:
            losses.add(at, "required members that the schema does not describe were removed")
        schema = declared
    return edit_schema(schema, add_properties) if target.object_properties else schema


def clean_schema(schema: Schema) -> Schema:
    """Remove `$schema` and vendor keywords at any depth; the same object if there are none."""
    text = encode(schema, error_class=ClientProtocolError)
    return _clean(schema, has_keywords=_may_have_vendor_keywords([schema], text))


def _may_have_vendor_keywords(schemas: list[Schema], text: bytes) -> bool:
    """Whether more than a `$schema` at the top may have to be removed. `text`: the schemas as JSON.

    Searching the JSON text of all schemas is much cheaper than walking each node, and agents send dozens of
    schemas with every request.
    """
    declared = sum("$schema" in schema for schema in schemas)
    return any(keyword in text for keyword in _QUOTED_KEYWORDS) or text.count(b'"$schema"') > declared


def _find_nested(schemas: list[Schema], text: bytes) -> frozenset[int]:
    """The ids of the schemas that describe objects inside of objects. `text`: their JSON, one a line."""
    lines = zip(schemas, text.split(b"\n"), strict=False)
    return frozenset(id(schema) for schema, line in lines if line.count(_OBJECT) > 1)


def _clean(schema: Schema, *, has_keywords: bool) -> Schema:
    if has_keywords:
        return edit_schema(schema, _remove_keywords)
    if "$schema" not in schema:
        return schema
    cleaned = schema.copy()
    del cleaned["$schema"]
    return cleaned


def _remove_keywords(schema: Schema) -> Schema:
    if not any(_is_removed(name, schema[name]) for name in ("$schema", *VENDOR_KEYWORDS) if name in schema):
        return schema
    return {name: value for name, value in schema.items() if not _is_removed(name, value)}


def _is_removed(name: str, value: object) -> bool:
    return name == "$schema" or (name in VENDOR_KEYWORDS and type(value) in (bool, list))


def fit_output(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """The format of the answer: native where the target has it, otherwise an instruction."""
    wanted = request.output
    if wanted is None:
        return request
    if wanted.kind not in target.outputs:
        return _instruct(request, wanted, losses)
    if not is_foreign(request, target) or wanted.kind != "json_schema":
        return request
    if target.closed_output and wanted.schema is not None:
        closed = close_schema(wanted.schema)
        if closed is None:
            return _instruct(request, wanted, losses)
        if closed.has_notes:
            losses.add(request.path_of("output"), "limits of the schema are written as text, not enforced")
        if closed.schema != wanted.schema:
            wanted = replace(wanted, schema=closed.schema)
    if not wanted.name:
        wanted = replace(wanted, name=OUTPUT_NAME)
    return request if wanted is request.output else replace(request, output=wanted)


def _instruct(request: Request, wanted: OutputFormat, losses: Losses) -> Request:
    """Ask for the format in a system message."""
    request = replace(request, output=None)
    if wanted.kind == "text":
        return request
    losses.add(request.path_of("output"), "the target cannot be held to JSON and was asked for it instead")
    text = JSON_OBJECT
    if wanted.kind == "json_schema" and wanted.schema is not None:
        text = JSON_SCHEMA + encode(wanted.schema, error_class=ClientProtocolError).decode()
    first = find_first_non_instruction_message(request.messages)
    instruction = Message(role="system", blocks=(Text(text=text),))
    return replace(request, messages=(*request.messages[:first], instruction, *request.messages[first:]))
