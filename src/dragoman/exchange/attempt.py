"""One try of one target: send, listen, and pass on what comes.

Whatever goes wrong before the first word is raised, and nothing has been said; whatever goes wrong after
it is told to the client, and returned.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

from dragoman.dialects.registry import dialect_named
from dragoman.exchange.allowances import passed_on, with_seconds
from dragoman.exchange.ask import Line
from dragoman.exchange.delivery import Delivery
from dragoman.exchange.flows import Flow
from dragoman.exchange.gateway import Gateway
from dragoman.exchange.journey import Leg, WholeReply
from dragoman.exchange.pulse import Pulse
from dragoman.exchange.record import SESSION_HEADER, Record
from dragoman.exchange.view import Contact
from dragoman.hub.errors import Failure, UpstreamFailed
from dragoman.hub.events import ReplyFailed
from dragoman.upstream.port import PushReply, UpstreamReply, UpstreamRequest

#: A reply that is not streamed must fit in memory.
MAX_WHOLE_REPLY = 64 * 1024 * 1024
MAX_ERROR_BODY = 256 * 1024
#: What may come before the first word; an upstream with more to say gets committed to.
MAX_HELD = 1024 * 1024
#: After its last word an upstream gets this long to end the connection cleanly, so that it can be used again.
LINGER = 1.0

_REQUEST_ID_HEADERS = ("request-id", "x-request-id")


class Attempt:
    def __init__(
        self,
        gateway: Gateway,
        contact: Contact,
        leg: Leg,
        delivery: Delivery,
        pulse: Pulse,
        record: Record,
    ) -> None:
        self._gateway = gateway
        self._contact = contact
        self._leg = leg
        self._delivery = delivery
        self._pulse = pulse
        self._record = record
        self._loop = asyncio.get_running_loop()
        self._flow: Flow | None = None
        self._whole_reply: WholeReply | None = None
        #: Words of the reply's that wait until an answer can no longer be taken back.
        self._unsaid: list[bytes] = []

    async def run(self, key: int) -> Failure | None:
        """Raises `UpstreamFailed` if nothing was said; returns why the reply ended badly, if it did."""
        failure = await self._ask(self._leg.call, key)
        while self._leg.waits:
            failure = await self._ask_again(key)
        return failure

    async def _ask_again(self, key: int) -> Failure | None:
        """The same reply goes on with the answer to another question."""
        told = self._record.tally.usage if self._record.tally else None
        self._record.earlier_input += (told.input or 0) if told else 0
        try:
            return await self._ask(self._next_call, key)
        except UpstreamFailed as error:
            if self._flow is None or not self._delivery.spoke:
                raise
            self._record.broken = failure = self._told(error.failure)
            out = b"".join([*self._unsaid, self._flow.fail(ReplyFailed("failed", failure))])
            await self._delivery.finish(self._hidden(out), failed=True)
            return failure

    def _next_call(self, key: int) -> UpstreamRequest:
        call = self._leg.next_call(key)
        reply = self._flow or self._whole_reply
        if reply is not None:
            reply.go_on()
        return call

    async def _ask(self, call: Callable[[int], UpstreamRequest], key: int) -> Failure | None:
        """One question and its answer. What was asked is let go as soon as it is sent."""
        provider = self._leg.provider
        answer = await self._contact.upstream.send(call(key))
        self._pulse.listen(provider.timeouts, answer.close, self._loop.time())
        try:
            self._note_head(answer)
            if answer.status >= 300:
                raise await self._read_failure(answer)
            if self._record.stream:
                return await self._stream(answer)
            return await self._whole(answer)
        finally:
            self._pulse.stop_listening()
            answer.close()

    async def tell_end(self, why: Failure) -> None:
        """Somebody ends a reply that has begun."""
        if self._flow is not None:
            self._record.broken = why
            await self._delivery.finish(self._flow.fail(ReplyFailed("cancelled", why)), failed=True)

    def _note_head(self, answer: UpstreamReply) -> None:
        headers = answer.headers
        self._record.upstream_id = next(
            (headers[name] for name in _REQUEST_ID_HEADERS if name in headers), ""
        )
        if self._leg.provider.dialect == "claude_code":
            self._record.session = headers.get(SESSION_HEADER, "")
        self._delivery.allowances = passed_on(
            headers, self._leg.provider.wire_dialect, self._record.dialect, self._gateway.clock()
        )

    async def _stream(self, answer: UpstreamReply) -> Failure | None:
        flow = self._flow
        if flow is None:
            self._flow = flow = self._leg.flow(answer.headers.get("content-type", "").lower())
            self._record.tally, self._record.snapshot = flow.tally, self._leg.snapshot
        self._pulse.tick = self._tick if self._leg.limits_holding else None
        pieces = answer.pieces()
        await self._first_words(pieces, flow)
        if self._leg.waits and not flow.tally.has_content:
            await _read_up(pieces)
            return None
        out = b"".join(self._unsaid)
        self._unsaid.clear()
        self._record.first_token = self._record.first_token or self._loop.time() - self._pulse.started
        self._leg.forget()
        if flow.over:
            await self._finish(out, flow, pieces)
        else:
            await self._delivery.say(out)
            await self._rest(answer, flow)
        return self._record.broken

    def _tick(self) -> None:
        """Time has passed; the upstream is silent, and the client is being told nothing."""
        if self._flow is None or self._flow.over:
            return
        out = self._flow.tick()
        if not self._delivery.spoke:
            self._unsaid.append(out)
        elif out:
            self._delivery.interject(out)

    async def _first_words(self, pieces: AsyncIterator[bytes], flow: Flow) -> None:
        """Whatever comes up to the first word of the answer. A failure until then is nobody's but ours."""
        held = self._unsaid
        size = 0
        try:
            async for piece in pieces:
                self._pulse.heard += len(piece)
                out = flow.feed(piece)
                held.append(out)
                size += len(out)
                if flow.over or flow.tally.has_content or size > MAX_HELD:
                    break
            else:
                held.append(flow.close())
        except UpstreamFailed as error:
            raise UpstreamFailed(self._true_cause(error)) from None
        failure = flow.tally.failure
        if failure is not None:
            raise UpstreamFailed(self._told(failure))

    async def _rest(self, answer: UpstreamReply, flow: Flow) -> None:
        """One write per read, until the reply has had its last word."""
        line = self._delivery.client.line
        try:
            if line is not None and isinstance(answer, PushReply):
                out = await self._pour(answer, flow, line)
            else:
                out = await self._pass_on(answer.pieces(), flow)
        except UpstreamFailed as error:
            out = flow.fail(ReplyFailed("truncated", self._true_cause(error)))
        await self._finish(out, flow, answer.pieces())

    async def _pass_on(self, pieces: AsyncIterator[bytes], flow: Flow) -> bytes:
        """The last words, after everything before them has been sent."""
        pulse, delivery = self._pulse, self._delivery
        async for piece in pieces:
            pulse.heard += len(piece)
            out = flow.feed(piece)
            if flow.over:
                return out
            if out:
                await delivery.say(out)
        return flow.close()

    async def _pour(self, answer: PushReply, flow: Flow, line: Line) -> bytes:
        """The same by the short way: from socket to socket, without waking this task for every piece."""
        pulse, feed, write = self._pulse, flow.feed, line.write
        last = b""

        def sink(piece: bytes) -> bool:
            nonlocal last
            pulse.heard += len(piece)
            out = feed(piece)
            if flow.over:
                last = out
                return False
            if not out:
                # A client that is told nothing, because something is held back, needs signs of life.
                return True
            pulse.told = True
            return write(out)

        while not await answer.push_to(sink):
            if flow.over:
                return last
            pulse.sending = True
            await line.drained()
            pulse.sending = False
        return flow.close()

    async def _finish(self, out: bytes, flow: Flow, pieces: AsyncIterator[bytes]) -> None:
        """The last words, and the end of the upstream's stream behind them."""
        if self._leg.waits:
            if out:
                await self._delivery.say(out)
            return await _read_up(pieces)
        failure, trails = flow.tally.failure, flow.trails
        if failure is not None:
            self._record.broken = self._told(failure)
            out = self._hidden(out)
        if trails:
            await self._delivery.say(out)
        else:
            await self._delivery.finish(out, failed=failure is not None)
        try:
            async with asyncio.timeout(LINGER):
                async for piece in pieces:
                    if trails and (more := flow.feed(piece)):
                        await self._delivery.say(more if failure is None else self._hidden(more))
        except (TimeoutError, UpstreamFailed):
            pass
        if trails:
            rest = flow.close()
            await self._delivery.finish(rest if failure is None else self._hidden(rest))

    async def _whole(self, answer: UpstreamReply) -> Failure | None:
        body = await self._read_all(answer, MAX_WHOLE_REPLY)
        whole = self._whole_reply
        if whole is None:
            self._whole_reply = whole = self._leg.whole()
            self._record.tally, self._record.snapshot = whole.tally, self._leg.snapshot
        whole.feed(body, answer.headers.get("content-type", "").lower())
        if self._leg.waits:
            return None
        failure = whole.tally.failure
        if failure is not None:
            raise UpstreamFailed(self._told(failure))
        self._record.first_token = self._loop.time() - self._pulse.started
        self._leg.forget()
        await self._delivery.whole(whole.body())
        return None

    async def _read_all(self, answer: UpstreamReply, limit: int) -> bytes:
        pieces: list[bytes] = []
        size = 0
        try:
            async for piece in answer.pieces():
                self._pulse.heard += len(piece)
                size += len(piece)
                if size > limit:
                    message = f"the upstream's reply is longer than {limit} bytes"
                    raise UpstreamFailed(Failure(kind="server", status=502, message=message))
                pieces.append(piece)
        except UpstreamFailed as error:
            raise UpstreamFailed(self._true_cause(error)) from None
        return b"".join(pieces)

    async def _read_failure(self, answer: UpstreamReply) -> UpstreamFailed:
        try:
            body = await self._read_all(answer, MAX_ERROR_BODY)
        except UpstreamFailed:
            body = b""
        dialect = dialect_named(self._leg.provider.wire_dialect)
        headers = with_seconds(answer.headers, self._gateway.clock())
        # Whatever an upstream means by sending us elsewhere, it is no answer to the client.
        status = answer.status if answer.status >= 400 else 502
        return UpstreamFailed(self._told(dialect.read_error(status, headers, body)))

    def _true_cause(self, error: UpstreamFailed) -> Failure:
        """A connection that we closed because of a limit broke off for that reason."""
        expired = self._pulse.expired
        if not expired:
            return error.failure
        message = f"provider {self._leg.provider.name} fell silent: {expired}"
        return Failure(kind="timeout", status=504, message=message)

    def _hidden(self, data: bytes) -> bytes:
        return self._contact.secrets.hidden_bytes(data)

    def _told(self, failure: Failure) -> Failure:
        return self._contact.secrets.told(failure)


async def _read_up(pieces: AsyncIterator[bytes]) -> None:
    """Let an upstream that has said all end its stream, so that its connection can be used again."""
    try:
        async with asyncio.timeout(LINGER):
            async for _ in pieces:
                pass
    except (TimeoutError, UpstreamFailed):
        pass
