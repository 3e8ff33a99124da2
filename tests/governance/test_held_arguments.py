"""What went out as the beginning of an object can become that object, if any text can make it so."""

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dragoman.governance.held_arguments import StreamedArguments, find_continuation
from tests.dialects.strategies import json_objects


@pytest.mark.parametrize(
    ("sent", "wanted", "rest"),
    [
        ("", {"a": 1}, '{"a":1}'),
        ('{"a":"x', {"a": "xy\n"}, 'y\\n"}'),
        ('{"a":"x"', {"a": "x"}, "}"),
        ('{"a":"x"', {"a": "x", "b": [1]}, ',"b":[1]}'),
        ('{"a":', {"a": None}, "null}"),
        ('{"a"', {"a": 1}, ":1}"),
        ('{"a":"x","b', {"a": "x", "bc": 2, "d": 3}, 'c":2,"d":3}'),
        ('{"a":[{"b":"', {"a": [{"b": "c", "d": 1}, 2], "e": 3}, 'c","d":1},2],"e":3}'),
        ('{"a":[', {"a": []}, "]}"),
        ('{"a":[', {"a": [1, 2]}, "1,2]}"),
        ('{"a":{', {"a": {"b": 1}}, '"b":1}}'),
        ('{"a":1}', {"a": 1}, ""),
    ],
)
def test_what_is_missing_is_appended(sent: str, wanted: dict[str, object], rest: str) -> None:
    assert find_continuation(sent, wanted) == rest


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        ('{"a":"x', {"a": "y"}),
        ('{"a":"x', {"a": 1}),
        ('{"a":"x"', {"b": "x"}),
        ('{"b', {"a": 1}),
        ('{"a":[{"b":', {"a": {"b": 1}}),
        ('{"a":[1', {"a": 5}),
        ('{"a":1}', {"a": 2}),
        ('{"a":1,"a":{"x":"', {"a": 1}),
        ("{'a", {"a": 1}),
        ('{"a":1,', {"a": 1}),
    ],
)
def test_what_was_sent_cannot_be_taken_back(sent: str, wanted: dict[str, object]) -> None:
    assert find_continuation(sent, wanted) is None


@given(wanted=json_objects, data=st.data())
def test_an_object_can_be_completed_from_wherever_it_was_left(
    wanted: dict[str, object], data: st.DataObject
) -> None:
    text = msgspec.json.encode(wanted).decode()
    arguments = StreamedArguments()
    sent = arguments.add(text[: data.draw(st.integers(0, len(text)))])
    rest = find_continuation(sent, wanted)
    assert rest is not None
    assert msgspec.json.decode(sent + rest) == wanted


@given(wanted=json_objects, other=json_objects, data=st.data())
def test_completing_never_makes_anything_else(
    wanted: dict[str, object], other: dict[str, object], data: st.DataObject
) -> None:
    text = msgspec.json.encode(other).decode()
    sent = StreamedArguments().add(text[: data.draw(st.integers(0, len(text)))])
    rest = find_continuation(sent, wanted)
    assume(rest is not None)
    assert msgspec.json.decode(sent + str(rest)) == wanted
