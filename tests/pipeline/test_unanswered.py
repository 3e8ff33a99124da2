"""Replies that end without an answer are failures to be retried: in every direction, streamed and whole."""

import msgspec
import pytest

from dragoman import StreamTranslator, translate_reply
from dragoman.dialects.interfaces import UpstreamContext
from dragoman.dialects.registry import dialect_named
from dragoman.hub.errors import UpstreamFailed
from dragoman.hub.events import ReplyFailed
from dragoman.hub.fold import Reply, fold
from dragoman.routing.retry import find_retry_action
from tests.pipeline.findings import MESSAGE
from tests.pipeline.recordings import DIALECTS
from tests.sse import collect_sse

Json = dict[str, object]

CHAT_HEAD: Json = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def frame(payload: Json) -> bytes:
    name = payload.get("type")
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + msgspec.json.encode(payload) + b"\n\n"


def chat(*deltas: Json, reason: str | None = None, **choice: object) -> bytes:
    chunks = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    last: list[Json] = [{"index": 0, "delta": {}, "finish_reason": reason, **choice}] if reason else []
    frames = [frame({**CHAT_HEAD, "choices": [each]}) for each in [*chunks, *last]]
    return b"".join(frames) + b"data: [DONE]\n\n"


def chat_body(message: Json, **choice: object) -> Json:
    return {"id": "c1", "object": "chat.completion", "choices": [{"index": 0, "message": message, **choice}]}


def gemini_body(*parts: Json, reason: str = "", **candidate: object) -> Json:
    content: Json = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    finish: Json = {"finishReason": reason} if reason else {}
    return {"candidates": [{**content, **finish, "index": 0, **candidate}], "modelVersion": "m"}


ROLE: Json = {"role": "assistant", "content": ""}
ANTHROPIC_START = frame({"type": "message_start", "message": MESSAGE})
ANTHROPIC_STOP = frame({"type": "message_stop"})
EMPTY_TEXT = frame(
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
) + frame({"type": "content_block_stop", "index": 0})
CREATED = frame({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}})

#: Streams without content and without a finish reason, by the upstream's dialect.
UNFINISHED: dict[str, tuple[str, bytes]] = {
    "chat: a role": ("openai_chat", chat(ROLE)),
    "chat: no choice": ("openai_chat", frame({**CHAT_HEAD, "choices": []}) + b"data: [DONE]\n\n"),
    "chat: reasoning": ("openai_chat", chat(ROLE, {"reasoning_content": "Hm."})),
    "chat: a call without a name": (
        "openai_chat",
        chat(ROLE, {"tool_calls": [{"index": 0, "id": "call_1", "function": {"arguments": "{}"}}]}),
    ),
    "anthropic: a start": ("anthropic", ANTHROPIC_START + ANTHROPIC_STOP),
    "anthropic: an empty text": ("anthropic", ANTHROPIC_START + EMPTY_TEXT + ANTHROPIC_STOP),
    "responses: created": ("openai_responses", CREATED),
    "gemini: a role": ("gemini", frame({"candidates": [{"content": {"role": "model"}, "index": 0}]})),
}

#: The same as whole replies.
UNFINISHED_BODIES: dict[str, tuple[str, Json]] = {
    "chat": ("openai_chat", chat_body({"role": "assistant", "content": None})),
    "chat: empty content": (
        "openai_chat",
        chat_body({"role": "assistant", "content": ""}, finish_reason=None),
    ),
    "anthropic": ("anthropic", MESSAGE),
    "responses": ("openai_responses", {"id": "resp_1", "object": "response", "output": []}),
    "gemini": ("gemini", {"candidates": [{"content": {"role": "model"}, "index": 0}]}),
}

#: Finish reasons that report a call which the model did not manage to make.
MALFORMED = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE")
#: Finish reasons that explain nothing: they are failures if there is no content.
UNEXPLAINED = ("OTHER", "LANGUAGE", "NO_IMAGE", "IMAGE_OTHER", "A_NEW_ONE")

TEXT: Json = {"text": "I list the files."}
THOUGHT: Json = {"text": "Hm.", "thought": True}
CALL: Json = {"functionCall": {"name": "ls", "args": {}}}
HALF_CALL: Json = {"functionCall": {"name": "ls", "willContinue": True, "partialArgs": []}}

#: Whole replies of Gemini that hold no answer.
GEMINI_FAILURES: dict[str, Json] = {
    **{reason: gemini_body(reason=reason) for reason in (*MALFORMED, *UNEXPLAINED)},
    **{f"{reason} after thoughts": gemini_body(THOUGHT, reason=reason) for reason in (MALFORMED[0], "OTHER")},
    "text and a malformed call": gemini_body(TEXT, reason="MALFORMED_FUNCTION_CALL"),
    "half a call": gemini_body(HALF_CALL, reason="MALFORMED_FUNCTION_CALL"),
}

