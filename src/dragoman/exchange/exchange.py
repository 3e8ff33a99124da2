"""One exchange: a client's request on its way to a model and the reply on its way back.

Until the first word of an answer has come, another target can take over without the client noticing.
After it, the client is told the truth in its own dialect.
"""

import asyncio
import time
from collections.abc import Mapping
from random import SystemRandom

from dragoman.config.model import Provider, TargetName
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.ask import Ask, Client
from dragoman.exchange.flows import Flow
from dragoman.exchange.gateway import Gateway
from dragoman.exchange.journey import Journey
from dragoman.exchange.pulse import Pulse
from dragoman.exchange.record import Record
from dragoman.hub.errors import DragomanError, Failure, UpstreamFailed
from dragoman.hub.events import ReplyFailed
from dragoman.routing.choose import choose
from dragoman.routing.retry import plan
from dragoman.upstream.port import Answer

#: A reply that is not streamed must fit in memory.
MAX_WHOLE_REPLY = 64 * 1024 * 1024
MAX_ERROR_BODY = 256 * 1024
#: After its last word an upstream gets this long to end the connection cleanly, so that it can be used again.
LINGER = 1.0

STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
PINGS = {
    "anthropic": b'event: ping\ndata: {"type":"ping"}\n\n',
    "openai_chat": b": keep-alive\n\n",
    "openai_responses": b": keep-alive\n\n",
}
COMMENT = b": waiting\n\n"

_dice = SystemRandom()


