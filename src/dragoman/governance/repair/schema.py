"""What a tool's JSON Schema says about its arguments, as far as a repair wants to know.

Schemas come from clients and may hold anything at all. What is not understood counts as not said: no
types means any type, no properties means any property.
"""

from collections.abc import Sequence

#: The types that a JSON Schema can name, by the Python type of a decoded value.
TYPE_NAMES: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
KNOWN_TYPES = frozenset(TYPE_NAMES.values())
ANYTHING: frozenset[str] = frozenset()

#: Keywords by which a schema can speak of members elsewhere than in its own `properties`.
COMPOSING = frozenset(("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"))


def properties_of(schema: object) -> dict[str, object]:
    """The declared members by name; empty if the schema declares none."""
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def required_of(schema: object) -> tuple[str, ...]:
    found = schema.get("required") if isinstance(schema, dict) else None
    return tuple(name for name in found if isinstance(name, str)) if isinstance(found, list) else ()


def types_of(schema: object) -> frozenset[str]:
    """The types that a value may have; `ANYTHING` if the schema does not tell."""
    if not isinstance(schema, dict):
        return ANYTHING
    named = schema.get("type")
    if isinstance(named, str):
        return frozenset((named,)) & KNOWN_TYPES
    if isinstance(named, list):
        return frozenset(name for name in named if isinstance(name, str)) & KNOWN_TYPES
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list) and branches:
            return _union(branches)
    values = schema.get("enum")
    if isinstance(values, list):
        return frozenset(TYPE_NAMES.get(type(value), "") for value in values) & KNOWN_TYPES
    return ANYTHING


def _union(branches: list[object]) -> frozenset[str]:
    """What any branch allows. Branches of branches are not looked at: schemas may be nested without end."""
    types: set[str] = set()
    for branch in branches:
        named = branch.get("type") if isinstance(branch, dict) else None
        if not isinstance(named, str):
            return ANYTHING
        types.add(named)
    return frozenset(types) & KNOWN_TYPES


def allows(types: frozenset[str], name: str) -> bool:
    return types is ANYTHING or not types or name in types or (name == "integer" and "number" in types)


def items_of(schema: object) -> object:
    """The schema of an array's items; None if it does not tell."""
    return schema.get("items") if isinstance(schema, dict) else None


def only_text_property(schema: object) -> str | None:
    """The one property that a lone string can be meant for, if there is just one."""
    properties = properties_of(schema)
    required = required_of(schema)
    names = required if required else tuple(properties)
    if len(names) != 1 or not isinstance(schema, dict) or not COMPOSING.isdisjoint(schema):
        return None
    (name,) = names
    return name if types_of(properties.get(name)) == {"string"} else None


def leaves_nothing_open(schema: object, names: Sequence[str]) -> bool:
    """Whether every property that the schema declares is among the names, and it foresees no others."""
    if not isinstance(schema, dict) or not COMPOSING.isdisjoint(schema):
        return False
    if schema.get("patternProperties") or schema.get("additionalProperties", False) is not False:
        return False
    properties = properties_of(schema)
    return bool(properties) and {*properties, *required_of(schema)} <= set(names)
