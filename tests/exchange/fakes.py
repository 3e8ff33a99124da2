"""The in-memory twins of both ports: an upstream that follows a script, a client that remembers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from dragoman.accounts.keys import ANONYMOUS, Caller
from dragoman.config.config import Config, Route
from dragoman.config.provider import Provider, TargetName
from dragoman.config.settings import Secret, ServerSettings, Timeouts
from dragoman.exchange.client import DirectConnection
from dragoman.exchange.exchange import Exchange
from dragoman.exchange.gateway import Gateway
from dragoman.exchange.record import ExchangeRecord
from dragoman.hub.errors import Failure, UpstreamFailed
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.pipeline.transports import SSE as SSE_TRANSPORT
from dragoman.pipeline.transports import JsonArrayTransport, Transport
from dragoman.upstream.port import UpstreamRequest
from dragoman.wire.sse import Output

SSE = "text/event-stream"
JSON = "application/json"


class Wait(msgspec.Struct, frozen=True):
    """The upstream sends nothing for so many seconds."""

    seconds: float


class Break(msgspec.Struct, frozen=True):
    """The connection breaks."""


class Unreachable(msgspec.Struct, frozen=True):
    """There is no answer at all."""

    after: float = 0.0


Order = Literal["listed", "round_robin", "weighted", "least_busy", "fastest", "cheapest"]
Piece = bytes | Wait | Break


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """One answer: the head, and the pieces of the body as they come."""

    pieces: Sequence[Piece] = ()
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({"content-type": SSE})
    #: Seconds before the head comes.
    after: float = 0.0


def broken() -> UpstreamFailed:
    return UpstreamFailed(Failure(kind="overloaded", status=502, message="the connection broke"))


class ScriptedAnswer:
    def __init__(self, script: Script) -> None:
        self.script = script
        self._closing = asyncio.Event()
        self.status = script.status
        self.headers = script.headers
        self.is_read_to_end = False
        self.closed_at: float | None = None
        self._is_taken = False

    def pieces(self) -> AsyncIterator[bytes]:
        # A real reply may keep its decoder in the iterator.
        assert not self._is_taken, "the pieces of a reply are taken once"
        self._is_taken = True
        return self._run()

    async def _run(self) -> AsyncIterator[bytes]:
        for piece in self.script.pieces:
            if self._closing.is_set():
                raise broken()
            match piece:
                case Wait(seconds):
                    await self._wait(seconds)
                case Break():
                    raise broken()
                case _:
                    yield piece
        self.is_read_to_end = True

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return
        raise broken()

    def close(self) -> None:
        if self.closed_at is None:
            self.closed_at = asyncio.get_running_loop().time()
            self._closing.set()


class ScriptedUpstream:
    """Answers each call with the next script; the last one stands for all that follow."""

    def __init__(self, *scripts: Script | Unreachable) -> None:
        self._scripts = list(scripts)
        self.calls: list[UpstreamRequest] = []
        self.called_at: list[float] = []
        self.answers: list[ScriptedAnswer] = []

    async def send(self, call: UpstreamRequest) -> ScriptedAnswer:
        self.calls.append(call)
        self.called_at.append(asyncio.get_running_loop().time())
        script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        if script.after:
            await asyncio.sleep(script.after)
        if isinstance(script, Unreachable):
            raise broken()
        answer = ScriptedAnswer(script)
        self.answers.append(answer)
        return answer

    async def close(self) -> None:
        """Nothing is open."""


class RememberingClient:
    """What the client got, and when. `slowness` is how long it takes for each piece."""

    def __init__(self, slowness: float = 0.0) -> None:
        self.transport: Transport = SSE_TRANSPORT
        self.direct: DirectConnection | None = None
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.writes: list[bytes] = []
        self.times: list[float] = []
        self.is_ended = False
        self.is_broken_off = False
        self.is_cut = False
        self._slowness = slowness
        self._is_taking = False

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        assert not self.status, "a second head"
        self.status, self.headers = status, headers

    async def send(self, output: Output) -> None:
        await self._take(self.transport.encode(output))

    async def end(self, output: Output = ()) -> None:
        await self._take(self.transport.encode_end(output))
        self.is_ended = True

    async def ping(self, data: bytes) -> None:
        await self._take(data)

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        await self.start(status, headers)
        await self._take(body)
        self.is_ended = True

    def abort(self, *, at_once: bool = False) -> None:
        self.is_broken_off = True
        self.is_cut = at_once

    async def _take(self, data: bytes) -> None:
        assert self.status, "a body before the head"
        assert not self.is_ended, "something after the end"
        assert not self._is_taking, "two sends at once"
        if self._slowness:
            self._is_taking = True
            try:
                await asyncio.sleep(self._slowness)
            finally:
                self._is_taking = False
        if data:
            self.writes.append(data)
            self.times.append(asyncio.get_running_loop().time())

    @property
    def body(self) -> bytes:
        return b"".join(self.writes)

    def json(self) -> dict[str, Any]:
        value = msgspec.json.decode(self.body)
        assert isinstance(value, dict)
        return value


class Ask(msgspec.Struct, kw_only=True):
    """A client's request: what stands beside the body, the body, and the form of the stream."""

    metadata: RequestMetadata
    body: bytes
    as_array: bool = False
    caller: Caller = ANONYMOUS

    def plan(self, now: float = 0.0) -> RequestPlan:
        return RequestPlan(self.metadata, self.body, created=int(now))


