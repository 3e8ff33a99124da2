"""Traffic of an agent's size and shape, made up here: a large request and a streamed turn."""

import msgspec

SENTENCE = "the file holds a parser that reads tokens and builds a tree, so the next step is to test it"
WORDS = tuple(SENTENCE.split())


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
