"""JSON Schema as the subset of OpenAPI that Gemini's `parameters` accept.

References are replaced by what they refer to, alternatives are unified, and what the subset has no keyword
for becomes a note in the description. The result is bounded, also for a schema that refers to itself.
"""

from dragoman.hub.errors import ClientProtocolError
from dragoman.schema.nodes import MAX_NOTE, Schema, find_reference, required_of, write_note
from dragoman.wire.fields import encode

KEPT = (
    "title",
    "default",
    "example",
    "nullable",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "pattern",
    "propertyOrdering",
)
FORMATS = frozenset({"enum", "date-time", "float", "double", "int32", "int64"})

#: Keywords that become notes: the subset has no such keyword, but a model can still follow the note.
NOTED = (
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "uniqueItems",
    "patternProperties",
    "propertyNames",
    "prefixItems",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "examples",
)

MAX_DEPTH = 60
MAX_NODES = 5_000


def convert_to_openapi(schema: Schema) -> Schema:
    """Write a JSON Schema in the subset. Converting a result again gives the same result."""
    return _Conversion(schema).convert(schema, frozenset(), 0)


class _Conversion:
    """The state of one `convert_to_openapi`: where references lead to, and the size so far."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._nodes = 0

    def convert(self, node: object, inside: frozenset[str], depth: int) -> Schema:
        """Convert one schema; `inside` has the references that led to it."""
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            return {"type": "object", "description": "(not described further)"}
        if not isinstance(node, dict):
            return {"type": "string", "description": "(any JSON value)"}
        node, inside, is_circle = self._resolve(node, inside)
        if is_circle:
            return {"type": "object", "description": "(the same structure again)"}
        node = self._merge_all_of(node, inside, depth)
        written: Schema = {name: node[name] for name in KEPT if name in node}
        notes = [write_note(name, node[name]) for name in NOTED if name in node]
        self._write_alternatives(node, written, inside, depth)
        _write_type(node, written)
        _write_values(node, written, notes)
        _write_format(node, written, notes)
        self._write_children(node, written, notes, inside, depth)
        _write_description(node, written, notes)
        return written

    def _resolve(self, node: Schema, inside: frozenset[str]) -> tuple[Schema, frozenset[str], bool]:
        """Follow the `$ref`s of a node.

        Returns the node (its own keywords win), the references followed so far, and whether they form a
        circle.
        """
        reference = node.get("$ref")
        while isinstance(reference, str):
            if reference in inside:
                return node, inside, True
            inside |= {reference}
            found = find_reference(reference, self._root)
            found = found if isinstance(found, dict) else {}
            beside = {name: value for name, value in node.items() if name != "$ref"}
            node = {**found, **beside}
            reference = found.get("$ref")
            if reference is not None:
                node["$ref"] = reference
        return node, inside, False

    def _merge_all_of(self, node: Schema, inside: frozenset[str], depth: int) -> Schema:
        """Merge `allOf` into the node.

        Members and requirements add up; for other keywords, the first value wins.
        """
        parts = node.get("allOf")
        if not isinstance(parts, list):
            return node
        merged = {name: value for name, value in node.items() if name != "allOf"}
        for part in parts:
            self._nodes += 1
            if not isinstance(part, dict) or depth > MAX_DEPTH or self._nodes > MAX_NODES:
                continue
            resolved, beyond, is_circle = self._resolve(part, inside)
            if not is_circle:
                _merge_part(merged, self._merge_all_of(resolved, beyond, depth + 1))
        return merged

    def _write_alternatives(self, node: Schema, written: Schema, inside: frozenset[str], depth: int) -> None:
        options: list[Schema] = []
        for name in ("anyOf", "oneOf"):
            listed = node.get(name)
            for option in listed if isinstance(listed, list) else []:
                if isinstance(option, dict) and option.get("type") == "null":
                    written["nullable"] = True
                else:
                    options.append(self.convert(option, inside, depth + 1))
        if len(options) == 1:
            for name, value in options[0].items():
                written.setdefault(name, value)
        elif options:
            written["anyOf"] = options

    def _write_children(
        self, node: Schema, written: Schema, notes: list[str], inside: frozenset[str], depth: int
    ) -> None:
        properties = node.get("properties")
        if isinstance(properties, dict) and properties and written.get("type") == "object":
            members = {name: self.convert(child, inside, depth + 1) for name, child in properties.items()}
            written["properties"] = members
            if required := [name for name in required_of(node) if name in members]:
                written["required"] = required
        if isinstance(others := node.get("additionalProperties"), dict):
            notes.append(write_note("other members", others))
        if written.get("type") == "array" and "items" not in written:
            items = node.get("items")
            if isinstance(items, list):
                notes.append(write_note("items", items))
            # The subset refuses an array without `items`.
            written["items"] = (
                self.convert(items, inside, depth + 1) if isinstance(items, dict) else {"type": "string"}
            )


def _merge_part(merged: Schema, part: Schema) -> None:
    for name, value in part.items():
        present = merged.get(name)
        if name == "properties" and isinstance(present, dict) and isinstance(value, dict):
            merged[name] = {**value, **present}
        elif name == "required" and isinstance(present, list) and isinstance(value, list):
            merged[name] = [*present, *(item for item in value if item not in present)]
        else:
            merged.setdefault(name, value)


def _write_type(node: Schema, written: Schema) -> None:
    """Write `type`. The subset allows one type; several become `anyOf`."""
    kinds = node.get("type")
    listed = [kind for kind in kinds if isinstance(kind, str)] if isinstance(kinds, list) else []
    if "null" in listed:
        written["nullable"] = True
    listed = [kind for kind in listed if kind != "null"]
    if isinstance(kinds, str):
        written["type"] = kinds
    elif len(listed) == 1:
        written["type"] = listed[0]
    elif listed and "anyOf" not in written:
        written["anyOf"] = [
            {"type": "array", "items": {"type": "string"}} if kind == "array" else {"type": kind}
            for kind in listed
        ]
    elif "properties" in node:
        written["type"] = "object"
    elif "items" in node:
        written["type"] = "array"


def _write_values(node: Schema, written: Schema, notes: list[str]) -> None:
    """Write `enum` and `const`. The subset has only strings as values, so numbers are written as text."""
    values = [node["const"]] if "const" in node else node.get("enum")
    if not isinstance(values, list):
        return
    if None in values:
        written["nullable"] = True
        values = [value for value in values if value is not None]
    if values and all(isinstance(value, str) for value in values):
        written.setdefault("type", "string")
        written["enum"] = values
    elif values and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        written.setdefault("type", "integer" if all(isinstance(value, int) for value in values) else "number")
        written["format"] = "enum"
        written["enum"] = [encode(value, error_class=ClientProtocolError).decode() for value in values]
    elif values:
        if all(isinstance(value, bool) for value in values):
            written.setdefault("type", "boolean")
        notes.append(write_note("one of", values))


def _write_format(node: Schema, written: Schema, notes: list[str]) -> None:
    name = node.get("format")
    if not isinstance(name, str):
        return
    if name in FORMATS:
        written.setdefault("format", name)
    else:
        notes.append(f"(format: {name[:MAX_NOTE]})")


def _write_description(node: Schema, written: Schema, notes: list[str]) -> None:
    if "type" not in written and "anyOf" not in written:
        written["type"] = "string"
        notes.append("(any JSON value)")
    description = node.get("description")
    text = description if isinstance(description, str) else written.get("description")
    texts = [text] if isinstance(text, str) and text else []
    # A note that is already there is not repeated: converting twice gives the same text.
    texts += [note for note in notes if not (texts and note in texts[0])]
    if texts:
        written["description"] = " ".join(texts)
