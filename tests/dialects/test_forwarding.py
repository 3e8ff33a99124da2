"""Members that are replaced in forwarded replies: the model's name, and what the gateway decides."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.registry import DIALECTS, dialect_named
from tests.exchange.sample_replies import (
    ANTHROPIC_STREAM,
    CHAT_STREAM,
    GEMINI_STREAM,
    RESPONSES_CREATED,
    data,
    event,
)
from tests.sse import read_frames

RESPONSES_STREAM = (
    RESPONSES_CREATED.replace(b'"output":[]', b'"output":[],"model":"model"'),
    event({"type": "response.output_text.delta", "delta": 'they say "response": {"model":"model"}'}),
    event({"type": "response.completed", "response": {"id": "x", "model": "model", "output": []}}),
)
STREAMS = {
    "anthropic": ANTHROPIC_STREAM,
    "openai_chat": CHAT_STREAM,
    "openai_responses": RESPONSES_STREAM,
    "gemini": GEMINI_STREAM,
}
ALIAS = b'"alias"'


def patch(dialect: str, pieces: list[bytes]) -> bytes:
    forwarding = dialect_named(dialect).forwarding
    changes = forwarding.build_patch({forwarding.model_member: ALIAS}, {})
    return b"".join(changes.apply(piece) for piece in pieces)


def payloads(stream: bytes) -> list[object]:
    return [msgspec.json.decode(frame.data) for frame in read_frames(stream) if frame.data != b"[DONE]"]


def rename(value: object, member: str) -> object:
    """The payload with the alias in every place where the reply's object has its model."""
    assert isinstance(value, dict)
    holders = (value, value.get("response"), value.get("message"))
    for holder in holders:
        if isinstance(holder, dict) and member in holder:
            holder[member] = "alias"
    return value


@given(dialect=st.sampled_from(sorted(DIALECTS)), cuts=st.sets(st.integers(0, 6)))
def test_the_clients_model_name_is_restored_however_many_events_come_at_once(
    dialect: str, cuts: set[int]
) -> None:
    events = STREAMS[dialect]
    edges = [0, *sorted(cut for cut in cuts if 0 < cut < len(events)), len(events)]
    patched = patch(dialect, [b"".join(events[a:b]) for a, b in pairwise(edges)])
    member = dialect_named(dialect).forwarding.model_member
    assert payloads(patched) == [rename(each, member) for each in payloads(b"".join(events))]


def test_a_model_name_inside_the_content_stays() -> None:
    """Arguments of a call are an object in Gemini's API, so they may contain anything."""
    arguments = {"modelVersion": "model"}
    call = {"functionCall": {"name": "f", "args": arguments}}
    chunk = {"candidates": [{"content": {"parts": [call]}}], "modelVersion": "model"}
    patched = payloads(patch("gemini", [GEMINI_STREAM[0], data(chunk), GEMINI_STREAM[1]]))[1]
    assert patched == {**chunk, "modelVersion": "alias"}


@pytest.mark.parametrize("broken", [b"data: {\n\n", b"data: [DONE]\n\n", b': comment "model"\n\n', b""])
def test_events_that_cannot_be_patched_are_no_error(broken: bytes) -> None:
    for dialect in DIALECTS:
        assert isinstance(patch(dialect, [broken]), bytes)


def test_members_that_the_gateway_decides_are_set_in_every_response() -> None:
    changes = dialect_named("openai_responses").forwarding.build_patch(
        {}, {"id": b'"ours"', "store": b"true"}
    )
    found = payloads(changes.apply(b"".join(RESPONSES_STREAM)))
    responses = [each["response"] for each in found if isinstance(each, dict) and "response" in each]
    assert [(each["id"], each["store"]) for each in responses] == [("ours", True)] * 2


def test_a_whole_reply_is_patched_too() -> None:
    changes = dialect_named("openai_chat").forwarding.build_patch({"model": ALIAS}, {})
    assert changes.apply_to_body(b'{"model": "m", "choices": []}') == b'{"model":"alias","choices":[]}'
    assert changes.apply_to_body(b"nonsense") == b"nonsense"


_lines = st.sampled_from(
    [
        *(b"event: content_block_delta", b"event: response.output_text.delta", b"event: message_stop"),
        *(b'data: {"a":"event: content_block_delta"}', b"data: {}", b": comment", b"data: x.delta"),
    ]
)
_events = st.lists(_lines, min_size=1, max_size=4).map(lambda lines: b"\n".join(lines) + b"\n\n")


@given(st.lists(_events, max_size=12), st.sampled_from(["anthropic", "openai_responses"]))
def test_only_whole_deltas_are_dropped(events: list[bytes], dialect: str) -> None:
    """An event of other lines stays as it is, also if it contains the lines of a delta."""
    ends = {"anthropic": b"event: content_block_delta", "openai_responses": b".delta"}[dialect]

    def is_delta(event: bytes) -> bool:
        lines = event.splitlines()
        name, *data = lines[:-1]
        return (
            len(data) == 1
            and name.startswith(b"event: ")
            and name.endswith(ends)
            and data[0].startswith(b"data: ")
        )

    kept = [event for event in events if not is_delta(event)]
    assert DIALECTS[dialect].forwarding.drop_deltas(b"".join(events)) == b"".join(kept)
