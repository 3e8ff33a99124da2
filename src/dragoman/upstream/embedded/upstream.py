"""A model that lives in this process: deterministic, without a key, for trying and testing.

It speaks OpenAI Chat within the process, so every client reaches it the way it reaches a real server. What
it says is decided in `embedded_mind`; how it is said, whole or piece by piece, is decided here.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import msgspec

from dragoman.hub.errors import STATUS_OF_KIND, kind_of_status
from dragoman.upstream.embedded.model import Thought, think
from dragoman.upstream.port import UpstreamRequest

#: Characters in a piece of a stream: about as many as a model says at once.
PIECE = 16
#: What a busy server asks clients to wait, in seconds.
RETRY_AFTER = "1"

FAILURE = {"message": "the embedded model fails because it was asked to", "type": "server_error"}
NOT_READ = {"message": "the request is no JSON object in UTF-8", "type": "invalid_request_error"}


class EmbeddedUpstream:
    """`clock` tells the time that replies carry."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock

    async def send(self, call: UpstreamRequest) -> "EmbeddedReply":
        try:
            thought = think(msgspec.json.decode(call.body, type=dict[str, object]))
        except (ValueError, RecursionError):
            # A request that is forwarded as it came may be anything.
            return _refusal(400, NOT_READ)
        failed = thought.cut and not call.stream
        if thought.status != 200 or failed:
            return _refusal(500 if failed else thought.status)
        created = int(self._clock())
        if call.stream:
            return EmbeddedReply(200, "text/event-stream", _stream(thought, call.model, created))
        whole = msgspec.json.encode(_whole(thought, call.model, created))
        return EmbeddedReply(200, "application/json", iter((whole,)))

    async def close(self) -> None:
        """Nothing is open."""


class EmbeddedReply:
    def __init__(
        self,
        status: int,
        content_type: str,
        pieces: Iterator[bytes],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": content_type, **(headers or {})}
        self._pieces = pieces

    async def pieces(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    def close(self) -> None:
        """Whoever stops reading gets no more."""
        self._pieces = iter(())


def _refusal(status: int, error: Mapping[str, str] = FAILURE) -> EmbeddedReply:
    body = msgspec.json.encode({"error": {**error, "code": kind_of_status(status)}})
    busy = status in (STATUS_OF_KIND["rate_limit"], STATUS_OF_KIND["overloaded"])
    headers = {"retry-after": RETRY_AFTER} if busy else {}
    return EmbeddedReply(status, "application/json", iter((body,)), headers)


def _whole(thought: Thought, model: str, created: int) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": thought.text or None}
    if thought.reasoning:
        message["reasoning_content"] = thought.reasoning
    if thought.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in thought.calls
        ]
    return {
        "id": thought.id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": thought.finish}],
        "usage": _usage(thought),
    }


def _stream(thought: Thought, model: str, created: int) -> Iterator[bytes]:
    head: dict[str, object] = {
        "id": thought.id,
        "object": "chat.completion.chunk",
        "created": created,
        "model": model,
    }
    if thought.tells_usage:
        head["usage"] = None
    deltas = list(_deltas(thought))
    if thought.cut:
        deltas = deltas[: len(deltas) // 2]
    for delta in deltas:
        yield _frame({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    if thought.cut:
        if thought.cut == "error":
            yield _frame({"error": FAILURE})
        return
    yield _frame({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": thought.finish}]})
    if thought.tells_usage:
        yield _frame({**head, "choices": [], "usage": _usage(thought)})
    yield b"data: [DONE]\n\n"


def _deltas(thought: Thought) -> Iterator[dict[str, object]]:
    yield {"role": "assistant", "content": ""}
    for piece in _cut(thought.reasoning):
        yield {"reasoning_content": piece}
    for piece in _cut(thought.text):
        yield {"content": piece}
    for index, call in enumerate(thought.calls):
        function = {"name": call.name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]}
        for piece in _cut(call.arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _frame(value: object) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def _cut(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


def _usage(thought: Thought) -> dict[str, int]:
    return {
        "prompt_tokens": thought.prompt_tokens,
        "completion_tokens": thought.reply_tokens,
        "total_tokens": thought.prompt_tokens + thought.reply_tokens,
    }