class ExchangeResult(msgspec.Struct, frozen=True):
    """The record of an exchange, and what its client received."""

    client: RememberingClient
    record: ExchangeRecord


def provider(
    name: str,
    dialect: str = "openai_chat",
    *,
    keys: Sequence[str] = (),
    retries: int = 2,
    timeouts: Timeouts | None = None,
) -> Provider:
    return Provider(
        name=name,
        dialect=dialect,
        base_url="http://upstream.invalid",
        keys=tuple(Secret(key) for key in keys),
        retries=retries,
        timeouts=timeouts or Timeouts(),
    )


class Bench:
    """A gateway over scripted upstreams. Every model goes to all of them, in order, by its own name."""

    def __init__(
        self,
        upstreams: Mapping[str, ScriptedUpstream],
        providers: Sequence[Provider] = (),
        *,
        ping: float = 10.0,
        model: str = "*",
        strict: bool = False,
        hedge: float = 0.0,
        order: Order = "listed",
        jitter: Callable[[], float] = lambda: 0.5,
    ) -> None:
        known = {each.name: each for each in providers}
        used = {name: known.get(name) or provider(name) for name in upstreams}
        targets = tuple(TargetName(name, model) for name in upstreams)
        config = Config(
            server=ServerSettings(ping=ping),
            providers=used,
            routes=(Route(match="*", targets=targets, strict=strict, hedge=hedge, order=order),),
        )
        self.gateway = Gateway(config, upstreams=upstreams, clock=lambda: 1_800_000_000.5, random=jitter)

    def exchange(self, ask: Ask, client: RememberingClient) -> Exchange:
        if ask.as_array:
            client.transport = JsonArrayTransport()
        return Exchange(self.gateway, ask.plan(self.gateway.clock()), client, ask.caller)

    async def run_exchange(self, ask: Ask, client: RememberingClient | None = None) -> ExchangeResult:
        client = client or RememberingClient()
        exchange = self.exchange(ask, client)
        await exchange.run()
        return ExchangeResult(client, exchange.record)


def ask(
    dialect: str,
    *,
    stream: bool = True,
    model: str = "model",
    headers: Mapping[str, str] | None = None,
    as_array: bool = False,
    body: Mapping[str, object] | None = None,
) -> Ask:
    """A small question in any dialect."""
    question: dict[str, object] = dict(body or {})
    if dialect == "gemini":
        question |= {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
    elif dialect == "openai_responses":
        question |= {"model": model, "input": "hello", "stream": stream}
    else:
        question |= {"model": model, "stream": stream, "messages": [{"role": "user", "content": "hello"}]}
        question |= {"max_tokens": 100} if dialect == "anthropic" else {}
        if dialect == "openai_chat" and stream:
            question.setdefault("stream_options", {"include_usage": True})
    return Ask(
        metadata=RequestMetadata(
            dialect=dialect,
            headers=headers or {},
            model=model if dialect == "gemini" else "",
            stream=stream if dialect == "gemini" else False,
            request_id="req_1",
        ),
        body=msgspec.json.encode(question),
        as_array=as_array,
    )


def record_of(question: Ask) -> ExchangeRecord:
    """The record of an exchange that has not begun."""
    return ExchangeRecord(question.metadata, question.caller)
