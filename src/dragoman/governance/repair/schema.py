"""What a tool's JSON Schema states about its arguments, as far as a repair needs it.

Schemas come from clients and may hold anything. What is not understood counts as absent: no types means any
type, no properties means any property.
"""

from collections.abc import Sequence

import msgspec

from dragoman.governance.repair.steps import UnrepairableText
from dragoman.schema import TYPE_NAMES, properties_of, required_of
from dragoman.wire.fields import DEPTH
from dragoman.wire.json_grammar import CLOSERS

KNOWN_TYPES = frozenset(TYPE_NAMES.values())
ANY_TYPE: frozenset[str] = frozenset()

#: Keywords by which a schema can define members outside its own `properties`.
COMPOSING = frozenset(("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"))


def types_of(schema: object) -> frozenset[str]:
    """The types that a value may have; `ANY_TYPE` if the schema does not state them."""
    if not isinstance(schema, dict):
        return ANY_TYPE
    named = schema.get("type")
    if isinstance(named, str):
        return frozenset((named,)) & KNOWN_TYPES
    if isinstance(named, list):
        return frozenset(name for name in named if isinstance(name, str)) & KNOWN_TYPES
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list) and branches:
            return _join_types(branches)
    values = schema.get("enum")
    if isinstance(values, list):
        return frozenset(TYPE_NAMES.get(type(value), "") for value in values) & KNOWN_TYPES
    return ANY_TYPE


def _join_types(branches: list[object]) -> frozenset[str]:
    """The types of all branches. Branches of branches are ignored: schemas may be nested without end."""
    types: set[str] = set()
    for branch in branches:
        named = branch.get("type") if isinstance(branch, dict) else None
        if not isinstance(named, str):
            return ANY_TYPE
        types.add(named)
    return frozenset(types) & KNOWN_TYPES


def allows(types: frozenset[str], name: str) -> bool:
    """Whether a value of the type `name` fits the types."""
    return not types or name in types or (name == "integer" and "number" in types)


def only_text_property(schema: object) -> str | None:
    """The one property that a lone string can be meant for, if there is exactly one."""
    properties = properties_of(schema)
    names = required_of(schema) or tuple(properties)
    if len(names) != 1 or not isinstance(schema, dict) or not COMPOSING.isdisjoint(schema):
        return None
    (name,) = names
    return name if types_of(properties.get(name)) == {"string"} else None


def declares_only(schema: object, names: Sequence[str]) -> bool:
    """Whether the names include every property that the schema declares, and it allows no others."""
    if not isinstance(schema, dict) or not COMPOSING.isdisjoint(schema):
        return False
    if schema.get("patternProperties") or schema.get("additionalProperties", False) is not False:
        return False
    properties = properties_of(schema)
    return bool(properties) and {*properties, *required_of(schema)} <= set(names)


class Nesting:
    """The reader's position: the open brackets, outermost first, and for each its current key as JSON.

    The schema is consulted only where a place is doubtful: most places are not.
    """

    __slots__ = ("_braces", "_schema", "brackets", "keys")

    def __init__(self, schema: object) -> None:
        self._schema = schema
        self.brackets: list[str] = []
        self.keys: list[str] = []
        self._braces = 0

    def enter(self, bracket: str) -> None:
        if len(self.brackets) == DEPTH:
            raise UnrepairableText
        self.brackets.append(bracket)
        self.keys.append("")
        self._braces += bracket == "{"

    def leave(self) -> str:
        """Leave the innermost object or array. Returns its closing bracket."""
        self.keys.pop()
        bracket = self.brackets.pop()
        self._braces -= bracket == "{"
        return CLOSERS[bracket]

    def count_open(self, closer: str) -> int:
        """How many open brackets this closing one could close."""
        return self._braces if closer == "}" else len(self.brackets) - self._braces

    def types(self) -> frozenset[str]:
        """The types that the value at this position may have."""
        return types_of(self._schema_at(len(self.brackets)))

    def names(self) -> frozenset[str]:
        """The members that the innermost object is declared to have."""
        return frozenset(properties_of(self._schema_at(len(self.brackets) - 1)))

    def is_key_optional(self) -> bool:
        """Whether the schema declares the current key and does not require it."""
        owner = self._schema_at(len(self.brackets) - 1)
        key = _decode_key(self.keys[-1])
        return key in properties_of(owner) and key not in required_of(owner)

    def _schema_at(self, levels: int) -> object:
        schema = self._schema
        for level in range(levels):
            if self.brackets[level] == "[":
                schema = schema.get("items") if isinstance(schema, dict) else None
            else:
                schema = properties_of(schema).get(_decode_key(self.keys[level]))
            if schema is None:
                break
        return schema


def _decode_key(key: str) -> str:
    return msgspec.json.decode(key, type=str) if key else ""
