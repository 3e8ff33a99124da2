"""A vendor that refuses requests until what it does not accept is gone, and clients with rich requests."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from dragoman.config.config import Config, Route
from dragoman.config.provider import Provider, TargetName
from dragoman.exchange.exchange import Exchange
from dragoman.exchange.gateway import Gateway
from dragoman.pipeline.plan import RequestMetadata
from dragoman.storage.port import StateStorage
from dragoman.upstream.port import UpstreamRequest
from tests.exchange.fakes import JSON, Ask, ExchangeResult, RememberingClient, Script, ScriptedAnswer
from tests.exchange.sample_replies import (
    ANTHROPIC_STREAM,
    CHAT_STREAM,
    GEMINI_STREAM,
    RESPONSES_CREATED,
    event,
)

Json = dict[str, Any]
Test = Callable[[Json], bool]

RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 5,
    "status": "completed",
    "model": "model",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "good day", "annotations": []}],
        }
    ],
    "usage": {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15},
}
STREAMS: dict[str, tuple[bytes, ...]] = {
    "anthropic": ANTHROPIC_STREAM,
    "openai_chat": CHAT_STREAM,
    "openai_responses": (
        RESPONSES_CREATED,
        event(
            {
                "type": "response.output_text.delta",
                "item_id": "msg_1",
                "output_index": 0,
                "content_index": 0,
                "delta": "good day",
                "sequence_number": 1,
            }
        ),
        event({"type": "response.completed", "sequence_number": 2, "response": RESPONSE}),
    ),
    "gemini": GEMINI_STREAM,
}
WHOLE: dict[str, Json] = {
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "model",
        "content": [{"type": "text", "text": "good day"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": 3},
    },
    "openai_chat": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 5,
        "model": "model",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "good day"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
    },
    "openai_responses": RESPONSE,
    "gemini": {
        "candidates": [
            {
                "index": 0,
                "content": {"role": "model", "parts": [{"text": "good day"}]},
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 3, "totalTokenCount": 15},
    },
}


def find_values(value: Any, path: str) -> Iterator[Any]:
    """All values at a path of members; `*` is every item of a list or every member of an object."""
    step, _, rest = path.partition(".")
    if step == "*":
        items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    else:
        items = [value[step]] if isinstance(value, dict) and step in value else []
    for item in items:
        if rest:
            yield from find_values(item, rest)
        else:
            yield item


def has(path: str, test: Callable[[Any], bool] = lambda value: True) -> Test:
    """Whether a body has a value at the path that passes the test."""
    return lambda body: any(map(test, find_values(body, path)))


class RefusingUpstream:
    """Refuses a request with this error while it has what `refuses` finds; otherwise answers it."""

    def __init__(self, dialect: str, refuses: Test, status: int, body: bytes) -> None:
        self._dialect = dialect
        self.refuses = refuses
        self.status, self.body = status, body
        self.calls: list[UpstreamRequest] = []

    @property
    def bodies(self) -> list[Json]:
        return [msgspec.json.decode(call.body) for call in self.calls]

    async def send(self, call: UpstreamRequest) -> ScriptedAnswer:
        self.calls.append(call)
        if self.refuses(msgspec.json.decode(call.body)):
            return ScriptedAnswer(
                Script(status=self.status, pieces=[self.body], headers={"content-type": JSON})
            )
        if call.stream:
            return ScriptedAnswer(Script(pieces=STREAMS[self._dialect]))
        whole = msgspec.json.encode(WHOLE[self._dialect])
        return ScriptedAnswer(Script(pieces=[whole], headers={"content-type": JSON}))

    async def close(self) -> None:
        """Nothing is open."""


def write_error(message: str, code: str | None = None) -> bytes:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return msgspec.json.encode({"error": error})


class Bench:
    """A gateway over upstreams that can be looked at. Every model goes to all of them, in order."""

    def __init__(
        self,
        upstreams: dict[str, Any],
        providers: dict[str, Provider],
        *,
        route: Json | None = None,
        storage: StateStorage | None = None,
    ) -> None:
        self.now = 1_800_000_000.5
        targets = tuple(TargetName(name, "*") for name in providers)
        config = Config(providers=providers, routes=(Route(match="*", targets=targets, **(route or {})),))
        self.gateway = Gateway(
            config, upstreams=upstreams, storage=storage, clock=lambda: self.now, random=lambda: 0.5
        )

    async def run_exchange(self, ask: Ask) -> ExchangeResult:
        client = RememberingClient()
        exchange = Exchange(self.gateway, ask.plan(self.gateway.clock()), client, ask.caller)
        await exchange.run()
        return ExchangeResult(client, exchange.record)


def provider(name: str, dialect: str, **values: Any) -> Provider:
    return Provider(name=name, dialect=dialect, base_url="http://upstream.invalid", **values)


def ask(dialect: str, body: Json, *, stream: bool = True) -> Ask:
    """A client's request with this body, whatever its form in the dialect."""
    if dialect != "gemini":
        body = {**body, "model": "model", "stream": stream}
    if dialect == "openai_chat" and not stream:
        body.pop("stream_options", None)
    metadata = RequestMetadata(
        dialect=dialect,
        model="model" if dialect == "gemini" else "",
        stream=stream if dialect == "gemini" else False,
        request_id="req_1",
    )
    return Ask(metadata=metadata, body=msgspec.json.encode(body))
