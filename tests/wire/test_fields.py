"""Untrusted JSON is decoded within limits and taken apart field by field; errors never quote it."""

from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.hub.errors import (
    ClientProtocolError,
    DragomanError,
    RequestTooLarge,
    UpstreamProtocolError,
)
from dragoman.wire.fields import Fields, decode, encode, is_deeper_than

Reading = Callable[[Fields], object]

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
READINGS: dict[str, Reading] = {
    "text": lambda fields: fields.text("a", "b"),
    "text_or": lambda fields: fields.text_or("a", "x", "b"),
    "maybe_text": lambda fields: fields.maybe_text("a", "b"),
    "integer": lambda fields: fields.integer("a", "b"),
    "maybe_integer": lambda fields: fields.maybe_integer("a", "b"),
    "maybe_number": lambda fields: fields.maybe_number("a", "b"),
    "maybe_flag": lambda fields: fields.maybe_flag("a", "b"),
    "items": lambda fields: fields.items("a", "b"),
    "maybe_list": lambda fields: fields.maybe_list("a", "b"),
    "object": lambda fields: fields.object("a", "b"),
    "maybe_object": lambda fields: fields.maybe_object("a", "b"),
    "objects": lambda fields: fields.objects("a", "b"),
    "maybe_objects": lambda fields: fields.maybe_objects("a", "b"),
    "raw": lambda fields: fields.raw("a", None, "b"),
}
MAYBE = [name for name in READINGS if name.startswith("maybe_")]
REQUIRED = ["text", "integer", "items", "object", "objects"]
readings = pytest.mark.parametrize("reading", READINGS)


def complaint(read: Reading, value: object) -> str:
    with pytest.raises(ClientProtocolError) as caught:
        read(Fields(value))
    return caught.value.message


# Decoding


@given(value=VALUES)
def test_what_is_encoded_decodes_to_itself(value: object) -> None:
    assert decode(encode(value)) == value
    assert decode(encode(value).decode()) == value


@given(data=st.binary(max_size=60) | st.text(alphabet='[]{}",:\\u1e-ntrue \ud800', max_size=40))
def test_garbage_is_refused_with_our_own_errors_only(data: bytes | str) -> None:
    with suppress(ClientProtocolError):
        decode(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "invalid JSON: cut short (byte 0)"),
        (b'{"secret": ', "invalid JSON: cut short (byte 11)"),
        (b'{"secret": "x",}', "invalid JSON: trailing comma in object (byte 15)"),
        (b"{} secret", "invalid JSON: trailing characters (byte 4)"),
        (b'["secret", "\xff"]', "invalid JSON: invalid UTF-8 (byte 12)"),
        (b'"\\udc00"', "invalid JSON: invalid utf-16 surrogate pair (byte 7)"),
        ('"\ud800"', "invalid JSON: lone surrogate (character 1)"),
        (b"9" * 5000, "invalid JSON: a number is out of range"),
        (b"[1e999]", "invalid JSON: a number is out of range"),
    ],
)
def test_a_flaw_is_named_with_its_place_and_without_its_text(data: bytes | str, message: str) -> None:
    with pytest.raises(ClientProtocolError) as caught:
        decode(data)
    assert caught.value.message == message


def test_large_integers_within_reason_stay_exact() -> None:
    assert decode(b"123456789012345678901234567890") == 123456789012345678901234567890


def test_a_body_at_the_limit_passes_and_one_beyond_is_too_large() -> None:
    assert decode(b'"1234"', limit=6) == "1234"
    with pytest.raises(RequestTooLarge, match="longer than 6 bytes"):
        decode(b'"12345"', limit=6)
    with pytest.raises(RequestTooLarge, match="longer than 6 bytes"):
        decode('"ééé"', limit=6)


@pytest.mark.parametrize("levels", [1, 3, 199, 200])
def test_nesting_within_the_limit_passes(levels: int) -> None:
    assert is_deeper_than(levels - 1, decode(b"[" * levels + b"]" * levels))


