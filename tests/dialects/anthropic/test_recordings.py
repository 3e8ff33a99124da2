"""Recorded replies and requests come out of the dialect as they went in."""

import pytest

from dragoman.dialects.anthropic import DIALECT
from dragoman.dialects.interfaces import ClientContext, Json
from dragoman.hub.loss import Losses
from dragoman.providers.profile import Profile, build_target_facts
from tests.dialects.anthropic.replies import names, pairs, payloads, read, recorded, recorded_json, write
from tests.sse import collect_sse, explode_sse

OWN = build_target_facts(Profile(dialect="anthropic"), "anthropic")


def through(stream: bytes) -> tuple[bytes, Losses]:
    context = ClientContext(upstream="anthropic")
    return write(read(stream), context), context.losses


@pytest.mark.parametrize("name", names("reply-*.json"))
@pytest.mark.rule("R90", "R111")
def test_a_whole_reply_survives_the_way_through_the_hub(name: str) -> None:
    stream, losses = through(explode_sse(DIALECT, recorded_json(name)))
    assert collect_sse(DIALECT, stream) == recorded_json(name)
    assert losses.as_tuple() == ()


@pytest.mark.parametrize("stem", pairs())
@pytest.mark.rule("R60", "R90")
def test_a_stream_folds_to_the_reply_that_was_recorded_whole(stem: str) -> None:
    assert collect_sse(DIALECT, recorded(f"stream-{stem}.sse")) == recorded_json(f"reply-{stem}.json")


@pytest.mark.parametrize("stem", pairs())
@pytest.mark.rule("R60", "R90")
def test_a_stream_still_folds_to_that_reply_after_the_way_through_the_hub(stem: str) -> None:
    stream, losses = through(recorded(f"stream-{stem}.sse"))
    assert collect_sse(DIALECT, stream) == recorded_json(f"reply-{stem}.json")
    assert losses.as_tuple() == ()


@pytest.mark.parametrize("stem", pairs())
def test_what_we_write_of_a_recorded_stream_is_legal(stem: str) -> None:
    assert DIALECT.check_stream(through(recorded(f"stream-{stem}.sse"))[0]) == []


@pytest.mark.parametrize("stem", pairs())
def test_recorded_streams_are_legal_themselves(stem: str) -> None:
    assert DIALECT.check_stream(recorded(f"stream-{stem}.sse")) == []


@pytest.mark.parametrize("stem", pairs())
def test_exploded_replies_are_legal_streams(stem: str) -> None:
    assert DIALECT.check_stream(explode_sse(DIALECT, recorded_json(f"reply-{stem}.json"))) == []


@pytest.mark.parametrize("stem", ["tool-call", "parallel-calls", "text", "redacted-thinking", "compaction"])
def test_live_blocks_are_written_event_by_event_as_they_came(stem: str) -> None:
    stream = recorded(f"stream-{stem}.sse")
    came = [payload for payload in payloads(stream) if payload["type"] != "ping"]
    assert payloads(through(stream)[0]) == came


@pytest.mark.rule("H73", "R127")
def test_a_stream_that_was_cut_ends_in_an_error_and_its_block_stays_open() -> None:
    sent = payloads(through(recorded("stream-cut.sse"))[0])
    assert [payload["type"] for payload in sent[-2:]] == ["content_block_delta", "error"]
    assert DIALECT.check_stream(through(recorded("stream-cut.sse"))[0]) == []


@pytest.mark.rule("H72")
def test_an_error_inside_a_stream_arrives_as_the_same_error() -> None:
    stream, _ = through(recorded("stream-failed-overloaded.sse"))
    assert DIALECT.check_stream(stream) == []
    body = collect_sse(DIALECT, stream)
    assert body["error"] == {"type": "overloaded_error", "message": "Overloaded"}


def test_arguments_that_the_token_cap_cut_off_stay_cut_off() -> None:
    stream, _ = through(recorded("stream-max-tokens-mid-arguments.sse"))
    assert DIALECT.check_stream(stream) == []
    assert collect_sse(DIALECT, stream) == collect_sse(
        DIALECT, recorded("stream-max-tokens-mid-arguments.sse")
    )


def request_body(name: str) -> Json:
    body = recorded_json(name)["body"]
    assert isinstance(body, dict)
    return body


@pytest.mark.parametrize("name", names("request-*.json"))
def test_a_request_is_written_as_it_was_read(name: str) -> None:
    losses = Losses()
    request = DIALECT.read_request(request_body(name), losses)
    assert DIALECT.write_request(request, OWN, losses) == request_body(name)
    assert losses.as_tuple() == ()
