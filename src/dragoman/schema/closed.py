"""Schemas in which every object is closed: `additionalProperties` is false.

Vendors that hold an answer to its schema exactly accept only such schemas. They refuse most limits
(`maxLength`, `minimum`, …), so limits become notes in the description.
"""

import msgspec

from dragoman.schema.nodes import (
    Schema,
    edit_schema,
    find_reference,
    is_object_schema,
    iter_children,
    properties_of,
    required_of,
    write_note,
)

#: Keywords that stay as they are.
KEPT = ("type", "title", "description", "enum", "const", "default", "nullable", "required")
FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
#: Keywords that get no note: they stay, are rewritten, or mean nothing to a model.
WITHOUT_NOTE = frozenset(
    {*KEPT, "$ref", "$defs", "definitions", "properties", "additionalProperties", "items", "anyOf", "oneOf"}
    | {"allOf", "$id", "$schema", "$comment"}
)

MAX_DEPTH = 60
MAX_NODES = 5_000

#: Where `is_strict_schema` looks for further objects, and in how many nodes at most.
_STRICT_KEYWORDS = (
    "items",
    "not",
    "anyOf",
    "oneOf",
    "allOf",
    "prefixItems",
    "properties",
    "$defs",
    "definitions",
)
MAX_STRICT_NODES = 10_000

#: Keywords that strict modes do not accept.
_REFUSED = frozenset({"allOf", "not", "if", "then", "else", "dependentSchemas", "patternProperties"})

#: Keywords whose schemas hold for the same value as the schema around them: at least one, or all of each.
_OPTIONS = ("anyOf", "oneOf")
_ALWAYS = ("allOf", "then", "else", "dependentSchemas")
_JOINED = frozenset({"$ref", *_OPTIONS, *_ALWAYS})

#: The keywords of a schema that describes no members.
_WITHOUT_MEMBERS = frozenset({"$schema", "description", "properties", "required", "title", "type"})


class ClosedSchema(msgspec.Struct, frozen=True):
    """A closed schema. `has_notes`: some limits are only notes in a description now."""

    schema: Schema
    has_notes: bool


class _CannotClose(Exception):
    """The schema means something that a closed schema cannot express."""


def close_schema(schema: Schema) -> ClosedSchema | None:
    """Close every object of a schema; None if that changes what the schema means.

    A map with free keys, an object that two schemas describe together, and a structure that contains itself
    cannot be closed.
    """
    closing = _Closing(schema)
    try:
        return ClosedSchema(closing.close(schema, frozenset(), 0), closing.has_notes)
    except _CannotClose:
        return None


