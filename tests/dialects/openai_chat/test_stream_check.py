"""The judge of Chat streams refuses what a strict client refuses."""

import pytest

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_chat.stream_check import check_stream
from tests.dialects.openai_chat.replies import DONE, frame

HEAD: Json = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def chunk(delta: object, reason: object = None, *, index: object = 0, **fields: object) -> bytes:
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
    return frame({**HEAD, "choices": [choice], **fields})


def fragment(index: object = 0, **fields: object) -> Json:
    return {"index": index, **fields}


ROLE = chunk({"role": "assistant", "content": ""})
CALL = fragment(id="a", type="function", function={"name": "Read", "arguments": ""})
STOP = chunk({}, "stop")
CALLS = chunk({}, "tool_calls")
COUNTS = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


def first_complaint(*frames: bytes) -> str:
    found = check_stream(b"".join(frames))
    assert found
    return found[0].message


def test_a_plain_answer_is_legal() -> None:
    assert check_stream(ROLE + chunk({"content": "Hi."}) + STOP + DONE) == []


def test_comments_are_legal() -> None:
    assert check_stream(b": keep-alive\n\n" + ROLE + b": keep-alive\n\n" + STOP + DONE) == []


def test_an_error_may_end_a_stream_at_any_point() -> None:
    error = frame({"error": {"message": "x", "type": "server_error", "param": None, "code": None}})
    assert check_stream(error) == []
    assert check_stream(ROLE + error) == []
    assert first_complaint(ROLE, error, DONE) == "[DONE] is not allowed in state DONE"


def test_a_usage_chunk_needs_null_usage_before_it() -> None:
    usage = frame({**HEAD, "choices": [], "usage": COUNTS})
    with_null = [
        chunk({"role": "assistant", "content": ""}, usage=None),
        chunk({}, "stop", usage=None),
    ]
    assert check_stream(b"".join((*with_null, usage, DONE))) == []
    assert first_complaint(ROLE, STOP, usage, DONE).startswith("a usage chunk, but")


@pytest.mark.parametrize(
    ("frames", "complaint"),
    [
        ([ROLE, STOP], "the stream ends without [DONE] and without an error"),
        ([ROLE, DONE], "[DONE] is not allowed in state OPEN"),
        ([ROLE, STOP, DONE, DONE], "[DONE] is not allowed in state DONE"),
        ([b"event: message\n" + ROLE, STOP, DONE], "a frame is not one line"),
        ([ROLE.replace(b"data: ", b"data:"), STOP, DONE], "a frame is not one line"),
        ([ROLE, b"data: {\n\n", STOP, DONE], "the payload is not JSON"),
        ([ROLE, b"data: 5\n\n", STOP, DONE], "the payload is a number, not an object"),
        ([chunk({"content": "Hi."}), STOP, DONE], "the first chunk of a choice has no role"),
        ([ROLE, ROLE, STOP, DONE], "a later chunk of a choice repeats the role"),
        ([ROLE, STOP, chunk({"content": "x"}), DONE], "a choice continues after its finish reason"),
        ([ROLE, chunk({}, "eos"), DONE], "finish_reason has a value that is not allowed"),
        ([ROLE, chunk({"content": "x"}, "stop"), DONE], "the finish chunk has a delta"),
        ([ROLE, CALLS, DONE], "finish_reason tool_calls without calls"),
        ([ROLE, chunk({"tool_calls": [CALL]}), STOP, DONE], "finish_reason stop with calls"),
        ([ROLE, chunk({"content": 5}), STOP, DONE], "content is not a string"),
        ([ROLE, chunk({"score": 5}), chunk({"score": 5}), STOP, DONE], "score comes again"),
        ([ROLE, chunk(None), STOP, DONE], "delta is not an object"),
        ([ROLE, chunk({}, index=2), STOP, DONE], "a choice's index is missing or leaves a gap"),
        ([ROLE, frame({**HEAD, "choices": []}), STOP, DONE], "a chunk without choices and without usage"),
        ([ROLE, frame({**HEAD, "choices": None}), STOP, DONE], "choices has a wrong value (null)"),
        ([ROLE, frame({**HEAD, "id": "other", "choices": []})], "id has changed"),
        ([ROLE, chunk({}, "stop", usage=COUNTS), DONE], "usage in a chunk with choices"),
        ([ROLE, STOP.rstrip()], "a frame is not one line"),
    ],
)
def test_what_is_refused(frames: list[bytes], complaint: str) -> None:
    assert first_complaint(*frames).startswith(complaint)


@pytest.mark.rule("R48")
@pytest.mark.parametrize(
    ("later", "complaint"),
    [
        (fragment(0, id="a", function={"arguments": "{}"}), "tool_calls[0] repeats id, type or name"),
        (fragment(0, function={"name": "Read", "arguments": "{}"}), "tool_calls[0] repeats id, type or name"),
        (fragment(0), "tool_calls[0].function is missing"),
        (fragment(2, function={"arguments": "{}"}), "a call's index is missing or leaves a gap"),
        ({"function": {"arguments": "{}"}}, "a call's index is missing or leaves a gap"),
        (
            fragment(1, type="function", function={"name": "b", "arguments": ""}),
            "tool_calls[1].id is missing",
        ),
        (
            fragment(1, id="b", function={"name": "b", "arguments": ""}),
            "tool_calls[1].type is not allowed",
        ),
        (
            fragment(1, id="b", type="function", function={"arguments": ""}),
            "tool_calls[1].function.name is missing",
        ),
    ],
)
def test_fragments_that_break_the_identity_of_calls_are_refused(later: Json, complaint: str) -> None:
    frames = [ROLE, chunk({"tool_calls": [CALL]}), chunk({"tool_calls": [later]}), CALLS, DONE]
    assert first_complaint(*frames) == complaint


def test_lists_of_unknown_fields_must_be_indexed_or_come_once() -> None:
    plain = chunk({"annotations": [{"type": "x"}]})
    assert check_stream(ROLE + plain + STOP + DONE) == []
    assert first_complaint(ROLE, plain, plain, STOP, DONE) == "annotations comes again without indexes"
    gap = chunk({"reasoning_details": [{"index": 1}]})
    assert (
        first_complaint(ROLE, gap, STOP, DONE) == "an index of reasoning_details is missing or leaves a gap"
    )


def test_usage_must_add_up() -> None:
    start = [chunk({"role": "assistant"}, usage=None), chunk({}, "stop", usage=None)]
    usage = frame({**HEAD, "choices": [], "usage": {**COUNTS, "total_tokens": 9}})
    assert first_complaint(*start, usage, DONE) == "usage.total_tokens is not the sum"
    short = frame({**HEAD, "choices": [], "usage": {"prompt_tokens": 1}})
    assert first_complaint(*start, short, DONE) == "usage.completion_tokens is missing"


def test_the_number_of_the_frame_is_reported() -> None:
    assert check_stream(ROLE + chunk({"content": 5}) + STOP + DONE)[0].frame == 2
