"""Traffic of an agent's size and shape, made up here: a large request and a streamed turn."""

import msgspec

from dragoman import translate_request

SENTENCE = "the file holds a parser that reads tokens and builds a tree, so the next step is to test it"
WORDS = tuple(SENTENCE.split())
#: Bytes at the beginning of a session that a load generator replaces by the session's number.
SESSION = b"session-000000"


def text_of(size: int, seed: int = 0) -> str:
    parts: list[str] = []
    length, position = 0, seed
    while length < size:
        word = WORDS[position % len(WORDS)]
        parts.append(word)
        length += len(word) + 1
        position += 7
    return " ".join(parts)[:size]


def tool(number: int) -> dict[str, object]:
    properties = {
        f"field_{index}": {"type": "string", "description": text_of(120, number + index)}
        for index in range(6)
    }
    return {
        "name": f"Tool{number}",
        "description": text_of(900, number),
        "input_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": properties,
            "required": ["field_0"],
            "additionalProperties": False,
        },
    }


def agent_request(size: int = 100_000, tools: int = 24) -> bytes:
    """An Anthropic request like a coding agent's: system, tools, a history of calls and results."""
    messages: list[dict[str, object]] = [{"role": "user", "content": text_of(400)}]
    system = text_of(min(12_000, size // 4))
    turn = 0
    body: dict[str, object] = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 32000,
        "stream": True,
        "system": [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}],
        "tools": [tool(number) for number in range(tools)],
        "messages": messages,
    }
    while len(msgspec.json.encode(body)) < size:
        turn += 1
        call = {"type": "tool_use", "id": f"toolu_{turn:04}", "name": f"Tool{turn % tools}"}
        messages.append(
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": text_of(200, turn)},
                    {**call, "input": {"field_0": text_of(60, turn), "field_1": "x"}},
                ],
            }
        )
        result = {"type": "tool_result", "tool_use_id": f"toolu_{turn:04}", "content": text_of(1500, turn)}
        messages.append({"role": "user", "content": [result]})
    return msgspec.json.encode(body)


def chat_stream(events: int = 300) -> list[bytes]:
    """A Chat turn as chunks of SSE: text, then two calls whose arguments arrive in fragments."""
    head = {
        "id": "chatcmpl-abcdefgh12345678",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "mock-large",
        "system_fingerprint": "fp_1",
    }

    def chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return b"data: " + msgspec.json.encode({**head, "choices": [choice]}) + b"\n\n"

    chunks = [chunk({"role": "assistant", "content": ""})]
    per_call = 40
    texts = events - 2 * per_call - 4
    chunks += [chunk({"content": f" {WORDS[index % len(WORDS)]}"}) for index in range(texts)]
    for number in range(2):
        function = {"name": f"Tool{number}", "arguments": ""}
        chunks.append(
            chunk(
                {
                    "tool_calls": [
                        {"index": number, "id": f"call_{number}abc", "type": "function", "function": function}
                    ]
                }
            )
        )
        pieces = ['{"field_0": "', *(f"{WORDS[i % len(WORDS)]} " for i in range(per_call - 2)), '"}']
        fragments = ({"index": number, "function": {"arguments": piece}} for piece in pieces)
        chunks += [chunk({"tool_calls": [fragment]}) for fragment in fragments]
    chunks.append(chunk({}, "tool_calls"))
    usage = {"prompt_tokens": 25_000, "completion_tokens": 300, "total_tokens": 25_300}
    chunks.append(b"data: " + msgspec.json.encode({**head, "choices": [], "usage": usage}) + b"\n\n")
    chunks.append(b"data: [DONE]\n\n")
    return chunks


def anthropic_stream(events: int = 300) -> list[bytes]:
    """The same turn as an Anthropic server sends it."""

    def event(kind: str, **fields: object) -> bytes:
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode({"type": kind, **fields}))

    def delta(index: int, **fields: object) -> bytes:
        return event("content_block_delta", index=index, delta=fields)

    usage = {"input_tokens": 25_000, "output_tokens": 1}
    head = {"id": "msg_01abc", "type": "message", "role": "assistant", "model": "mock", "content": []}
    message = {**head, "stop_reason": None, "stop_sequence": None, "usage": usage}
    chunks = [event("message_start", message=message)]
    chunks.append(event("content_block_start", index=0, content_block={"type": "text", "text": ""}))
    texts = events - 2 * 42 - 5
    words = (f" {WORDS[index % len(WORDS)]}" for index in range(texts))
    chunks += [delta(0, type="text_delta", text=word) for word in words]
    chunks.append(event("content_block_stop", index=0))
    for number in (1, 2):
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": f"Tool{number}", "input": {}}
        chunks.append(event("content_block_start", index=number, content_block=block))
        pieces = ['{"field_0": "', *(f"{WORDS[i % len(WORDS)]} " for i in range(38)), '"}']
        chunks += [delta(number, type="input_json_delta", partial_json=piece) for piece in pieces]
        chunks.append(event("content_block_stop", index=number))
    ending = {"stop_reason": "tool_use", "stop_sequence": None}
    chunks.append(event("message_delta", delta=ending, usage={"output_tokens": 300}))
    return [*chunks, event("message_stop")]


