"""What holds for every stream and every reply, found by trying many."""

from typing import TypeVar

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.dialects.anthropic import DIALECT
from dragoman.dialects.interfaces import ClientContext, Json, UpstreamContext
from dragoman.hub.blocks import ToolCall
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
)
from dragoman.hub.fold import fold
from dragoman.hub.loss import Losses
from dragoman.providers.profile import Profile, build_target_facts
from dragoman.wire.partial_json import parse_object
from tests.dialects.anthropic.replies import names, read, recorded, recorded_json, write
from tests.dialects.strategies import mutated_bodies, mutated_streams, pieces_of, replies
from tests.sse import collect_sse, explode_sse

Sample = TypeVar("Sample")


class Samples(tuple[Sample, ...]):
    """Recordings to draw from; hypothesis repeats its sources in every report, and these are long."""

    def __repr__(self) -> str:
        return f"<{len(self)} recordings>"


STREAMS = Samples(recorded(name) for name in names("stream-*.sse"))
REPLIES = Samples(recorded_json(name) for name in names("reply-*.json"))
OWN = build_target_facts(Profile(dialect="anthropic"), "anthropic")


def requests() -> list[Json]:
    bodies = [recorded_json(name)["body"] for name in names("request-*.json")]
    # Small bodies suffer more from the same damage, so the long lists are cut.
    found: list[Json] = []
    for body in bodies:
        assert isinstance(body, dict)
        tools, messages = body.get("tools", []), body["messages"]
        assert isinstance(tools, list)
        assert isinstance(messages, list)
        found.append({**body, "tools": tools[-3:], "messages": messages[:8]})
    return found


REQUESTS = Samples(requests())


def legal_arguments(events: list[ReplyEvent]) -> list[ReplyEvent]:
    """The same reply as the writer gets it: an earlier stage has made every call's arguments an object."""
    calls = {
        event.index: event.block
        for event in events
        if isinstance(event, BlockOpened) and isinstance(event.block, ToolCall)
    }
    texts: dict[int, str] = dict.fromkeys(calls, "")
    for event in events:
        if isinstance(event, ArgumentsDelta):
            texts[event.index] += event.text
    whole = {event.index for event in events if isinstance(event, BlockClosed)}
    broken = {
        index
        for index, call in calls.items()
        if call.kind != "custom" and (index not in whole or parse_object(texts[index]) is None)
    }
    return [event for event in events if not isinstance(event, ArgumentsDelta) or event.index not in broken]


@given(st.data())
@settings(max_examples=60)
@pytest.mark.rule("R59", "H76")
def test_events_do_not_depend_on_where_the_bytes_are_cut(data: st.DataObject) -> None:
    stream = data.draw(st.sampled_from(STREAMS))
    assert read(*data.draw(pieces_of(stream))) == read(stream)


@given(mutated_streams(STREAMS))
@settings(max_examples=100)
def test_damaged_streams_give_grammatical_events_that_end(stream: bytes) -> None:
    assert isinstance(read(stream)[-1], ReplyFinished | ReplyFailed)


@given(mutated_streams(STREAMS))
@settings(max_examples=100)
def test_what_we_write_of_a_damaged_stream_folds_to_a_body_or_an_error(stream: bytes) -> None:
    body = collect_sse(DIALECT, write(read(stream), ClientContext(upstream="anthropic")))
    assert body["type"] in ("message", "error")


@given(mutated_bodies(REPLIES))
@settings(max_examples=100)
def test_damaged_replies_become_grammatical_events(body: Json) -> None:
    read(explode_sse(DIALECT, msgspec.json.decode(msgspec.json.encode(body))))


@given(st.binary(max_size=200))
@example(b"{}")
@example(b'{"":""}')
@example(b'{"type":"message","content":null}')
@settings(max_examples=50)
def test_noise_is_neither_a_crash_nor_a_reply(noise: bytes) -> None:
    assert isinstance(read(noise)[-1], ReplyFailed)


@given(mutated_streams(STREAMS))
@settings(max_examples=50)
def test_judging_and_folding_damaged_streams_raises_nothing(stream: bytes) -> None:
    collect_sse(DIALECT, stream)
    DIALECT.check_stream(stream)


@given(st.builds(legal_arguments, replies()), st.sampled_from(["openai_chat", "gemini", ""]))
@settings(max_examples=100)
@pytest.mark.rule("R50", "R52", "R54")
def test_whatever_the_reply_the_stream_is_legal(events: list[ReplyEvent], upstream: str) -> None:
    assert DIALECT.check_stream(write(events, ClientContext(upstream=upstream))) == []


@given(st.builds(legal_arguments, replies(failing=False, issuers=["anthropic"])))
@settings(max_examples=60)
def test_what_we_write_can_be_read_and_written_again_without_a_change(events: list[ReplyEvent]) -> None:
    stream = write(events, ClientContext(upstream="openai_chat"))
    again = write(read(stream), ClientContext(upstream="anthropic"))
    assert collect_sse(DIALECT, again) == collect_sse(DIALECT, stream)


@given(st.builds(legal_arguments, replies(failing=False)))
@settings(max_examples=60)
@pytest.mark.rule("R60", "R90")
def test_calls_arrive_with_the_arguments_they_had(events: list[ReplyEvent]) -> None:
    sent = [block for block in fold(events).blocks if isinstance(block, ToolCall) and block.kind != "custom"]
    arrived = fold(read(write(events, ClientContext(upstream="openai_chat")))).blocks
    calls = {block.id: block for block in arrived if isinstance(block, ToolCall)}
    assert [(calls[call.id].name, calls[call.id].arguments) for call in sent] == [
        (call.name, call.arguments) for call in sent
    ]


def refusal_of(body: Json) -> ClientProtocolError | None:
    """Why the body is refused; None if it is read, and then it can be written too."""
    try:
        request = DIALECT.read_request(msgspec.json.decode(msgspec.json.encode(body)), Losses())
    except ClientProtocolError as error:
        return error
    DIALECT.write_request(request, OWN, Losses())
    return None


@given(mutated_bodies(REQUESTS))
@settings(max_examples=100)
def test_a_damaged_request_is_read_or_refused_with_a_place(body: Json) -> None:
    refusal = refusal_of(body)
    assert refusal is None or (refusal.status == 400 and refusal.path)


@given(st.dictionaries(st.sampled_from(["issuer", "model"]), st.text(max_size=5)))
@settings(max_examples=20)
def test_a_closed_reader_stays_closed(source: dict[str, str]) -> None:
    reader = DIALECT.stream_reader(
        UpstreamContext(issuer=source.get("issuer", ""), model=source.get("model", ""))
    )
    assert len(reader.feed(STREAMS[0]) + reader.close()) > 0
    assert reader.feed(STREAMS[0]) == []
    assert reader.close() == []
