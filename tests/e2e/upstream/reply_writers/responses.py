"""A reply as OpenAI's Responses API gives it: whole, and as events."""

from collections.abc import Iterator

from tests.e2e.upstream.reply_writers.pieces import OUTPUT_TOKENS, REASONING_TOKENS, Json, Reply, as_json, cut
from tests.e2e.upstream.script import Call

CREATED = 1794700000


def whole(reply: Reply) -> Json:
    request = reply.request
    is_cut = reply.stop == "length"
    reasoning = REASONING_TOKENS if reply.reasoning else 0
    return {
        "id": reply.identity("resp_", length=48),
        "object": "response",
        "created_at": CREATED,
        "completed_at": CREATED + 1,
        "status": "incomplete" if is_cut else "completed",
        "background": False,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "instructions": request.get("instructions"),
        "max_output_tokens": request.get("max_output_tokens"),
        "model": request["model"],
        "output": list(_items(reply)),
        "parallel_tool_calls": request.get("parallel_tool_calls", True),
        "max_tool_calls": None,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "top_logprobs": 0,
        "safety_identifier": None,
        "prompt_cache_key": request.get("prompt_cache_key"),
        "previous_response_id": None,
        "reasoning": request.get("reasoning") or {"effort": None, "summary": None},
        "service_tier": "default",
        "store": request.get("store", True),
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": {
            "input_tokens": reply.input_tokens,
            "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 0},
            "output_tokens": OUTPUT_TOKENS,
            "output_tokens_details": {"reasoning_tokens": reasoning},
            "total_tokens": reply.input_tokens + OUTPUT_TOKENS,
        },
        "metadata": {},
    }


def _items(reply: Reply) -> Iterator[Json]:
    if reply.reasoning or reply.calls:
        yield _reasoning(reply)
    if reply.text:
        part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        status = "incomplete" if reply.stop == "length" else "completed"
        head = {"id": reply.identity("msg_", length=48), "type": "message", "role": "assistant"}
        yield head | {"status": status, "content": [part]}
    for position, call in enumerate(reply.calls):
        yield _call(reply, position, call)


def _reasoning(reply: Reply) -> Json:
    wish = reply.request.get("reasoning") or {}
    shows = wish.get("summary") not in (None, "none") and reply.reasoning
    item: Json = {"id": reply.identity("rs_", length=48), "type": "reasoning"}
    item["summary"] = [{"type": "summary_text", "text": reply.reasoning}] if shows else []
    if "reasoning.encrypted_content" in (reply.request.get("include") or []):
        sealed = reply.vault.seal("openai_responses", "reasoning", reply.reasoning, reply.number)
        item["encrypted_content"] = sealed
    return item


def _call(reply: Reply, position: int, call: Call) -> Json:
    common = {"call_id": reply.identity("call_", position), "name": call.name, "status": "completed"}
    if call.namespace:
        common["namespace"] = call.namespace
    if call.input is not None:
        return {
            "id": reply.identity("ctc_", position, 48),
            "type": "custom_tool_call",
            "input": call.input,
        } | common
    identity = reply.identity("fc_", position, 48)
    return {"id": identity, "type": "function_call", "arguments": as_json(call.arguments)} | common


OPENINGS: dict[str, Json] = {
    "reasoning": {"summary": []},
    "message": {"status": "in_progress", "content": []},
    "function_call": {"status": "in_progress", "arguments": ""},
    "custom_tool_call": {"status": "in_progress", "input": ""},
}


def frames(body: Json, request: Json) -> Iterator[Json]:
    del request
    for sequence, event in enumerate(_events(body)):
        yield event | {"sequence_number": sequence}


def _events(body: Json) -> Iterator[Json]:
    begun = body | {"status": "in_progress", "completed_at": None, "output": [], "usage": None}
    begun |= {"incomplete_details": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(body["output"]):
        opened = item | OPENINGS[item["type"]]
        yield {"type": "response.output_item.added", "output_index": index, "item": opened}
        for event in _item_events(item):
            yield event | {"item_id": item["id"], "output_index": index}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{body['status']}", "response": body}


def _item_events(item: Json) -> Iterator[Json]:
    match item["type"]:
        case "reasoning":
            for index, part in enumerate(item["summary"]):
                yield from _summary(part, {"summary_index": index})
        case "message":
            part, at = item["content"][0], {"content_index": 0}
            yield at | {"type": "response.content_part.added", "part": part | {"text": ""}}
            for piece in cut(part["text"]):
                yield at | {"type": "response.output_text.delta", "delta": piece, "logprobs": []}
            yield at | {"type": "response.output_text.done", "text": part["text"], "logprobs": []}
            yield at | {"type": "response.content_part.done", "part": part}
        case "function_call":
            for piece in cut(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", "delta": piece}
            yield {"type": "response.function_call_arguments.done", "arguments": item["arguments"]}
        case "custom_tool_call":
            for piece in cut(item["input"]):
                yield {"type": "response.custom_tool_call_input.delta", "delta": piece}
            yield {"type": "response.custom_tool_call_input.done", "input": item["input"]}


def _summary(part: Json, at: Json) -> Iterator[Json]:
    yield at | {"type": "response.reasoning_summary_part.added", "part": part | {"text": ""}}
    for piece in cut(part["text"]):
        yield at | {"type": "response.reasoning_summary_text.delta", "delta": piece}
    yield at | {"type": "response.reasoning_summary_text.done", "text": part["text"]}
    yield at | {"type": "response.reasoning_summary_part.done", "part": part}


_KINDS = {
    "response.created": "open",
    "response.in_progress": "open",
    "response.output_text.delta": "text",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.function_call_arguments.delta": "call",
    "response.custom_tool_call_input.delta": "call",
    "response.completed": "end",
    "response.incomplete": "end",
}


def kind(frame: Json) -> str:
    """Which part of a reply a frame belongs to."""
    return _KINDS.get(frame["type"], "")


def broken(message: str, played: list[Json]) -> list[Json]:
    """An error inside the stream."""
    error = {"code": "server_error", "message": message}
    events: list[Json] = [{"type": "error", "param": None, **error}]
    if played:
        done = [event["item"] for event in played if event["type"] == "response.output_item.done"]
        failed = played[0]["response"] | {"status": "failed", "error": error, "output": done}
        events.append({"type": "response.failed", "response": failed})
    return [event | {"sequence_number": len(played) + more} for more, event in enumerate(events)]
