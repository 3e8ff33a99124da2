"""Schemas on their way to another dialect."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.fit.schemas import clean_schema
from dragoman.hub.request import OutputFormat
from dragoman.schema import add_properties, convert_to_openapi, edit_schema, remove_stale_names
from dragoman.wire.fields import is_deeper_than
from tests.fit.building import build_message, fitted, function, request

Schema = dict[str, object]


def schema_at(dialect: str, schema: Schema | None, **facts: object) -> Schema | None:
    after, _ = fitted(
        request(build_message("user", "Hi"), tools=(function("a", schema=schema),)), dialect, **facts
    )
    return after.tools[0].schema


def subset(schema: Schema) -> object:
    """What becomes of one member in Gemini's subset."""
    parameters = schema_at("gemini", {"type": "object", "properties": {"x": schema}}, json_schema=False)
    assert parameters
    properties = parameters["properties"]
    assert isinstance(properties, dict)
    return properties["x"]


@pytest.mark.rule("R12")
def test_a_schema_without_anything_to_change_is_the_same_object() -> None:
    schema: Schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"anyOf": [{"const": 1}]}}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert schema_at("openai_chat", schema) is schema


@pytest.mark.rule("R12", "H34")
def test_what_only_the_source_understands_is_dropped_at_any_depth() -> None:
    schema: Schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"a": {"type": "string", "encrypted": True}, "b": {"anyOf": [{"encrypted": True}]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert schema_at("openai_chat", schema) == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"anyOf": [{}]}},
        "required": ["a"],
        "additionalProperties": False,
    }


@pytest.mark.rule("R12")
def test_a_member_that_is_called_like_such_a_keyword_stays() -> None:
    schema: Schema = {
        "type": "object",
        "properties": {"encrypted": {"type": "boolean"}, "$schema": {"default": {"encrypted": True}}},
    }
    assert clean_schema(schema) is schema


@pytest.mark.rule("R12", "H34", "H35")
@pytest.mark.parametrize("schema", [None, {}, {"type": "object"}, {"type": ["object", "null"]}])
def test_a_schema_is_at_least_one_of_an_object_without_members(schema: Schema | None) -> None:
    assert schema_at("anthropic", schema) == {"type": "object", "properties": {}}


@pytest.mark.rule("R12")
def test_a_schema_of_something_else_is_replaced_and_reported() -> None:
    asked = request(build_message("user", "Hi"), tools=(function("a", schema={"type": "string"}),))
    after, losses = fitted(asked, "openai_chat")
    assert after.tools[0].schema == {"type": "object", "properties": {}}
    assert losses == ["tool a: the schema is not one of an object"]


def test_alternatives_at_the_top_get_the_type_that_vendors_insist_on() -> None:
    schema: Schema = {"anyOf": [{"required": ["a"]}], "properties": {"a": {}}}
    assert schema_at("openai_chat", schema, schema_alternatives=True) == {"type": "object", **schema}


@pytest.mark.rule("H35")
def test_no_members_are_no_schema_in_the_subset() -> None:
    assert schema_at("gemini", {"type": "object", "properties": {}}, json_schema=False) is None


@pytest.mark.rule("H34")
@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"enum": [1, 2]}, {"type": "integer", "format": "enum", "enum": ["1", "2"]}),
        ({"enum": ["a", None]}, {"type": "string", "enum": ["a"], "nullable": True}),
        ({"enum": [True]}, {"type": "boolean", "description": "(one of: [true])"}),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string", "nullable": True}),
        (
            {"anyOf": [{"type": "string"}, {"type": "number"}]},
            {"anyOf": [{"type": "string"}, {"type": "number"}]},
        ),
        (
            {"type": "integer", "exclusiveMinimum": 0},
            {"type": "integer", "description": "(exclusiveMinimum: 0)"},
        ),
        (
            {"type": "string", "format": "uri", "description": "Where."},
            {"type": "string", "description": "Where. (format: uri)"},
        ),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "object", "additionalProperties": False}, {"type": "object"}),
        ({"type": "array"}, {"type": "array", "items": {"type": "string"}}),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "object", "description": '(other members: {"type":"string"})'},
        ),
        (
            {"type": "array", "items": [{"type": "string"}]},
            {"type": "array", "items": {"type": "string"}, "description": '(items: [{"type":"string"}])'},
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "required": ["a"],
                "allOf": [{"properties": {"a": {}, "b": {"type": "number"}}, "required": ["a", "b"]}, True],
            },
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "number"}},
                "required": ["a", "b"],
            },
        ),
        (True, {"type": "string", "description": "(any JSON value)"}),
        ({}, {"type": "string", "description": "(any JSON value)"}),
        (
            {
                "allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"title": "T"}],
                "type": "object",
            },
            {"title": "T", "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        ),
    ],
)
def test_the_subset_writes_it_in_another_form(schema: Schema, expected: Schema) -> None:
    assert subset(schema) == expected


