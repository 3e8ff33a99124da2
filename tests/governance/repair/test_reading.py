"""What a repair keeps, what it refuses, and what it reports."""

import msgspec
import pytest

from dragoman.governance.repair import LIMIT, RAW_KEY, STEPS, repair
from dragoman.governance.repair.candidates import MAX_OBJECTS
from dragoman.governance.repair.steps import MAX_EDITS
from dragoman.wire.fields import DEPTH


@pytest.mark.rule("R80", "R83")
@pytest.mark.parametrize(
    "text",
    [
        "{}",
        ' {"a" : 1.0e+2 , "b":"\\u00e9\\/" }\r\n',
        '{"a": 1, "a": 2}',
        '{"content": "</tool_call>```<|im_end|>"}',
        '{"content": "{\'a\': True,}"}',
        '{"n": 123456789012345678901234567890}',
    ],
)
def test_a_valid_object_comes_back_to_the_byte(text: str) -> None:
    repaired = repair(text)
    assert (repaired.text, repaired.ok, repaired.steps, repaired.reason) == (text, True, (), "")


@pytest.mark.rule("R83")
def test_a_valid_object_is_kept_even_if_the_schema_asks_for_others() -> None:
    schema: dict[str, object] = {
        "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
        "required": ["command"],
    }
    text = '{"cmd": "ls", "timeout": "5"}'
    assert repair(text, schema).text == text


@pytest.mark.rule("R83")
def test_what_is_right_keeps_its_spelling_and_its_layout() -> None:
    text = '{\n  "a": 1.50E+3,\n  "b": "\\u00e9\\/x",\n  "b": [ 1,2 , 3 ],\n  c: -0\n}'
    assert repair(text).text == text.replace("c:", '"c":')


@pytest.mark.rule("R83")
def test_a_number_keeps_all_its_digits() -> None:
    text = '{"a": 12345678901234567890.123456789,}'
    assert repair(text).text == '{"a": 12345678901234567890.123456789}'


@pytest.mark.rule("R83")
def test_values_keep_their_spelling_when_the_schema_renames_their_members() -> None:
    schema: dict[str, object] = {"properties": {"file_path": {}, "size": {}}}
    repaired = repair('{"filePath": "\\u00e9", "size": 1.50,}', schema)
    assert repaired.text == '{"file_path":"\\u00e9","size":1.50}'


@pytest.mark.rule("H12")
def test_no_text_at_all_is_no_arguments() -> None:
    assert (repair("").text, repair("").steps) == ("{}", ("empty",))


@pytest.mark.rule("R85")
def test_steps_are_reported_in_order_of_boldness_and_once() -> None:
    steps = repair("```\n{b: True, 'a': 'x\ny', c: False,}\n```").steps
    assert steps == ("wrapping", "control_characters", "commas", "quotes", "bare_keys", "literals")
    assert list(steps) == sorted(steps, key=STEPS.index)


def test_halves_of_a_character_are_joined_or_replaced() -> None:
    repaired = repair('{"a": "\ud83d\ude00 \ud83d"}')
    assert msgspec.json.decode(repaired.text) == {"a": "😀 \ufffd"}


@pytest.mark.rule("C15")
def test_halves_of_a_character_do_not_keep_raw_arguments_from_being_shown() -> None:
    repaired = repair("no \ud83d")
    assert (repaired.ok, msgspec.json.decode(repaired.text)) == (False, {RAW_KEY: "no \ufffd"})


@pytest.mark.rule("C15")
def test_a_text_beyond_the_limit_is_not_repaired() -> None:
    padding = " " * (LIMIT - len('{"a":1,}'))
    assert repair('{"a":1,' + padding + "}").ok
    repaired = repair('{"a":1, ' + padding + "}")
    assert (repaired.ok, repaired.reason) == (False, "too_long")


def test_a_valid_object_beyond_the_limit_is_still_left_as_it_is() -> None:
    text = '{"a":"' + "x" * LIMIT + '"}'
    assert repair(text).text is text