def responses_stream(events: int = 300) -> list[bytes]:
    """The same turn as OpenAI sends it: numbered events, deltas with padding against eavesdropping."""
    number = 0

    def event(kind: str, **fields: object) -> bytes:
        nonlocal number
        payload = {"type": kind, "sequence_number": number, **fields}
        number += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(payload))

    def pad(piece: str) -> str:
        return "aB3dE5gH7jK9mN1p"[len(piece) :]

    response = {"id": "resp_0123456789abcdef", "object": "response", "created_at": 1700000000}
    response |= {"status": "in_progress", "model": "mock", "output": [], "usage": None}
    chunks = [event("response.created", response=response), event("response.in_progress", response=response)]
    item: dict[str, object] = {"id": "msg_0123456789abcdef0123456789abcdef", "type": "message"}
    item |= {"status": "in_progress", "role": "assistant", "content": []}
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    chunks.append(event("response.output_item.added", output_index=0, item=item))
    chunks.append(event("response.content_part.added", **place, part=part))
    words = [f" {WORDS[index % len(WORDS)]}" for index in range(events - 2 * 43 - 8)]
    chunks += [
        event("response.output_text.delta", **place, delta=word, logprobs=[], obfuscation=pad(word))
        for word in words
    ]
    text = "".join(words)
    item = {**item, "status": "completed", "content": [{**part, "text": text}]}
    chunks.append(event("response.output_text.done", **place, text=text, logprobs=[]))
    chunks.append(event("response.content_part.done", **place, part={**part, "text": text}))
    chunks.append(event("response.output_item.done", output_index=0, item=item))
    output = [item]
    pieces = ['{"field_0":"', *(f"{WORDS[i % len(WORDS)]} " for i in range(38)), '"}']
    for at in (1, 2):
        call: dict[str, object] = {"id": f"fc_{at}23456789abcdef0123456789abcdef", "type": "function_call"}
        call |= {"status": "in_progress", "arguments": "", "call_id": f"call_{at}abc"}
        call["name"] = f"Tool{at - 1}"
        here = {"item_id": call["id"], "output_index": at}
        chunks.append(event("response.output_item.added", output_index=at, item=call))
        chunks += [
            event("response.function_call_arguments.delta", **here, delta=piece, obfuscation=pad(piece))
            for piece in pieces
        ]
        arguments = "".join(pieces)
        chunks.append(event("response.function_call_arguments.done", **here, arguments=arguments))
        output.append({**call, "status": "completed", "arguments": arguments})
        chunks.append(event("response.output_item.done", output_index=at, item=output[-1]))
    usage = {"input_tokens": 25_000, "output_tokens": 300, "total_tokens": 25_300}
    response = {**response, "status": "completed", "output": output, "usage": usage}
    return [*chunks, event("response.completed", response=response)]


def gemini_stream(events: int = 300) -> list[bytes]:
    """The same turn as a Gemini server sends it: the usage grows with every chunk, and calls come whole."""

    def chunk(part: dict[str, object], tokens: int, **finish: object) -> bytes:
        usage: dict[str, object] = {"promptTokenCount": 25_000, "candidatesTokenCount": tokens}
        usage["totalTokenCount"] = 25_000 + tokens
        usage["promptTokensDetails"] = [{"modality": "TEXT", "tokenCount": 25_000}]
        candidate = {"content": {"parts": [part], "role": "model"}, **finish, "index": 0}
        reply = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "mock"}
        return b"data: " + msgspec.json.encode({**reply, "responseId": "abcdefgh12345678"}) + b"\n\n"

    texts = events - 2
    chunks = [chunk({"text": f" {WORDS[index % len(WORDS)]}"}, index + 1) for index in range(texts)]
    words = " ".join(WORDS[i % len(WORDS)] for i in range(38))
    for number, finish in enumerate(({}, {"finishReason": "STOP"})):
        call = {"name": f"Tool{number}", "args": {"field_0": words}}
        chunks.append(chunk({"functionCall": call}, texts + 40 + 40 * number, **finish))
    return chunks


def grow_session(number: int, model: str, turns: int = 20) -> list[bytes]:
    """The requests of one agent session: 75 KB, and 2 KB more with every turn. Sessions share their tools."""
    body = msgspec.json.decode(agent_request(75_000, 20))
    body["model"] = model
    messages = body["messages"]
    messages[0] = {"role": "user", "content": text_of(400, number + 1)}
    bodies = []
    for turn in range(turns):
        bodies.append(msgspec.json.encode(body))
        call = {
            "type": "tool_use",
            "id": f"toolu_n{number}t{turn}",
            "name": "Tool3",
            "input": {"field_0": "x"},
        }
        text = {"type": "text", "text": text_of(200, turn)}
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": text_of(1500, turn + number)}
        messages += [{"role": "assistant", "content": [text, call]}, {"role": "user", "content": [result]}]
    return bodies


def responses_session(number: int, model: str, turns: int = 20) -> list[bytes]:
    """The same session in the dialect of the Responses API."""
    return _translate_session("openai_responses", number, model, turns)


def chat_session(number: int, model: str, turns: int = 20) -> list[bytes]:
    """The same session in the dialect of Chat Completions."""
    return _translate_session("openai_chat", number, model, turns)


def _translate_session(dialect: str, number: int, model: str, turns: int) -> list[bytes]:
    return [
        msgspec.json.encode(
            {**translate_request(body, source="anthropic", target=dialect).body, "model": model}
        )
        for body in grow_session(number, model, turns)
    ]
