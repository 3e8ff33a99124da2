"""Properties of every stream, every reply and every request."""

from typing import TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.dialects.interfaces import ClientContext, Json, UpstreamContext
from dragoman.dialects.openai_responses import DIALECT
from dragoman.hub.blocks import Reasoning, Text, ToolCall
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.events import ReplyEvent, ReplyFailed, ReplyFinished
from dragoman.hub.fold import fold
from dragoman.hub.loss import Losses
from dragoman.providers.profile import Profile, build_target_facts
from tests.dialects.openai_responses.replies import (
    OWN,
    names,
    output_of,
    read,
    recorded,
    recorded_json,
    requests,
    through,
    write,
)
from tests.dialects.strategies import mutated_bodies, mutated_streams, pieces_of, replies
from tests.sse import collect_sse, explode_sse

Sample = TypeVar("Sample")


class Samples(tuple[Sample, ...]):
    """Recordings to draw from, with a short name: reports repeat what they drew from."""

    def __repr__(self) -> str:
        return f"<{len(self)} recordings>"


def small(body: Json) -> Json:
    """Small bodies suffer more from the same damage, so long lists are cut."""
    return {name: value[-8:] if isinstance(value, list) else value for name, value in body.items()}


STREAMS = Samples(recorded(name) for name in names("stream-*.sse"))
REPLIES = Samples(recorded_json(name) for name in names("reply-*.json"))
REQUESTS = Samples(small(body) for body in requests().values())
TARGET = build_target_facts(Profile(dialect=OWN), OWN)
FOREIGN = build_target_facts(Profile(dialect=OWN), "anthropic")


@given(st.sampled_from(STREAMS).flatmap(pieces_of))
@settings(max_examples=60)
@pytest.mark.rule("R59", "H76")
def test_events_do_not_depend_on_where_the_bytes_are_cut(pieces: list[bytes]) -> None:
    assert read(*pieces) == read(b"".join(pieces))


@given(mutated_streams(STREAMS))
@settings(max_examples=100)
@pytest.mark.rule("C11")
def test_a_damaged_stream_becomes_a_legal_reply_with_one_end(stream: bytes) -> None:
    events = read(stream, source=UpstreamContext(issuer=OWN))
    assert isinstance(events[-1], ReplyFinished | ReplyFailed)
    assert DIALECT.check_stream(write(events, ClientContext(upstream="openai_chat"))) == []
    assert DIALECT.check_stream(write(events, ClientContext(upstream=OWN))) == []


@given(mutated_streams(STREAMS))
@settings(max_examples=60)
def test_a_damaged_stream_is_collected_and_judged_without_an_exception(stream: bytes) -> None:
    assert isinstance(collect_sse(DIALECT, stream), dict)
    assert isinstance(DIALECT.check_stream(stream), list)


@given(mutated_bodies(REPLIES))
@settings(max_examples=80)
def test_a_damaged_reply_is_exploded_into_a_stream_that_ends(body: Json) -> None:
    stream = explode_sse(DIALECT, body)
    assert isinstance(read(stream)[-1], ReplyFinished | ReplyFailed)


@given(replies())
@settings(max_examples=100)
@pytest.mark.rule("P2", "R50", "R52", "P60", "H71")
def test_every_reply_is_written_as_a_legal_stream(events: list[ReplyEvent]) -> None:
    context = ClientContext(upstream="anthropic")
    assert DIALECT.check_stream(write(events, context)) == []


@given(replies(failing=False, interleaving=False))
@settings(max_examples=80)
@pytest.mark.rule("R60", "H8")
def test_texts_and_calls_of_every_reply_arrive_in_order_and_unchanged(events: list[ReplyEvent]) -> None:
    output = output_of(collect_sse(DIALECT, write(events, ClientContext(upstream="anthropic"))))
    blocks = [block for block in fold(events).blocks if isinstance(block, Text | ToolCall | Reasoning)]
    texts = [block.text for block in blocks if isinstance(block, Text)]
    arguments = [block.arguments or "{}" for block in blocks if isinstance(block, ToolCall)]
    messages = [item for item in output if item["type"] == "message"]
    parts = [part for item in messages for part in _parts(item)]
    assert [part["text"] for part in parts if part["type"] == "output_text"] == texts
    calls = [item for item in output if item["type"] in ("function_call", "custom_tool_call")]
    # A call that was cut off before its first argument has the status of a cut call.
    assert [item.get("arguments", item.get("input")) or "{}" for item in calls] == arguments


def _parts(item: Json) -> list[Json]:
    content = item["content"]
    assert isinstance(content, list)
    return content


@given(replies(failing=False))
@settings(max_examples=60)
@pytest.mark.rule("R90")
def test_what_we_write_is_the_same_after_another_pass_through_the_hub(events: list[ReplyEvent]) -> None:
    stream = write(events, ClientContext(upstream="gemini", model="m"))
    again, losses = through(stream)
    assert collect_sse(DIALECT, again) == collect_sse(DIALECT, stream)
    assert losses.as_tuple() == ()


@given(mutated_bodies(REQUESTS))
@settings(max_examples=100)
@pytest.mark.rule("C22")
def test_a_damaged_request_is_refused_or_written_as_it_came(body: Json) -> None:
    try:
        request = DIALECT.read_request(msgspec.json.decode(msgspec.json.encode(body)), Losses())
    except ClientProtocolError:
        return
    losses = Losses()
    assert DIALECT.write_request(request, TARGET, losses) == body
    assert losses.as_tuple() == ()


@given(mutated_bodies(REQUESTS))
@settings(max_examples=60)
def test_a_damaged_request_can_be_written_for_anyone(body: Json) -> None:
    try:
        request = DIALECT.read_request(msgspec.json.decode(msgspec.json.encode(body)), Losses())
    except ClientProtocolError:
        return
    foreign = msgspec.structs.replace(request, dialect="anthropic")
    written = DIALECT.write_request(foreign, FOREIGN, Losses())
    DIALECT.read_request(msgspec.json.decode(msgspec.json.encode(written)), Losses())


@given(st.binary(max_size=200), st.sampled_from([0, 200, 400, 429, 500, 503]))
@settings(max_examples=60)
def test_any_bytes_are_an_error_that_can_be_written(body: bytes, status: int) -> None:
    failure = DIALECT.read_error(status, {}, body)
    assert failure.message
    assert msgspec.json.encode(DIALECT.write_error(failure))
