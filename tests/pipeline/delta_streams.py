"""Streams of each API whose deltas look alike, as servers send them, for tests of `DeltaTemplate`."""

from collections.abc import Callable, Iterable
from itertools import count

import msgspec

from tests.dialects.openai_chat.replies import DONE, call, calls, chunk, finish

#: The pieces of a thought, of a text and of the arguments of each call.
Reply = tuple[list[str], list[str], list[list[str]]]


def write_event(kind: str, **fields: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode({"type": kind, **fields}))


def write_anthropic(reply: Reply) -> list[bytes]:
    thoughts, texts, arguments = reply
    kinds: list[tuple[object, str, str, list[str]]] = [
        ({"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking", thoughts),
        ({"type": "text", "text": ""}, "text_delta", "text", texts),
    ]
    for number, pieces in enumerate(arguments):
        tool = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {}}
        kinds.append((tool, "input_json_delta", "partial_json", pieces))
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    events = [write_event("message_start", message={**head, "usage": {"input_tokens": 3}})]
    for index, (block, kind, field, pieces) in enumerate(kinds):
        events.append(write_event("content_block_start", index=index, content_block=block))
        deltas = ({"type": kind, field: piece} for piece in pieces)
        events += [write_event("content_block_delta", index=index, delta=delta) for delta in deltas]
        events.append(write_event("content_block_stop", index=index))
    ending = {"stop_reason": "tool_use" if arguments else "end_turn", "stop_sequence": None}
    events.append(write_event("message_delta", delta=ending, usage={"output_tokens": 7}))
    return [*events, write_event("message_stop")]


def write_chat(reply: Reply) -> list[bytes]:
    thoughts, texts, arguments = reply
    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"reasoning_content": piece}) for piece in thoughts]
    events += [chunk({"content": piece}) for piece in texts]
    for index, pieces in enumerate(arguments):
        events.append(calls(call(index, id=f"c{index}", name="Read", arguments="")))
        events += [calls(call(index, arguments=piece)) for piece in pieces]
    return [*events, finish("tool_calls" if arguments else "stop"), DONE]


def write_padded_chat(reply: Reply) -> list[bytes]:
    """OpenAI pads its chunks."""
    pads = (b',"obfuscation":"%b"}\n\n' % (b"aB3" * (number % 4)) for number in count())
    return [event[:-3] + next(pads) if event[-3:] == b"}\n\n" else event for event in write_chat(reply)]


def _list_responses_events(reply: Reply) -> Iterable[dict[str, object]]:
    thoughts, texts, arguments = reply
    place: dict[str, object]
    response: dict[str, object] = {"id": "resp_1", "model": "m", "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": response}
    item: dict[str, object] = {"id": "rs_1", "type": "reasoning", "summary": []}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    for part, pieces in enumerate((thoughts, thoughts[:2])):
        place = {"item_id": "rs_1", "output_index": 0, "summary_index": part}
        deltas = ({"type": "response.reasoning_summary_text.delta", **place, "delta": p} for p in pieces)
        yield from deltas
        yield {"type": "response.reasoning_summary_text.done", **place, "text": "".join(pieces)}
    yield {"type": "response.output_item.done", "output_index": 0, "item": {**item, "encrypted_content": "s"}}
    message: dict[str, object] = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    yield {"type": "response.output_item.added", "output_index": 1, "item": message}
    place = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
    for piece in texts:
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": "".join(texts)}
    content = [{"type": "output_text", "text": "".join(texts), "annotations": []}]
    message = {**message, "content": content}
    yield {"type": "response.output_item.done", "output_index": 1, "item": message}
    for number, pieces in enumerate(arguments):
        tool = {"id": f"fc_{number}", "type": "function_call", "call_id": f"c{number}", "name": "Read"}
        place = {"item_id": tool["id"], "output_index": 2 + number}
        yield {"type": "response.output_item.added", "output_index": 2 + number, "item": tool}
        for piece in pieces:
            yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
        whole = {**tool, "arguments": "".join(pieces)}
        yield {"type": "response.output_item.done", "output_index": 2 + number, "item": whole}
    usage = {"input_tokens": 3, "output_tokens": 7, "total_tokens": 10}
    yield {"type": "response.completed", "response": {**response, "status": "completed", "usage": usage}}


def write_responses(reply: Reply) -> list[bytes]:
    """Events with a number before the text and padding behind it, as from OpenAI."""
    events = []
    for number, event in enumerate(_list_responses_events(reply), 6):
        kind = str(event.pop("type"))
        pad = {"obfuscation": "aB3" * (number % 4)} if "delta" in event else {}
        events.append(write_event(kind, sequence_number=number, **event, **pad))
    return events


def write_sorted_responses(reply: Reply) -> list[bytes]:
    """Events whose members are sorted, as from servers that use the Python library's types."""
    events = []
    for number, event in enumerate(_list_responses_events(reply), 6):
        data = msgspec.json.encode({**event, "sequence_number": number}, order="sorted")
        events.append(b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), data))
    return events


def write_gemini(reply: Reply) -> list[bytes]:
    """Chunks with the usage so far in each."""
    thoughts, texts, arguments = reply
    parts: list[dict[str, object]] = [{"text": piece, "thought": True} for piece in thoughts]
    parts += [{"text": piece} for piece in texts]
    parts += [{"functionCall": {"name": "Read", "args": {"path": "".join(pieces)}}} for pieces in arguments]
    events = []
    for number, part in enumerate([*parts, {"text": ""}], 7):
        usage = {"promptTokenCount": 3, "candidatesTokenCount": number, "totalTokenCount": 3 + number}
        ending = {"finishReason": "STOP"} if number == len(parts) + 7 else {}
        candidate = {"content": {"parts": [part], "role": "model"}, **ending, "index": 0}
        reply_members = {"usageMetadata": usage, "modelVersion": "m", "responseId": "r"}
        events.append(b"data: " + msgspec.json.encode({"candidates": [candidate], **reply_members}) + b"\n\n")
    return events


#: Upstreams: the dialect, and how its stream is written.
WRITERS: dict[str, tuple[str, Callable[[Reply], list[bytes]]]] = {
    "anthropic": ("anthropic", write_anthropic),
    "chat": ("openai_chat", write_chat),
    "padded chat": ("openai_chat", write_padded_chat),
    "responses": ("openai_responses", write_responses),
    "sorted responses": ("openai_responses", write_sorted_responses),
    "gemini": ("gemini", write_gemini),
}
