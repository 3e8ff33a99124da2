"""Arguments are checked against their schema; the result is reported and nothing is changed."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.governance.schema_check import MAX_VIOLATIONS, check_schema
from dragoman.governance.tool_names import DeclaredTool
from dragoman.governance.validate import INCOMPLETE, NO_OBJECT, TOO_LONG, ValidateStage
from dragoman.hub.blocks import ToolCall
from dragoman.hub.events import BlockOpened, ReplyEvent
from tests.dialects.strategies import json_values, replies
from tests.fit.reply.running import reply_of, through
from tests.governance.running import SHELL, RecordedInterventions, a_call

NODE: dict[str, object] = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/node"}, "name": {"type": "string"}},
            "required": ["name"],
        }
    },
    "$ref": "#/$defs/node",
}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({}, {"a": 1}),
        (True, 1),
        ({"type": "object"}, {}),
        ({"type": "OBJECT"}, {}),
        ({"type": ["string", "null"]}, None),
        ({"type": "string", "nullable": True}, None),
        ({"type": "integer"}, 3),
        ({"type": "integer"}, 3.0),
        ({"type": "number"}, 3),
        ({"type": "made_up"}, 3),
        ({"required": ["a"]}, {"a": None}),
        ({"properties": {"a": {"type": "string"}}}, {"b": 1}),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1}),
        ({"patternProperties": {"^x": {}}, "additionalProperties": False}, {"xy": 1}),
        ({"additionalProperties": {"type": "string"}}, {"a": "x"}),
        ({"enum": ["a", 1, None]}, None),
        ({"const": {"a": [1]}}, {"a": [1]}),
        ({"items": {"type": "string"}}, ["a", "b"]),
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a"]),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "a"),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, "a"),
        ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 2),
        ({"not": {"type": "string"}}, 2),
        ({"minimum": 1, "exclusiveMaximum": 2}, 1),
        ({"minLength": 1, "maxLength": 2, "pattern": "^a"}, "ab"),
        ({"minItems": 1, "maxItems": 1}, [0]),
        ({"minProperties": 1, "maxProperties": 1}, {"a": 0}),
        ({"minimum": 5}, "no number"),
        ({"$ref": "elsewhere.json"}, 1),
        ({"$ref": "#/$defs/none"}, 1),
        (NODE, {"name": "a", "next": {"name": "b"}}),
    ],
)
def test_what_a_schema_permits_has_no_flaw(schema: object, value: object) -> None:
    assert check_schema(value, schema).violations == ()


@pytest.mark.parametrize(
    ("schema", "value", "flaw"),
    [
        (False, 1, "expected nothing here"),
        ({"type": "object"}, [], "expected an object, got an array"),
        ({"type": ["string", "null"]}, 1, "expected a string or null, got a number"),
        ({"type": "integer"}, 1.5, "expected an integer, got a number"),
        ({"type": "integer"}, True, "expected an integer, got a boolean"),
        ({"required": ["a"]}, {}, "a: expected, but missing"),
        ({"properties": {"a": {"type": "string"}}}, {"a": 1}, "a: expected a string, got a number"),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, "b: no such member"),
        (
            {"additionalProperties": {"type": "string"}},
            {"my secret!": 1},
            "*: expected a string, got a number",
        ),
        ({"enum": ["a"]}, "b", "expected one of 1 values, got another string"),
        ({"enum": [1]}, True, "expected one of 1 values, got another boolean"),
        ({"const": 1}, 2, "expected one certain value, got another number"),
        ({"items": {"type": "string"}}, ["a", 1], "[1]: expected a string, got a number"),
        ({"prefixItems": [{}], "items": False}, [1, 2], "[1]: expected nothing here"),
        ({"anyOf": [{"type": "string"}]}, 1, "expected one of 1 forms, got a number of none"),
        ({"oneOf": [{}, {}]}, 1, "expected exactly one of 2 forms, fits 2"),
        ({"allOf": [{"minimum": 3}]}, 2, "expected a number from 3 on"),
        ({"not": {}}, 2, "expected anything but this"),
        ({"exclusiveMinimum": 2}, 2, "expected a number above 2"),
        ({"maxLength": 2}, "abc", "expected at most 2 characters"),
        ({"pattern": "^a"}, "b", "expected a text of a certain pattern"),
        ({"pattern": "(?=a)"}, "b", "expected a text of a certain pattern"),
        ({"contains": {"type": "string"}}, [], "does not fit `contains`"),
        ({"uniqueItems": True}, [1, 1], "does not fit `uniqueItems`"),
        ({"minItems": 1}, [], "expected at least 1 items"),
        ({"maxProperties": 0}, {"a": 1}, "expected at most 0 members"),
        (NODE, {"name": "a", "next": {}}, "next.name: expected, but missing"),
    ],
)
def test_flaws_name_the_place_and_never_the_value(schema: object, value: object, flaw: str) -> None:
    assert str(check_schema(value, schema).violations[0]) == flaw


def test_a_pattern_cannot_stall_the_check() -> None:
    assert not check_schema("a" * 5_000 + "!", {"pattern": r"^(?:(a+)\1)+b$"}).is_complete


def test_a_value_that_nests_too_deeply_is_not_checked() -> None:
    value: object = 1
    for _ in range(100):
        value = [value]
    assert not check_schema(value, {"type": "string"}).is_complete


def test_flaws_are_bounded() -> None:
    assert len(check_schema(list(range(100)), {"items": {"type": "string"}}).violations) == MAX_VIOLATIONS


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"allOf": [{"$ref": "#"}] * 50},
        {"anyOf": [{"items": {"$ref": "#"}}] * 100},
        {"properties": {f"p{number}": {} for number in range(6_000)}, "items": {}},
        {"items": {"items": {"anyOf": [{"type": "number"}] * 200}}},
        {"$comment": "x" * 300_000},
        {"$ref": "https://example.invalid/schema.json", "pattern": "("},
    ],
)
def test_a_schema_that_never_ends_or_is_too_large_is_given_up(schema: dict[str, object]) -> None:
    assert not check_schema([[1] * 200] * 200, schema).is_complete


@given(value=json_values, schema=json_values)
def test_any_value_and_any_schema_can_be_checked(value: object, schema: object) -> None:
    check_schema(value, schema)


@given(
    value=json_values,
    schema=st.recursive(
        st.sampled_from([{}, {"type": "string"}, {"enum": [1, "a"]}, {"required": ["a"]}, {"minimum": 3}]),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda options: {"anyOf": options}),
            inner.map(lambda schema: {"items": schema}),
            inner.map(lambda schema: {"additionalProperties": schema}),
        ),
        max_leaves=4,
    ),
)
def test_what_does_not_fit_fits_its_opposite(value: object, schema: dict[str, object]) -> None:
    assert bool(check_schema(value, schema).violations) != bool(
        check_schema(value, {"not": schema}).violations
    )


def outcome(arguments: str, *, limit: int = 1000) -> tuple[bool, str]:
    reported = RecordedInterventions()
    events = reply_of(a_call(*arguments, tool="shell"), cause="tool_calls")
    assert through([ValidateStage([SHELL], reported, limit=limit)], events) == events
    (only,) = reported
    assert (only.kind, only.tool, only.before) == ("validate", "shell", len(arguments))
    return only.ok, only.reason


@pytest.mark.rule("C19")
def test_the_outcome_is_reported_and_the_call_goes_on() -> None:
    assert outcome('{"command":"ls"}') == (True, "")
    assert outcome('{"command":1}') == (False, "command: expected a string, got a number")
    assert outcome("{}") == (False, "command: expected, but missing")
    assert outcome("ls") == (False, NO_OBJECT)
    assert outcome('{"command":"ls"}', limit=5) == (True, TOO_LONG)


def test_a_schema_beyond_checking_is_reported_as_such() -> None:
    reported = RecordedInterventions()
    stage = ValidateStage([DeclaredTool("any", {"allOf": [{"$ref": "#"}]})], reported, limit=1000)
    through([stage], reply_of(a_call("{}"), cause="tool_calls"))
    assert [(each.ok, each.reason) for each in reported] == [(True, INCOMPLETE)]


@pytest.mark.rule("C19")
def test_unknown_tools_and_free_text_are_not_judged() -> None:
    reported = RecordedInterventions()
    stage = ValidateStage([SHELL, DeclaredTool("any")], reported, limit=1000)
    for call in (
        ToolCall(id="1", name="other", arguments="x"),
        ToolCall(id="1", name="any", arguments="x"),
        ToolCall(id="1", name="shell", kind="custom", arguments="x"),
    ):
        through([stage], reply_of([BlockOpened(0, call), *a_call()[1:]], cause="tool_calls"))
    assert reported == []


@given(events=replies())
@settings(max_examples=50)
def test_no_reply_is_changed(events: list[ReplyEvent]) -> None:
    calls = [e.block for e in events if isinstance(e, BlockOpened) and isinstance(e.block, ToolCall)]
    tools = [DeclaredTool(call.name, msgspec.json.decode(b'{"required":["a"]}')) for call in calls]
    assert through([ValidateStage(tools, RecordedInterventions(), limit=10)], events) == events
