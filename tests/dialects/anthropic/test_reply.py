"""Whole replies and streams have the same content, also where a stream is odd or a reply incomplete."""

import pytest

from dragoman.dialects.anthropic import DIALECT
from dragoman.dialects.interfaces import Json
from dragoman.hub.events import ReplyFailed
from tests.dialects.anthropic.replies import (
    MESSAGE_STOP,
    block_delta,
    block_start,
    block_stop,
    message_delta,
    message_start,
    payloads,
    read,
    recorded_json,
    stream_of,
)
from tests.sse import collect_sse, explode_sse

CALL: Json = {"type": "tool_use", "id": "t", "name": "n", "input": {}}


def collected_input(*pieces: str) -> object:
    deltas = [block_delta(0, type="input_json_delta", partial_json=piece) for piece in pieces]
    events = [
        message_start(),
        block_start(0, **CALL),
        *deltas,
        block_stop(0),
        message_delta("tool_use"),
        MESSAGE_STOP,
    ]
    content = collect_sse(DIALECT, stream_of(*events))["content"]
    assert isinstance(content, list)
    return content[0]["input"]


@pytest.mark.rule("R111", "C15", "R80")
@pytest.mark.parametrize(
    ("pieces", "given"),
    [
        ([], {}),
        ([""], {}),
        (["", '{"a":', " 1}"], {"a": 1}),
        (['{"a": "cut'], {"incomplete_arguments": '{"a": "cut'}),
        (["[1]"], {"text": "[1]"}),
    ],
)
def test_pieces_of_arguments_are_collected_into_an_object(pieces: list[str], given: Json) -> None:
    assert collected_input(*pieces) == given


def test_usage_of_the_end_replaces_usage_of_the_start() -> None:
    start = message_start(usage={"input_tokens": 1, "output_tokens": 1, "service_tier": "standard"})
    end = message_delta(usage={"input_tokens": 9, "output_tokens": 5})
    assert collect_sse(DIALECT, stream_of(start, end, MESSAGE_STOP))["usage"] == {
        "input_tokens": 9,
        "output_tokens": 5,
        "service_tier": "standard",
    }


@pytest.mark.rule("H73")
def test_a_stream_that_breaks_off_is_collected_as_an_error() -> None:
    body = collect_sse(DIALECT, stream_of(message_start(), block_start(0, type="text", text="")))
    assert body["type"] == "error"


def test_a_stream_that_failed_is_collected_as_its_error() -> None:
    error: Json = {"type": "error", "error": {"type": "api_error", "message": "no"}}
    assert collect_sse(DIALECT, stream_of(message_start(), error, MESSAGE_STOP)) == error


def test_deltas_for_blocks_that_never_started_are_ignored() -> None:
    events = [message_start(), block_delta(0, type="text_delta", text="x"), message_delta(), MESSAGE_STOP]
    assert collect_sse(DIALECT, stream_of(*events))["content"] == []


def test_an_error_body_explodes_into_an_error_event() -> None:
    for body in ({"type": "error", "error": {"message": "no"}}, {"error": {"message": "no"}}):
        assert [payload["type"] for payload in payloads(explode_sse(DIALECT, dict(body)))] == ["error"]


def test_a_reply_with_nothing_in_it_explodes_into_a_stream_that_ends() -> None:
    events = read(explode_sse(DIALECT, {"content": [], "stop_reason": "end_turn"}))
    assert [type(event).__name__ for event in events] == ["ReplyStarted", "ReplyFinished"]


@pytest.mark.parametrize("body", [{}, {"content": None}, {"choices": []}, {"type": "message", "id": "m"}])
def test_what_has_no_content_is_no_reply(body: Json) -> None:
    (failed,) = read(explode_sse(DIALECT, dict(body)))
    assert isinstance(failed, ReplyFailed)


@pytest.mark.rule("R60")
def test_a_call_explodes_with_its_input_in_deltas_because_clients_ignore_it_in_the_start() -> None:
    written = payloads(explode_sse(DIALECT, recorded_json("reply-tool-call.json")))
    starts = [payload["content_block"] for payload in written if payload["type"] == "content_block_start"]
    assert isinstance(starts[1], dict)
    assert starts[1]["input"] == {}


def test_exploding_leaves_the_body_alone() -> None:
    body = recorded_json("reply-web-search.json")
    explode_sse(DIALECT, body)
    assert body == recorded_json("reply-web-search.json")