#: What servers of the other dialects send for the same.
OTHER_FAILURES: dict[str, tuple[str, bytes]] = {
    "google's compatible endpoint": (
        "openai_chat",
        chat(ROLE, reason="function_call_filter: MALFORMED_FUNCTION_CALL"),
    ),
    "passed on in lower case": (
        "openai_chat",
        chat(ROLE, {"content": "I list"}, reason="malformed_function_call"),
    ),
    "openrouter": ("openai_chat", chat(ROLE, reason="stop", native_finish_reason="MALFORMED_FUNCTION_CALL")),
    "half a call": (
        "openai_chat",
        chat(
            ROLE,
            {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "ls", "arguments": '{"a'}}]},
            reason="malformed_function_call",
        ),
    ),
    "an unknown reason": ("openai_chat", chat(ROLE, reason="other")),
    "a reason that names calls, and none": ("openai_chat", chat(ROLE, reason="tool_calls")),
    "a stop reason that names calls, and none": (
        "anthropic",
        ANTHROPIC_START
        + frame(
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 0}}
        )
        + ANTHROPIC_STOP,
    ),
    "incomplete without a reason": (
        "openai_responses",
        frame({"type": "response.incomplete", "response": {"id": "r", "status": "incomplete", "output": []}}),
    ),
    "an unknown stop reason": (
        "anthropic",
        ANTHROPIC_START
        + frame({"type": "message_delta", "delta": {"stop_reason": "other"}, "usage": {"output_tokens": 0}})
        + ANTHROPIC_STOP,
    ),
}


def read_reply(dialect: str, stream: bytes) -> Reply:
    reader = dialect_named(dialect).stream_reader(UpstreamContext(issuer=dialect))
    return fold([*reader.feed(stream), *reader.close()])


def assert_failed(source: str, client: str, stream: bytes) -> None:
    """The client's stream is legal and ends with an error that the gateway and clients retry."""
    translator = StreamTranslator(source=source, target=client)
    written = translator.feed(stream) + translator.close()
    failure = translator.failure
    assert failure is not None
    assert find_retry_action(failure) == "retry"
    assert dialect_named(client).check_stream(written) == []
    body = collect_sse(dialect_named(client), written)
    assert body.get("error")


def assert_body_failed(source: str, client: str, body: Json) -> None:
    if client == "openai_responses":
        whole = translate_reply(body, source=source, target=client).body
        assert whole["status"] == "failed"
    else:
        with pytest.raises(UpstreamFailed) as failed:
            translate_reply(body, source=source, target=client)
        assert find_retry_action(failed.value.failure) == "retry"


@pytest.mark.rule("F1")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("name", UNFINISHED)
def test_a_stream_without_content_and_finish_reason_is_a_failure(name: str, client: str) -> None:
    source, stream = UNFINISHED[name]
    assert_failed(source, client, stream)


@pytest.mark.rule("F1")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("name", UNFINISHED_BODIES)
def test_a_whole_reply_without_content_and_finish_reason_is_a_failure(name: str, client: str) -> None:
    source, body = UNFINISHED_BODIES[name]
    assert_body_failed(source, client, body)


@pytest.mark.rule("F1")
def test_content_without_a_finish_reason_is_an_answer() -> None:
    streamed = read_reply("openai_chat", chat(ROLE, {"content": "Hi."}))
    assert not isinstance(streamed.ending, ReplyFailed)
    body = chat_body({"role": "assistant", "content": "Hi."})
    whole = translate_reply(body, source="openai_chat", target="anthropic").body
    assert whole["stop_reason"] == "end_turn"


@pytest.mark.rule("F17")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("name", GEMINI_FAILURES)
def test_a_reply_of_gemini_without_an_answer_is_a_failure(name: str, client: str) -> None:
    body = GEMINI_FAILURES[name]
    assert_failed("gemini", client, frame(body))
    assert_body_failed("gemini", client, body)


@pytest.mark.rule("F17")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("name", OTHER_FAILURES)
def test_the_same_failure_of_another_server_is_one_too(name: str, client: str) -> None:
    source, stream = OTHER_FAILURES[name]
    assert_failed(source, client, stream)


@pytest.mark.rule("F17")
def test_the_text_before_a_malformed_call_stays_open() -> None:
    # Claude Code keeps a closed block as complete, and repeats the request for an open one.
    body = gemini_body(TEXT, reason="MALFORMED_FUNCTION_CALL")
    translator = StreamTranslator(source="gemini", target="anthropic")
    written = translator.feed(frame(body)) + translator.close()
    assert b"content_block_stop" not in written
    assert b'"overloaded_error"' in written


@pytest.mark.rule("F17")
@pytest.mark.parametrize("reason", MALFORMED)
def test_a_whole_call_before_a_malformed_one_lets_the_agent_continue(reason: str) -> None:
    body = gemini_body(TEXT, CALL, reason=reason)
    whole = translate_reply(body, source="gemini", target="openai_chat").body
    assert msgspec.json.encode(whole).count(b'"finish_reason":"tool_calls"') == 1


@pytest.mark.rule("F17")
@pytest.mark.parametrize("reason", UNEXPLAINED)
def test_an_answer_with_an_unusual_reason_stays_an_answer(reason: str) -> None:
    ending = read_reply("gemini", frame(gemini_body(TEXT, reason=reason))).ending
    assert not isinstance(ending, ReplyFailed)


@pytest.mark.rule("F17")
@pytest.mark.parametrize("reason", ["max_messages", "steered"])
def test_a_response_that_was_stopped_on_purpose_may_be_empty(reason: str) -> None:
    response: Json = {
        "id": "r",
        "status": "incomplete",
        "output": [],
        "incomplete_details": {"reason": reason},
    }
    ending = read_reply(
        "openai_responses", frame({"type": "response.incomplete", "response": response})
    ).ending
    assert not isinstance(ending, ReplyFailed)
