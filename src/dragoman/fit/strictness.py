"""Whether a JSON schema already is what strict modes demand: every member required, none besides."""

_CHILDREN = ("items", "not")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS = ("properties", "$defs", "definitions")

MAX_NODES = 10_000


def is_strict_schema(schema: dict[str, object] | None) -> bool:
    if schema is None or schema.get("additionalProperties") is not False:
        return False
    waiting: list[object] = [schema]
    seen = 0
    while waiting:
        node = waiting.pop()
        seen += 1
        if seen > MAX_NODES:
            return False
        if not isinstance(node, dict):
            continue
        if not _is_closed(node):
            return False
        waiting += [node[name] for name in _CHILDREN if name in node]
        for name in _LISTS:
            children = node.get(name)
            waiting += children if isinstance(children, list) else []
        for name in _MAPS:
            members = node.get(name)
            waiting += members.values() if isinstance(members, dict) else []
    return True


def _is_closed(node: dict[str, object]) -> bool:
    properties = node.get("properties")
    kinds = node.get("type")
    is_object = kinds == "object" or (isinstance(kinds, list) and "object" in kinds)
    if not is_object and properties is None:
        return True
    required = node.get("required", [])
    names = properties.keys() if isinstance(properties, dict) else set()
    return (
        node.get("additionalProperties") is False
        and isinstance(required, list)
        and names <= {name for name in required if isinstance(name, str)}
    )