@pytest.mark.rule("H34")
def test_references_are_inlined() -> None:
    schema: Schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A", "description": "Mine."}},
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"type": "integer"}},
    }
    assert convert_to_openapi(schema) == {
        "type": "object",
        "properties": {"a": {"type": "integer", "description": "Mine."}},
    }


@pytest.mark.rule("H34")
def test_a_schema_that_contains_itself_ends() -> None:
    schema: Schema = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#"}}},
    }
    assert convert_to_openapi(schema) == {
        "type": "object",
        "properties": {
            "children": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "children": {
                            "type": "array",
                            "items": {"type": "object", "description": "(the same structure again)"},
                        }
                    },
                },
            }
        },
    }


@pytest.mark.rule("H34")
def test_references_that_multiply_stay_bounded() -> None:
    definitions: Schema = {
        f"d{n}": {"type": "object", "properties": {x: {"$ref": f"#/$defs/d{n + 1}"} for x in "abcdefgh"}}
        for n in range(12)
    }
    converted = convert_to_openapi({"$ref": "#/$defs/d0", "$defs": definitions})
    assert len(str(converted)) < 2_000_000


def test_absurd_depth_is_cut() -> None:
    schema: Schema = {}
    for _ in range(150):
        schema = {"type": "object", "properties": {"a": schema}, "$schema": "x"}
    assert not is_deeper_than(140, convert_to_openapi(schema))
    assert "$schema" not in clean_schema(schema)


@pytest.mark.rule("H57")
def test_the_schema_of_the_answer_is_cleaned_too() -> None:
    output = OutputFormat(kind="json_schema", schema={"$schema": "x", "type": "object"})
    after, _ = fitted(request(build_message("user", "Hi"), output=output), "openai_chat")
    assert after.output
    assert after.output.schema == {"type": "object"}


ALTERNATIVES: Schema = {
    "type": "object",
    "properties": {"id": {"type": "string"}},
    "anyOf": [
        {"properties": {"path": {"type": "string"}, "line": {}}, "required": ["path", "line"]},
        {"$ref": "#/$defs/by_name"},
    ],
    "$defs": {"by_name": {"properties": {"name": {}, "path": {"type": "null"}}, "required": ["path"]}},
}


@pytest.mark.rule("H34")
@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openai_responses"])
def test_alternatives_at_the_top_of_a_schema_become_one_object(dialect: str) -> None:
    """These vendors refuse the whole request for one such tool."""
    tool = function("a", schema=ALTERNATIVES)
    after, losses = fitted(request(build_message("user", "Hi"), tools=(tool,)), dialect)
    assert after.tools[0].schema == {
        "type": "object",
        "properties": {"id": {"type": "string"}, "path": {"type": "string"}, "line": {}, "name": {}},
        "required": ["path"],
        "$defs": ALTERNATIVES["$defs"],
    }
    assert losses == ["tool a: alternatives at the top of the schema became one object with all members"]


@pytest.mark.rule("H34")
def test_everything_that_all_of_demands_is_required() -> None:
    schema: Schema = {"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"required": ["b"]}]}
    schema |= {"properties": {"b": {}}}
    united = schema_at("anthropic", schema)
    assert united == {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]}


@pytest.mark.rule("R12")
def test_alternatives_below_the_top_stay() -> None:
    schema: Schema = {"type": "object", "properties": {"a": {"oneOf": [{"type": "string"}, {"enum": [1]}]}}}
    assert schema_at("anthropic", schema) is schema


STALE: Schema = {
    "type": "object",
    "properties": {
        "a": {"type": "string"},
        "b": {
            "type": "array",
            "items": {"type": "object", "properties": {"c": {}}, "required": ["c", "gone"]},
        },
        "free": {"type": "object", "required": ["gone"]},
    },
    "required": ["a", "ref"],
}


