"""A reply as Anthropic's Messages API gives it: whole, and as events."""

from collections.abc import Iterator

from tests.e2e.upstream.reply_writers.pieces import OUTPUT_TOKENS, REASONING_TOKENS, Json, Reply, as_json, cut


def whole(reply: Reply) -> Json:
    stop = "max_tokens" if reply.stop == "length" else "tool_use" if reply.calls else "end_turn"
    return {
        "id": reply.identity("msg_01"),
        "type": "message",
        "role": "assistant",
        "model": reply.request["model"],
        "content": list(_blocks(reply)),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": reply.input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 30,
            "output_tokens": OUTPUT_TOKENS,
            "output_tokens_details": {"thinking_tokens": REASONING_TOKENS if reply.reasoning else 0},
            "service_tier": "standard",
        },
    }


def _blocks(reply: Reply) -> Iterator[Json]:
    thinks = (reply.request.get("thinking") or {}).get("type", "disabled") != "disabled"
    if thinks and reply.reasoning:
        signature = reply.vault.seal("anthropic", "thinking", reply.reasoning, reply.number)
        yield {"type": "thinking", "thinking": reply.reasoning, "signature": signature}
    elif thinks and reply.calls:
        data = reply.vault.seal("anthropic", "redacted", "", reply.number)
        yield {"type": "redacted_thinking", "data": data}
    if reply.text:
        yield {"type": "text", "text": reply.text}
    for position, call in enumerate(reply.calls):
        identity = reply.identity("toolu_01", position, 22)
        yield {"type": "tool_use", "id": identity, "name": call.name, "input": call.arguments}


def frames(body: Json, request: Json) -> Iterator[Json]:
    del request
    start = body | {"content": [], "stop_reason": None, "usage": body["usage"] | {"output_tokens": 1}}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(body["content"]):
        opening, deltas = _OPENINGS[block["type"]](block)
        yield {"type": "content_block_start", "index": index, "content_block": opening}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": body["usage"]}
    yield {"type": "message_stop"}


def _text(block: Json) -> tuple[Json, list[Json]]:
    return {"type": "text", "text": ""}, [
        {"type": "text_delta", "text": piece} for piece in cut(block["text"])
    ]


def _thinking(block: Json) -> tuple[Json, list[Json]]:
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in cut(block["thinking"])]
    signature = {"type": "signature_delta", "signature": block["signature"]}
    return {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature]


def _redacted(block: Json) -> tuple[Json, list[Json]]:
    return block, []


def _call(block: Json) -> tuple[Json, list[Json]]:
    pieces = ["", *cut(as_json(block["input"]))]
    return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


_OPENINGS = {"text": _text, "thinking": _thinking, "redacted_thinking": _redacted, "tool_use": _call}


def error(status: int, message: str) -> Json:
    kinds = {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        529: "overloaded_error",
    }
    kind = kinds.get(status, "overloaded_error" if status == 503 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011"}


_DELTAS = {"text_delta": "text", "thinking_delta": "reasoning", "input_json_delta": "call"}


def kind(frame: Json) -> str:
    """Which part of a reply a frame belongs to."""
    match frame["type"]:
        case "message_start":
            return "open"
        case "content_block_delta":
            is_empty = frame["delta"].get("partial_json") == ""
            return "" if is_empty else _DELTAS.get(frame["delta"]["type"], "")
        case "message_delta" | "message_stop":
            return "end"
    return ""


def broken(message: str, played: list[Json]) -> list[Json]:
    """An error inside the stream."""
    del played
    return [{"type": "error", "error": {"type": "overloaded_error", "message": message}}]