@pytest.mark.parametrize("levels", [201, 900, 5_000, 1_000_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_beyond_the_limit_is_refused_however_absurd(
    levels: int, opening: bytes, closing: bytes
) -> None:
    with pytest.raises(RequestTooLarge, match="deeper than 200 levels"):
        decode(opening * levels + b"1" + closing * levels)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    value: list[object] = [[], {}] * 1000
    assert decode(encode(value)) == value


def test_a_string_full_of_brackets_is_not_deep() -> None:
    assert decode(b'"' + b"[" * 1000 + b'"') == "[" * 1000


def test_the_caller_chooses_the_error_class() -> None:
    for data, limit in ((b"nonsense", 100), (b"[" * 300 + b"]" * 300, 1000), (b"[1, 2]", 3)):
        with pytest.raises(UpstreamProtocolError):
            decode(data, limit=limit, error_class=UpstreamProtocolError)


def test_what_cannot_be_encoded_is_an_error_of_ours() -> None:
    nest: list[object] = []
    for _ in range(10_000):
        nest = [nest]
    for value in (nest, "\ud800", {"a": object()}, 10**5000):
        with pytest.raises(DragomanError, match="cannot be written as JSON"):
            encode(value)


# Taking fields


def test_taken_fields_are_gone_and_the_rest_remains() -> None:
    body = Fields({"model": "m", "new": [1], "stream": True, "max": 5, "heat": 0.5})
    assert body.text("model") == "m"
    assert body.maybe_flag("stream") is True
    assert body.integer("max") == 5
    assert body.maybe_number("heat") == 0.5
    assert body.rest() == {"new": [1]}


@readings
def test_the_first_spelling_that_holds_a_value_is_taken(reading: str) -> None:
    samples: list[object] = ["x", 1, True, [{}], {}]
    read = READINGS[reading]
    for sample in samples:
        try:
            expected = read(Fields({"a": sample}))
        except ClientProtocolError:
            continue
        fields = Fields({"b": sample, "c": 0})
        found = read(fields)
        assert type(found) is type(expected)
        assert fields.rest() == {"c": 0}


@pytest.mark.parametrize("reading", MAYBE)
def test_an_optional_field_that_is_null_counts_as_absent_and_stays(reading: str) -> None:
    fields = Fields({"x": 1, "a": None, "y": 2})
    assert READINGS[reading](fields) is None
    assert list(fields.rest().items()) == [("x", 1), ("a", None), ("y", 2)]


@pytest.mark.parametrize("reading", REQUIRED)
def test_a_required_field_that_is_missing_or_null_is_named(reading: str) -> None:
    expected = {"text": "a string", "integer": "an integer", "object": "an object"}.get(reading, "an array")
    assert complaint(READINGS[reading], {}) == f"a: expected {expected}, got nothing"
    assert complaint(READINGS[reading], {"a": None}) == f"a: expected {expected}, got null"


def test_a_default_stands_in_for_an_absent_text() -> None:
    fields = Fields({"a": None, "b": "here"})
    assert fields.text_or("a", "default") == "default"
    assert fields.text_or("b", "default") == "here"


def test_raw_takes_anything_even_null() -> None:
    fields = Fields({"a": None, "b": [1]})
    assert fields.raw("a", "default") is None
    assert fields.raw("b") == [1]
    assert fields.raw("b", "default") == "default"
    assert fields.rest() == {}


def test_has_sees_null_and_every_spelling_but_not_what_was_taken() -> None:
    fields = Fields({"a": None, "b": "x"})
    assert fields.has("a")
    assert fields.has("z", "b")
    fields.text("b")
    assert not fields.has("z", "b")


def test_a_boolean_is_not_a_number() -> None:
    assert complaint(lambda fields: fields.maybe_integer("a"), {"a": True}) == (
        "a: expected an integer, got a boolean"
    )
    assert complaint(lambda fields: fields.maybe_number("a"), {"a": False}) == (
        "a: expected a number, got a boolean"
    )


def test_a_float_without_a_fraction_is_an_integer() -> None:
    value = Fields({"a": 4096.0}).integer("a")
    assert (value, type(value)) == (4096, int)


@pytest.mark.parametrize("value", [0.5, 1e300, -1e17])
def test_a_float_that_is_no_exact_integer_is_refused(value: float) -> None:
    assert "expected an integer, got a number" in complaint(lambda fields: fields.integer("a"), {"a": value})


@pytest.mark.parametrize(
    ("value", "kind"),
    [("secret", "a string"), (True, "a boolean"), (1, "a number"), (1.5, "a number"), ([], "an array")],
)
def test_a_wrong_type_is_named_and_the_value_is_not(value: object, kind: str) -> None:
    assert complaint(lambda fields: fields.object("a"), {"a": value}) == f"a: expected an object, got {kind}"


def test_errors_name_the_whole_path() -> None:
    body = Fields({"messages": [{}, {"content": [{}, {"text": 5}]}]})
    block = body.objects("messages")[1].objects("content")[1]
    assert block.path == "messages[1].content[1]"
    with pytest.raises(ClientProtocolError) as caught:
        block.text("text")
    assert caught.value.message == "messages[1].content[1].text: expected a string, got a number"
    assert caught.value.path == "messages[1].content[1].text"


def test_an_item_that_is_no_object_is_named_by_its_index() -> None:
    assert complaint(lambda fields: fields.objects("tools"), {"tools": [{}, "secret"]}) == (
        "tools[1]: expected an object, got a string"
    )


def test_a_body_that_is_no_object_has_no_path() -> None:
    assert complaint(lambda fields: fields, [1]) == "expected an object, got an array"


def test_children_reached_by_hand_know_their_place() -> None:
    message = Fields({}, "messages[3]")
    assert message.child({}, "content", 1).path == "messages[3].content[1]"
    assert message.child({}, "source").at("data") == "messages[3].source.data"
    assert message.at("content", 0, "text") == "messages[3].content[0].text"
    assert str(message.error("unknown role", "role")) == "messages[3].role: unknown role"


def test_names_that_a_client_made_up_are_not_shown() -> None:
    assert Fields({}, "properties").at("my secret key", "type") == "properties.*.type"


def test_children_raise_the_error_class_of_their_parent() -> None:
    chunk = Fields({"choices": [{"delta": {"content": 5}}]}, "", UpstreamProtocolError)
    delta = chunk.objects("choices")[0].object("delta")
    with pytest.raises(UpstreamProtocolError, match=r"choices\[0\]\.delta\.content: expected a string"):
        delta.text("content")


@readings
@given(value=st.dictionaries(st.sampled_from(["a", "b"]), VALUES))
def test_any_object_is_read_or_refused_and_nothing_else_is_lost(
    reading: str, value: dict[str, object]
) -> None:
    before = msgspec.json.encode(value)
    fields = Fields(dict(value))
    try:
        found = READINGS[reading](fields)
    except ClientProtocolError:
        return
    taken = value.keys() - fields.rest().keys()
    assert len(taken) <= 1
    assert {name: value[name] for name in fields.rest()} == fields.rest()
    if not isinstance(found, Fields) and not reading.endswith("objects"):
        assert all(value[name] == found for name in taken)
        assert msgspec.json.encode(value) == before


@pytest.mark.parametrize(("depth", "message"), [(200, "deeper than 200 levels"), (0, "too deeply")])
def test_nesting_beyond_the_stack_is_reported_by_the_limit_that_holds(depth: int, message: str) -> None:
    with pytest.raises(RequestTooLarge, match=message):
        decode("[" * 100_000 + "]" * 100_000, depth=depth)