@pytest.mark.rule("F11")
@pytest.mark.parametrize(
    ("dialect", "properties"), [("openai_chat", True), ("openai_responses", True), ("gemini", False)]
)
def test_required_names_that_are_no_properties_are_removed_with_a_loss(
    dialect: str, properties: bool
) -> None:
    after, losses = fitted(
        request(build_message("user", "Hi"), tools=(function("a", schema=STALE),)), dialect
    )
    assert after.tools[0].schema == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "array", "items": {"type": "object", "properties": {"c": {}}, "required": ["c"]}},
            "free": {"type": "object", "required": []} | ({"properties": {}} if properties else {}),
        },
        "required": ["a"],
    }
    assert losses == ["tool a: required members that the schema does not describe were removed"]


@pytest.mark.rule("F11")
def test_a_stale_name_is_a_loss_in_the_subset_too() -> None:
    schema: Schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "gone"]}
    tool = function("a", schema=schema)
    after, losses = fitted(request(build_message("user", "Hi"), tools=(tool,)), "gemini", json_schema=False)
    assert after.tools[0].schema == {**schema, "required": ["a"]}
    assert losses == ["tool a: required members that the schema does not describe were removed"]


@pytest.mark.rule("F11", "R12")
@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openai_responses", "gemini"])
@pytest.mark.parametrize(
    "member",
    [
        {"type": "object", "additionalProperties": {"type": "string"}, "required": ["key"]},
        {"type": "object", "allOf": [{"properties": {"b": {}}}], "required": ["b"]},
        {"type": "object", "properties": {"b": {}}, "anyOf": [{"required": ["b"]}, {"required": ["c"]}]},
        {"$ref": "#/$defs/D", "type": "object", "required": ["b"]},
        {"type": "object", "patternProperties": {"^x": {}}, "required": ["x1"]},
        {"enum": [{"type": "object", "required": ["x"]}]},
    ],
)
def test_names_that_are_described_elsewhere_stay(dialect: str, member: Schema) -> None:
    schema: Schema = {"type": "object", "properties": {"a": member}, "$defs": {"D": {"properties": {}}}}
    after, losses = fitted(
        request(build_message("user", "Hi"), tools=(function("a", schema=schema),)), dialect
    )
    assert after.tools[0].schema == schema
    assert losses == []


@pytest.mark.rule("F11", "R12")
def test_an_object_without_properties_gets_them_only_where_servers_insist() -> None:
    schema: Schema = {"type": "object", "properties": {"a": {"type": "object", "description": "Any."}}}
    completed = {"type": "object", "description": "Any.", "properties": {}}
    for dialect in ("openai_chat", "openai_responses"):
        assert schema_at(dialect, schema) == {"type": "object", "properties": {"a": completed}}
    for dialect in ("anthropic", "gemini"):
        assert schema_at(dialect, schema) is schema


@pytest.mark.rule("H34")
def test_members_whose_names_anthropic_refuses_are_left_out() -> None:
    schema: Schema = {"type": "object", "properties": {"a b": {}, "ok": {}}, "required": ["a b", "ok"]}
    after, losses = fitted(
        request(build_message("user", "Hi"), tools=(function("a", schema=schema),)), "anthropic"
    )
    assert after.tools[0].schema == {"type": "object", "properties": {"ok": {}}, "required": ["ok"]}
    assert losses == ["tool a: members whose names the target refuses were removed"]
    assert schema_at("openai_chat", schema) is schema


_members = st.recursive(
    st.sampled_from([{"type": "string"}, {"type": "object"}, {"type": "object", "required": ["a"]}]),
    lambda inner: st.one_of(
        st.builds(lambda item: {"type": "array", "items": item}, inner),
        st.builds(
            lambda members, required: {"type": "object", "properties": members, "required": required},
            st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
            st.lists(st.sampled_from(["a", "b"]), max_size=2),
        ),
        st.builds(lambda option: {"anyOf": [option]}, inner),
    ),
    max_leaves=5,
)


@pytest.mark.rule("F11")
@given(st.lists(_members, min_size=1, max_size=4))
def test_no_object_of_any_tool_keeps_what_exact_servers_refuse(schemas: list[Schema]) -> None:
    tools = tuple(function(f"t{at}", schema=schema) for at, schema in enumerate(schemas))
    after, _ = fitted(request(build_message("user", "Hi"), tools=tools), "openai_chat")
    for tool in after.tools:
        assert tool.schema is not None
        assert edit_schema(tool.schema, remove_stale_names) is tool.schema
        assert edit_schema(tool.schema, add_properties) is tool.schema
