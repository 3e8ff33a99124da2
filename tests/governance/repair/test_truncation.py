"""A call that was cut off is not completed: half a command must not run."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.governance.repair import RAW_KEY, repair
from tests.governance.repair.texts import ANY_TEXTS, JSON_TEXTS_OF_OBJECTS, OBJECTS, SCHEMAS, schema_of

SHELL: dict[str, object] = {
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
}
SHELL_WITH_MORE: dict[str, object] = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "cwd": {"type": "string"}},
    "required": ["command"],
}


@pytest.mark.rule("R83", "R84")
@pytest.mark.parametrize("schema", [None, SHELL, SHELL_WITH_MORE])
@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "null",
        "{",
        '{"comm',
        '{"command"',
        '{"command":',
        '{"command": "rm -rf /srv/b',
        '{"command": "rm -rf /srv/b\\',
        '{"command": "x",',
        '{"command": "x", "cwd',
        '{"command": 12',
        '{"command": tru',
        '{"command": ["a"',
        '{"command": {"a": "b"',
        "{'command': 'x'}",
        "{'command': 'x'",
        '{"command": "x"}}',
        '{"command": "x"}{"comm',
        '```json\n{"command": "x"}',
        '"x"',
        "ls",
    ],
)
def test_a_call_that_broke_off_is_not_repaired(text: str, schema: dict[str, object] | None) -> None:
    repaired = repair(text, schema, truncated=True)
    assert (repaired.ok, repaired.reason, repaired.steps) == (False, "truncated", ())
    assert msgspec.json.decode(repaired.text) == {RAW_KEY: text}


def test_a_whole_call_is_whole_even_if_what_came_after_it_broke_off() -> None:
    repaired = repair('{"command": "x"}', truncated=True)
    assert (repaired.text, repaired.ok, repaired.steps) == ('{"command": "x"}', True, ())


@pytest.mark.parametrize("value", ['"x"', "true", "null", '["a"]', '{"b": 1}', '"x" \n'])
def test_the_last_bracket_is_added_where_the_schema_leaves_nothing_to_come(value: str) -> None:
    repaired = repair('{"command": ' + value, SHELL, truncated=True)
    assert (repaired.text, repaired.ok, repaired.steps) == ('{"command": ' + value + "}", True, ("brackets",))


def test_no_bracket_is_added_without_a_schema() -> None:
    assert not repair('{"command": "rm -r *"', truncated=True).ok


def test_no_bracket_is_added_where_an_optional_parameter_may_have_followed() -> None:
    assert not repair('{"command": "rm -r *"', SHELL_WITH_MORE, truncated=True).ok
    assert repair('{"cwd": "build", "command": "rm -r *"', SHELL_WITH_MORE, truncated=True).ok


@pytest.mark.parametrize(
    "more",
    [
        {"additionalProperties": True},
        {"additionalProperties": {"type": "string"}},
        {"patternProperties": {"^x-": {}}},
        {"anyOf": [{"required": ["cwd"]}]},
        {"$ref": "#/$defs/more"},
        {"required": ["command", "cwd"]},
    ],
)
def test_no_bracket_is_added_where_the_schema_foresees_other_members(more: dict[str, object]) -> None:
    assert not repair('{"command": "x"', SHELL | more, truncated=True).ok


@given(text=JSON_TEXTS_OF_OBJECTS, cut=st.floats(0, 1))
def test_without_a_schema_only_a_whole_object_survives_a_cut(text: str, cut: float) -> None:
    beginning = text[: int(cut * len(text))]
    repaired = repair(beginning, truncated=True)
    assert not repaired.ok or msgspec.json.decode(repaired.text) == msgspec.json.decode(text)


@given(value=OBJECTS, data=st.data())
def test_with_a_schema_what_survives_a_cut_is_the_whole_call(
    value: dict[str, object], data: st.DataObject
) -> None:
    text = msgspec.json.encode(value).decode()
    beginning = text[: data.draw(st.integers(max(0, len(text) - 4), len(text)))]
    repaired = repair(beginning, schema_of(value), truncated=True)
    assert not repaired.ok or msgspec.json.decode(repaired.text) == value


@given(text=ANY_TEXTS, schema=SCHEMAS)
def test_nothing_is_done_for_a_call_that_broke_off_but_to_add_one_bracket(
    text: str, schema: dict[str, object] | None
) -> None:
    repaired = repair(text, schema, truncated=True)
    assert not repaired.ok or repaired.text in (text, text + "}")
