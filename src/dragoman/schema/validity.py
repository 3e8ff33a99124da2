"""Schemas that are no JSON Schema (draft 2020-12), as servers that check them accept them.

Tools of MCP servers have older drafts, names of types from programming languages, or types in the place of
schemas. What has an equal form is written in it; any other invalid keyword is removed.
"""

from functools import cache
from itertools import islice

import jsonschema_rs

from dragoman.schema.nodes import Schema, edit_schema

#: Rounds in which invalid keywords are removed. One removal may show an error that another one hid.
MAX_ROUNDS = 10
#: Errors that one round removes.
MAX_ERRORS = 200

_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
#: Names of types that are none of JSON Schema.
_TYPE_NAMES: dict[str, str] = {
    **dict.fromkeys(("int", "int32", "int64", "long"), "integer"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    **dict.fromkeys(("str", "text", "date", "datetime", "file"), "string"),
    "bool": "boolean",
    "list": "array",
    **dict.fromkeys(("dict", "map", "json"), "object"),
    "none": "null",
}
#: The limits that were flags beside another keyword in draft 4.
_FLAGS = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))


def make_valid(schema: Schema) -> Schema:
    """The schema in a form that JSON Schema 2020-12 allows, with `items` in every array.

    A schema that is valid already and has `items` is returned as it is.
    """
    schema = edit_schema(schema, _write_in_new_form)
    for _ in range(MAX_ROUNDS):
        errors = islice(_build_validator().iter_errors(schema), MAX_ERRORS)
        paths = {tuple(error.instance_path) for error in errors}
        if not paths:
            return schema
        # A path inside of another one is gone with it.
        for path in sorted(paths, key=len, reverse=True):
            schema = _remove(schema, path)
    return {"type": "object"}


@cache
def _build_validator() -> jsonschema_rs.Draft202012Validator:
    """The validator of schemas. The schema of schemas comes with the library."""
    return jsonschema_rs.Draft202012Validator({"$ref": "https://json-schema.org/draft/2020-12/schema"})


def _write_in_new_form(node: Schema) -> Schema:
    """An edit for `edit_schema`: write a node of an older draft in the form of draft 2020-12.

    Concerns the names of types, a list as `items`, and the flags `exclusiveMinimum`, `exclusiveMaximum` and
    `required`.
    """
    changes: Schema = {}
    removed: set[str] = set()
    if "type" in node and not _is_type(node["type"]):
        names = node["type"] if isinstance(node["type"], list) else [node["type"]]
        types = list(dict.fromkeys(name for name in map(_read_type, names) if name))
        changes["type"] = types if len(types) > 1 else "".join(types)
        if not types:
            removed.add("type")
    if changes.get("type", node.get("type")) == "array" and not {"items", "prefixItems"} & node.keys():
        # OpenAI refuses an array without it.
        changes["items"] = {}
    if isinstance(node.get("items"), list):
        changes["prefixItems"] = node["items"]
        changes["items"] = node.get("additionalItems", {})
    for flag, value in _FLAGS:
        if isinstance(node.get(flag), bool):
            removed.add(value if node[flag] and value in node else flag)
            if node[flag] and value in node:
                changes[flag] = node[value]
    if isinstance(node.get("required"), bool):
        removed.add("required")
    members = node.get("properties")
    if isinstance(members, dict):
        _write_members(node, members, changes)
    changes = {name: value for name, value in changes.items() if node.get(name, removed) != value}
    if not changes and removed.isdisjoint(node):
        return node
    return {name: value for name, value in {**node, **changes}.items() if name not in removed}


def _write_members(node: Schema, members: dict[str, object], changes: Schema) -> None:
    """Replace types in the place of schemas, and add members with a flag `required` to the list."""
    changes["properties"] = {
        name: {"type": kind} if isinstance(member, str) and (kind := _read_type(member)) else member
        for name, member in members.items()
    }
    flagged = [
        name
        for name, member in members.items()
        if isinstance(member, dict) and member.get("required") is True
    ]
    if flagged:
        listed = node.get("required")
        before = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
        changes["required"] = list(dict.fromkeys([*before, *flagged]))


def _is_type(value: object) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in _TYPES for name in names)


def _read_type(name: object) -> str:
    """The name of a type in JSON Schema; empty if there is none, as for `any`."""
    plain = name.lower() if isinstance(name, str) else ""
    return plain if plain in _TYPES else _TYPE_NAMES.get(plain, "")


def _remove(schema: Schema, path: tuple[str | int, ...]) -> Schema:
    """The schema without what stands at this path. An empty path stands for all of it."""
    copy = _copy_without(schema, path) if path else None
    return copy if isinstance(copy, dict) else {"type": "object"}


def _copy_without(value: object, path: tuple[str | int, ...]) -> object:
    segment, *rest = path
    if isinstance(value, dict):
        kept = {name: inner for name, inner in value.items() if name != segment or rest}
        if rest and segment in value:
            kept[segment] = _copy_without(value[segment], tuple(rest))
        return kept
    if isinstance(value, list):
        kept_items = [inner for number, inner in enumerate(value) if number != segment or rest]
        return [
            _copy_without(inner, tuple(rest)) if rest and number == segment else inner
            for number, inner in enumerate(kept_items)
        ]
    return value
