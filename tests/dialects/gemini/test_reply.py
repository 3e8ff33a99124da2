"""Whole replies and streams have the same content, and a Gemini client gets all of it."""

import msgspec
import pytest

from dragoman.dialects.gemini import DIALECT
from dragoman.hub.blocks import Text
from dragoman.hub.fold import fold
from tests.dialects.gemini.replies import (
    blocks_of,
    chunk,
    dig,
    frame,
    read,
    recorded,
    recorded_json,
    source,
    stems,
    through,
)
from tests.sse import collect_sse, explode_sse

REPLIES = stems("reply-", ".json")
#: A model that makes a malformed call fails: its client gets an error.
MALFORMED = "malformed-call"
#: Several answers at once go past the hub as bytes; what is read is the first of them.
ONE_ANSWER = [stem for stem in REPLIES if stem not in ("two-candidates", MALFORMED)]


@pytest.mark.parametrize("stem", ONE_ANSWER)
def test_a_whole_reply_survives_the_way_to_a_client_of_its_own_dialect(stem: str) -> None:
    body = recorded_json(f"reply-{stem}.json")
    assert collect_sse(DIALECT, through(explode_sse(DIALECT, body))) == body


@pytest.mark.rule("F17")
def test_a_malformed_call_is_an_error_streamed_and_whole() -> None:
    streamed = collect_sse(DIALECT, through(recorded(f"stream-{MALFORMED}.sse")))
    whole = collect_sse(DIALECT, through(explode_sse(DIALECT, recorded_json(f"reply-{MALFORMED}.json"))))
    assert streamed == whole
    assert streamed["error"]


@pytest.mark.parametrize("stem", REPLIES)
def test_a_recorded_stream_collects_to_the_whole_reply(stem: str) -> None:
    assert collect_sse(DIALECT, recorded(f"stream-{stem}.sse")) == recorded_json(f"reply-{stem}.json")


@pytest.mark.parametrize("stem", ONE_ANSWER)
def test_a_stream_survives_the_way_to_a_client_of_its_own_dialect(stem: str) -> None:
    written = through(recorded(f"stream-{stem}.sse"))
    assert collect_sse(DIALECT, written) == recorded_json(f"reply-{stem}.json")
    assert DIALECT.check_stream(written) == []


@pytest.mark.parametrize("stem", ONE_ANSWER)
def test_a_stream_and_a_whole_reply_have_the_same_blocks_and_ending(stem: str) -> None:
    streamed = fold(read(recorded(f"stream-{stem}.sse")))
    whole = fold(read(explode_sse(DIALECT, recorded_json(f"reply-{stem}.json"))))
    assert streamed.blocks == whole.blocks
    assert streamed.ending == whole.ending


def test_the_first_of_several_answers_is_reported_and_the_others_are_a_loss() -> None:
    context = source()
    written = collect_sse(DIALECT, through(recorded("stream-two-candidates.sse")))
    fold(read(recorded("stream-two-candidates.sse"), context))
    assert [loss.reason for loss in context.losses] == ["only the first of several answers can be translated"]
    assert written["candidates"] == [dig(recorded_json("reply-two-candidates.json"), "candidates", 0)]


@pytest.mark.rule("H76")
def test_line_ends_of_windows_change_nothing() -> None:
    assert read(recorded("stream-text-crlf.sse")) == read(recorded("stream-text.sse"))


def test_a_json_array_is_read_like_an_event_stream() -> None:
    array = recorded("stream-text-array.json")
    expected = read(recorded("stream-text.sse"))
    assert read(array) == expected
    assert read([array[i : i + 1] for i in range(len(array))]) == expected


def test_a_whole_body_where_a_stream_was_expected_is_read_all_the_same() -> None:
    body = recorded_json("reply-tool-call.json")
    assert read(msgspec.json.encode(body)) == read(explode_sse(DIALECT, body))


def test_a_whole_body_larger_than_the_stray_limit_is_read_all_the_same() -> None:
    text = "a" * 100_000
    body = {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}]}
    assert blocks_of(msgspec.json.encode(body)) == (Text(text=text),)


def test_a_stream_that_failed_collects_to_the_error_body() -> None:
    assert collect_sse(DIALECT, recorded("stream-failed.sse")) == {
        "error": {"code": 503, "message": "The model is overloaded just now.", "status": "UNAVAILABLE"}
    }


def test_an_error_body_explodes_to_a_stream_that_fails() -> None:
    error: dict[str, object] = {"error": {"code": 500, "message": "No.", "status": "INTERNAL"}}
    assert collect_sse(DIALECT, through(explode_sse(DIALECT, error))) == error


def test_collecting_a_long_text_takes_time_in_proportion() -> None:
    stream = chunk({"text": "ab"}) * 20_000 + chunk(finishReason="STOP")
    body = collect_sse(DIALECT, stream)
    assert dig(body, "candidates", 0, "content", "parts") == [{"text": "ab" * 20_000}]


def test_collecting_skips_what_is_no_chunk() -> None:
    stream = (
        b"data: nonsense\n\n" + frame([1]) + frame({"candidates": [1, {"index": "x"}]}) + chunk({"text": "a"})
    )
    assert collect_sse(DIALECT, stream)["candidates"] == [
        {"content": {"parts": [{"text": "a"}], "role": "model"}, "index": 0}
    ]


def test_a_content_without_parts_is_reported_again() -> None:
    stream = frame(
        {
            "candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS", "index": 0}],
            "responseId": "r",
        }
    )
    assert collect_sse(DIALECT, through(stream)) == collect_sse(DIALECT, stream)


def test_probabilities_of_all_chunks_are_kept() -> None:
    def share(token: str) -> dict[str, object]:
        return {"chosenCandidates": [{"token": token}], "topCandidates": [{"candidates": []}]}

    stream = chunk({"text": "a"}, logprobsResult=share("a")) + chunk(
        {"text": "b"}, logprobsResult=share("b"), finishReason="STOP"
    )
    collected = collect_sse(DIALECT, stream)
    assert collect_sse(DIALECT, through(stream)) == collected
    assert dig(collected, "candidates", 0, "logprobsResult", "chosenCandidates") == [
        {"token": "a"},
        {"token": "b"},
    ]
