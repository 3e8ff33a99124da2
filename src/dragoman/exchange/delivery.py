"""The client's end of an exchange: what it has been told, and so what can still be said.

Three points of no return: when the head is out the status is fixed; when words are out no other target can
take over; when the end is out nothing can follow.
"""

import asyncio
from collections.abc import Mapping

from dragoman.dialects.registry import dialect_named
from dragoman.exchange.advice import advised
from dragoman.exchange.ask import Ask, Client
from dragoman.exchange.pulse import Pulse
from dragoman.exchange.record import Record
from dragoman.hub.errors import Failure
from dragoman.wire.fields import encode

STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
JSON = {"content-type": "application/json"}

#: Signs of life. Gemini's clients take nothing but data.
PINGS = {
    "anthropic": b'event: ping\ndata: {"type":"ping"}\n\n',
    "openai_chat": b": keep-alive\n\n",
    "openai_responses": b": keep-alive\n\n",
}
#: Before a reply has begun there can be no event in it.
WAITING = b": waiting\n\n"

#: Gemini's own agent reads an error in a stream that ends well and takes a broken one for fatal; the other
#: clients take a stream that ends well for whole, whatever it said.
_READS_ERRORS = "GeminiCLI"


class Delivery:
    """Speaks to the client. `pinging` is a sign of life that is on its way: wait for it before you speak."""

    def __init__(self, ask: Ask, client: Client, record: Record, pulse: Pulse) -> None:
        self._dialect = dialect_named(ask.dialect)
        self._as_array = ask.as_array
        self._breaks = ask.dialect == "gemini" and _READS_ERRORS not in ask.agent
        self.client = client
        self._record = record
        self._pulse = pulse
        self._ended = False
        #: What the upstream tells of its limits, and what there is to tell of the client's own.
        self.allowances: Mapping[str, str] = {}
        self.own_allowances: Mapping[str, str] = {}
        self.committed = False
        self.spoke = False
        self.pinging: asyncio.Task[None] | None = None

    async def say(self, data: bytes) -> None:
        """Words of a stream."""
        await self._ready()
        await self._commit()
        self.spoke = True
        await self.client.send(data)
        self._pulse.sending = False
        self._pulse.told = True

    async def finish(self, data: bytes, *, failed: bool = False) -> None:
        """The last words of a stream; only the first end counts."""
        if self._ended:
            return
        await self._ready()
        await self._commit()
        self._ended = True
        if failed and self._breaks:
            await self.client.send(data)
            self.client.break_off()
        else:
            await self.client.end(data)
        self._pulse.sending = False

    async def whole(self, body: bytes) -> None:
        """A whole reply."""
        self.committed = self.spoke = self._ended = True
        await self._answer(200, {**JSON, **self._shown_allowances()}, body)

    async def refuse(self, failure: Failure) -> None:
        """An error in the client's dialect, with its true status."""
        self.committed = self._ended = True
        failure, headers = advised(failure, self._dialect)
        error: object = self._dialect.write_error(failure)
        status = self._dialect.error_status(failure)
        headers = {**JSON, **self.own_allowances, **headers}
        await self._answer(status, headers, encode([error] if self._as_array else error))

    def cut(self) -> None:
        """Hang up on a client that is beyond reach."""
        self._ended = True
        self.client.break_off(at_once=True)

    def close(self) -> None:
        """The exchange is over, one way or another."""
        self._ended = True
        if self.pinging is not None:
            self.pinging.cancel()

    def ping(self) -> None:
        """A sign of life, unless the client is busy with something better."""
        if self._ended or self._pulse.sending or self.pinging is not None:
            return
        self.pinging = asyncio.get_running_loop().create_task(self._ping())

    def interject(self, data: bytes) -> None:
        """Words of a stream that has begun, from somebody who cannot wait until they are sent."""
        if self._ended:
            return
        self._pulse.told = True
        line = self.client.line
        if line is not None:
            line.write(data)
        else:
            self.pinging = asyncio.get_running_loop().create_task(self._send(self.pinging, data))

    async def _send(self, before: asyncio.Task[None] | None, data: bytes) -> None:
        if before is not None:
            await before
        await self.client.send(data)
        self.pinging = None

    async def _ping(self) -> None:
        # What ended in the meantime needs no sign of life; its head may not even be out.
        if not self._ended:
            await self._commit(is_waiting=True)
            await self.client.send(PINGS[self._dialect.name] if self.spoke else WAITING)
        self.pinging = None

    async def _ready(self) -> None:
        """Nothing else is being said, nor will be until this is out."""
        if self.pinging is not None:
            # Whoever waits here may be cancelled, to say something else; the sign of life goes on.
            await asyncio.wait((self.pinging,))
        self._pulse.sending = True

    async def _commit(self, *, is_waiting: bool = False) -> None:
        if not self.committed:
            self.committed = True
            kind = JSON if self._as_array else STREAM_HEADERS
            self._record.status = 200
            told = self._record.headers(is_waiting=is_waiting)
            allowances = self._shown_allowances(is_waiting=is_waiting)
            await self.client.head(200, {**told, **kind, **allowances})

    def _shown_allowances(self, *, is_waiting: bool = False) -> Mapping[str, str]:
        """A client that has limits of its own need not know those of the gateway."""
        return self.own_allowances or ({} if is_waiting else self.allowances)

    async def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        await self._ready()
        self._record.status = status
        size = {"content-length": str(len(body))}
        await self.client.head(status, {**headers, **self._record.headers(), **size})
        await self.client.end(body)
        self._pulse.sending = False
