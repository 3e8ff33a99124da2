"""The values of a JSON text are counted without decoding it, and what stands in texts does not count."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.pipeline.bodies import read_reply_object
from dragoman.wire.json_values import MAX_VALUES, MIN_SCANNED, has_too_many_values

_TEXTS = st.text(st.sampled_from('a"\\,[{}]:\n'), max_size=12)
JSON = st.recursive(
    st.none() | st.integers(0, 9) | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=30,
)


def count(value: object) -> int:
    """One for each object and array, and one for each member after the first."""
    if not isinstance(value, dict | list):
        return 0
    inner = list(value.values()) if isinstance(value, dict) else value
    return 1 + max(0, len(inner) - 1) + sum(map(count, inner))


@pytest.mark.rule("S13")
@given(value=JSON, most=st.integers(0, 40), piece=st.integers(1, 20))
def test_the_marks_of_objects_and_arrays_are_counted_and_those_in_texts_are_not(
    value: object, most: int, piece: int
) -> None:
    data = msgspec.json.encode(value)
    assert has_too_many_values(data, most, shortest=0, piece=piece) == (count(value) > most)


HUGE = {
    "members": b'{"x":{' + b'"a":1,' * 600_000 + b'"a":1}}',
    "lists": b'{"x":[' + b"[]," * 600_000 + b"1]}",
    "nested": b'{"x":[' + (b"[" * 100 + b"]" * 100 + b",") * 6_000 + b"1]}",
    "texts": b'{"x":[' + b'"",' * 600_000 + b"1]}",
    "messages": b'{"x":[' + b'{"role":"user","content":"hi"},' * 200_000 + b"1]}",
    "behind backslashes": b'{"a":"' + rb"\\" * 1_000_001 + b'","x":[' + b"1," * 600_000 + b"1]}",
}
CODE = 'if (a[0], {"b": [1, 2, 3]}) { print("\\\\", \'"\'); }\n'
LEGAL = {
    "code": msgspec.json.encode({"content": CODE * 100_000}),
    "a text that repeats the beginning of a list": msgspec.json.encode({"content": '\\",[{' * 600_000}),
    "ten thousand messages": msgspec.json.encode(
        {"messages": [{"role": "user", "content": CODE * 10}] * 10_000}
    ),
}


@pytest.mark.rule("S13")
@pytest.mark.parametrize("name", HUGE)
def test_a_text_with_too_many_values_is_found(name: str) -> None:
    assert len(HUGE[name]) > MIN_SCANNED
    assert has_too_many_values(HUGE[name])
    error = read_reply_object(HUGE[name])["error"]
    assert isinstance(error, dict)
    assert str(MAX_VALUES) in error["message"]


@pytest.mark.rule("S13")
@pytest.mark.parametrize("name", LEGAL)
def test_a_long_text_is_one_value(name: str) -> None:
    assert len(LEGAL[name]) > MIN_SCANNED
    assert not has_too_many_values(LEGAL[name])
