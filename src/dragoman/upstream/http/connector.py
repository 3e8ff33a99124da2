"""Connections to one origin: opening them (addresses, proxy, TLS) and keeping idle ones.

Several addresses of a host are tried side by side, because often one address family does not work.
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
from dragoman.upstream.http.connection import MAX_HEAD, HttpConnection

#: Seconds after which the next address is tried beside the first.
EYEBALLS_DELAY = 0.25
#: Seconds that a connection may be idle: the time to read a reply and to write the next message. Many servers
#: close it sooner, which is noticed.
MAX_IDLE_SECONDS = 300.0
#: Seconds of silence after which the system asks whether the server is still there, then the seconds between
#: such questions, and their number. Without them, routers forget a silent connection.
KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
#: Idle connections per provider. After a burst the others are closed.
MAX_IDLE = 100

_PORTS = {"http": 80, "https": 443}

P = TypeVar("P", bound=asyncio.Protocol)


class ProxyError(OSError):
    """The proxy refuses the tunnel. The message gives the reason and no address."""


class Origin(msgspec.Struct, frozen=True):
    """Scheme, host and port of a server or proxy."""

    scheme: str
    host: str
    port: int
    #: `Basic …` if the URL has a user name.
    authorization: str = ""

    @property
    def is_secure(self) -> bool:
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """The value of the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __repr__(self) -> str:
        return f"Origin({self.scheme}://{self.authority})"


def read_origin(url: str, setting: str) -> Origin:
    """Read the origin of a URL. `setting` is the configuration path that an error names."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ConfigError(f"{setting}: expected an http or https address")
    authorization = ""
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(user.encode()).decode()
    return Origin(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], authorization)


class AddressRefused(OSError):
    """The host has no address that may be connected to."""


class Connector:
    """Opens connections to one origin, through a proxy if one is given.

    `allows`: whether an IP address may be connected to. The name is resolved once, so that the tested address
    is the one that is used.
    """

    def __init__(
        self,
        origin: Origin,
        proxy: Origin | None,
        verify: bool | str,
        *,
        allows: Callable[[str], bool] | None = None,
    ) -> None:
        self._origin = origin
        self._allows = allows
        self._proxy = proxy
        self._verify = verify
        self._context: ssl.SSLContext | None = None

    async def open(self, build: Callable[[], HttpConnection]) -> HttpConnection:
        """Open a connection that `build` makes. Raises `OSError` or `UnicodeError`."""
        origin, proxy = self._origin, self._proxy
        if proxy is None or not origin.is_secure:
            _, connection = await self._connect(proxy or origin, build)
            return connection
        transport, tunnel = await self._connect(proxy, lambda: ProxyTunnel(origin, proxy.authorization))
        try:
            await tunnel.is_open
            connection = build()
            loop = asyncio.get_running_loop()
            tls = await loop.start_tls(transport, connection, self._tls(), server_hostname=origin.host)
        except BaseException:
            transport.abort()
            raise
        # `start_tls` does not call `connection_made` of the new protocol.
        connection.connection_made(cast(asyncio.Transport, tls))
        return connection

    async def _connect(self, origin: Origin, build: Callable[[], P]) -> tuple[asyncio.Transport, P]:
        loop = asyncio.get_running_loop()
        addresses = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
        if self._allows is not None:
            addresses = [address for address in addresses if self._allows(str(address[4][0]))]
            if not addresses:
                raise AddressRefused("the address is not public")
        client = await start_connection(addresses, happy_eyeballs_delay=EYEBALLS_DELAY, interleave=1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE.items():
            # Not every system has all of them.
            if hasattr(socket, name):
                client.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        context, hostname = (self._tls(), origin.host) if origin.is_secure else (None, None)
        try:
            return await loop.create_connection(build, sock=client, ssl=context, server_hostname=hostname)
        except BaseException:
            client.close()
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


class ProxyTunnel(asyncio.Protocol):
    """Sends CONNECT to a proxy. `is_open` resolves when the proxy agrees and raises when it refuses."""

    def __init__(self, origin: Origin, authorization: str) -> None:
        self.is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._size = 0
        host = f"[{origin.host}]" if ":" in origin.host else origin.host
        target = f"{host}:{origin.port}"
        credentials = f"proxy-authorization: {authorization}\r\n" if authorization else ""
        self._request = f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n{credentials}\r\n".encode("latin-1")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

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
        if 200 <= status < 300 and not self.is_open.done():
            self.is_open.set_result(None)
        elif status >= 300:
            self._fail(f"the proxy refuses with status {status}")

    def _fail(self, reason: str) -> None:
        if not self.is_open.done():
            self.is_open.set_exception(ProxyError(reason))


class ConnectionPool:
    """Idle connections to one origin. The one that was used last is taken first."""

    def __init__(self) -> None:
        self._idle: list[HttpConnection] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def has_idle(self) -> bool:
        return any(not connection.is_closed for connection in self._idle)

    def take(self) -> HttpConnection | None:
        """Take an idle connection, if there is one. Its server may have closed it in this moment."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed:
                return connection
        return None

    def give_back(self, connection: HttpConnection) -> None:
        """Keep a connection whose reply is complete, or close it if the pool is full or closed."""
        if self._is_closed or len(self._idle) >= MAX_IDLE:
            connection.abort()
            return
        connection.idle_since = connection.loop.time()
        self._idle.append(connection)
        if self._timer is None:
            self._timer = connection.loop.call_later(MAX_IDLE_SECONDS, self._sweep, connection.loop)

    def close(self) -> None:
        """Close all idle connections. Connections that are given back later are closed too."""
        self._is_closed = True
        for connection in self._idle:
            connection.abort()
        self._idle.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close connections that were idle for too long, and drop closed ones."""
        now = loop.time()
        fresh = [
            connection
            for connection in self._idle
            if not connection.is_closed and now - connection.idle_since < MAX_IDLE_SECONDS
        ]
        for connection in set(self._idle).difference(fresh):
            connection.abort()
        self._idle = fresh
        self._timer = loop.call_later(MAX_IDLE_SECONDS / 4, self._sweep, loop) if fresh else None
