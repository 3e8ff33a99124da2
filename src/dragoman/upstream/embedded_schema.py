"""A small value that a JSON schema accepts, for the schemas that agents and applications send."""

from collections.abc import Mapping

#: Schemas may refer to themselves; what lies deeper than this is left out where it may be.
MAX_DEPTH = 12

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


def example_of(schema: object, root: object = None, depth: int = 0) -> object:
    """An instance of the schema; `root` is where its `$ref`s point into."""
    root = schema if root is None else root
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return WORD
    schema = _resolved(schema, root)
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
            return example_of(_plainest(choices), root, depth + 1)
    return _of_type(_type(schema), schema, root, depth)


def _of_type(name: str, schema: Mapping[str, object], root: object, depth: int) -> object:
    if name == "object":
        return _object(schema, root, depth)
    if name == "array":
        count = _number(schema, "minItems", 0)
        return [example_of(schema.get("items"), root, depth + 1)] * min(int(count), 10)
    if name in ("integer", "number"):
        return _between(schema)
    if name == "string":
        text = _FORMATS.get(str(schema.get("format", "")), WORD)
        text = text.ljust(min(int(_number(schema, "minLength", 0)), 1000), "x")
        return text[: int(_number(schema, "maxLength", len(text)))]
    return {"boolean": False, "null": None}.get(name, WORD)


def _object(schema: Mapping[str, object], root: object, depth: int) -> dict[str, object]:
    properties = schema.get("properties")
    members = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    return {name: example_of(members.get(name, {}), root, depth + 1) for name in names or members}


def _type(schema: Mapping[str, object]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    if isinstance(kind, str):
        # Gemini writes its types in capitals.
        return kind.lower()
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def _between(schema: Mapping[str, object]) -> int | float:
    least = _number(schema, "minimum", _number(schema, "exclusiveMinimum", -1) + 1)
    most = _number(schema, "maximum", _number(schema, "exclusiveMaximum", least + 2) - 1)
    return least if least <= most else most


def _number(schema: Mapping[str, object], keyword: str, otherwise: int | float) -> int | float:
    value = schema.get(keyword)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else otherwise


def _resolved(schema: dict[str, object], root: object) -> dict[str, object]:
    """The schema with its reference followed and the parts of `allOf` joined."""
    for _ in range(MAX_DEPTH):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            break
        target = root
        for step in reference[1:].split("/")[1:]:
            target = target.get(step) if isinstance(target, dict) else None
        schema = target if isinstance(target, dict) else {}
    parts = schema.get("allOf")
    if not isinstance(parts, list):
        return schema
    joined: dict[str, object] = {key: value for key, value in schema.items() if key != "allOf"}
    for part in parts:
        for key, value in (_resolved(part, root) if isinstance(part, dict) else {}).items():
            earlier = joined.get(key)
            if isinstance(earlier, dict) and isinstance(value, dict):
                value = {**earlier, **value}
            elif isinstance(earlier, list) and isinstance(value, list):
                value = [*earlier, *value]
            joined[key] = value
    return joined


def _plainest(choices: list[object]) -> object:
    """The choice that is easiest to make: nothing at all where that is allowed, else the first."""
    for choice in choices:
        if isinstance(choice, dict) and choice.get("type") == "null":
            return choice
    return choices[0]
