"""The JSON Schema toolkit: walking, references, types, strictness and conversion."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.schema import (
    Schema,
    close_schema,
    convert_to_openapi,
    edit_schema,
    find_reference,
    is_strict_schema,
    make_strict,
    properties_of,
    resolve,
    types_of,
)

ROOT: Schema = {
    "$defs": {
        "a/b": {"type": "integer"},
        "link": {"$ref": "#/$defs/a~1b"},
        "loop": {"$ref": "#/$defs/loop"},
    }
}


def remove_title(schema: Schema) -> Schema:
    return {name: value for name, value in schema.items() if name != "title"} if "title" in schema else schema


def test_an_edit_reaches_every_schema_and_nothing_else() -> None:
    schema: Schema = {
        "title": "x",
        "default": {"title": "x"},
        "properties": {"title": {"title": "x", "items": [{"title": "x"}, True]}},
        "anyOf": [{"title": "x"}, {"not": {"title": "x"}}],
    }
    assert edit_schema(schema, remove_title) == {
        "default": {"title": "x"},
        "properties": {"title": {"items": [{}, True]}},
        "anyOf": [{}, {"not": {}}],
    }


def test_an_edit_that_changes_nothing_returns_the_same_object() -> None:
    schema: Schema = {"properties": {"a": {"items": {"type": "string"}}}, "allOf": [{}]}
    assert edit_schema(schema, remove_title) is schema


def test_an_edit_stops_at_its_depth() -> None:
    schema: Schema = {"title": "x", "items": {"title": "x", "items": {"title": "x"}}}
    assert edit_schema(schema, remove_title, 1) == {"items": {"items": {"title": "x"}}}


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("#/$defs/a~1b", {"type": "integer"}),
        ("#", ROOT),
        ("#/$defs/nothing", None),
        ("#/$defs/a~1b/type/x", None),
        (5, None),
    ],
)
def test_a_reference_is_a_pointer_into_the_document(reference: object, found: object) -> None:
    assert find_reference(reference, ROOT) == found


def test_references_are_followed_to_their_end() -> None:
    assert resolve({"$ref": "#/$defs/link"}, ROOT) == {"type": "integer"}
    assert resolve({"$ref": "#/$defs/loop"}, ROOT) is None
    assert resolve({"$ref": "https://example.com/x"}, ROOT) == {"$ref": "https://example.com/x"}


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "string"}, ("string",)),
        ({"type": ["string", "null", 5]}, ("string", "null")),
        ({"anyOf": [{"$ref": "#/$defs/link"}, {"type": "string"}]}, ("integer", "string")),
        ({"enum": ["a", 1.5, None]}, ("string", "number", "null")),
        ({"const": True}, ("boolean",)),
        ({"type": "object", "nullable": True}, ("object", "null")),
        ({"$ref": "#/$defs/loop"}, ()),
        (True, ()),
    ],
)
def test_the_types_of_a_schema_include_those_of_its_alternatives(
    schema: object, types: tuple[str, ...]
) -> None:
    assert types_of(schema, ROOT) == types


@pytest.mark.rule("P34")
@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "object", "properties": {}, "additionalProperties": False}, True),
        ({"type": "object", "properties": {}}, False),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, False),
        (
            {
                "type": "object",
                "properties": {"a": {"type": ["object", "null"], "properties": {"b": {}}}},
                "required": ["a"],
                "additionalProperties": False,
            },
            False,
        ),
        (None, False),
    ],
)
def test_a_schema_is_strict_only_as_a_whole(schema: Schema | None, strict: bool) -> None:
    assert is_strict_schema(schema) is strict


keywords = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "anyOf",
        "allOf",
        "oneOf",
        "$ref",
        "enum",
        "const",
        "required",
        "$defs",
        "a",
    ]
)
values = st.recursive(
    st.sampled_from(
        [None, True, 1, "object", "string", "#", "#/$defs/a", "#/properties/a", "null", ["a", "null"]]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keywords, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.rule("H34")
@settings(max_examples=100)
@given(st.dictionaries(keywords, values, max_size=5))
def test_any_schema_can_be_converted_and_converting_twice_changes_no_more(schema: Schema) -> None:
    once = convert_to_openapi(schema)
    assert convert_to_openapi(once) == once
    is_strict_schema(schema)
    close_schema(schema)
    strict = make_strict(schema)
    assert strict is None or is_strict_schema(strict)


A: Schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
B: Schema = {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}
B_WITHOUT_TYPE: Schema = {"properties": {"b": {"type": "string"}}, "required": ["b"]}

#: Objects that must or may have members which a closed schema forbids.
OPEN: dict[str, Schema] = {
    "anyOf": {**A, "anyOf": [B, B_WITHOUT_TYPE]},
    "oneOf": {**A, "oneOf": [B_WITHOUT_TYPE]},
    "anyOf and oneOf": {"anyOf": [A], "oneOf": [B]},
    "two of allOf": {"allOf": [A, B]},
    "allOf and own": {**A, "allOf": [B_WITHOUT_TYPE]},
    "allOf and anyOf": {"allOf": [A], "anyOf": [B]},
    "reference and own": {**A, "$ref": "#/$defs/B"},
    "references in options": {**A, "anyOf": [{"$ref": "#/$defs/B"}]},
    "inner options": {**A, "anyOf": [{"anyOf": [B]}]},
    "then": {**A, "if": {"required": ["a"]}, "then": B_WITHOUT_TYPE},
    "else": {**A, "if": {"required": ["a"]}, "else": B_WITHOUT_TYPE},
    "dependentSchemas": {**A, "dependentSchemas": {"a": B_WITHOUT_TYPE}},
    "patternProperties": {**A, "patternProperties": {"^x-": {"type": "string"}}},
    "unevaluatedProperties": {**A, "unevaluatedProperties": {"type": "string"}},
    "additionalProperties": {**A, "additionalProperties": True},
    "required only": {**A, "required": ["a", "b"]},
    "minProperties": {**A, "minProperties": 2},
}
#: The places of an inner schema.
PLACES: dict[str, Callable[[Schema], Schema]] = {
    "member": lambda inner: {"type": "object", "properties": {"x": inner}, "required": ["x"]},
    "items": lambda inner: PLACES["member"]({"type": "array", "items": inner}),
    "option": lambda inner: PLACES["member"]({"anyOf": [inner, {"type": "null"}]}),
    "definition": lambda inner: {
        **PLACES["member"]({"$ref": "#/$defs/X"}),
        "$defs": {"X": inner},
    },
    "root": lambda inner: inner,
}


@pytest.mark.rule("F6", "H57")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", OPEN)
def test_an_object_that_needs_or_allows_other_members_is_never_closed(case: str, place: str) -> None:
    """Closing each schema of such an object makes one that no object matches."""
    schema = PLACES[place](OPEN[case])
    schema["$defs"] = {"B": B, **properties_of({"properties": schema.get("$defs")})}
    assert make_strict(schema) is None
    assert close_schema(schema) is None


@pytest.mark.rule("F6", "H57")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "inner",
    [
        A,
        {"type": "object", "properties": {"x": {"anyOf": [A, B, {"type": "string"}]}}, "required": ["x"]},
        {**A, "anyOf": [{"required": ["a"]}]},
        {**A, "minProperties": 1},
        {**A, "type": ["object", "null"]},
    ],
)
def test_an_object_that_one_schema_describes_is_closed(inner: Schema, place: str) -> None:
    schema = PLACES[place](inner)
    closed = close_schema(schema)
    assert closed is not None
    for made in (closed.schema, make_strict(schema) if place != "root" else closed.schema):
        assert made is not None
        assert is_strict_schema(made)


@pytest.mark.rule("H57")
def test_a_schema_in_an_allof_alone_is_closed() -> None:
    """Pydantic writes a reference with a description in this way."""
    schema = PLACES["member"]({"allOf": [{"$ref": "#/$defs/B"}], "description": "b"})
    closed = close_schema({**schema, "$defs": {"B": B}})
    assert closed is not None
    assert closed.schema["$defs"] == {"B": {**B, "additionalProperties": False}}
