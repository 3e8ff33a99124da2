"""The judge finds what strict readers would refuse."""

import msgspec
import pytest

from dragoman.dialects.base import Json
from dragoman.dialects.openai_responses import DIALECT
from tests.dialects.openai_responses.replies import payloads, recorded, stream_of

TEXT = recorded("stream-text.sse")
CALL = recorded("stream-tool-call.sse")
REASONING = recorded("stream-reasoning.sse")


def complaints(stream: bytes) -> list[str]:
    return [violation.message for violation in DIALECT.check_stream(stream)]


def with_changes(stream: bytes, kind: str, **changes: object) -> bytes:
    """The stream with members of every event of one type replaced; `...` removes one."""
    changed: list[Json] = []
    for payload in payloads(stream):
        if payload["type"] == kind:
            payload = {**payload, **changes}
        changed.append({name: value for name, value in payload.items() if value is not ...})
    return stream_of(*changed)


def without(stream: bytes, kind: str) -> bytes:
    return stream_of(*[payload for payload in payloads(stream) if payload["type"] != kind])


def test_legal_streams_have_no_complaints_with_or_without_the_closing_word() -> None:
    assert complaints(TEXT) == complaints(TEXT + b"data: [DONE]\n\n") == []
    assert complaints(stream_of(*payloads(TEXT))) == []


@pytest.mark.parametrize(
    ("stream", "complaint"),
    [
        (b"", "the stream ended without a terminal event"),
        (TEXT[: len(TEXT) // 2], "the stream ended without a terminal event"),
        (b"data: [DONE]\n\n" + TEXT, "[DONE] out of place"),
        (TEXT + TEXT, "an event after the terminal event"),
        (TEXT.replace(b"event: response.created", b"event: response.made"), "the event name is not the type"),
        (TEXT.replace(b'"sequence_number":4,', b'"sequence_number":9,'), "expected sequence_number 4"),
        (TEXT + b"hello\n\n", "a line that is not part of an event stream"),
        (b"data: 5\n\n" + TEXT, "the data is not a JSON object"),
        (b"data: {}\n\n" + TEXT, "an event without a type"),
        (without(TEXT, "response.created"), "before response.created"),
        (without(TEXT, "response.output_item.added"), "without an open item"),
        (without(TEXT, "response.content_part.added"), "without a part that takes it"),
        (without(TEXT, "response.output_text.done"), "the text was never told to be done"),
        (without(TEXT, "response.content_part.done"), "an item was done with an open part"),
        (without(TEXT, "response.output_item.done"), "an item is unfinished"),
        (without(CALL, "response.function_call_arguments.done"), "were never told to be done"),
        (without(REASONING, "response.reasoning_summary_part.added"), "without a part that takes it"),
        (without(TEXT, "response.completed"), "the stream ended without a terminal event"),
        (with_changes(TEXT, "response.output_text.delta", item_id="msg_x"), "is not about the open item"),
        (with_changes(TEXT, "response.output_text.delta", output_index=1), "is not about the open item"),
        (with_changes(TEXT, "response.output_text.delta", content_index=1), "for another part"),
        (with_changes(TEXT, "response.output_text.delta", logprobs=...), "logprobs is missing"),
        (with_changes(TEXT, "response.output_text.delta", delta=5), "delta has a wrong type"),
        (with_changes(TEXT, "response.output_text.done", text="x"), "the text is not what the deltas told"),
        (with_changes(TEXT, "response.output_item.added", output_index=1), "at another place than 0"),
        (with_changes(CALL, "response.function_call_arguments.delta", delta="x"), "is not what"),
        (with_changes(TEXT, "response.output_text.delta", type="response.of_tomorrow"), "is not an event"),
        (with_changes(TEXT, "response.in_progress", type="response.queued"), "status does not fit"),
    ],
)
def test_each_breach_is_named(stream: bytes, complaint: str) -> None:
    assert any(complaint in message for message in complaints(stream)), complaints(stream)


def changed_response(**changes: object) -> bytes:
    (last,) = [p for p in payloads(TEXT) if p["type"] == "response.completed"]
    response = last["response"]
    assert isinstance(response, dict)
    response = {name: value for name, value in {**response, **changes}.items() if value is not ...}
    return with_changes(TEXT, "response.completed", response=response)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"id": "resp_x"}, "the response's id changed"),
        ({"status": "failed"}, "the response's status does not fit"),
        ({"output": []}, "the output is not what was told"),
        ({"store": ...}, "response.store is missing"),
        ({"usage": {"input_tokens": 1}}, "response.usage.output_tokens is missing"),
        ({"error": {"code": "x"}}, "response.error is set"),
        ({"incomplete_details": {"reason": "x"}}, "response.incomplete_details is set"),
    ],
)
def test_a_wrong_response_is_named(changes: Json, complaint: str) -> None:
    assert any(complaint in message for message in complaints(changed_response(**changes)))


def changed_items(stream: bytes, **changes: object) -> bytes:
    told: list[Json] = []
    for payload in payloads(stream):
        item = payload.get("item")
        if isinstance(item, dict) and payload["type"] == "response.output_item.done":
            item = {name: value for name, value in {**item, **changes}.items() if value is not ...}
            payload = {**payload, "item": item}
        told.append(payload)
    return stream_of(*told)


@pytest.mark.parametrize(
    ("stream", "changes", "complaint"),
    [
        (TEXT, {"id": "msg_x"}, "the item's identity changed"),
        (TEXT, {"id": "x"}, "does not begin with msg_"),
        (TEXT, {"status": "in_progress"}, "the item's status does not fit"),
        (TEXT, {"role": ...}, "item.role is missing"),
        (TEXT, {"content": []}, "the item's content is not what was told"),
        (CALL, {"arguments": "{}"}, "the item's arguments is not what was told"),
        (recorded("stream-parallel-calls.sse"), {"call_id": "same"}, "two calls have the same id"),
    ],
)
def test_a_wrong_item_is_named(stream: bytes, changes: Json, complaint: str) -> None:
    assert any(complaint in message for message in complaints(changed_items(stream, **changes)))


def test_a_failed_stream_must_say_why_and_call_nothing_half_finished_completed() -> None:
    failed = recorded("stream-failed.sse")
    assert complaints(failed) == []
    lying = failed.replace(b'"status":"incomplete"', b'"status":"completed"')
    assert any("an unfinished item is called completed" in message for message in complaints(lying))
    (last,) = [p for p in payloads(failed) if p["type"] == "response.failed"]
    silent = msgspec.json.decode(msgspec.json.encode(last["response"]))
    silent["error"] = None
    assert any(
        "response.error has no code and message" in message
        for message in complaints(with_changes(failed, "response.failed", response=silent))
    )


def test_the_frame_with_the_breach_is_counted_from_one() -> None:
    stream = TEXT.replace(b'"sequence_number":0,', b'"sequence_number":7,')
    assert DIALECT.check_stream(stream)[0].frame == 1