class _Closing:
    """The state of one `close_schema`: the root, the size so far, the references already closed."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._nodes = 0
        self._checked: set[str] = set()
        self.has_notes = False

    def close(self, node: object, inside: frozenset[str], depth: int) -> Schema:
        """Close one schema; `inside` has the references that led to it."""
        self._nodes += 1
        if not isinstance(node, dict) or depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise _CannotClose
        _check_members(node)
        closed: Schema = {}
        for name in ("$defs", "definitions"):
            members = node.get(name)
            if isinstance(members, dict):
                closed[name] = {key: self.close(child, inside, depth + 1) for key, child in members.items()}
        reference = node.get("$ref")
        if reference is not None:
            self._check_reference(reference, inside, depth)
            return closed | {"$ref": reference}
        closed |= {name: node[name] for name in KEPT if name in node}
        # `oneOf` is not accepted; exactly one option matches in practice, so `anyOf` means the same.
        for name, written in (("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")):
            options = node.get(name)
            if isinstance(options, list) and written not in closed:
                closed[written] = [self.close(option, inside, depth + 1) for option in options]
        if is_object_schema(node):
            self._close_object(node, closed, inside, depth)
        if "items" in node:
            closed["items"] = self.close(node["items"], inside, depth + 1)
        self._add_notes(node, closed)
        return closed

    def _check_reference(self, reference: object, inside: frozenset[str], depth: int) -> None:
        """Check that a reference, which stays, leads to a schema that can be closed and not in a circle."""
        if not isinstance(reference, str) or reference in inside:
            raise _CannotClose
        if reference not in self._checked:
            self.close(find_reference(reference, self._root), inside | {reference}, depth + 1)
            self._checked.add(reference)

    def _close_object(self, node: Schema, closed: Schema, inside: frozenset[str], depth: int) -> None:
        properties, others = node.get("properties"), node.get("additionalProperties", False)
        is_map = not properties and node.get("additionalProperties") is not False
        if is_map or not isinstance(properties or {}, dict) or others is not False:
            raise _CannotClose
        members = properties if isinstance(properties, dict) else {}
        closed["properties"] = {key: self.close(child, inside, depth + 1) for key, child in members.items()}
        closed["additionalProperties"] = False

    def _add_notes(self, node: Schema, closed: Schema) -> None:
        notes: list[str] = []
        for name, value in node.items():
            if name in WITHOUT_NOTE:
                continue
            if (name == "format" and value in FORMATS) or (name == "minItems" and value in (0, 1)):
                closed[name] = value
            else:
                notes.append(write_note(name, value))
        if notes:
            self.has_notes = True
            description = closed.get("description")
            texts = [description] if isinstance(description, str) and description else []
            closed["description"] = " ".join([*texts, *notes])


def _check_members(node: Schema) -> None:
    """Raise if a value that the schema accepts would have members that its closed form forbids.

    Closing one schema forbids the members that another one of the same object describes, so that no object
    matches both.
    """
    describing = [
        "$ref" in node,
        is_object_schema(node),
        *(any(map(_has_members, iter_children(node, (name,)))) for name in _OPTIONS),
        *map(_has_members, iter_children(node, _ALWAYS)),
    ]
    if sum(describing) > 1:
        raise _CannotClose
    properties, least = properties_of(node), node.get("minProperties")
    needs_others = is_object_schema(node) and (
        not properties.keys() >= set(required_of(node))
        or (isinstance(least, int) and least > len(properties))
    )
    allows_others = (
        bool(node.get("patternProperties")) or node.get("unevaluatedProperties", False) is not False
    )
    if needs_others or allows_others:
        raise _CannotClose


def _has_members(schema: object) -> bool:
    """Whether a schema describes members, or has inner schemas that may."""
    return isinstance(schema, dict) and (is_object_schema(schema) or not _JOINED.isdisjoint(schema))


def make_strict(schema: Schema | None) -> Schema | None:
    """The schema as strict modes demand it: the same object if it is strict; None if it cannot be made so.

    Objects that do not mention other members get `additionalProperties: false`. An optional member, a map, an
    object that allows other members and an object that two schemas describe together stay, because closing
    them would change what the client accepts.
    """
    if is_strict_schema(schema):
        return schema
    root = dict(schema or {})
    if (
        root.get("type", "object") == "object"
        and not root.keys() - _WITHOUT_MEMBERS
        and not root.get("properties")
    ):
        # A function without parameters: at the top an empty object is no map.
        root |= {"type": "object", "properties": {}, "additionalProperties": False}
    try:
        closed = edit_schema(root, _add_closing)
    except _CannotClose:
        return None
    return closed if is_strict_schema(closed) else None


def _add_closing(node: Schema) -> Schema:
    if not _REFUSED.isdisjoint(node):
        raise _CannotClose
    _check_members(node)
    is_open = is_object_schema(node) and "additionalProperties" not in node
    return {**node, "additionalProperties": False} if is_open and node.get("properties") else node


def is_strict_schema(schema: Schema | None) -> bool:
    """Whether a schema already is what strict modes demand: all members required, no others allowed."""
    if schema is None or schema.get("additionalProperties") is not False:
        return False
    waiting: list[object] = [schema]
    nodes = 0
    while waiting:
        node = waiting.pop()
        nodes += 1
        if nodes > MAX_STRICT_NODES:
            return False
        if isinstance(node, dict):
            if is_object_schema(node) and not _is_strict_object(node):
                return False
            waiting += iter_children(node, _STRICT_KEYWORDS)
    return True


def _is_strict_object(node: Schema) -> bool:
    properties = node.get("properties")
    names = properties.keys() if isinstance(properties, dict) else set()
    return (
        node.get("additionalProperties") is False
        and isinstance(node.get("required", []), list)
        and names <= set(required_of(node))
    )
