"""A gateway on a free port, as `serve` runs it, and a client that shows the bytes it gets."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from dragoman.config.config import Config
from dragoman.config.provider import Provider, TargetName
from dragoman.config.settings import Secret, ServerSettings, Timeouts
from dragoman.exchange.gateway import Gateway
from dragoman.server.app import App
from dragoman.server.run import Server as HttpServer
from dragoman.server.run import bind
from dragoman.storage.sqlite import SqliteStorage
from tests.upstream.byte_server import eventually


def config_for(
    base_url: str = "",
    dialect: str = "openai_chat",
    *,
    server: ServerSettings | None = None,
    retries: int = 0,
) -> Config:
    provider = Provider(
        name="up",
        dialect=dialect if base_url else "embedded",
        base_url=base_url,
        keys=(Secret("sk-upstream-key"),) if base_url else (),
        retries=retries,
        timeouts=Timeouts(),
    )
    return Config(
        server=server or ServerSettings(port=0), providers={"up": provider}, default=(TargetName("up", "*"),)
    )


class Running:
    def __init__(self, app: App, server: HttpServer, port: int) -> None:
        self.app = app
        self.port = port
        self._server = server

    def stop(self) -> None:
        """What a signal does, the first and the second time."""
        self._server.force_exit = self._server.should_exit
        self._server.should_exit = True

    @property
    def connections(self) -> set[Any]:
        """The protocol objects of the connections that are open."""
        return self._server.server_state.connections

    @property
    def is_stopping(self) -> bool:
        return self._server.should_exit

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> "Got":
        """One request over a connection of its own."""
        async with self.connected() as connection:
            await connection.send(method, path, body, headers)
            return await connection.got(method)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator["Connected"]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
        try:
            yield Connected(reader, writer, self.port)
        finally:
            writer.transport.abort()


class Got(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        value = msgspec.json.decode(self.body)
        assert isinstance(value, dict)
        return value


class Connected:
    """One connection of a client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self.reader = reader
        self.writer = writer
        self._port = port

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        data = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        lines = {"host": f"127.0.0.1:{self._port}", "content-length": str(len(data)), **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + data)
        await self.writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        text = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *lines = text[:-4].split("\r\n")
        return int(line.split(" ")[1]), dict(each.split(": ", 1) for each in lines)

    async def chunk(self) -> bytes:
        """The next piece of a streamed body; nothing at its end."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        data = await self.reader.readexactly(size + 2)
        return data[:-2]

    async def rest(self) -> bytes:
        """All further pieces of a streamed body."""
        body = b""
        while piece := await self.chunk():
            body += piece
        return body

    async def got(self, method: str = "POST") -> Got:
        """A whole answer."""
        status, headers = await self.head()
        if method == "HEAD":
            return Got(status, headers, b"")
        if "content-length" in headers:
            return Got(status, headers, await self.reader.readexactly(int(headers["content-length"])))
        body = b""
        while piece := await self.chunk():
            body += piece
        return Got(status, headers, body)


#: What an operator shows to gateways that run here.
ADMIN_TOKEN = "admin-token-of-the-tests"
OPERATOR = {"authorization": f"Bearer {ADMIN_TOKEN}"}


@asynccontextmanager
async def running(
    config: Config, read: Callable[[], Config] | None = None, *, state: Path | None = None
) -> AsyncIterator[Running]:
    """Started as `serve` starts it and ended at once, without the pauses that uvicorn makes."""
    listener = bind(config, has_stored_keys=state is not None)
    gateway = Gateway(config, storage=SqliteStorage(state))
    app = App(gateway, read=read, admin_token=Secret(ADMIN_TOKEN))
    server = HttpServer(app)
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup(sockets=[listener])
    try:
        yield Running(app, server, listener.getsockname()[1])
    finally:
        for listening in server.servers:
            listening.close()
        for connection in tuple(server.server_state.connections):
            connection.transport.abort()
        await eventually(lambda: not server.server_state.tasks)
        await server.lifespan.shutdown()


@asynccontextmanager
async def serving(config: Config) -> AsyncIterator[Running]:
    """Run as `serve` runs it, to its end."""
    listener = bind(config)
    app = App(Gateway(config))
    server = HttpServer(app)
    task = asyncio.ensure_future(server.serve(sockets=[listener]))
    await eventually(lambda: server.started)
    try:
        yield Running(app, server, listener.getsockname()[1])
    finally:
        server.should_exit = server.force_exit = True
        await task
