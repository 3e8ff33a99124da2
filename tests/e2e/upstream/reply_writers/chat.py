"""A reply as a Chat Completions server gives it, with reasoning the way DeepSeek's servers send it."""

from collections.abc import Iterator
from itertools import zip_longest

from tests.e2e.upstream.reply_writers.pieces import OUTPUT_TOKENS, REASONING_TOKENS, Json, Reply, as_json, cut

CREATED = 1794700000


def whole(reply: Reply) -> Json:
    message: Json = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": reply.identity("call_", position),
                "type": "function",
                "function": {"name": call.name, "arguments": as_json(call.arguments)},
            }
            for position, call in enumerate(reply.calls)
        ]
    stop = "length" if reply.stop == "length" else "tool_calls" if reply.calls else "stop"
    reasoning = REASONING_TOKENS if reply.reasoning else 0
    return {
        "id": reply.identity("chatcmpl-"),
        "object": "chat.completion",
        "created": CREATED,
        "model": reply.request["model"],
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": stop}],
        "usage": {
            "prompt_tokens": reply.input_tokens,
            "completion_tokens": OUTPUT_TOKENS,
            "total_tokens": reply.input_tokens + OUTPUT_TOKENS,
            "prompt_tokens_details": {"cached_tokens": 30},
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        },
    }


def frames(body: Json, request: Json) -> Iterator[Json]:
    head = {name: body[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    shows_usage = bool((request.get("stream_options") or {}).get("include_usage"))
    choice = body["choices"][0]
    message = choice["message"]
    if shows_usage:
        head["usage"] = None

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return head | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in cut(message.get("reasoning_content") or ""):
        yield chunk({"reasoning_content": piece})
    for piece in cut(message["content"] or ""):
        yield chunk({"content": piece})
    for index, call in enumerate(message.get("tool_calls", [])):
        for entry in _call(index, call):
            yield chunk({"tool_calls": [entry]})
    yield chunk({}, choice["finish_reason"])
    if shows_usage:
        yield head | {"choices": [], "usage": body["usage"]}


def _call(index: int, call: Json) -> Iterator[Json]:
    function = call["function"]
    yield {"index": index} | call | {"function": function | {"arguments": ""}}
    for piece in cut(function["arguments"]):
        yield {"index": index, "function": {"arguments": piece}}


def interleaved(frames: list[Json]) -> list[Json]:
    """The same stream from a server that sends the pieces of parallel calls in turns."""
    calls: dict[int, list[Json]] = {}
    for frame in frames:
        for choice in frame["choices"]:
            for entry in choice["delta"].get("tool_calls", []):
                calls.setdefault(entry["index"], []).append(frame)
    mixed = [frame for group in zip_longest(*calls.values()) for frame in group if frame is not None]
    if not mixed:
        return frames
    first = frames.index(mixed[0])
    return [*frames[:first], *mixed, *frames[first + len(mixed) :]]


def error(status: int, message: str) -> Json:
    kinds = {429: "rate_limit_error", 403: "permission_error"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
    codes = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
    return {"error": {"message": message, "type": kind, "param": None, "code": codes.get(status)}}


def kind(frame: Json) -> str:
    """Which part of a reply a frame belongs to."""
    if not frame["choices"] or frame["choices"][0]["finish_reason"]:
        return "end"
    delta = frame["choices"][0]["delta"]
    if "role" in delta:
        return "open"
    if "tool_calls" in delta:
        return "call" if delta["tool_calls"][0]["function"]["arguments"] else ""
    return "reasoning" if "reasoning_content" in delta else "text"


def broken(message: str, played: list[Json]) -> list[Json]:
    """An error inside the stream."""
    del played
    return [error(503, message)]
