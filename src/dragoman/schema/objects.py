"""Objects as servers accept them: with `properties`, and with `required` names that are properties.

`is_irregular_object` and `has_irregular_objects` find out quickly whether an edit may be needed: agents send
dozens of schemas with every request, and nearly none needs one.
"""

from dragoman.schema.nodes import Schema, required_of

#: Keywords by which other schemas or patterns describe members of the same object.
_DESCRIBING = frozenset(
    {"$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "patternProperties", "dependentSchemas"}
)

#: Nodes that the quick walk looks at. Larger schemas count as ones that need an edit.
MAX_NODES = 10_000


def add_properties(node: Schema) -> Schema:
    """An edit for `edit_schema`: an object without `properties` gets an empty one."""
    return {**node, "properties": {}} if _lacks_properties(node) else node


def remove_stale_names(node: Schema) -> Schema:
    """An edit for `edit_schema`: `required` loses the names that are no properties of the object."""
    if not _has_stale_names(node):
        return node
    properties = node.get("properties")
    known = properties if isinstance(properties, dict) else {}
    names = [name for name in required_of(node) if name in known]
    return {**node, "required": names}


def _lacks_properties(node: Schema) -> bool:
    # `type` is looked at first, because most nodes are no objects. A map describes its members otherwise.
    if node.get("type") != "object" or "properties" in node:
        return False
    return _DESCRIBING.isdisjoint(node) and not isinstance(node.get("additionalProperties"), dict)


def _has_stale_names(node: Schema) -> bool:
    names = node.get("required")
    if not isinstance(names, list) or not names or node.get("type") != "object":
        # Without a type it may be one of several alternatives, whose properties are elsewhere.
        return False
    properties = node.get("properties")
    known = properties if isinstance(properties, dict) else {}
    if all(isinstance(name, str) and name in known for name in names):
        return False
    return _DESCRIBING.isdisjoint(node) and not isinstance(node.get("additionalProperties"), dict)


def has_irregular_objects(schema: Schema) -> bool:
    """Whether an edit of this module may change the schema or one inside it.

    Goes level by level, also into values that are no schemas.
    """
    level: list[object] = [schema]
    nodes = 0
    while level:
        nodes += len(level)
        if nodes > MAX_NODES:
            return True
        objects = [node for node in level if type(node) is dict]
        if any(map(is_irregular_object, objects)):
            return True
        lists = [node for node in level if type(node) is list]
        level = [
            child
            for group in (map(dict.values, objects), lists)
            for node in group
            for child in node
            if (kind := type(child)) is dict or kind is list
        ]
    return False


def is_irregular_object(node: Schema) -> bool:
    """Whether an edit of this module may change this node, apart from the nodes inside it."""
    if node.get("type") != "object":
        return False
    properties = node.get("properties")
    if type(properties) is not dict:
        return True
    required = node.get("required")
    if type(required) is list:
        for name in required:
            if type(name) is not str or name not in properties:
                return True
    return False