class Exchange:
    """Runs once. `record` tells afterwards what happened."""

    def __init__(self, gateway: Gateway, ask: Ask, client: Client) -> None:
        self._gateway = gateway
        self._ask = ask
        self._client = client
        self._dialect = dialect_named(ask.dialect)
        self._loop = asyncio.get_running_loop()
        self._committed = False
        self._wrote = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._pulse = Pulse(self._loop.time(), ping_every=self._ping_every(), ping=self._ping)
        self._journey: Journey | None = None
        self.record = Record(ask)

    async def run(self) -> None:
        self._gateway.heart.add(self._pulse)
        try:
            self._journey = journey = Journey(self._ask, created=int(time.time()))
            self.record.asked(journey.request)
            choice = choose(self._gateway.config, journey.request.model)
            self.record.route = choice.route
            await self._try_targets(journey, choice.targets, strict=choice.strict)
        except DragomanError as error:
            await self._refuse(error.failure)
        except asyncio.CancelledError:
            self.record.ended("cancelled", None)
            raise
        finally:
            self._gateway.heart.remove(self._pulse)
            self.record.seconds = self._loop.time() - self._pulse.started

    async def _try_targets(self, journey: Journey, targets: tuple[TargetName, ...], *, strict: bool) -> None:
        gateway = self._gateway
        keys = {name: len(provider.keys) for name, provider in gateway.config.providers.items()}
        places = gateway.health.order(targets, keys, journey.session, self._loop.time())
        last: DragomanError | None = None
        for target, key in places:
            provider = gateway.config.providers[target.provider]
            tries = 0
            while True:
                try:
                    self.record.target = target
                    await self._try(journey, provider, target, key, strict=strict)
                except UpstreamFailed as error:
                    if self._wrote:
                        raise
                    last = error
                    tries += 1
                    self.record.failed_tries += 1
                    gateway.health.failed(target, key, error.failure, self._loop.time())
                    step = plan(error.failure, tries=tries, allowed=provider.retries, jitter=_dice.random())
                    if step.step == "give up":
                        raise
                    if step.step == "elsewhere":
                        break
                    await asyncio.sleep(step.wait)
                else:
                    gateway.health.worked(target, key)
                    return
        if last is not None:
            raise last

    async def _try(
        self, journey: Journey, provider: Provider, target: TargetName, key: int, *, strict: bool
    ) -> None:
        call, losses = journey.call(provider, target, key, strict=strict)
        self.record.losses = losses
        answer = await self._gateway.upstream(provider.name).send(call)
        self._pulse.listen(provider.timeouts, answer.close, self._loop.time())
        try:
            if answer.status >= 300:
                raise await self._read_failure(answer, provider)
            if journey.request.stream:
                await self._stream(answer, journey.flow(provider, target, self._ids_seed()))
            else:
                await self._whole(answer, journey, provider, target)
        finally:
            self._pulse.stop_listening()
            answer.close()

    async def _stream(self, answer: Answer, flow: Flow) -> None:
        held = b""
        pulse, loop = self._pulse, self._loop
        done = False
        try:
            async for piece in answer.pieces():
                if done:
                    break
                pulse.heard = loop.time()
                pulse.first = False
                out = held + flow.feed(piece)
                held = await self._pass_on(out, flow)
                done = flow.tally.ending is not None
                if done and not held:
                    await self._client.end()
                    return await self._linger(answer, flow)
        except UpstreamFailed as error:
            held = await self._broke(error.failure, flow, held)
        else:
            held = await self._pass_on(held + flow.close(), flow)
        if held:
            await self._deliver(held)
        await self._client.end()
        self._note_end(flow)

    async def _linger(self, answer: Answer, flow: Flow) -> None:
        self._note_end(flow)
        try:
            async with asyncio.timeout(LINGER):
                async for _ in answer.pieces():
                    pass
        except (TimeoutError, UpstreamFailed):
            pass

    async def _pass_on(self, out: bytes, flow: Flow) -> bytes:
        """Send what may be sent; before the first word, hold it and let failures reach the next target."""
        tally = flow.tally
        if not self._wrote:
            if tally.failure is not None:
                raise UpstreamFailed(tally.failure)
            if not tally.spoke and tally.ending is None:
                return out
        if out:
            await self._deliver(out)
        return b""

    async def _broke(self, failure: Failure, flow: Flow, held: bytes) -> bytes:
        """The connection or a time limit ended the reply."""
        if self._pulse.expired:
            failure = Failure(
                kind="timeout", status=504, message=f"the upstream fell silent: {self._pulse.expired}"
            )
        if not self._wrote:
            raise UpstreamFailed(failure)
        return held + flow.fail(ReplyFailed("truncated", failure))

    async def _whole(self, answer: Answer, journey: Journey, provider: Provider, target: TargetName) -> None:
        body = await self._read_all(answer, MAX_WHOLE_REPLY)
        status, whole, flow_tally = journey.whole(body, provider, target, self._ids_seed())
        self.record.tally = flow_tally
        if flow_tally.failure is not None and status != 200:
            raise UpstreamFailed(flow_tally.failure)
        self._wrote = self._committed = True
        self.record.first_word = self._loop.time() - self._pulse.started
        await self._client.head(200, {**self._headers(), "content-type": "application/json"})
        await self._client.send(whole)
        await self._client.end()
        self.record.ended("finished" if flow_tally.failure is None else "failed", flow_tally.failure)

    async def _read_all(self, answer: Answer, limit: int) -> bytes:
        pieces: list[bytes] = []
        size = 0
        try:
            async for piece in answer.pieces():
                self._pulse.heard = self._loop.time()
                self._pulse.first = False
                size += len(piece)
                if size > limit:
                    raise UpstreamFailed(
                        Failure(
                            kind="server", status=502, message=f"the upstream's reply exceeds {limit} bytes"
                        )
                    )
                pieces.append(piece)
        except UpstreamFailed as error:
            if self._pulse.expired:
                message = f"the upstream fell silent: {self._pulse.expired}"
                raise UpstreamFailed(Failure(kind="timeout", status=504, message=message)) from None
            raise error
        return b"".join(pieces)

    async def _read_failure(self, answer: Answer, provider: Provider) -> UpstreamFailed:
        try:
            body = await self._read_all(answer, MAX_ERROR_BODY)
        except UpstreamFailed:
            body = b""
        failure = dialect_named(provider.wire_dialect).read_error(answer.status, answer.headers, body)
        return UpstreamFailed(self._gateway.blamed(failure, provider))

    async def _deliver(self, data: bytes) -> None:
        if not self._committed:
            self._committed = True
            await self._client.head(200, {**self._headers(), **STREAM_HEADERS})
        if not self._wrote:
            self._wrote = True
            self.record.first_word = self._loop.time() - self._pulse.started
        self._pulse.told = self._loop.time()
        await self._client.send(data)

    async def _refuse(self, failure: Failure) -> None:
        """No target could answer: a true status if nothing was sent, otherwise the dialect's own error."""
        self.record.ended("failed", failure)
        if self._committed:
            writer_flow = self._journey.failed(ReplyFailed("failed", failure)) if self._journey else b""
            await self._client.send(writer_flow)
        else:
            headers = {
                **self._headers(),
                "content-type": "application/json",
                **self._dialect.error_headers(failure),
            }
            await self._client.head(self._dialect.error_status(failure), headers)
            await self._client.send(self._gateway.encode(self._dialect.write_error(failure)))
        await self._client.end()

    def _note_end(self, flow: Flow) -> None:
        self.record.tally = flow.tally
        failure = flow.tally.failure
        self.record.ended("finished" if failure is None else "failed", failure)

    def _headers(self) -> Mapping[str, str]:
        return self.record.headers()

    def _ids_seed(self) -> str:
        return self._ask.request_id

    def _ping_every(self) -> float:
        return self._gateway.config.server.ping if self._ask.dialect in PINGS else 0.0

    def _ping(self) -> None:
        """A sign of life. Before the first word it may not be an event, because the reply has not started."""
        if self._journey is None or not self._journey.request.stream:
            return
        task = self._loop.create_task(self._send_ping())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_ping(self) -> None:
        if not self._committed:
            self._committed = True
            await self._client.head(200, {**self._headers(), **STREAM_HEADERS})
        await self._client.send(PINGS[self._ask.dialect] if self._wrote else COMMENT)
