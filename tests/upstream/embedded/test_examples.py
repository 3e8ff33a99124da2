"""The embedded model answers a schema with a value that the schema accepts."""

import msgspec
import pytest

from dragoman.upstream.embedded.tools import EXAMPLE_TEXT, MAX_DEPTH, build_example


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, EXAMPLE_TEXT),
        ({"type": "STRING"}, EXAMPLE_TEXT),
        ({"type": "integer"}, 1),
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "integer", "exclusiveMinimum": 3}, 4),
        ({"type": "number", "maximum": -2}, -2),
        ({"type": "boolean"}, False),
        ({"type": "null"}, None),
        ({"type": ["null", "integer"]}, 1),
        ({"enum": ["a", "b"]}, "a"),
        ({"const": 7}, 7),
        ({"type": "string", "default": "d"}, "d"),
        ({"type": "string", "format": "date"}, "2026-01-01"),
        ({"type": "string", "minLength": 9}, "examplexx"),
        ({"type": "string", "maxLength": 3}, "exa"),
        ({"type": "array", "items": {"type": "integer"}}, []),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
        ({"items": {"type": "integer"}, "minItems": 1}, [1]),
        ({"type": "object"}, {}),
        ({"properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}, {"a": 1}),
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, None),
        ({"oneOf": [{"type": "boolean"}, {"type": "string"}]}, False),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"const": 1}}}, 1),
        (
            {"allOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"required": ["b"]}]},
            {"a": 1, "b": EXAMPLE_TEXT},
        ),
        (
            {"properties": {"a": {"const": 1}}, "allOf": [{"properties": {"b": {"const": 2}}}, True]},
            {"a": 1, "b": 2},
        ),
        (True, EXAMPLE_TEXT),
        ({}, EXAMPLE_TEXT),
    ],
)
def test_a_schema_has_an_example(schema: object, value: object) -> None:
    assert build_example(schema) == value


def test_a_schema_that_refers_to_itself_has_an_example() -> None:
    schema = {"properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    depth, value = 0, build_example(schema)
    while isinstance(value, dict):
        depth, value = depth + 1, value["next"]
    assert depth == MAX_DEPTH + 1


def test_a_reference_that_leads_in_circles_or_nowhere_ends() -> None:
    assert build_example({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}) == EXAMPLE_TEXT
    assert build_example({"$ref": "#/$defs/b"}) == EXAMPLE_TEXT


def test_an_optional_circle_stays_empty() -> None:
    schema = {
        "type": "object",
        "properties": {"child": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        "required": ["child"],
    }
    assert build_example(schema) == {"child": None}


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"type": "array", "minItems": 10, "items": {"$ref": "#"}},
        {"properties": {name: {"$ref": "#"} for name in "abcdefgh"}},
        {"anyOf": [{"$ref": "#"}]},
        {"allOf": [{"required": ["a"]}, {"required": [1, None]}], "properties": {"a": 1}},
        {"type": "string", "minLength": 1e9, "maxLength": -5},
        {"type": "integer", "minimum": 1e400},
    ],
    ids=str,
)
def test_a_hostile_schema_has_an_build_example_ordinary_size(schema: object) -> None:
    assert len(msgspec.json.encode(build_example(schema))) < 100_000
