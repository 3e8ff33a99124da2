"""The pretended model's answers as each vendor's server would stream them.

Every function takes the step to play, the number of the reply (for ids that never repeat) and the request,
and gives the frames of a whole, well-formed stream.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tools.record.script import Call, Step, seal

Frame = dict[str, Any]
OUTPUT_TOKENS = 20


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def anthropic(step: Step, number: int, request: Frame) -> Iterator[Frame]:
    usage = {"input_tokens": step.input_tokens, "output_tokens": OUTPUT_TOKENS}
    message: Frame = {"id": f"msg_Recording{number:04d}", "type": "message", "role": "assistant"}
    message |= {"model": request["model"], "content": [], "stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": message | {"usage": usage}}
    for index, (block, delta) in enumerate(_anthropic_blocks(step, number)):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for part in delta:
            yield {"type": "content_block_delta", "index": index, "delta": part}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": "tool_use" if step.calls else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": usage}
    yield {"type": "message_stop"}


def _anthropic_blocks(step: Step, number: int) -> Iterator[tuple[Frame, list[Frame]]]:
    if step.reasoning:
        deltas = [
            {"type": "thinking_delta", "thinking": step.reasoning},
            {"type": "signature_delta", "signature": seal(f"thinking {number}")},
        ]
        yield {"type": "thinking", "thinking": "", "signature": ""}, deltas
    elif step.calls:
        yield {"type": "redacted_thinking", "data": seal(f"redacted {number}")}, []
    if step.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": step.text}]
    for position, call in enumerate(step.calls):
        block = {"type": "tool_use", "id": f"toolu_Recording{number:04d}{position}", "name": call.name}
        yield block | {"input": {}}, [{"type": "input_json_delta", "partial_json": _json(call.arguments)}]


def openai_chat(step: Step, number: int, request: Frame) -> Iterator[Frame]:
    head: Frame = {"id": f"chatcmpl-Recording{number:04d}", "object": "chat.completion.chunk"}
    head |= {"created": 1794700000, "model": request["model"]}

    def chunk(delta: Frame, finish: str | None = None) -> Frame:
        return head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    if step.reasoning:
        yield chunk({"reasoning_content": step.reasoning})
    if step.text:
        yield chunk({"content": step.text})
    for position, call in enumerate(step.calls):
        function = {"name": call.name, "arguments": _json(call.arguments)}
        entry = {"index": position, "id": f"call_Recording{number:04d}{position}", "type": "function"}
        yield chunk({"tool_calls": [entry | {"function": function}]})
    yield chunk({}, "tool_calls" if step.calls else "stop")
    usage = {"prompt_tokens": step.input_tokens, "completion_tokens": OUTPUT_TOKENS}
    yield head | {"choices": [], "usage": usage | {"total_tokens": step.input_tokens + OUTPUT_TOKENS}}


def openai_responses(step: Step, number: int, request: Frame) -> Iterator[Frame]:
    response: Frame = {"id": f"resp_Recording{number:04d}", "object": "response", "created_at": 1794700000}
    response |= {"model": request["model"], "status": "in_progress", "output": [], "usage": None}
    response |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    events: list[Frame] = [{"type": "response.created", "response": response}]
    items = list(_response_items(step, number))
    for index, item in enumerate(items):
        place = {"item_id": item["id"], "output_index": index}
        events.append(
            {
                "type": "response.output_item.added",
                "output_index": index,
                "item": item | OPENING[item["type"]],
            }
        )
        events += [event | place for event in _item_events(item)]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    usage = {
        "input_tokens": step.input_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    }
    usage |= {"output_tokens": OUTPUT_TOKENS, "output_tokens_details": {"reasoning_tokens": 5}}
    usage |= {"total_tokens": step.input_tokens + OUTPUT_TOKENS}
    whole = response | {"status": "completed", "output": items, "usage": usage}
    events.append({"type": "response.completed", "response": whole})
    for sequence, event in enumerate(events):
        yield event | {"sequence_number": sequence}


OPENING: dict[str, Frame] = {
    "reasoning": {"summary": []},
    "message": {"status": "in_progress", "content": []},
    "function_call": {"status": "in_progress", "arguments": ""},
    "custom_tool_call": {"status": "in_progress", "input": ""},
    "tool_search_call": {"status": "in_progress"},
}


def _response_items(step: Step, number: int) -> Iterator[Frame]:
    if step.reasoning or step.calls:
        summary = [{"type": "summary_text", "text": step.reasoning}] if step.reasoning else []
        sealed = {"summary": summary, "encrypted_content": seal(f"reasoning {number}")}
        yield {"type": "reasoning", "id": f"rs_Recording{number:04d}", **sealed}
    if step.text:
        part = {"type": "output_text", "text": step.text, "annotations": [], "logprobs": []}
        head = {"type": "message", "id": f"msg_Recording{number:04d}", "role": "assistant"}
        yield head | {"status": "completed", "content": [part]}
    for position, call in enumerate(step.calls):
        yield CALL_ITEMS[call.kind](call, f"Recording{number:04d}{position}")


def _function_item(call: Call, name: str) -> Frame:
    item = {"type": "function_call", "id": f"fc_{name}", "call_id": f"call_{name}", "name": call.name}
    item |= {"namespace": call.namespace} if call.namespace else {}
    return item | {"arguments": _json(call.arguments), "status": "completed"}


def _custom_item(call: Call, name: str) -> Frame:
    item = {"type": "custom_tool_call", "id": f"ctc_{name}", "call_id": f"call_{name}", "name": call.name}
    return item | {"input": call.input, "status": "completed"}


def _search_item(call: Call, name: str) -> Frame:
    item: Frame = {"type": "tool_search_call", "id": f"tsc_{name}", "call_id": f"call_{name}"}
    return item | {"execution": "client", "arguments": call.arguments, "status": "completed"}


CALL_ITEMS: dict[str, Callable[[Call, str], Frame]] = {
    "function": _function_item,
    "custom": _custom_item,
    "tool_search": _search_item,
}


def _item_events(item: Frame) -> Iterator[Frame]:
    match item["type"]:
        case "reasoning":
            for index, part in enumerate(item["summary"]):
                at = {"summary_index": index}
                opened = {"type": "summary_text", "text": ""}
                yield at | {"type": "response.reasoning_summary_part.added", "part": opened}
                yield at | {"type": "response.reasoning_summary_text.delta", "delta": part["text"]}
                yield at | {"type": "response.reasoning_summary_text.done", "text": part["text"]}
                yield at | {"type": "response.reasoning_summary_part.done", "part": part}
        case "message":
            part, at = item["content"][0], {"content_index": 0}
            yield at | {"type": "response.content_part.added", "part": part | {"text": ""}}
            yield at | {"type": "response.output_text.delta", "delta": part["text"], "logprobs": []}
            yield at | {"type": "response.output_text.done", "text": part["text"], "logprobs": []}
            yield at | {"type": "response.content_part.done", "part": part}
        case "function_call":
            yield {"type": "response.function_call_arguments.delta", "delta": item["arguments"]}
            yield {"type": "response.function_call_arguments.done", "arguments": item["arguments"]}
        case "custom_tool_call":
            yield {"type": "response.custom_tool_call_input.delta", "delta": item["input"]}
            yield {"type": "response.custom_tool_call_input.done", "input": item["input"]}


def gemini(step: Step, number: int, request: Frame) -> Iterator[Frame]:
    parts: list[Frame] = []
    if step.reasoning:
        parts.append({"text": step.reasoning, "thought": True})
    if step.text:
        parts.append({"text": step.text})
    for position, call in enumerate(step.calls):
        made = {"id": f"call-{number:04d}-{position}", "name": call.name, "args": call.arguments}
        signed = {"thoughtSignature": seal(f"thought {number}")} if position == 0 else {}
        parts.append({"functionCall": made} | signed)
    for index, part in enumerate(parts):
        candidate: Frame = {"content": {"role": "model", "parts": [part]}, "index": 0}
        candidate |= {"finishReason": "STOP"} if index == len(parts) - 1 else {}
        usage = {"promptTokenCount": step.input_tokens, "candidatesTokenCount": OUTPUT_TOKENS}
        usage |= {"totalTokenCount": step.input_tokens + OUTPUT_TOKENS}
        yield {"candidates": [candidate], "usageMetadata": usage, "responseId": f"recording-{number:04d}"}


REPLY_WRITERS: dict[str, Callable[[Step, int, Frame], Iterator[Frame]]] = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "gemini": gemini,
}
NAMED_EVENTS = {"anthropic", "openai_responses"}


def stream(dialect: str, step: Step, number: int, request: Frame) -> bytes:
    """The whole reply as server-sent events, framed as that vendor frames them."""
    lines: list[str] = []
    for frame in REPLY_WRITERS[dialect](step, number, request):
        name = f"event: {frame['type']}\n" if dialect in NAMED_EVENTS else ""
        lines.append(f"{name}data: {_json(frame)}\n\n")
    if dialect == "openai_chat":
        lines.append("data: [DONE]\n\n")
    return "".join(lines).encode()
