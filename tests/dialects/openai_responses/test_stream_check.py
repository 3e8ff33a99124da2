"""The stream check finds what strict clients reject."""

import msgspec
import pytest

from dragoman.dialects.interfaces import Json
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


def test_legal_streams_have_no_violations_with_or_without_the_done_marker() -> None:
    assert complaints(TEXT) == complaints(TEXT + b"data: [DONE]\n\n") == []
    assert complaints(stream_of(*payloads(TEXT))) == []


@pytest.mark.parametrize(
    ("stream", "complaint"),
    [
        (b"", "the stream ends without a terminal event"),
        (TEXT[: len(TEXT) // 2], "the stream ends without a terminal event"),
        (b"data: [DONE]\n\n" + TEXT, "[DONE] is not allowed in state NEW"),
        (TEXT + TEXT, "event is not allowed in state ENDED"),
        (TEXT.replace(b"event: response.created", b"event: response.made"), "the event name is not the type"),
        (TEXT.replace(b'"sequence_number":4,', b'"sequence_number":9,'), "expected sequence_number 4"),
        (TEXT + b"hello\n\n", "bytes that belong to no event"),
        (b"data: 5\n\n" + TEXT, "the payload is a number, not an object"),
        (b"data: {}\n\n" + TEXT, "an event of an unknown type"),
        (without(TEXT, "response.created"), "response.in_progress: event is not allowed in state NEW"),
        (without(TEXT, "response.output_item.added"), "the event is not about the open item"),
        (without(TEXT, "response.content_part.added"), "no open part takes this text"),
        (without(TEXT, "response.output_text.done"), "the text has no done event"),
        (without(TEXT, "response.content_part.done"), "a part of the item is open"),
        (without(TEXT, "response.output_item.done"), "an item is open"),
        (without(CALL, "response.function_call_arguments.done"), "the arguments have no done event"),
        (without(REASONING, "response.reasoning_summary_part.added"), "no open part takes this text"),
        (without(TEXT, "response.completed"), "the stream ends without a terminal event"),
        (
            with_changes(TEXT, "response.output_text.delta", item_id="msg_x"),
            "the event is not about the open item",
        ),
        (
            with_changes(TEXT, "response.output_text.delta", output_index=1),
            "the event is not about the open item",
        ),
        (with_changes(TEXT, "response.output_text.delta", content_index=1), "content_index is not 0"),
        (with_changes(TEXT, "response.output_text.delta", logprobs=...), "logprobs is missing"),
        (with_changes(TEXT, "response.output_text.delta", delta=5), "delta has a wrong value (a number)"),
        (with_changes(TEXT, "response.output_text.done", text="x"), "the text differs from the deltas"),
        (with_changes(TEXT, "response.output_item.added", output_index=1), "output_index is not 0"),
        (with_changes(CALL, "response.function_call_arguments.delta", delta="x"), "differs from the deltas"),
        (
            with_changes(TEXT, "response.output_text.delta", type="response.of_tomorrow"),
            "an event of an unknown type",
        ),
        (
            with_changes(TEXT, "response.in_progress", type="response.queued"),
            "response.status has a wrong value",
        ),
    ],
)
def test_each_violation_is_named(stream: bytes, complaint: str) -> None:
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
        ({"status": "failed"}, "response.status has a wrong value"),
        ({"output": []}, "the output differs from the items in the stream"),
        ({"store": ...}, "response.store is missing"),
        ({"usage": {"input_tokens": 1}}, "response.usage.output_tokens is missing"),
        ({"error": {"code": "x"}}, "response.error has a wrong value (an object)"),
        (
            {"incomplete_details": {"reason": "x"}},
            "response.incomplete_details has a wrong value (an object)",
        ),
    ],
)
def test_a_wrong_response_is_named(changes: Json, complaint: str) -> None:
    assert any(complaint in message for message in complaints(changed_response(**changes)))


def changed_items(stream: bytes, **changes: object) -> bytes:
    changed: list[Json] = []
    for payload in payloads(stream):
        item = payload.get("item")
        if isinstance(item, dict) and payload["type"] == "response.output_item.done":
            item = {name: value for name, value in {**item, **changes}.items() if value is not ...}
            payload = {**payload, "item": item}
        changed.append(payload)
    return stream_of(*changed)


@pytest.mark.parametrize(
    ("stream", "changes", "complaint"),
    [
        (TEXT, {"id": "msg_x"}, "the id of the item changed"),
        (TEXT, {"id": "x"}, "item.id has a wrong value"),
        (TEXT, {"status": "in_progress"}, "item.status has a wrong value"),
        (TEXT, {"role": ...}, "item.role is missing"),
        (TEXT, {"content": []}, "the item differs from its parts"),
        (CALL, {"arguments": "{}"}, "the arguments differ from the deltas"),
        (recorded("stream-parallel-calls.sse"), {"call_id": "same"}, "two items have the same id or call_id"),
    ],
)
def test_a_wrong_item_is_named(stream: bytes, changes: Json, complaint: str) -> None:
    assert any(complaint in message for message in complaints(changed_items(stream, **changes)))


def test_a_failed_stream_needs_an_error_and_completes_no_unfinished_item() -> None:
    failed = recorded("stream-failed.sse")
    assert complaints(failed) == []
    lying = failed.replace(b'"status":"incomplete"', b'"status":"completed"')
    assert any("an open item has the status completed" in message for message in complaints(lying))
    (last,) = [p for p in payloads(failed) if p["type"] == "response.failed"]
    silent = msgspec.json.decode(msgspec.json.encode(last["response"]))
    silent["error"] = None
    assert any(
        "response.error has a wrong value (null)" in message
        for message in complaints(with_changes(failed, "response.failed", response=silent))
    )


def test_the_frame_of_a_violation_is_counted_from_one() -> None:
    stream = TEXT.replace(b'"sequence_number":0,', b'"sequence_number":7,')
    assert DIALECT.check_stream(stream)[0].frame == 1
