"""Recorded replies, streams and requests come out of the dialect as they went in."""

import msgspec
import pytest

from dragoman.dialects.openai_responses import DIALECT
from dragoman.hub.loss import Losses
from dragoman.providers.profile import Profile, build_target_facts
from tests.dialects.openai_responses.replies import (
    OWN,
    names,
    output_of,
    pairs,
    payloads,
    payloads_of,
    recorded,
    recorded_json,
    requests,
    through,
)
from tests.sse import collect_sse, explode_sse

TARGET = build_target_facts(Profile(dialect=OWN), OWN)
REQUESTS = requests()


@pytest.mark.parametrize("name", names("reply-*.json"))
@pytest.mark.rule("R90", "R111")
def test_a_whole_reply_is_the_same_after_a_pass_through_the_hub(name: str) -> None:
    stream, losses = through(explode_sse(DIALECT, recorded_json(name)))
    assert collect_sse(DIALECT, stream) == recorded_json(name)
    assert losses.as_tuple() == ()


@pytest.mark.parametrize("stem", pairs())
@pytest.mark.rule("R60", "R90")
def test_a_stream_folds_to_the_reply_that_was_recorded_whole(stem: str) -> None:
    assert collect_sse(DIALECT, recorded(f"stream-{stem}.sse")) == recorded_json(f"reply-{stem}.json")


@pytest.mark.parametrize("stem", pairs())
@pytest.mark.rule("R60", "R90", "R67")
def test_a_stream_folds_to_that_reply_after_a_pass_through_the_hub(stem: str) -> None:
    stream, losses = through(recorded(f"stream-{stem}.sse"))
    assert collect_sse(DIALECT, stream) == recorded_json(f"reply-{stem}.json")
    assert losses.as_tuple() == ()


@pytest.mark.parametrize("name", [name for name in names("stream-*.sse") if name != "stream-cut.sse"])
def test_recorded_streams_are_legal(name: str) -> None:
    assert DIALECT.check_stream(recorded(name)) == []


@pytest.mark.parametrize("name", names("stream-*.sse"))
def test_what_we_write_of_a_recorded_stream_is_legal(name: str) -> None:
    assert DIALECT.check_stream(through(recorded(name))[0]) == []


@pytest.mark.parametrize("name", names("reply-*.json"))
def test_exploded_replies_are_legal_streams(name: str) -> None:
    assert DIALECT.check_stream(explode_sse(DIALECT, recorded_json(name))) == []


#: Events that we leave out, because the finished item has the same content.
PROGRESS = ("code_interpreter_call_code", "mcp_call_arguments", "partial_image")


@pytest.mark.parametrize("name", [name for name in names("stream-*.sse") if name != "stream-cut.sse"])
@pytest.mark.rule("R67", "R68", "H79", "P60")
def test_recorded_events_are_written_one_for_one(name: str) -> None:
    """All but the echo of the request: types, places, deltas and finished items are those that came."""
    came = [p for p in payloads(recorded(name)) if not any(word in str(p["type"]) for word in PROGRESS)]
    written = payloads(through(recorded(name))[0])
    if not payloads_of(recorded(name), "error"):
        written = [payload for payload in written if payload["type"] != "error"]
    assert [payload["type"] for payload in written] == [payload["type"] for payload in came]
    for mine, theirs in zip(written, came, strict=True):
        for field in ("item_id", "output_index", "content_index", "summary_index", "delta", "annotation"):
            assert mine.get(field) == theirs.get(field)
        if theirs["type"] == "response.output_item.done":
            assert mine["item"] == theirs["item"]


@pytest.mark.rule("H73", "R127", "P18")
def test_a_stream_that_was_cut_ends_in_failure_and_its_item_is_never_done() -> None:
    stream, _ = through(recorded("stream-cut.sse"))
    kinds = [payload["type"] for payload in payloads(stream)]
    assert kinds[-2:] == ["error", "response.failed"]
    assert "response.output_item.done" not in kinds
    response = collect_sse(DIALECT, stream)
    assert response["status"] == "failed"
    assert response["error"] == {
        "code": "server_error",
        "message": "the upstream closed the stream before the reply was complete",
    }
    assert [item["status"] for item in output_of(response)] == ["incomplete"]


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.rule("C22", "R125", "P27", "P28", "P29")
def test_a_request_is_written_as_it_was_read(name: str) -> None:
    losses = Losses()
    request = DIALECT.read_request(requests()[name], losses)
    assert DIALECT.write_request(request, TARGET, losses) == REQUESTS[name]
    assert losses.as_tuple() == ()


@pytest.mark.parametrize("name", names("error-*.json"))
@pytest.mark.rule("R114")
def test_a_recorded_error_is_written_as_it_was_read(name: str) -> None:
    error = recorded_json(name)
    headers, status = error["headers"], error["status"]
    assert isinstance(headers, dict)
    assert isinstance(status, int)
    failure = DIALECT.read_error(status, headers, msgspec.json.encode(error["body"]))
    assert DIALECT.write_error(failure) == error["body"]
    assert DIALECT.error_status(failure) == status
    assert DIALECT.error_headers(failure)["x-request-id"] == headers["x-request-id"]
