"""A small value that a JSON schema accepts, for the schemas that agents and applications send."""

from collections.abc import Mapping

#: Schemas may refer to themselves, also several times over: what lies deeper, or is more, is a mere word.
MAX_DEPTH = 12
MAX_VALUES = 2_000
#: Greater numbers are not taken seriously.
A_LOT = 1e15

_FORMATS = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "user@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
    "hostname": "example.com",
}
WORD = "example"


def example_of(schema: object, root: object = None) -> object:
    """An instance of the schema; `root` is where its `$ref`s point into, if not into itself."""
    return _Examples(schema if root is None else root).make(schema, 0)


class _Examples:
    """Makes values until there are too many."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._made = 0

    def make(self, schema: object, depth: int) -> object:
        self._made += 1
        if not isinstance(schema, dict) or depth > MAX_DEPTH or self._made > MAX_VALUES:
            return WORD
        schema = self._resolved(schema, depth)
        for keyword in ("const", "default"):
            if keyword in schema:
                return schema[keyword]
        for keyword in ("enum", "examples"):
            choices = schema.get(keyword)
            if isinstance(choices, list) and choices:
                return choices[0]
        for keyword in ("anyOf", "oneOf"):
            choices = schema.get(keyword)
            if isinstance(choices, list) and choices:
                return self.make(_plainest(choices), depth + 1)
        return self._of_type(_type(schema), schema, depth)

    def _of_type(self, name: str, schema: Mapping[str, object], depth: int) -> object:
        if name == "object":
            return self._object(schema, depth)
        if name == "array":
            count = min(int(_number(schema, "minItems", 0)), 10)
            return [self.make(schema.get("items"), depth + 1) for _ in range(count)]
        if name in ("integer", "number"):
            return _between(schema)
        if name == "string":
            text = _FORMATS.get(str(schema.get("format", "")), WORD)
            text = text.ljust(min(int(_number(schema, "minLength", 0)), 1000), "x")
            return text[: max(0, int(_number(schema, "maxLength", len(text))))]
        return {"boolean": False, "null": None}.get(name, WORD)

    def _object(self, schema: Mapping[str, object], depth: int) -> dict[str, object]:
        properties = schema.get("properties")
        members = properties if isinstance(properties, dict) else {}
        required = schema.get("required")
        names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        return {name: self.make(members.get(name, {}), depth + 1) for name in names or members}

    def _resolved(self, schema: dict[str, object], depth: int) -> dict[str, object]:
        """The schema with its reference followed and the parts of `allOf` joined."""
        for _ in range(MAX_DEPTH):
            reference = schema.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#"):
                break
            target = self._root
            for step in reference[1:].split("/")[1:]:
                target = target.get(step) if isinstance(target, dict) else None
            schema = target if isinstance(target, dict) else {}
        parts = schema.get("allOf")
        self._made += 1
        if not isinstance(parts, list) or depth > MAX_DEPTH or self._made > MAX_VALUES:
            return schema
        joined: dict[str, object] = {key: value for key, value in schema.items() if key != "allOf"}
        for part in parts:
            for key, value in (self._resolved(part, depth + 1) if isinstance(part, dict) else {}).items():
                joined[key] = _joined(joined.get(key), value)
        return joined


def _joined(earlier: object, value: object) -> object:
    """What two parts of a schema say about the same keyword, together."""
    if isinstance(earlier, dict) and isinstance(value, dict):
        return {**earlier, **value}
    if isinstance(earlier, list) and isinstance(value, list):
        return [*earlier, *value]
    return value


def _type(schema: Mapping[str, object]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    if isinstance(kind, str):
        # Gemini writes its types in capitals.
        return kind.lower()
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def _between(schema: Mapping[str, object]) -> int | float:
    # Readers that set bounds of their own, unsaid, seldom take nothing for an answer.
    least = _number(schema, "minimum", _number(schema, "exclusiveMinimum", 0) + 1)
    most = _number(schema, "maximum", _number(schema, "exclusiveMaximum", least + 2) - 1)
    return least if least <= most else most


def _number(schema: Mapping[str, object], keyword: str, otherwise: int | float) -> int | float:
    value = schema.get(keyword)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return otherwise
    return value if abs(value) < A_LOT else otherwise


def _plainest(choices: list[object]) -> object:
    """The choice that is easiest to make: nothing at all where that is allowed, else the first."""
    for choice in choices:
        if isinstance(choice, dict) and choice.get("type") == "null":
            return choice
    return choices[0]
