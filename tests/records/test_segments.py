"""Requests are compared with the last one of their chain. Only what is new is split and stored."""

from collections.abc import Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dragoman.records.block_refs import BlockRef
from dragoman.records.segments import MAX_ENDS, RequestMemory, Segment, join_segments, split_request

CHAIN = ("session", "", "")
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=600)}),
    min_size=1,
    max_size=8,
)


def build_body(messages: Sequence[object], indent: int = 0) -> bytes:
    body = {"model": "m", "messages": messages, "system": "s" * 300, "tools": [{"name": "Read"}]}
    encoded = msgspec.json.encode(body)
    return msgspec.json.format(encoded, indent=indent) if indent else encoded


def store(memory: RequestMemory, body: bytes) -> tuple[list[Segment], bytes]:
    """The segments of a body, and the part of it that was not known."""
    head, tail, start, end, is_first, _ = memory.match(CHAIN, body)
    raw = body[start:end]
    new = split_request(raw, raw) if is_first else [Segment(raw)][: len(raw)]
    for segment in new:
        segment.ref = BlockRef(1)
    segments = [*join_segments(head), *new, *join_segments(tail)]
    memory.remember(CHAIN, segments, is_first=is_first)
    return segments, raw


@given(st.lists(st.binary(max_size=2000) | MESSAGES.map(lambda each: build_body(each)), max_size=6))
def test_segments_add_up_to_any_bytes(bodies: list[bytes]) -> None:
    memory = RequestMemory(lambda _: True)
    for body in bodies:
        segments, _ = store(memory, body)
        assert b"".join(segment.raw for segment in segments) == body


@given(MESSAGES, MESSAGES, st.integers(0, 2))
def test_only_the_end_of_a_longer_conversation_is_new(
    first: list[object], more: list[object], indent: int
) -> None:
    memory = RequestMemory(lambda _: True)
    store(memory, build_body(first, indent))
    longer = build_body([*first, *more], indent)
    _, new = store(memory, longer)
    added = len(longer) - len(build_body(first, indent))
    # The segment before the end may be stored again: it can have been joined with what followed it.
    last = len(msgspec.json.format(msgspec.json.encode(first[-1]), indent=indent or 2))
    assert len(new) <= added + last + 1024
    assert store(memory, longer)[1] == b""


def test_a_long_session_has_few_references() -> None:
    memory = RequestMemory(lambda _: True)
    messages: list[object] = []
    for number in range(100):
        messages.append({"role": "user", "content": f"{number} " + "word " * 200})
        segments, _ = store(memory, build_body(messages))
        assert len(segments) <= 2 * MAX_ENDS + 3


def test_a_moved_cache_mark_does_not_copy_the_text_beside_it() -> None:
    memory = RequestMemory(lambda _: True)
    text = {"type": "text", "text": "word " * 1000}
    marked = {**text, "cache_control": {"type": "ephemeral"}}
    for blocks in ([marked], [text, marked]):
        _, new = store(memory, build_body([{"role": "user", "content": blocks}]))
    assert len(new) < 6000


@given(MESSAGES, MESSAGES, st.booleans())
def test_only_a_conversation_that_got_longer_at_its_end_is_grown(
    first: list[object], more: list[object], is_changed: bool
) -> None:
    memory = RequestMemory(lambda _: True)
    before = [{"role": "user", "content": "first" * 200}, *first, {"role": "user", "content": "last"}]
    store(memory, build_body(before))
    changed = [{"role": "user", "content": "First" * 200}, *before[1:]] if is_changed else before
    body = build_body([*changed, {"role": "assistant", "content": "answer"}, *more])
    known = memory.match(CHAIN, body)
    assert known.is_grown(body[known.start : known.end]) != is_changed


def test_an_inserted_message_or_tool_does_not_make_a_conversation_grown() -> None:
    memory = RequestMemory(lambda _: True)
    messages = [{"role": "user", "content": f"{number}" * 600} for number in range(4)]
    body = build_body(messages)
    store(memory, body)
    inserted = build_body([*messages[:2], {"role": "user", "content": "between"}, *messages[2:]])
    with_tool = body.replace(b'[{"name":"Read"}', b'[{"name":"Read"},{"name":"Write"}')
    for changed in (inserted, with_tool):
        known = memory.match(CHAIN, changed)
        assert not known.is_grown(changed[known.start : known.end])
