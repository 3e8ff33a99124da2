"""What upstreams send in these tests, in each dialect: small streams, whole replies and errors."""

import msgspec

DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")

CHAT_HEAD = {
    "id": "chatcmpl-upstream1",
    "object": "chat.completion.chunk",
    "created": 5,
    "model": "model",
    "usage": None,
}


def data(value: object) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def event(value: dict[str, object]) -> bytes:
    return f"event: {value['type']}\n".encode() + data(value)


def chat_text(text: str) -> bytes:
    return data({**CHAT_HEAD, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})


CHAT_START = data(
    {
        **CHAT_HEAD,
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}],
    }
)
CHAT_FINISH = data({**CHAT_HEAD, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
CHAT_USAGE = data(
    {
        **CHAT_HEAD,
        "choices": [],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
    }
)
CHAT_DONE = b"data: [DONE]\n\n"

#: A whole small answer, one event a piece.
CHAT_STREAM = (CHAT_START, chat_text("good"), chat_text(" day"), CHAT_FINISH, CHAT_USAGE, CHAT_DONE)

CHAT_WHOLE = msgspec.json.encode(
    {
        "id": "chatcmpl-upstream1",
        "object": "chat.completion",
        "created": 5,
        "model": "model",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "good day"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
    }
)

ANTHROPIC_START = event(
    {
        "type": "message_start",
        "message": {
            "id": "msg_upstream1",
            "type": "message",
            "role": "assistant",
            "model": "model",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 12, "output_tokens": 0},
        },
    }
)
ANTHROPIC_OPEN = event(
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
)


def anthropic_text(text: str) -> bytes:
    return event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})


ANTHROPIC_END = (
    event({"type": "content_block_stop", "index": 0})
    + event(
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 3},
        }
    )
    + event({"type": "message_stop"})
)
ANTHROPIC_STREAM = (
    ANTHROPIC_START,
    ANTHROPIC_OPEN,
    anthropic_text("good"),
    anthropic_text(" day"),
    ANTHROPIC_END,
)
ANTHROPIC_OVERLOADED = event(
    {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
)


def gemini_text(text: str, finish: str = "") -> bytes:
    candidate: dict[str, object] = {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return data({"candidates": [candidate], "modelVersion": "model", "responseId": "r1"})


GEMINI_MALFORMED = data(
    {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "index": 0}], "modelVersion": "model"}
)
#: The same with a signature, which is no content.
GEMINI_SIGNED_MALFORMED = data(
    {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"thoughtSignature": "c2ln"}]},
                "finishReason": "MALFORMED_FUNCTION_CALL",
                "index": 0,
            }
        ],
        "modelVersion": "model",
    }
)
GEMINI_STREAM = (gemini_text("good"), gemini_text(" day", "STOP"))

RESPONSES_CREATED = event(
    {
        "type": "response.created",
        "sequence_number": 0,
        "response": {"id": "resp_upstream1", "object": "response", "status": "in_progress", "output": []},
    }
)
RESPONSES_FAILED = event(
    {
        "type": "response.failed",
        "sequence_number": 1,
        "response": {
            "id": "resp_upstream1",
            "object": "response",
            "status": "failed",
            "output": [],
            "error": {"code": "server_is_overloaded", "message": "busy"},
        },
    }
)


def error(message: str, kind: str = "server_error", code: str | None = None) -> bytes:
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": None, "code": code}})
