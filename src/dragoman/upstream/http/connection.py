"""One HTTP/1.1 connection to a provider, and one reply on it.

This is the hot path of the gateway. The event loop calls `data_received` with each read, the parser collects
the pieces of the body in a list, and the reply gets them joined. A reply with a sink (`push_to`) passes them
on at once; any other reply keeps them and wakes its task. A reply keeps its own bytes, so that its
connection is free for the next request as soon as the last byte has arrived.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import cast

import httptools

from dragoman.hub.errors import UpstreamFailed

MAX_HEAD = 64 * 1024
#: Unread bytes of a reply above which the connection stops reading.
HIGH_WATER = 256 * 1024

#: Statuses whose replies have no body, also if a header announces one.
_BODILESS = frozenset({204, 304})

#: Harmless mistakes of real servers that the parser accepts.
_LENIENCIES = {
    "lenient_headers": True,
    "lenient_optional_cr_before_lf": True,
    "lenient_spaces_after_chunk_size": True,
}


class HttpReply:
    """One reply. First await `wait_for_head`, then read with `pieces` or `push_to`.

    The methods `begin`, `receive`, `complete` and `break_off` are called by the connection.
    """

    def __init__(self, connection: "HttpConnection", build_failure: Callable[[str], UpstreamFailed]) -> None:
        self._connection = connection
        self._build_failure = build_failure
        self._loop = connection.loop
        self._waiter: asyncio.Future[None] | None = None
        self._sink: Callable[[bytes], bool] | None = None
        #: Why the reply broke off; empty while it has not.
        self._broken = ""
        self._is_complete = False
        self._pieces: list[bytes] = []
        #: Bytes received and not yet read.
        self.size = 0
        self.status = 0
        self.headers: Mapping[str, str] = {}

    async def wait_for_head(self) -> None:
        """Wait until `status` and `headers` are set."""
        while not self.status:
            self._raise_if_broken()
            await self._wait()

    def pieces(self) -> AsyncIterator[bytes]:
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """Return all bytes that have arrived since the last call."""
        pieces = self._pieces
        while not pieces:
            if self._is_complete:
                raise StopAsyncIteration
            self._raise_if_broken()
            await self._wait()
        return self._take()

    async def push_to(self, sink: Callable[[bytes], bool]) -> bool:
        """Call `sink` with each piece on arrival. Return True at the end, False once `sink` returns False.

        The calling task is woken only then, because waking a task costs as much as parsing a piece.
        """
        while True:
            if self._pieces:
                if not sink(self._take()):
                    return False
            elif self._is_complete:
                return True
            else:
                self._raise_if_broken()
                self._sink = sink
                try:
                    await self._wait()
                finally:
                    has_stopped, self._sink = self._sink is None, None
                if has_stopped:
                    return False

    def close(self) -> None:
        """Cancel the reply if it is not complete. A task that waits for a piece gets `UpstreamFailed`."""
        if not self._is_complete and not self._broken:
            self.break_off("was cancelled by the gateway")
            self._connection.abort()

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """The head has arrived."""
        self.headers = headers
        self.status = status
        self._wake()

    def receive(self, pieces: list[bytes]) -> None:
        """Take pieces of the body: for the sink, or for the waiting task, which is woken."""
        sink = self._sink
        if sink is None:
            self._pieces += pieces
            self.size += sum(map(len, pieces))
            pieces.clear()
            if self.size > HIGH_WATER:
                self._connection.pause()
        elif sink(pieces.pop() if len(pieces) == 1 else _take_joined(pieces)):
            return
        else:
            self._sink = None
        self._wake()

    def complete(self) -> None:
        """The last byte of the body has arrived."""
        self._is_complete = True
        self._wake()

    def break_off(self, reason: str) -> None:
        """No more bytes will arrive, although the body is not complete."""
        self._broken = reason
        self._wake()

    def _wake(self) -> None:
        """Wake the task that waits for the head or for a piece."""
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def _take(self) -> bytes:
        data = _take_joined(self._pieces)
        self.size = 0
        if not self._is_complete and self._connection.is_paused:
            self._connection.resume()
        return data

    def _wait(self) -> asyncio.Future[None]:
        self._waiter = waiter = self._loop.create_future()
        return waiter

    def _raise_if_broken(self) -> None:
        if self._broken:
            raise self._build_failure(self._broken)


class HttpConnection(asyncio.Protocol):
    """One connection. It carries one request at a time and calls `release` when it can carry another."""

    def __init__(self, loop: asyncio.AbstractEventLoop, release: Callable[["HttpConnection"], None]) -> None:
        self.loop = loop
        self._release = release
        self._transport: asyncio.Transport | None = None
        #: The pieces of a body in the current read. The parser adds them without a call of our own.
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(**_LENIENCIES)
        self._reply: HttpReply | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_size = 0
        self._is_in_head = True
        self._ends_with_connection = False
        #: Of a reply that has ended in this read: its last bytes, and whether a request may follow.
        self._rest = b""
        self._keeps_alive = False
        #: Whether bytes have arrived since the request was sent.
        self.has_received = False
        self.is_paused = False
        self.is_closed = False
        #: Loop time at which the pool last took it back.
        self.idle_since = 0.0

    def send(self, head: bytes, body: bytes, build_failure: Callable[[str], UpstreamFailed]) -> HttpReply:
        """Send a request and return its reply, whose head has not arrived yet."""
        self._reply = reply = HttpReply(self, build_failure)
        self._headers = []
        self._head_size = 0
        self._is_in_head = True
        self.has_received = False
        if self._transport is None or self.is_closed:
            reply.break_off("closed the connection")
        else:
            # One write: a head alone would be a packet of its own.
            self._transport.writelines((head, body))
        return reply

    def abort(self) -> None:
        """Close the connection at once."""
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()

    def resume(self) -> None:
        """Read again after `pause`."""
        self.is_paused = False
        if self._transport is not None and not self.is_closed:
            self._transport.resume_reading()

    def pause(self) -> None:
        """Read no more until `resume`. Called when `HIGH_WATER` is reached."""
        if self._transport is not None and not self.is_paused:
            self.is_paused = True
            self._transport.pause_reading()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        reply = self._reply
        if reply is None:
            # Bytes without a request: nothing after them can be trusted.
            self.abort()
            return
        self.has_received = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._refuse_rest(reply)
            return
        if self._reply is not reply:
            self._end(reply)
        elif self._pieces:
            reply.receive(self._pieces)
        elif self._is_in_head:
            self._head_size += len(data)
            if self._head_size > MAX_HEAD:
                self._break("answered with a head that is too large")

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        reply = self._reply
        if reply is None:
            return
        self._reply = None
        if self._ends_with_connection and not self._is_in_head and exc is None:
            reply.complete()
        else:
            reply.break_off("broke off" if self.has_received else "closed the connection")

    def _break(self, reason: str) -> None:
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.break_off(reason)
        self.abort()

    def _refuse_rest(self, reply: HttpReply) -> None:
        """Something in this read is not HTTP. What stands before it still counts."""
        if self._reply is not reply:
            self._keeps_alive = False
            self._end(reply)
            return
        if self._pieces:
            reply.receive(self._pieces)
        self._break("answered with something that is not HTTP")

    def _end(self, reply: HttpReply) -> None:
        """The reply is complete. Give its last bytes to it, and the connection to the next request."""
        rest, self._rest = self._rest, b""
        # Bytes after the reply. The parser has aborted the connection.
        self._pieces.clear()
        if rest:
            reply.receive([rest])
        reply.complete()
        if self.is_paused:
            self.resume()
        if self._keeps_alive and not self.is_closed:
            self._release(self)
        else:
            self.abort()

    # Called by the parser, beside `on_body`.

    def on_message_begin(self) -> None:
        if self._reply is None:
            # A second reply to one request.
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            # An interim reply (100, 103). The final one follows.
            self._headers = []
            return
        headers = _read_headers(self._headers)
        self._is_in_head = False
        self._ends_with_connection = (
            status not in _BODILESS and "content-length" not in headers and "transfer-encoding" not in headers
        )
        if self._reply is not None:
            self._reply.begin(status, headers)

    def on_message_complete(self) -> None:
        if not self._is_in_head and self._reply is not None:
            self._reply = None
            self._rest = _take_joined(self._pieces)
            self._keeps_alive = self._parser.should_keep_alive()


def _read_headers(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers by lower-case name. If a header occurs twice, the first value counts."""
    headers: dict[str, str] = {}
    for name, value in raw:
        headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return headers


def _take_joined(pieces: list[bytes]) -> bytes:
    """All pieces as one. The list is empty after that."""
    data = b"".join(pieces)
    pieces.clear()
    return data
