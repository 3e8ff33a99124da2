"""Requests are split so that a longer conversation has the same first segments."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dragoman.records.segments import MAX_WHOLE, split_request, split_segment

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=30,
)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=600)}),
    min_size=1,
    max_size=8,
)


@given(JSON)
def test_segments_add_up_to_any_json(value: object) -> None:
    for body in (msgspec.json.encode(value), msgspec.json.format(msgspec.json.encode(value), indent=2)):
        assert b"".join(split_request(body)) == body
        assert b"".join(split_segment(body)) == body


@given(st.binary(max_size=2000))
def test_segments_add_up_to_any_bytes(body: bytes) -> None:
    assert b"".join(split_request(body)) == body
    assert b"".join(split_segment(body)) == body


@given(MESSAGES, MESSAGES, st.integers(0, 2))
def test_a_longer_conversation_keeps_the_segments_of_its_beginning(
    first: list[object], more: list[object], indent: int
) -> None:
    def split(messages: list[object]) -> list[bytes]:
        body = {"model": "m", "messages": messages, "system": "s" * 300, "tools": [{"name": "Read"}]}
        encoded = msgspec.json.encode(body)
        return split_request(msgspec.json.format(encoded, indent=indent) if indent else encoded)

    short, long = split(first), split([*first, *more])
    shared = short.index(next(each for each in short if b'"system"' in each))
    assert long[:shared] == short[:shared]
    assert long[-4:] == short[-4:]
    assert len(long) == len(short) + len(more)


def test_a_moved_cache_mark_does_not_copy_the_text_beside_it() -> None:
    block = {"type": "tool_result", "content": "word " * 1000}
    marked = {**block, "cache_control": {"type": "ephemeral"}}
    plain, with_mark = (
        split_segment(msgspec.json.encode({"role": "user", "content": [each]})) for each in (block, marked)
    )
    large = [part for part in plain if len(part) > MAX_WHOLE]
    assert len(large) == 1
    assert large[0] in with_mark
