"""A server on a free port of loopback, for the upstreams of tests."""

import asyncio
import ssl
from abc import ABC, abstractmethod
from typing import Self


class LoopbackServer(ABC):
    """Serves within `async with`. A subclass defines `serve`, which is called for each connection."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.port = 0
        self._tls = tls
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=self._tls, limit=2**24)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    @abstractmethod
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None: ...
