"""Schemas that are no JSON Schema become one, and lose as little as possible."""

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.schema import Schema, make_valid
from tests.healing.messages import INVALID_SCHEMAS

#: What MCP servers send, and what becomes of it.
CORRECTED: list[tuple[Schema, Schema]] = [
    ({"type": "any"}, {}),
    ({"type": "int"}, {"type": "integer"}),
    ({"type": ["str", "None"]}, {"type": ["string", "null"]}),
    ({"properties": {"a": "number"}}, {"properties": {"a": {"type": "number"}}}),
    ({"type": "array"}, {"type": "array", "items": {}}),
    (
        {"type": "array", "items": [{"type": "string"}, {"type": "int"}], "additionalItems": False},
        {
            "type": "array",
            "items": False,
            "additionalItems": False,
            "prefixItems": [{"type": "string"}, {"type": "integer"}],
        },
    ),
    ({"minimum": 3, "exclusiveMinimum": True}, {"exclusiveMinimum": 3}),
    ({"maximum": 3, "exclusiveMaximum": False}, {"maximum": 3}),
    (
        {"properties": {"a": {"type": "string", "required": True}, "b": {"required": False}}},
        {"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
    ),
    ({"type": "object", "required": "a"}, {"type": "object"}),
    ({"properties": {"a": {"enum": 7, "type": "string"}}}, {"properties": {"a": {"type": "string"}}}),
    ({"anyOf": [{"type": "string"}, {"minLength": -1}]}, {"anyOf": [{"type": "string"}, {}]}),
]


@pytest.mark.parametrize(("schema", "corrected"), CORRECTED)
def test_an_invalid_keyword_gets_its_equal_form_or_goes(schema: Schema, corrected: Schema) -> None:
    assert make_valid(schema) == corrected


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {"a": {"type": ["string", "null"], "default": "any"}}},
        {"type": "array", "prefixItems": [{}]},
        {"type": "array", "items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"const": {"type": "any"}}}},
        {"type": "object", "properties": {"required": {"type": "boolean"}, "type": {"type": "string"}}},
    ],
)
def test_a_valid_schema_stays_the_same_object(schema: Schema) -> None:
    assert make_valid(schema) is schema


@pytest.mark.parametrize("schema", INVALID_SCHEMAS)
def test_members_are_kept(schema: Schema) -> None:
    before, after = schema["properties"], make_valid(schema)["properties"]
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert list(after) == list(before)


_NAMES = st.sampled_from(
    ["type", "items", "properties", "required", "enum", "minimum", "exclusiveMinimum", "a"]
)
_NAMES |= st.sampled_from(["anyOf", "not", "$defs", "$ref", "pattern", "default", "additionalProperties"])
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from(["string", "any", "object", "a", "array"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=20,
)


@given(schema=st.dictionaries(_NAMES, _VALUES, max_size=5))
def test_the_result_is_always_valid_and_stays_as_it_is(schema: Schema) -> None:
    valid = make_valid(schema)
    assert jsonschema_rs.Draft202012Validator(
        {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    ).is_valid(valid)
    assert make_valid(valid) == valid
