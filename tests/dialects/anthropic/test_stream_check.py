"""The judge finds what a strict reader would refuse, and nothing else."""

import pytest

from dragoman.dialects.anthropic import DIALECT
from dragoman.dialects.interfaces import Json
from tests.dialects.anthropic.replies import (
    MESSAGE_STOP,
    block_delta,
    block_start,
    block_stop,
    message_delta,
    message_start,
    recorded,
    stream_of,
)

TEXT = block_start(0, type="text", text="")
HELLO = block_delta(0, type="text_delta", text="Hello")
THINKING = block_start(0, type="thinking", thinking="", signature="")
SIGNATURE = block_delta(0, type="signature_delta", signature="sig")
CALL = block_start(0, type="tool_use", id="t", name="n", input={})
ERROR: Json = {"type": "error", "error": {"type": "api_error", "message": "no"}}
PING: Json = {"type": "ping"}


def arguments(text: str) -> Json:
    return block_delta(0, type="input_json_delta", partial_json=text)


def whole(*events: Json, reason: str = "end_turn") -> list[Json]:
    return [message_start(), *events, message_delta(reason), MESSAGE_STOP]


LEGAL: dict[str, list[Json]] = {
    "nothing said": whole(),
    "a text": whole(TEXT, HELLO, block_stop(0)),
    "pings anywhere": whole(PING, TEXT, PING, HELLO, block_stop(0), PING),
    "a signed thought": whole(THINKING, SIGNATURE, block_stop(0)),
    "a call without arguments": whole(CALL, arguments(""), block_stop(0), reason="tool_use"),
    "a call cut by the token cap": whole(CALL, arguments('{"a'), block_stop(0), reason="max_tokens"),
    "an error at once": [ERROR],
    "an error between blocks": [message_start(), TEXT, HELLO, block_stop(0), ERROR],
}


@pytest.mark.parametrize("name", LEGAL)
def test_legal_streams_pass(name: str) -> None:
    assert DIALECT.check_stream(stream_of(*LEGAL[name])) == []


