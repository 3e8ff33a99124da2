"""A proxy in front of PostgreSQL, on a thread of its own: TLS, transaction pooling, outages, counting.

The test server has no TLS, so the proxy ends it, with PostgreSQL's own request for it. As a pooler it does
what PgBouncer does in transaction mode: after each transaction the client gets another connection of the
server, and start parameters that a connection would remember are refused. It is no PgBouncer: the tests of
poolers run with the real one too where there is one, see `tools/clients/pgbouncer.sh`.
"""

import asyncio
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

SSL_REQUEST = 80_877_103
#: Start parameters that PgBouncer knows.
POOLED_PARAMETERS = {"user", "database", "client_encoding", "application_name", "options"}
#: Connections of the pooler to the server.
POOL = 3
#: The last message of a client.
FAREWELL = b"X\0\0\0\4"


class PostgresProxy:
    """Passes connections on to the server at `url`. `port` is known after `start`."""

    def __init__(
        self,
        url: str,
        *,
        address: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
        is_pooler: bool = False,
    ) -> None:
        place = urlsplit(url)
        self._address = address
        self._target = (place.hostname or "", place.port or 5432)
        self._tls = tls
        self._is_pooler = is_pooler
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._pool: asyncio.Queue[ServerConnection] | None = None
        self._greeting = b""
        self.port = 0
        #: Connections of clients; those with TLS; the connection of the server of each transaction.
        self.accepted = 0
        self.encrypted = 0
        self.used: list[int] = []
        #: While set, connections end at once.
        self.is_down = False

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(20)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()

    def fail(self) -> None:
        """End all connections, and refuse new ones until `is_down` is reset."""
        self.is_down = True

        async def drop() -> None:
            for task in tuple(self._tasks):
                task.cancel()

        asyncio.run_coroutine_threadsafe(drop(), self._loop).result(20)

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._accept, self._address, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while self._pool is not None and not self._pool.empty():
            writer = self._pool.get_nowait()[1]
            writer.close()
            await writer.wait_closed()
        # The transports close in later turns of the loop.
        await asyncio.sleep(0.05)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.accepted += 1
        try:
            if not self.is_down:
                await self._serve(reader, writer)
        except* (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        start = await _read_start(reader)
        if struct.unpack("!i", start[4:8])[0] == SSL_REQUEST:
            writer.write(b"S" if self._tls else b"N")
            if self._tls is not None:
                await writer.start_tls(self._tls)
                self.encrypted += 1
            start = await _read_start(reader)
        if self._is_pooler:
            await self._pool_transactions(start, reader, writer)
            return
        upstream_reader, upstream = await asyncio.open_connection(*self._target)
        try:
            upstream.write(start)
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, upstream))
                group.create_task(_pump(upstream_reader, writer))
        finally:
            upstream.transport.abort()

    async def _pool_transactions(
        self, start: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        names = start[8:].split(b"\0")[:-2:2]
        unknown = {name.decode() for name in names} - POOLED_PARAMETERS
        if unknown:
            writer.write(_build_error(f"unsupported startup parameter: {', '.join(sorted(unknown))}"))
            await writer.drain()
            return
        if self._pool is None:
            self._pool = asyncio.Queue()
            for _ in range(POOL):
                self._pool.put_nowait(await self._open_server(start))
        writer.write(self._greeting)
        messages: asyncio.Queue[bytes] = asyncio.Queue()
        receiving = asyncio.ensure_future(_receive(reader, messages))
        try:
            while (message := await messages.get()) != FAREWELL:
                place = await self._pool.get()
                self.used.append(place[1].get_extra_info("sockname")[1])
                try:
                    await _run_transaction(message, messages, place, writer)
                except BaseException:
                    # As PgBouncer does: a connection in the middle of a transaction is not used again.
                    place[1].transport.abort()
                    place = await self._open_server(start)
                    raise
                finally:
                    self._pool.put_nowait(place)
        finally:
            receiving.cancel()

    async def _open_server(self, start: bytes) -> "ServerConnection":
        reader, writer = await asyncio.open_connection(*self._target)
        writer.write(start)
        greeting = b""
        while not greeting.endswith(b"Z\0\0\0\5I"):
            greeting += await _read_message(reader)
        self._greeting = greeting
        return reader, writer


ServerConnection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _run_transaction(
    message: bytes, messages: asyncio.Queue[bytes], place: ServerConnection, writer: asyncio.StreamWriter
) -> None:
    """Pass messages on until the server has answered all of them and is idle: the end of a transaction."""
    server_reader, server = place
    asked = 0

    async def answer() -> None:
        nonlocal asked
        while True:
            message = await _read_message(server_reader)
            writer.write(message)
            if message[:1] == b"Z":
                asked -= 1
                if not asked and message[5:6] == b"I":
                    return

    answering = asyncio.ensure_future(answer())
    try:
        while True:
            server.write(message)
            # A query, or the end of a sequence of messages: the server answers when it is ready.
            asked += message[:1] in (b"Q", b"S")
            asking = asyncio.ensure_future(messages.get())
            await asyncio.wait((answering, asking), return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                if asking.done():
                    messages.put_nowait(asking.result())
                asking.cancel()
                return answering.result()
            message = asking.result()
            if message == FAREWELL:
                raise ConnectionResetError
    finally:
        answering.cancel()


async def _receive(reader: asyncio.StreamReader, messages: asyncio.Queue[bytes]) -> None:
    """Collect the messages of a client. The end of its connection is like its farewell."""
    try:
        while True:
            messages.put_nowait(await _read_message(reader))
    except (OSError, asyncio.IncompleteReadError):
        messages.put_nowait(FAREWELL)


async def _read_start(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size) - 4)


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(int.from_bytes(head[1:]) - 4)


def _build_error(text: str) -> bytes:
    fields = b"".join(
        kind + value.encode() + b"\0" for kind, value in ((b"S", "FATAL"), (b"C", "08P01"), (b"M", text))
    )
    return b"E" + struct.pack("!i", len(fields) + 5) + fields + b"\0"


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    # The other direction ends too.
    raise ConnectionResetError


@contextmanager
def run_proxy(
    url: str, *, address: str = "127.0.0.1", tls: ssl.SSLContext | None = None, is_pooler: bool = False
) -> Iterator[PostgresProxy]:
    """See `PostgresProxy`. It listens on `address`."""
    proxy = PostgresProxy(url, address=address, tls=tls, is_pooler=is_pooler)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
