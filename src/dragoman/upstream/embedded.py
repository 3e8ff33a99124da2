"""A model that lives in this process: deterministic, without a key, for trying and testing.

It speaks OpenAI Chat within the process, so every client reaches it the way it reaches a real server. It
understands a few plain wishes and carries them out with whatever tools the client declared.
"""

from collections.abc import AsyncIterator, Mapping

import msgspec

from dragoman.upstream.embedded_mind import Thought, think
from dragoman.upstream.port import Call

_PIECE = 24


class EmbeddedUpstream:
    async def send(self, call: Call) -> "EmbeddedAnswer":
        body = msgspec.json.decode(call.body)
        thought = think(body)
        if thought.failure:
            error = {
                "error": {"message": thought.failure, "type": "server_error", "code": "embedded_failure"}
            }
            return EmbeddedAnswer(500, "application/json", [msgspec.json.encode(error)])
        if call.stream:
            return EmbeddedAnswer(200, "text/event-stream", _stream(thought, call.model))
        return EmbeddedAnswer(200, "application/json", [msgspec.json.encode(_whole(thought, call.model))])

    async def close(self) -> None:
        """Nothing is open."""


class EmbeddedAnswer:
    def __init__(self, status: int, content_type: str, pieces: list[bytes]) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": content_type}
        self._pieces = pieces

    async def pieces(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    def close(self) -> None:
        """Nothing is open."""


def _calls(thought: Thought) -> list[dict[str, object]]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in thought.calls
    ]


def _whole(thought: Thought, model: str) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": thought.text or None}
    if thought.reasoning:
        message["reasoning_content"] = thought.reasoning
    if thought.calls:
        message["tool_calls"] = _calls(thought)
    return {
        "id": thought.id,
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(thought), "logprobs": None}],
        "usage": _usage(thought),
    }


def _stream(thought: Thought, model: str) -> list[bytes]:
    head = {"id": thought.id, "object": "chat.completion.chunk", "created": 0, "model": model}

    def chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return b"data: " + msgspec.json.encode({**head, "choices": choices}) + b"\n\n"

    chunks = [chunk({"role": "assistant", "content": ""})]
    chunks += [chunk({"reasoning_content": piece}) for piece in _cut(thought.reasoning)]
    chunks += [chunk({"content": piece}) for piece in _cut(thought.text)]
    for index, call in enumerate(_calls(thought)):
        chunks.append(chunk({"tool_calls": [{"index": index, **call}]}))
    chunks.append(chunk({}, _finish(thought)))
    usage = {**head, "choices": [], "usage": _usage(thought)}
    chunks.append(b"data: " + msgspec.json.encode(usage) + b"\n\n")
    chunks.append(b"data: [DONE]\n\n")
    return chunks


def _cut(text: str) -> list[str]:
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def _finish(thought: Thought) -> str:
    return "tool_calls" if thought.calls else "stop"


def _usage(thought: Thought) -> dict[str, int]:
    return {
        "prompt_tokens": thought.prompt_tokens,
        "completion_tokens": thought.reply_tokens,
        "total_tokens": thought.prompt_tokens + thought.reply_tokens,
    }
