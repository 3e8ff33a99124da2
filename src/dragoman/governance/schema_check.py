"""Checks a JSON value against a tool's JSON Schema, on `jsonschema-rs`.

A violation names the path and the kind of the violation, never a value: the library's own messages quote
values. The schema comes from a client, so the check is bounded: `_SchemaCopy` inlines the references as far
as the value reaches, which leaves nothing to fetch and no recursion, and refuses a schema that is too large.
What cannot be checked is permitted, with `is_complete` false.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache

import jsonschema_rs
import msgspec
from jsonschema_rs import ValidationError, ValidationErrorKind

from dragoman.hub.errors import DragomanError
from dragoman.schema import find_reference
from dragoman.wire.fields import encode, json_type

MAX_VIOLATIONS = 8
#: Bytes of a schema, and subschemas after its references are inlined.
MAX_BYTES = 256 * 1024
MAX_SUBSCHEMAS = 5_000
MAX_DEPTH = 60
#: Values in the arguments times subschemas.
MAX_WORK = 5_000_000
MAX_NAME = 64

#: The types of JSON Schema, in the order in which a violation names them.
TYPES = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "number": "a number",
    "integer": "an integer",
    "boolean": "a boolean",
    "null": "null",
}
_LIMITS = {
    "minimum": "a number from {} on",
    "maximum": "a number up to {}",
    "exclusiveMinimum": "a number above {}",
    "exclusiveMaximum": "a number below {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} members",
    "maxProperties": "at most {} members",
}
_PROBLEMS = {
    "falseSchema": "expected nothing here",
    "not": "expected anything but this",
    "pattern": "expected a text of a certain pattern",
}

#: Keywords whose subschemas apply to the value itself, and to the values inside it.
_SAME_VALUE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
_INNER_VALUE = frozenset(
    {
        "properties",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
        "items",
        "prefixItems",
        "additionalItems",
        "unevaluatedProperties",
        "unevaluatedItems",
    }
)
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
_LEFT_OUT = frozenset({"$ref", "$defs", "definitions", "$id", "id", "$anchor", "$schema", "nullable", "type"})
#: Drafts whose keywords differ in meaning from the newest one's.
_OLD_DRAFTS = ("http://json-schema.org/draft-04/", "http://json-schema.org/draft-0")

Schema = dict[str, object]


class SchemaViolation(msgspec.Struct, frozen=True):
    """Where a value breaks its schema: `path` such as `edits[0].text` (empty: the whole value) and `problem`.

    `problem` quotes no values.
    """

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem


class SchemaCheck(msgspec.Struct, frozen=True):
    """The first violations; `is_complete` is false if the check skipped something."""

    violations: tuple[SchemaViolation, ...] = ()
    is_complete: bool = True


_UNCHECKED = SchemaCheck(is_complete=False)


class _TooLarge(Exception):
    """The schema exceeds a limit, or refers to itself without an end."""


def check_schema(value: object, schema: object) -> SchemaCheck:
    """Check a JSON value against a schema. A schema that is no schema permits everything."""
    if schema is True or not isinstance(schema, dict | bool):
        return SchemaCheck()
    try:
        depth, values = _measure(value)
        validator, subschemas = _build_validator(encode(schema), depth)
        if validator is None or values * subschemas > MAX_WORK:
            return _UNCHECKED
        violations: list[SchemaViolation] = []
        for error in validator.iter_errors(value):
            if isinstance(error.kind, ValidationErrorKind.BacktrackLimitExceeded):
                return SchemaCheck(tuple(violations), is_complete=False)
            violations += _describe(error)
            if len(violations) >= MAX_VIOLATIONS:
                break
    except (DragomanError, _TooLarge, ValueError, OverflowError):
        return _UNCHECKED
    return SchemaCheck(tuple(violations[:MAX_VIOLATIONS]))


def _measure(value: object) -> tuple[int, int]:
    """How deep a value nests, and how many values it has."""
    depth = count = 0
    level = [value]
    while level:
        count += len(level)
        inner: list[object] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        level = inner
        depth += bool(level)
        if depth > MAX_DEPTH:
            raise _TooLarge
    return depth, count


@lru_cache(maxsize=256)
def _build_validator(source: bytes, depth: int) -> tuple[jsonschema_rs.Validator | None, int]:
    """The validator for values of this depth, None if the schema cannot be checked; and its subschemas."""
    if len(source) > MAX_BYTES:
        return None, 0
    root = msgspec.json.decode(source)
    copy = _SchemaCopy(root)
    try:
        schema = copy.build(root, depth)
        dialect = root.get("$schema") if isinstance(root, dict) else None
        if isinstance(schema, dict) and isinstance(dialect, str) and dialect.startswith(_OLD_DRAFTS):
            schema["$schema"] = dialect
        patterns = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000)
        validator = jsonschema_rs.validator_for(schema, offline=True, pattern_options=patterns)
    except (_TooLarge, RecursionError, ValueError):
        return None, 0
    return validator, copy.subschemas


class _SchemaCopy:
    """Copies a schema into the form that the library takes."""

    def __init__(self, root: object) -> None:
        self._root = root
        self.subschemas = 0

    def build(self, schema: object, depth: int, references: frozenset[str] = frozenset()) -> Schema | bool:
        """Copy a subschema for values that nest `depth` deep. `references` led to it at the same value."""
        self.subschemas += 1
        if self.subschemas > MAX_SUBSCHEMAS:
            raise _TooLarge
        if not isinstance(schema, dict):
            return schema if isinstance(schema, bool) else True
        copy: Schema = {}
        for key, value in schema.items():
            if key in _SAME_VALUE:
                copy[key] = self._build_all(key, value, lambda each: self.build(each, depth, references))
            elif key in _INNER_VALUE and depth:
                copy[key] = self._build_all(key, value, lambda each: self.build(each, depth - 1))
            elif key == "contains":
                # The only one that an empty array can violate.
                copy[key] = self.build(value, max(depth - 1, 0))
            elif key not in _LEFT_OUT and key not in _INNER_VALUE:
                copy[key] = value
        _copy_types(schema, copy)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if reference in references:
                raise _TooLarge
            target = self.build(find_reference(reference, self._root), depth, references | {reference})
            others = copy.get("allOf")
            copy["allOf"] = [*(others if isinstance(others, list) else ()), target]
        return copy

    def _build_all(self, key: str, value: object, build: Callable[[object], Schema | bool]) -> object:
        """Copy the subschemas of one keyword: a list, a map by name, or a single one."""
        if isinstance(value, list):
            return [build(each) for each in value]
        if key in _NAMED and isinstance(value, dict):
            return {name: build(each) for name, each in value.items()}
        return build(value)


def _copy_types(schema: Schema, copy: Schema) -> None:
    """Copy the types of a schema. Gemini writes them in capitals, and OpenAPI writes `nullable`."""
    stated = schema.get("type")
    names = [stated] if isinstance(stated, str) else stated if isinstance(stated, list) else []
    types = [name.lower() for name in names if isinstance(name, str) and name.lower() in TYPES]
    is_nullable = schema.get("nullable") is True
    if types and len(types) == len(names):
        copy["type"] = list(dict.fromkeys([*types, "null"] if is_nullable else types))
    choices = schema.get("enum")
    if is_nullable and isinstance(choices, list) and None not in choices:
        copy["enum"] = [*choices, None]


def _describe(error: ValidationError) -> Iterator[SchemaViolation]:
    """The violations of one error of the library, without its message."""
    path = ""
    for segment in error.instance_path:
        path = f"{path}[{segment}]" if isinstance(segment, int) else _join(path, segment)
    kind, keyword = error.kind, error.kind.name
    match kind:
        case ValidationErrorKind.Required(property=name):
            yield SchemaViolation(_join(path, name), "expected, but missing")
        case ValidationErrorKind.AdditionalProperties(unexpected=names):
            for name in names:
                yield SchemaViolation(_join(path, name), "no such member")
        case ValidationErrorKind.Type(types=types):
            wanted = " or ".join(TYPES[name] for name in TYPES if name in types)
            yield SchemaViolation(path, f"expected {wanted}, got {json_type(error.instance)}")
        case ValidationErrorKind.Enum(options=options):
            yield SchemaViolation(
                path, f"expected one of {len(options)} values, got another {_name_type(error)}"
            )
        case ValidationErrorKind.Constant():
            yield SchemaViolation(path, f"expected one certain value, got another {_name_type(error)}")
        case ValidationErrorKind.AnyOf(context=forms) | ValidationErrorKind.OneOfNotValid(context=forms):
            got = json_type(error.instance)
            yield SchemaViolation(path, f"expected one of {len(forms)} forms, got {got} of none")
        case ValidationErrorKind.OneOfMultipleValid(context=forms):
            fitting = sum(not errors for errors in forms)
            yield SchemaViolation(path, f"expected exactly one of {len(forms)} forms, fits {fitting}")
        case _ if keyword in _LIMITS:
            limit = kind.as_dict().get("limit")
            yield SchemaViolation(path, f"expected {_LIMITS[keyword].format(limit)}")
        case _:
            yield SchemaViolation(path, _PROBLEMS.get(keyword, f"does not fit `{keyword}`"))


def _name_type(error: ValidationError) -> str:
    return json_type(error.instance).removeprefix("a ").removeprefix("an ")


def _join(path: str, name: str) -> str:
    """Append a member to a path. Only a plain name is shown: a model can write anything as a name."""
    shown = name if name.isascii() and name.isidentifier() and len(name) <= MAX_NAME else "*"
    return f"{path}.{shown}" if path else shown
