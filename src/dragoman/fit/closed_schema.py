"""JSON Schema as vendors take it that hold an answer to its schema letter by letter: every object closed.

Limits that such vendors do not enforce are told in the description instead. What cannot be closed without
changing what it means, such as a map with free keys or a structure that holds itself, is no such schema.
"""

from dragoman.hub.errors import ClientProtocolError
from dragoman.wire.fields import encode

Schema = dict[str, object]

KEPT = ("type", "title", "description", "enum", "const", "default", "nullable", "required")
FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
#: Words that are rewritten below, not told.
HANDLED = frozenset(
    {*KEPT, "$ref", "$defs", "definitions", "properties", "additionalProperties", "items", "anyOf", "oneOf"}
    | {"allOf", "$id", "$schema", "$comment"}
)

MAX_DEPTH = 60
MAX_NODES = 5_000
MAX_NOTE = 200


class CannotClose(Exception):
    """The schema means something that a closed one cannot say."""


def closed(schema: Schema) -> tuple[Schema, bool] | None:
    """The schema closed, and whether limits had to be told in words; None if it cannot be closed."""
    closing = _Closing(schema)
    try:
        return closing.close(schema, frozenset(), 0), closing.told
    except CannotClose:
        return None


class _Closing:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._nodes = 0
        self.told = False
        self._followed: set[str] = set()

    def close(self, node: object, inside: frozenset[str], depth: int) -> Schema:
        """One schema; `inside` are the references that led here."""
        self._nodes += 1
        if not isinstance(node, dict) or depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise CannotClose
        after: Schema = {}
        for name in ("$defs", "definitions"):
            members = node.get(name)
            if isinstance(members, dict):
                after[name] = {key: self.close(child, inside, depth + 1) for key, child in members.items()}
        reference = node.get("$ref")
        if reference is not None:
            self._follow(reference, inside, depth)
            return after | {"$ref": reference}
        after |= {name: node[name] for name in KEPT if name in node}
        self._close_alternatives(node, after, inside, depth)
        if _is_object(node):
            self._close_object(node, after, inside, depth)
        if "items" in node:
            after["items"] = self.close(node["items"], inside, depth + 1)
        self.told = _tell_limits(node, after) or self.told
        return after

    def _follow(self, reference: object, inside: frozenset[str], depth: int) -> None:
        """A reference stays one; but what it leads to must not lead back."""
        if not isinstance(reference, str) or reference in inside:
            raise CannotClose
        if reference in self._followed:
            return
        node: object = self._root
        for step in reference.removeprefix("#/").split("/"):
            node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
        self.close(node, inside | {reference}, depth + 1)
        self._followed.add(reference)

    def _close_alternatives(self, node: Schema, after: Schema, inside: frozenset[str], depth: int) -> None:
        for name, written in (("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")):
            options = node.get(name)
            if isinstance(options, list) and written not in after:
                after[written] = [self.close(option, inside, depth + 1) for option in options]

    def _close_object(self, node: Schema, after: Schema, inside: frozenset[str], depth: int) -> None:
        properties, others = node.get("properties"), node.get("additionalProperties")
        is_map = not properties and others is not False
        if is_map or not isinstance(properties or {}, dict) or isinstance(others, dict):
            raise CannotClose
        members = properties if isinstance(properties, dict) else {}
        after["properties"] = {key: self.close(child, inside, depth + 1) for key, child in members.items()}
        after["additionalProperties"] = False


def _is_object(node: Schema) -> bool:
    kinds = node.get("type")
    return kinds == "object" or (isinstance(kinds, list) and "object" in kinds) or "properties" in node


def _tell_limits(node: Schema, after: Schema) -> bool:
    notes: list[str] = []
    for name, value in node.items():
        if name in HANDLED:
            continue
        if (name == "format" and value in FORMATS) or (name == "minItems" and value in (0, 1)):
            after[name] = value
        else:
            notes.append(f"({name}: {encode(value, blame=ClientProtocolError).decode()[:MAX_NOTE]})")
    if notes:
        said = after.get("description")
        words = [said] if isinstance(said, str) and said else []
        after["description"] = " ".join([*words, *notes])
    return bool(notes)