ILLEGAL: dict[str, tuple[list[Json], str]] = {
    "no start": ([TEXT], "content_block_start is not allowed in state NEW"),
    "two starts": ([message_start(), *whole()], "message_start is not allowed in state BODY"),
    "no end": ([message_start(), TEXT, HELLO, block_stop(0), message_delta()], "ends before message_stop"),
    "no reason": ([message_start(), MESSAGE_STOP], "message_stop is not allowed in state BODY"),
    "two reasons": (
        [message_start(), message_delta(), *whole()[1:]],
        "message_delta is not allowed in state ENDING",
    ),
    "something after the end": ([*whole(), PING], "ping is not allowed in state DONE"),
    "something after an error": (
        [message_start(), ERROR, MESSAGE_STOP],
        "message_stop is not allowed in state DONE",
    ),
    "a nested block": (whole(TEXT, TEXT), "content_block_start is not allowed in state BLOCK"),
    "a gap": (whole(block_start(1, type="text", text="")), "content_block_start.index is not 0"),
    "a delta elsewhere": (
        whole(TEXT, block_delta(1, type="text_delta", text="x"), block_stop(0)),
        "index is not 0",
    ),
    "a stop elsewhere": (whole(TEXT, HELLO, block_stop(1)), "content_block_stop.index is not 0"),
    "a wrong delta": (whole(THINKING, HELLO, SIGNATURE, block_stop(0)), "does not fit a thinking block"),
    "an unknown delta": (whole(TEXT, block_delta(0, type="odd"), block_stop(0)), "does not fit a text block"),
    "an unknown event": (whole({"type": "odd"}), "an event of an unknown type"),
    "an unknown block": (whole(block_start(0, type="odd"), block_stop(0)), "a block of an unknown type"),
    "an empty delta": (
        whole(TEXT, block_delta(0, type="text_delta", text=""), block_stop(0)),
        "an empty text_delta",
    ),
    "no signature": (whole(THINKING, block_stop(0)), "without a signature"),
    "an empty signature": (
        whole(THINKING, block_delta(0, type="signature_delta", signature=""), block_stop(0)),
        "an empty signature_delta",
    ),
    "thought after the signature": (
        whole(THINKING, SIGNATURE, block_delta(0, type="thinking_delta", thinking="x"), block_stop(0)),
        "after the signature",
    ),
    "arguments that are no JSON": (
        whole(CALL, arguments("ls"), block_stop(0)),
        "cannot become a JSON object",
    ),
    "arguments that are no object": (whole(CALL, arguments("[1]"), block_stop(0)), "not a JSON object"),
    "half arguments": (
        whole(CALL, arguments('{"a'), block_stop(0), reason="tool_use"),
        "arguments are broken",
    ),
    "empty arguments later": (
        whole(CALL, arguments(""), arguments("{}"), arguments(""), block_stop(0), reason="tool_use"),
        "an empty piece of arguments",
    ),
    "input with the start": (
        whole(
            block_start(0, type="tool_use", id="t", name="n", input={"a": 1}),
            block_stop(0),
            reason="tool_use",
        ),
        "content_block.input",
    ),
    "a call without a name": (
        whole(block_start(0, type="tool_use", id="t", input={}), block_stop(0), reason="tool_use"),
        "content_block.name is missing",
    ),
    "tool use without a call": (whole(reason="tool_use"), "tool_use without a tool_use block"),
    "a call in an answer": (whole(CALL, block_stop(0)), "end_turn with a tool_use block"),
    "a reason of a wrong type": (
        [
            message_start(),
            {**message_delta(), "delta": {"stop_reason": [], "stop_sequence": None}},
            MESSAGE_STOP,
        ],
        "delta.stop_reason has a wrong value",
    ),
    "an error of a wrong type": ([{"type": "error", "error": {"type": {}, "message": "x"}}], "error.type"),
    "an unknown reason": (whole(reason="odd"), "delta.stop_reason has a wrong value"),
    "no usage at the start": (
        [message_start(usage={}), *whole()[1:]],
        "message.usage.input_tokens is missing",
    ),
    "negative usage": (
        [message_start(usage={"input_tokens": -1, "output_tokens": 0}), *whole()[1:]],
        "message.usage.input_tokens has a wrong value (a number)",
    ),
    "no usage at the end": (
        [message_start(), message_delta(usage={}), MESSAGE_STOP],
        "output_tokens is missing",
    ),
    "no role": ([message_start(role="user"), *whole()[1:]], "message.role"),
    "an unknown error": ([{"type": "error", "error": {"type": "odd", "message": "x"}}], "error.type"),
    "a sequence that was no reason": (
        [
            message_start(),
            {**message_delta(), "delta": {"stop_reason": "end_turn", "stop_sequence": "x"}},
            MESSAGE_STOP,
        ],
        "end_turn with a stop_sequence",
    ),
}


@pytest.mark.parametrize("name", ILLEGAL)
@pytest.mark.rule("P2", "P9", "P11", "P12")
def test_illegal_streams_are_caught(name: str) -> None:
    events, complaint = ILLEGAL[name]
    found = DIALECT.check_stream(stream_of(*events))
    assert [violation for violation in found if complaint in violation.message], found


@pytest.mark.rule("H78", "R44")
def test_an_event_without_its_name_is_refused() -> None:
    stream = stream_of(*whole()).replace(b"event: message_stop\n", b"")
    assert [violation.frame for violation in DIALECT.check_stream(stream)] == [3]


def test_a_payload_that_is_no_json_is_refused() -> None:
    assert DIALECT.check_stream(b"event: ping\ndata: {oops\n\n" + stream_of(*whole()))[0].frame == 1


def test_a_payload_that_is_no_object_is_refused() -> None:
    (violation,) = DIALECT.check_stream(b"event: ping\ndata: [1]\n\n" + stream_of(*whole()))
    assert violation.message == "the payload is an array, not an object"


def test_bytes_that_are_no_event_are_refused() -> None:
    assert DIALECT.check_stream(stream_of(*whole()) + b"<html>\n\n") != []


@pytest.mark.rule("H77")
def test_a_closing_word_of_another_dialect_is_refused() -> None:
    assert DIALECT.check_stream(stream_of(*whole()) + b"data: [DONE]\n\n") != []


def test_a_recorded_stream_that_was_cut_is_refused() -> None:
    assert len(DIALECT.check_stream(recorded("stream-cut.sse"))) == 1
