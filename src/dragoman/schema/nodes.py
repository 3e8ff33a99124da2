"""One node of a schema, its children and its references."""

from collections.abc import Callable, Collection, Iterator

from dragoman.hub.errors import ClientProtocolError
from dragoman.wire.fields import encode

Schema = dict[str, object]

#: Keywords whose value is one schema. `items` may also be a list of schemas (draft 4).
ONE_SCHEMA = frozenset(
    {"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"}
)
#: Keywords whose value is a list of schemas.
SCHEMA_LIST = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
#: Keywords whose value has schemas by name. `defs` is Gemini's spelling of `$defs`.
SCHEMA_MAP = frozenset(
    {"properties", "patternProperties", "$defs", "defs", "definitions", "dependentSchemas"}
)
SCHEMA_KEYWORDS = ONE_SCHEMA | SCHEMA_LIST | SCHEMA_MAP

#: Deeper schemas are left as they are.
MAX_DEPTH = 100

#: References and branches that `resolve` and `types_of` follow at most: a schema may refer to itself.
MAX_REFERENCES = 32

#: Characters of a value that a note in a description quotes at most.
MAX_NOTE = 200

#: The type names of JSON Schema, by the Python type of a decoded value.
TYPE_NAMES: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def edit_schema(schema: Schema, edit: Callable[[Schema], Schema], depth: int = MAX_DEPTH) -> Schema:
    """Apply `edit` to a schema, then to each schema inside the result, down to `depth` levels.

    `edit` returns its argument if there is nothing to change. Values that are no schemas (`enum`, `default`,
    `const`) are left alone.
    """
    schema = edit(schema)
    if depth == 0:
        return schema
    changes: Schema = {}
    for name, value in schema.items():
        # Checked first because most values of most schemas are strings.
        if (type(value) is dict or type(value) is list) and name in SCHEMA_KEYWORDS:
            edited = _edit_value(name, value, edit, depth - 1)
            if edited is not value:
                changes[name] = edited
    return {**schema, **changes} if changes else schema


def _edit_value(name: str, value: object, edit: Callable[[Schema], Schema], depth: int) -> object:
    if isinstance(value, list):
        items = [edit_schema(item, edit, depth) if isinstance(item, dict) else item for item in value]
        return items if any(item is not old for item, old in zip(items, value, strict=True)) else value
    if not isinstance(value, dict) or name in ONE_SCHEMA:
        return edit_schema(value, edit, depth) if isinstance(value, dict) else value
    members = {
        key: edit_schema(child, edit, depth) if isinstance(child, dict) else child
        for key, child in value.items()
    }
    return members if any(members[key] is not value[key] for key in value) else value


def iter_children(schema: Schema, keywords: Collection[str] = SCHEMA_KEYWORDS) -> Iterator[object]:
    """The values directly inside these keywords of a schema; not all of them need to be schemas."""
    for name in keywords:
        value = schema.get(name)
        if isinstance(value, dict) and name in SCHEMA_MAP:
            yield from value.values()
        elif isinstance(value, list):
            yield from value
        elif value is not None:
            yield value


def properties_of(schema: object) -> dict[str, object]:
    """The declared members by name; empty if the schema declares none."""
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def required_of(schema: object) -> tuple[str, ...]:
    """The names of the required members, declared or not."""
    found = schema.get("required") if isinstance(schema, dict) else None
    return tuple(name for name in found if isinstance(name, str)) if isinstance(found, list) else ()


def is_object_schema(schema: Schema) -> bool:
    """Whether the schema describes an object, by its type or by its properties."""
    kinds = schema.get("type")
    return kinds == "object" or (isinstance(kinds, list) and "object" in kinds) or "properties" in schema


def find_reference(reference: object, root: object) -> object:
    """The value at a JSON pointer such as `#/$defs/Item` within `root`; None if there is none."""
    if reference == "#":
        return root
    if not isinstance(reference, str):
        return None
    node = root
    for segment in reference.removeprefix("#/").split("/"):
        name = segment.replace("~1", "/").replace("~0", "~")
        node = node.get(name) if isinstance(node, dict) else None
    return node


def resolve(schema: object, root: object) -> object:
    """Follow the `$ref` of a schema within the same document; None if the references form a circle.

    A reference to another document is not followed: its schema is returned as it is.
    """
    for _ in range(MAX_REFERENCES):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        schema = find_reference(reference, root)
    return None


def types_of(schema: object, root: object) -> tuple[str, ...]:
    """The JSON types that a value may have, in the schema's order; empty if the schema names none.

    References into `root`, alternatives, `enum`, `const` and `nullable` are taken into account.
    """
    types: dict[str, None] = {}
    waiting = [schema]
    for _ in range(MAX_REFERENCES):
        if not waiting:
            break
        node = resolve(waiting.pop(0), root)
        if not isinstance(node, dict):
            continue
        kinds = node.get("type")
        for kind in kinds if isinstance(kinds, list) else [kinds]:
            if isinstance(kind, str):
                types[kind] = None
        waiting += iter_children(node, ("anyOf", "oneOf", "allOf"))
        if kinds is None:
            values = node.get("enum")
            listed = values if isinstance(values, list) else []
            listed = [*listed, node["const"]] if "const" in node else listed
            types.update(dict.fromkeys(TYPE_NAMES.get(type(value), "null") for value in listed))
        if node.get("nullable") is True:
            types["null"] = None
    return tuple(types)


def write_note(name: str, value: object) -> str:
    """A keyword and its value as a note for a description, such as `(maxItems: 3)`."""
    text = encode(value, error_class=ClientProtocolError).decode()
    return f"({name}: {text if len(text) <= MAX_NOTE else text[:MAX_NOTE] + '…'})"
