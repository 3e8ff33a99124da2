"""Converts schemas between JSON Schema and Gemini's subset."""

import pytest

from dragoman.dialects.gemini.tools import is_empty, read_schema, write_schema
from dragoman.dialects.interfaces import Json


@pytest.mark.rule("H34")
def test_types_are_changed_where_schemas_stand_and_nowhere_else() -> None:
    schema: Json = {
        "type": "OBJECT",
        "properties": {"type": {"type": "STRING", "enum": ["OBJECT"], "default": {"type": "STRING"}}},
        "anyOf": [{"type": "NULL"}, {"items": {"type": "NUMBER"}, "type": "ARRAY"}],
    }
    after = read_schema(schema, is_openapi=True)
    assert after == {
        "type": "object",
        "properties": {"type": {"type": "string", "enum": ["OBJECT"], "default": {"type": "STRING"}}},
        "anyOf": [{"type": "null"}, {"items": {"type": "number"}, "type": "array"}],
    }
    assert write_schema(after) == schema


def test_a_schema_is_not_changed_in_place() -> None:
    schema: Json = {"type": "STRING", "nullable": True}
    assert read_schema(schema, is_openapi=True) == {"type": ["string", "null"]}
    assert write_schema({"type": ["string", "null"]}) == schema
    assert schema == {"type": "STRING", "nullable": True}


def test_a_bottomless_schema_is_read_to_its_limit() -> None:
    schema: Json = {"type": "STRING"}
    for _ in range(500):
        schema = {"type": "ARRAY", "items": schema}
    assert read_schema(schema, is_openapi=True)["type"] == "array"
    assert write_schema(schema)["type"] == "ARRAY"


@pytest.mark.rule("H35")
@pytest.mark.parametrize(
    ("schema", "empty"),
    [
        (None, True),
        ({}, True),
        ({"type": "object"}, True),
        ({"type": "object", "properties": {}, "required": []}, True),
        ({"type": "object", "properties": {"a": {}}}, False),
        ({"type": "object", "description": "anything"}, False),
        ({"type": "string"}, False),
    ],
)
def test_a_schema_that_asks_for_nothing_is_known(schema: Json | None, empty: bool) -> None:
    assert is_empty(schema) is empty


def test_types_in_a_list_are_changed_too() -> None:
    assert read_schema({"type": ["STRING", "NULL", 5]}, is_openapi=False) == {"type": ["string", "null", 5]}
    assert write_schema({"type": ["string", "integer"]}) == {"type": ["string", "integer"]}