def test_objects_nest_as_deep_as_elsewhere_and_no_deeper() -> None:
    deepest = '{"a":' * DEPTH + "1," + "}" * DEPTH
    assert repair(deepest).ok
    assert not repair('{"a":' + deepest + "}").ok


def test_a_text_that_needs_more_corrections_than_a_slip_of_the_pen_has_no_reading() -> None:
    assert repair("{a:[" + "'x'," * (MAX_EDITS - 5) + "]}").ok
    assert not repair("{a:[" + "'x'," * MAX_EDITS + "]}").ok


def test_an_array_that_comes_out_wrong_has_no_reading() -> None:
    schema: dict[str, object] = {"items": {"properties": {"b": {}}}}
    assert repair('[{"b": , "a": 1}]', schema).ok
    assert not repair('[{"a": 1 "b": , "c": 2}]', schema).ok


def test_an_object_may_be_repeated_only_so_often() -> None:
    assert repair('{"a":1}' * MAX_OBJECTS).ok
    assert not repair('{"a":1}' * (MAX_OBJECTS + 1)).ok
    assert not repair("[" + ",".join(['{"a":1}'] * (MAX_OBJECTS + 1)) + "]").ok


def test_a_text_may_have_been_encoded_only_so_often() -> None:
    text = '{"a": 1}'
    for _ in range(3):
        text = msgspec.json.encode(text).decode()
    assert not repair(text).ok


def test_names_and_items_of_the_schema_are_looked_up_where_the_value_stands() -> None:
    row = {"type": "object", "properties": {"zip": {"type": "string"}, "n": {"type": "integer"}}}
    schema: dict[str, object] = {"properties": {"rows": {"type": "array", "items": row}}}
    repaired = repair("{rows: [{zip: 010, n: 010}]}", schema)
    assert msgspec.json.decode(repaired.text) == {"rows": [{"zip": "010", "n": 10}]}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": None, "required": None},
        {"properties": {"a": None}, "required": [None, 1, {}]},
        {"properties": {"a": {"type": 5}}, "required": "a"},
        {"properties": {"a": {"type": [5, None]}}},
        {"properties": {"a": {"anyOf": [None, {"type": []}]}}},
        {"properties": {"a": {"enum": [[], {}, 1]}}},
        {"properties": [], "anyOf": 5},
        {"type": "nonsense", "properties": {"a": {"type": "nonsense"}}},
    ],
)
def test_a_schema_that_makes_no_sense_changes_nothing(schema: dict[str, object]) -> None:
    assert msgspec.json.decode(repair("{a: 'x',}", schema).text) == {"a": "x"}
    assert not repair("some words", schema).ok


@pytest.mark.parametrize(
    "types",
    [
        {"type": ["integer", "null"]},
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        {"oneOf": [{"type": "integer"}, {"type": "boolean"}]},
        {"enum": [1, 2]},
    ],
)
def test_types_are_found_however_the_schema_names_them(types: dict[str, object]) -> None:
    schema: dict[str, object] = {"properties": {"n": types}}
    assert msgspec.json.decode(repair('{"n": "5",}', schema).text) == {"n": 5}


def test_a_string_stays_one_where_a_string_is_among_the_types() -> None:
    schema: dict[str, object] = {"properties": {"n": {"type": ["integer", "string"]}}}
    assert msgspec.json.decode(repair('{"n": "5",}', schema).text) == {"n": "5"}


def test_two_names_for_one_parameter_are_both_kept() -> None:
    schema: dict[str, object] = {"properties": {"command": {"type": "string"}}, "required": ["command"]}
    repaired = repair('{"cmd": "ls", "script": "pwd",}', schema)
    assert msgspec.json.decode(repaired.text) == {"cmd": "ls", "script": "pwd"}


def test_a_lone_string_finds_its_place_only_where_there_is_just_one() -> None:
    one: dict[str, object] = {"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}
    two: dict[str, object] = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    number: dict[str, object] = {"properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert repair('"x"', one).text == '{"a":"x"}'
    assert not repair('"x"', two).ok
    assert not repair('"x"', number).ok
