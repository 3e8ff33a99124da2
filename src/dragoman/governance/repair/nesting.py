"""Where in a value a reader is: the brackets that are open, and what the schema says about that place."""

import msgspec

from dragoman.governance.repair.edits import Hopeless
from dragoman.governance.repair.schema import items_of, properties_of, required_of, types_of
from dragoman.wire.fields import DEPTH
from dragoman.wire.json_grammar import CLOSERS


class Nesting:
    """Open brackets, outermost first, and for each the key it is at, as JSON.

    The schema is asked only when a place is doubtful: most places are not.
    """

    __slots__ = ("_braces", "_schema", "brackets", "keys")

    def __init__(self, schema: object) -> None:
        self._schema = schema
        self.brackets: list[str] = []
        self.keys: list[str] = []
        self._braces = 0

    def enter(self, bracket: str) -> None:
        if len(self.brackets) == DEPTH:
            raise Hopeless
        self.brackets.append(bracket)
        self.keys.append("")
        self._braces += bracket == "{"

    def leave(self) -> str:
        """The bracket that closes the innermost one."""
        self.keys.pop()
        bracket = self.brackets.pop()
        self._braces -= bracket == "{"
        return CLOSERS[bracket]

    def open_for(self, closer: str) -> int:
        """How many open brackets this one could close."""
        return self._braces if closer == "}" else len(self.brackets) - self._braces

    def types(self) -> frozenset[str]:
        """The types that the value at this place may have."""
        return types_of(self._schema_after(len(self.brackets)))

    def names(self) -> frozenset[str]:
        """The members that the object at hand is known to have."""
        return frozenset(properties_of(self._schema_after(len(self.brackets) - 1)))

    def can_do_without_this(self) -> bool:
        """Whether the current key is one that the schema knows and does not insist on."""
        owner = self._schema_after(len(self.brackets) - 1)
        key = _decoded(self.keys[-1])
        return key in properties_of(owner) and key not in required_of(owner)

    def _schema_after(self, levels: int) -> object:
        schema = self._schema
        for level in range(levels):
            if schema is None:
                break
            if self.brackets[level] == "[":
                schema = items_of(schema)
            else:
                schema = properties_of(schema).get(_decoded(self.keys[level]))
        return schema


def _decoded(key: str) -> str:
    return msgspec.json.decode(key, type=str) if key else ""
