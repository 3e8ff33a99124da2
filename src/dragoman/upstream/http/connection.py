"""One HTTP/1.1 connection to an upstream, and one reply on it.

The work per piece is a parse, a flag and a wake-up: this is where a gateway's time goes. A reply keeps
what has come for it, so that its connection is free for the next call as soon as the last byte is there.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import cast

import httptools

from dragoman.hub.errors import UpstreamFailed

MAX_HEAD = 64 * 1024
#: Bytes that may wait to be taken; more than this and the upstream has to wait too.
HIGH_WATER = 256 * 1024

#: Statuses whose replies have no body, whatever their headers say.
_BODILESS = frozenset({204, 304})

#: What servers get wrong without meaning harm.
_LENIENCIES = {
    "lenient_headers": True,
    "lenient_optional_cr_before_lf": True,
    "lenient_spaces_after_chunk_size": True,
}


class Reply:
    """An answer as it arrives: await `head`, then iterate over the pieces."""

    def __init__(self, connection: "Connection", failed: Callable[[str], UpstreamFailed]) -> None:
        self._connection = connection
        self._failed = failed
        self._loop = connection.loop
        self._waiter: asyncio.Future[None] | None = None
        self._sink: Callable[[bytes], bool] | None = None
        self._broken = ""
        self._is_complete = False
        self._pieces: list[bytes] = []
        self.push = self._pieces.append
        self.size = 0
        self.status = 0
        self.headers: Mapping[str, str] = {}

    async def head(self) -> None:
        """Wait for status and headers."""
        while not self.status:
            self._raise_if_broken()
            await self._wait()

    def pieces(self) -> AsyncIterator[bytes]:
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """All that has come since the last time."""
        pieces = self._pieces
        while not pieces:
            if self._is_complete:
                raise StopAsyncIteration
            self._raise_if_broken()
            await self._wait()
        return self._taken()

    async def push_to(self, sink: Callable[[bytes], bool]) -> bool:
        """Give every piece to `sink` as it comes: True when all is said, False when it has had enough.

        Only then is the caller woken: to wake a task costs as much as to parse a piece.
        """
        while True:
            if self._pieces:
                if not sink(self._taken()):
                    return False
            elif self._is_complete:
                return True
            else:
                self._raise_if_broken()
                self._sink = sink
                try:
                    await self._wait()
                finally:
                    has_enough, self._sink = self._sink is None, None
                if has_enough:
                    return False

    def close(self) -> None:
        """Let go. An unfinished reply is cancelled at the upstream; whoever waits for it is told."""
        if not self._is_complete and not self._broken:
            self.break_off("was hung up on")
            self._connection.abort()

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self.status = status

    def complete(self) -> None:
        self._is_complete = True

    def break_off(self, why: str) -> None:
        self._broken = why
        self.wake()

    def arrived(self) -> None:
        """Something has come: to the sink with it, or wake whoever waits."""
        sink = self._sink
        if sink is not None and self._pieces:
            if not sink(self._taken()):
                self._sink = None
            elif not self._is_complete:
                return
        self.wake()

    def _taken(self) -> bytes:
        pieces = self._pieces
        taken = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.size = 0
        if not self._is_complete and self._connection.is_paused:
            self._connection.resume()
        return taken

    def wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def _wait(self) -> asyncio.Future[None]:
        self._waiter = waiter = self._loop.create_future()
        return waiter

    def _raise_if_broken(self) -> None:
        if self._broken:
            raise self._failed(self._broken)


class Connection(asyncio.Protocol):
    """Carries one call at a time; `release` is called when it can carry another."""

    def __init__(self, loop: asyncio.AbstractEventLoop, release: Callable[["Connection"], None]) -> None:
        self.loop = loop
        self._release = release
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(**_LENIENCIES)
        self._reply: Reply | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_size = 0
        self._is_in_head = True
        self._ends_with_connection = False
        #: Something has come since the call was sent.
        self.has_heard = False
        self.is_paused = False
        self.is_closed = False
        #: When it was last given back, by the loop's clock.
        self.idle_since = 0.0

    def call(self, head: bytes, body: bytes, failed: Callable[[str], UpstreamFailed]) -> Reply:
        """Send a request; the reply arrives by and by."""
        self._reply = reply = Reply(self, failed)
        self._headers = []
        self._head_size = 0
        self._is_in_head = True
        self.has_heard = False
        if self._transport is None or self.is_closed:
            reply.break_off("closed the connection")
        else:
            self._transport.write(head)
            self._transport.write(body)
        return reply

    def abort(self) -> None:
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()

    def _pause(self) -> None:
        if self._transport is not None:
            self.is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        self.is_paused = False
        if self._transport is not None and not self.is_closed:
            self._transport.resume_reading()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        reply = self._reply
        if reply is None:
            # Nobody asked.
            self.abort()
            return
        self.has_heard = True
        reply.size += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._break("answered with something that is not HTTP")
            return
        if self._is_in_head:
            self._head_size += len(data)
            if self._head_size > MAX_HEAD:
                self._break("answered with a head that is too large")
            return
        reply.arrived()
        if reply.size > HIGH_WATER and self._reply is reply and not self.is_paused:
            self._pause()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        reply = self._reply
        if reply is None:
            return
        self._reply = None
        if self._ends_with_connection and not self._is_in_head and exc is None:
            reply.complete()
            reply.wake()
        else:
            reply.break_off("broke off" if self.has_heard else "closed the connection")

    def _break(self, why: str) -> None:
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.break_off(why)
        self.abort()

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._reply is None:
            # A second answer to one question.
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            # An interim answer; the true one follows.
            self._headers = []
            return
        headers = _named(self._headers)
        self._is_in_head = False
        self._ends_with_connection = (
            status not in _BODILESS and "content-length" not in headers and "transfer-encoding" not in headers
        )
        if self._reply is not None:
            self._reply.begin(status, headers)

    def on_body(self, body: bytes) -> None:
        if self._reply is not None:
            self._reply.push(body)

    def on_message_complete(self) -> None:
        if self._is_in_head:
            return
        reply, self._reply = self._reply, None
        if reply is None:
            return
        reply.complete()
        reply.wake()
        if self.is_paused:
            self.resume()
        if self._parser.should_keep_alive() and not self.is_closed:
            self._release(self)
        else:
            self.abort()


def _named(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """By names in lower case; of a header that comes twice the first counts."""
    headers: dict[str, str] = {}
    for name, value in raw:
        headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return headers
