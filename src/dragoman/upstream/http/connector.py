"""From a URL to an open connection: names to addresses, proxies, TLS.

Of several addresses the first that answers is taken, because one family of them is often broken.
"""

import asyncio
import base64
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar, cast
from urllib.parse import unquote, urlsplit

import httptools
import msgspec
from aiohappyeyeballs import start_connection

from dragoman.hub.errors import ConfigError
from dragoman.upstream.http.connection import MAX_HEAD, Connection

#: Seconds before the next address is tried beside the first.
EYEBALLS_DELAY = 0.25

_PORTS = {"http": 80, "https": 443}

P = TypeVar("P", bound=asyncio.Protocol)


class NoWayThrough(OSError):
    """A proxy does not let us through; says why, and nothing of where."""


class Origin(msgspec.Struct, frozen=True):
    """Who listens where."""

    scheme: str
    host: str
    port: int
    #: `Basic …` for whoever the URL names, if it names anybody.
    authorization: str = ""

    @property
    def is_secure(self) -> bool:
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """As it stands in `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __repr__(self) -> str:
        return f"Origin({self.scheme}://{self.authority})"


def origin_of(url: str, what: str) -> Origin:
    """Where a URL leads; `what` names it in the error."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ConfigError(f"{what}: expected an http or https address")
    authorization = ""
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(user.encode()).decode()
    return Origin(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], authorization)


class Dialler:
    """Opens connections to one origin, through a proxy if there is one."""

    def __init__(self, origin: Origin, proxy: Origin | None, verify: bool | str) -> None:
        self._origin = origin
        self._proxy = proxy
        self._verify = verify
        self._context: ssl.SSLContext | None = None

    async def open(self, make: Callable[[], Connection]) -> Connection:
        origin, proxy = self._origin, self._proxy
        if proxy is None or not origin.is_secure:
            _, connection = await self._connect(proxy or origin, make)
            return connection
        transport, tunnel = await self._connect(proxy, lambda: Tunnel(origin, proxy.authorization))
        try:
            await tunnel.opened
            connection = make()
            loop = asyncio.get_running_loop()
            secured = await loop.start_tls(transport, connection, self._tls(), server_hostname=origin.host)
        except BaseException:
            transport.abort()
            raise
        # A transport that became secure later does not introduce itself again.
        connection.connection_made(cast(asyncio.Transport, secured))
        return connection

    async def _connect(self, origin: Origin, make: Callable[[], P]) -> tuple[asyncio.Transport, P]:
        loop = asyncio.get_running_loop()
        addresses = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
        opened = await start_connection(addresses, happy_eyeballs_delay=EYEBALLS_DELAY, interleave=1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        context, hostname = (self._tls(), origin.host) if origin.is_secure else (None, None)
        try:
            return await loop.create_connection(make, sock=opened, ssl=context, server_hostname=hostname)
        except BaseException:
            opened.close()
            raise

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            cafile = self._verify if isinstance(self._verify, str) else None
            context = ssl.create_default_context(cafile=cafile)
            context.set_alpn_protocols(["http/1.1"])
            if self._verify is False:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            self._context = context
        return self._context


class Tunnel(asyncio.Protocol):
    """Asks a proxy for a way through; `opened` says whether there is one."""

    def __init__(self, origin: Origin, authorization: str) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._size = 0
        target = (
            f"{origin.host}:{origin.port}" if ":" not in origin.host else f"[{origin.host}]:{origin.port}"
        )
        credentials = f"proxy-authorization: {authorization}\r\n" if authorization else ""
        self._question = f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n{credentials}\r\n".encode("latin-1")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._question)

    def data_received(self, data: bytes) -> None:
        self._size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._fail("the proxy answers with something that is not HTTP")
        if self._size > MAX_HEAD:
            self._fail("the proxy answers with a head that is too large")

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("the proxy closed the connection")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if 200 <= status < 300 and not self.opened.done():
            self.opened.set_result(None)
        elif status >= 300:
            self._fail(f"the proxy refuses with status {status}")

    def _fail(self, why: str) -> None:
        if not self.opened.done():
            self.opened.set_exception(NoWayThrough(why))
