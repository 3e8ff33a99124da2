"""`EmbeddedUpstream`: the `Upstream` of the embedded model, in OpenAI Chat.

`model` decides the answer. This module writes it, whole or in small pieces, as a server does.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from dragoman.config.provider import Provider
from dragoman.hub.errors import STATUS_OF_KIND, kind_of_status
from dragoman.upstream.embedded.model import EmbeddedAnswer, answer_request
from dragoman.upstream.port import UpstreamRequest, WaitingCalls

#: Characters per delta of a stream.
PIECE = 16
#: Seconds in the `retry-after` header of a refusal that simulates a busy server.
RETRY_AFTER = "1"

FAILURE = {"message": "the embedded model fails because it was asked to", "type": "server_error"}
NOT_JSON = {"message": "the request is no JSON object in UTF-8", "type": "invalid_request_error"}

Json = dict[str, object]


class EmbeddedUpstream:
    """The embedded model. `clock` gives the `created` time of replies."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock

    async def send(self, request: UpstreamRequest) -> "EmbeddedReply":
        try:
            answer = answer_request(msgspec.json.decode(request.body, type=dict[str, object]))
        except (ValueError, RecursionError):
            # A forwarded request is not checked by the gateway and may be anything.
            return _refuse(400, NOT_JSON)
        if answer.cut and not request.stream:
            # A whole reply cannot break off, so it fails.
            return _refuse(500)
        if answer.status != 200:
            return _refuse(answer.status)
        created = int(self._clock())
        if request.stream:
            return EmbeddedReply(200, "text/event-stream", _write_stream(answer, request.model, created))
        body = msgspec.json.encode(_write_whole(answer, request.model, created))
        return EmbeddedReply(200, "application/json", iter((body,)))

    async def close(self) -> None:
        """Nothing is open."""


class EmbeddedReply:
    """A reply from memory."""

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
        """Stop: no more pieces follow."""
        self._pieces = iter(())


def _refuse(status: int, error: Mapping[str, str] = FAILURE) -> EmbeddedReply:
    body = msgspec.json.encode({"error": {**error, "code": kind_of_status(status)}})
    is_busy = status in (STATUS_OF_KIND["rate_limit"], STATUS_OF_KIND["overloaded"])
    headers = {"retry-after": RETRY_AFTER} if is_busy else {}
    return EmbeddedReply(status, "application/json", iter((body,)), headers)


def _write_whole(answer: EmbeddedAnswer, model: str, created: int) -> Json:
    """Write a `chat.completion` object."""
    message: Json = {"role": "assistant", "content": answer.text or None}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.calls
        ]
    return {
        "id": answer.id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": answer.finish}],
        "usage": _write_usage(answer),
    }


def _write_stream(answer: EmbeddedAnswer, model: str, created: int) -> Iterator[bytes]:
    """Write server-sent events. A cut answer stops after half of its deltas."""
    head: Json = {"id": answer.id, "object": "chat.completion.chunk", "created": created, "model": model}
    if answer.reports_usage:
        head["usage"] = None
    deltas = list(_write_deltas(answer))
    for delta in deltas[: len(deltas) // 2] if answer.cut else deltas:
        yield _write_event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    if answer.cut == "error":
        yield _write_event({"error": FAILURE})
    if answer.cut:
        return
    yield _write_event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": answer.finish}]})
    if answer.reports_usage:
        yield _write_event({**head, "choices": [], "usage": _write_usage(answer)})
    yield b"data: [DONE]\n\n"


def _write_deltas(answer: EmbeddedAnswer) -> Iterator[Json]:
    yield {"role": "assistant", "content": ""}
    for piece in _split(answer.reasoning):
        yield {"reasoning_content": piece}
    for piece in _split(answer.text):
        yield {"content": piece}
    for index, call in enumerate(answer.calls):
        function = {"name": call.name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]}
        for piece in _split(call.arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _write_event(value: object) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def _split(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


def _write_usage(answer: EmbeddedAnswer) -> dict[str, int]:
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.reply_tokens,
        "total_tokens": answer.prompt_tokens + answer.reply_tokens,
    }


def build_upstream(
    provider: Provider, state: Path, waiting_calls: WaitingCalls | None = None
) -> EmbeddedUpstream:
    """See `upstream.kinds`."""
    return EmbeddedUpstream()
