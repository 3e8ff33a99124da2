"""Questions to one model, sent through a gateway in this process, within a token budget."""

from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import count

import msgspec

from dragoman.config.config import Config
from dragoman.config.model_facts import find_prices
from dragoman.config.provider import FactsByModel, Provider, TargetName
from dragoman.config.settings import ServerSettings
from dragoman.doctor.findings import Facts
from dragoman.doctor.replies import DIALECT, ProbeReply
from dragoman.exchange.client import DirectConnection
from dragoman.exchange.exchange import Exchange
from dragoman.exchange.gateway import Gateway
from dragoman.hub.usage import Usage
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.pipeline.transports import SSE
from dragoman.providers.prices import compute_cost
from dragoman.upstream.port import Upstream, UpstreamReply, UpstreamRequest
from dragoman.wire.sse import Frame, Output

#: The output limit of a question. Models that reason need some of it before the first word of the answer.
MAX_TOKENS = 1_024
#: For servers that do not report token counts.
BYTES_PER_TOKEN = 4
#: Bytes of a provider's reply that are kept.
MAX_RAW_REPLY = 4 * 1024 * 1024

SYSTEM = "You are being tested by a program. Do exactly what is asked, and say nothing else."

Message = dict[str, object]


class BudgetSpent(Exception):
    """The next question could cost more tokens than the budget has left."""


class QuestionRefused(Exception):
    """The gateway or the server answered a question with an error."""

    def __init__(self, reply: ProbeReply) -> None:
        super().__init__()
        self.reply = reply


class ModelConversation:
    """Sends questions to one target and counts the tokens.

    `upstream` answers in place of the provider; the caller closes it. Questions are not retried and
    not healed: a refusal is what a probe looks for.
    """

    def __init__(self, provider: Provider, model: str, upstream: Upstream, *, budget: int) -> None:
        self.target = TargetName(provider.name, model)
        self.provider = msgspec.structs.replace(provider, retries=0, heal=False)
        self.budget = budget
        self.tokens = 0
        self.micro_dollars = 0
        #: The reply to the latest question.
        self.last: ProbeReply | None = None
        self._recorder = RecordingUpstream(upstream)
        self._facts: Facts = {}
        self._numbers = count(1)
        self._gateway = Gateway(self._build_config(), upstreams={provider.name: self._recorder})

    def assume_facts(self, facts: Facts) -> None:
        """Apply these facts about the model, on top of the configured ones, to all later questions."""
        if facts != self._facts:
            self._facts = facts
            self._gateway.reload(self._build_config())

    async def ask(self, *messages: Message, max_tokens: int = MAX_TOKENS, **settings: object) -> ProbeReply:
        """Send a question and return the reply. Raises `QuestionRefused` if it is an error.

        `settings` are further members of the request, for example `tools`.
        """
        reply = await self.ask_model(self.target.model, *messages, max_tokens=max_tokens, **settings)
        if reply.failure is not None:
            raise QuestionRefused(reply)
        return reply

    async def ask_model(
        self, model: str, *messages: Message, max_tokens: int = MAX_TOKENS, **settings: object
    ) -> ProbeReply:
        """Send a question to any model of the provider and return the reply, also if it is an error."""
        question = {
            "model": str(TargetName(self.target.provider, model)),
            "max_tokens": max_tokens,
            "stream": True,
            "system": SYSTEM,
            "messages": list(messages),
            **settings,
        }
        body = msgspec.json.encode(question)
        if self.tokens + len(body) // BYTES_PER_TOKEN + max_tokens > self.budget:
            raise BudgetSpent
        client = MemoryClient()
        metadata = RequestMetadata(dialect=DIALECT, request_id=f"doctor-{next(self._numbers)}")
        exchange = Exchange(self._gateway, RequestPlan(metadata, body), client)
        await exchange.run()
        self.last = reply = ProbeReply(
            exchange.record,
            client.frames,
            sent=self._recorder.sent,
            raw=bytes(self._recorder.raw),
            content_type=self._recorder.content_type,
            wire=self.provider.wire_dialect,
        )
        self._count(reply)
        return reply

    async def close(self) -> None:
        await self._gateway.close()

    def _build_config(self) -> Config:
        provider = self.provider
        model = self.target.model
        models: FactsByModel = {**provider.models, model: {**provider.models.get(model, {}), **self._facts}}
        examined = msgspec.structs.replace(provider, models=models)
        # Without pings, the reply holds nothing but what the model sent.
        return Config(server=ServerSettings(ping=0.0), providers={provider.name: examined})

    def _count(self, reply: ProbeReply) -> None:
        reported = reply.usage
        if reply.failure is not None and reported == Usage():
            return
        usage = msgspec.structs.replace(
            reported,
            input=len(reply.sent) // BYTES_PER_TOKEN if reported.input is None else reported.input,
            output=len(reply.text) // BYTES_PER_TOKEN if reported.output is None else reported.output,
        )
        self.tokens += usage.total
        prices = find_prices(self._gateway.config, self.target)
        self.micro_dollars += compute_cost(prices, usage) if prices else 0


def user_message(content: str | Sequence[Message]) -> Message:
    return {"role": "user", "content": content if isinstance(content, str) else list(content)}


def build_results(reply: ProbeReply, **results: str) -> tuple[Message, Message]:
    """The model's message, unchanged, and a user message with the results of its calls, by tool name."""
    message: Message = {"role": "assistant", "content": reply.blocks}
    blocks: list[Message] = [
        {"type": "tool_result", "tool_use_id": call.id, "content": results.get(call.name, "done")}
        for call in reply.calls
    ]
    return message, user_message(blocks)


class RecordingUpstream:
    """Forwards to another upstream and keeps the latest request and reply."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self.content_type = ""
        self.sent = b""
        self.raw = bytearray()

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        self.sent, self.content_type = request.body, ""
        self.raw.clear()
        answer = await self._upstream.send(request)
        self.content_type = answer.headers.get("content-type", "")
        return RecordedReply(answer, self.raw)

    async def close(self) -> None:
        """Do nothing: a reload of the gateway closes its upstreams, and the next question needs this one."""


class RecordedReply:
    """An upstream reply that also appends each piece to `raw`."""

    def __init__(self, answer: UpstreamReply, raw: bytearray) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._answer = answer
        self._raw = raw
        self._iterator = self._record()

    def pieces(self) -> AsyncIterator[bytes]:
        return self._iterator

    async def _record(self) -> AsyncIterator[bytes]:
        async for piece in self._answer.pieces():
            if len(self._raw) + len(piece) <= MAX_RAW_REPLY:
                self._raw += piece
            yield piece

    def close(self) -> None:
        self._answer.close()


class MemoryClient:
    """A client of the exchange that keeps the frames of the response."""

    transport = SSE

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.direct: DirectConnection | None = None

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Ignore the status: the record of the exchange holds the failure."""

    async def send(self, output: Output) -> None:
        self.frames.extend(output)

    async def end(self, output: Output = ()) -> None:
        self.frames.extend(output)

    async def ping(self, data: bytes) -> None:
        """Do nothing: there is no connection to keep alive."""

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Ignore an error response: the record of the exchange holds the failure."""

    def abort(self, *, at_once: bool = False) -> None:
        """Do nothing: there is no connection to close."""
