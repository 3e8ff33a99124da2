"""JSON Schema as the subset of OpenAPI that Gemini's `parameters` take.

References are inlined, alternatives unified, and what the subset cannot say is told in the description.
The result is bounded however the schema refers to itself.
"""

from dragoman.hub.errors import ClientProtocolError
from dragoman.wire.fields import encode

Schema = dict[str, object]

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

#: Told in words, because a model can still heed them.
TOLD = (
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
MAX_NOTE = 200


def as_openapi(schema: Schema) -> Schema:
    return _Conversion(schema).convert(schema, frozenset(), 0)


class _Conversion:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._nodes = 0

    def convert(self, node: object, inside: frozenset[str], depth: int) -> Schema:
        """One schema; `inside` are the references that led here."""
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            return {"type": "object", "description": "(not described further)"}
        if not isinstance(node, dict):
            return {"type": "string", "description": "(any JSON value)"}
        node, inside, again = self._resolved(node, inside)
        if again:
            return {"type": "object", "description": "(the same structure again)"}
        node = self._merged(node, inside, depth)
        after: Schema = {name: node[name] for name in KEPT if name in node}
        notes = [_note(name, node[name]) for name in TOLD if name in node]
        self._say_alternatives(node, after, inside, depth)
        self._say_type(node, after)
        _say_values(node, after, notes)
        _say_format(node, after, notes)
        self._say_children(node, after, notes, inside, depth)
        _say_description(node, after, notes)
        return after

    def _resolved(self, node: Schema, inside: frozenset[str]) -> tuple[Schema, frozenset[str], bool]:
        """The node with its reference followed; True if the reference leads in a circle."""
        reference = node.get("$ref")
        while isinstance(reference, str):
            if reference in inside:
                return node, inside, True
            inside |= {reference}
            found = self._find(reference)
            beside = {name: value for name, value in node.items() if name != "$ref"}
            node = {**found, **beside}
            reference = found.get("$ref")
            if reference is not None:
                node["$ref"] = reference
        return node, inside, False

    def _find(self, reference: str) -> Schema:
        node: object = self._root
        if reference == "#":
            return self._root
        for step in reference.removeprefix("#/").split("/"):
            step = step.replace("~1", "/").replace("~0", "~")
            node = node.get(step) if isinstance(node, dict) else None
        return node if isinstance(node, dict) else {}

    def _merged(self, node: Schema, inside: frozenset[str], depth: int) -> Schema:
        """`allOf` in one: members and requirements add up, of all else the first wins."""
        parts = node.get("allOf")
        if not isinstance(parts, list):
            return node
        merged = {name: value for name, value in node.items() if name != "allOf"}
        for part in parts:
            self._nodes += 1
            if not isinstance(part, dict) or depth > MAX_DEPTH or self._nodes > MAX_NODES:
                continue
            resolved, beyond, again = self._resolved(part, inside)
            if not again:
                _add(merged, self._merged(resolved, beyond, depth + 1))
        return merged

    def _say_alternatives(self, node: Schema, after: Schema, inside: frozenset[str], depth: int) -> None:
        options: list[Schema] = []
        for name in ("anyOf", "oneOf"):
            listed = node.get(name)
            for option in listed if isinstance(listed, list) else []:
                if isinstance(option, dict) and option.get("type") == "null":
                    after["nullable"] = True
                else:
                    options.append(self.convert(option, inside, depth + 1))
        if len(options) == 1:
            for name, value in options[0].items():
                after.setdefault(name, value)
        elif options:
            after["anyOf"] = options

    def _say_type(self, node: Schema, after: Schema) -> None:
        kinds = node.get("type")
        listed = [kind for kind in kinds if isinstance(kind, str)] if isinstance(kinds, list) else []
        if "null" in listed:
            after["nullable"] = True
        listed = [kind for kind in listed if kind != "null"]
        if isinstance(kinds, str):
            after["type"] = kinds
        elif len(listed) == 1:
            after["type"] = listed[0]
        elif listed and "anyOf" not in after:
            after["anyOf"] = [
                {"type": "array", "items": {"type": "string"}} if kind == "array" else {"type": kind}
                for kind in listed
            ]
        elif "properties" in node:
            after["type"] = "object"
        elif "items" in node:
            after["type"] = "array"

    def _say_children(
        self, node: Schema, after: Schema, notes: list[str], inside: frozenset[str], depth: int
    ) -> None:
        properties = node.get("properties")
        if isinstance(properties, dict) and properties and after.get("type") == "object":
            members = {name: self.convert(child, inside, depth + 1) for name, child in properties.items()}
            after["properties"] = members
            required = node.get("required")
            names = required if isinstance(required, list) else []
            if listed := [name for name in names if isinstance(name, str) and name in members]:
                after["required"] = listed
        if isinstance(others := node.get("additionalProperties"), dict):
            notes.append(_note("other members", others))
        if after.get("type") == "array" and "items" not in after:
            items = node.get("items")
            if isinstance(items, list):
                notes.append(_note("items", items))
            after["items"] = (
                self.convert(items, inside, depth + 1) if isinstance(items, dict) else {"type": "string"}
            )


def _add(merged: Schema, part: Schema) -> None:
    for name, value in part.items():
        present = merged.get(name)
        if name == "properties" and isinstance(present, dict) and isinstance(value, dict):
            merged[name] = {**value, **present}
        elif name == "required" and isinstance(present, list) and isinstance(value, list):
            merged[name] = [*present, *(item for item in value if item not in present)]
        else:
            merged.setdefault(name, value)


def _say_values(node: Schema, after: Schema, notes: list[str]) -> None:
    """`enum` and `const`. Values are texts in the subset, whatever their type."""
    values = [node["const"]] if "const" in node else node.get("enum")
    if not isinstance(values, list):
        return
    if None in values:
        after["nullable"] = True
        values = [value for value in values if value is not None]
    if values and all(isinstance(value, str) for value in values):
        after.setdefault("type", "string")
        after["enum"] = values
    elif values and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        after.setdefault("type", "integer" if all(isinstance(value, int) for value in values) else "number")
        after["format"] = "enum"
        after["enum"] = [encode(value, blame=ClientProtocolError).decode() for value in values]
    elif values:
        if all(isinstance(value, bool) for value in values):
            after.setdefault("type", "boolean")
        notes.append(_note("one of", values))


def _say_format(node: Schema, after: Schema, notes: list[str]) -> None:
    form = node.get("format")
    if not isinstance(form, str):
        return
    if form in FORMATS:
        after.setdefault("format", form)
    else:
        notes.append(f"(format: {form[:MAX_NOTE]})")


def _say_description(node: Schema, after: Schema, notes: list[str]) -> None:
    if "type" not in after and "anyOf" not in after:
        after["type"] = "string"
        notes.append("(any JSON value)")
    description = node.get("description")
    told = description if isinstance(description, str) else after.get("description")
    words = [told] if isinstance(told, str) and told else []
    # What was told once stays told: converting twice says the same.
    words += [note for note in notes if not (words and note in words[0])]
    if words:
        after["description"] = " ".join(words)


def _note(name: str, value: object) -> str:
    text = encode(value, blame=ClientProtocolError).decode()
    return f"({name}: {text if len(text) <= MAX_NOTE else text[:MAX_NOTE] + '…'})"
