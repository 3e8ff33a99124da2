"""`HttpUpstream`: one provider that is called over HTTP.

`send` applies the provider's timeouts `connect` and `first_byte` up to the head of the reply. From there on
the exchange's `Watchdog` watches it. A request on an idle connection that the server has just closed is sent
again on another one. The request body is released as soon as it is sent: a stream may stay open for an hour.
"""

import asyncio
import os
import re
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from urllib.parse import urlsplit

from dragoman.config.provider import Provider
from dragoman.config.secrets import hide_password
from dragoman.dialects.registry import dialect_named
from dragoman.hub.errors import ConfigError, Failure, FailureKind, UpstreamFailed
from dragoman.upstream.http.connection import HttpConnection, HttpReply
from dragoman.upstream.http.connector import ConnectionPool, Connector, ProxyError, read_origin
from dragoman.upstream.port import UpstreamReply, UpstreamRequest

_VERSION_END = re.compile(r"/v\d+[a-z]*\d*(/openai)?$")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t -~\x80-\xff]*")
#: zlib's window size and header format, by content encoding.
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 47}
MAX_STATUS = 599
#: Bytes that one step of decompression may produce.
MAX_INFLATED = 1024 * 1024


class HttpUpstream:
    """One provider: its connections, and the names of its failures."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._origin = read_origin(provider.base_url, f"providers.{provider.name}.base_url")
        setting = f"providers.{provider.name}.proxy"
        self._proxy = read_origin(provider.proxy, setting) if provider.proxy else None
        self._connector = Connector(self._origin, self._proxy, provider.verify)
        self._pool = ConnectionPool()
        #: The part of a head that is the same for all requests, by key index and `stream`.
        self._fixed_heads: dict[tuple[int, bool], tuple[bytes, frozenset[str]]] = {}
        #: A connection that is being opened for the next request.
        self._early: asyncio.Task[HttpConnection] | None = None

    def open_early(self) -> None:
        """Start to open a connection if none is idle. Called when a request is expected."""
        if self._early is None and not self._pool.has_idle:
            self._early = asyncio.get_running_loop().create_task(self._connect())
            self._early.add_done_callback(self._keep_early)

    def _keep_early(self, opening: "asyncio.Task[HttpConnection]") -> None:
        """Keep an early connection that no request has taken yet. The next request reports a failure."""
        if self._early is opening:
            self._early = None
            if not opening.cancelled() and opening.exception() is None:
                self._pool.give_back(opening.result())

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        limit = self._provider.timeouts.first_byte
        head = self._build_head(request)
        try:
            async with asyncio.timeout(limit or None):
                reply = await self._send(head, request.body)
        except TimeoutError:
            raise self._failure("timeout", f"gave no answer within {limit:g} s") from None
        if reply.status > MAX_STATUS:
            # The parser accepts any three digits, but no client can be sent such a status.
            reply.close()
            raise self._failure("server", f"answered with status {reply.status}, which HTTP does not have")
        encoding = reply.headers.get("content-encoding", "identity")
        return reply if encoding == "identity" else DecompressedReply(reply, encoding, self._broken)

    async def close(self) -> None:
        if self._early is not None:
            self._early.cancel()
        self._pool.close()

    async def _send(self, head: bytes, body: bytes) -> HttpReply:
        """Send, and wait for the head of the reply.

        The server may just have closed an idle connection. If nothing was received on it, the request is
        sent again on the next connection.
        """
        while True:
            idle = self._pool.take()
            early, self._early = (None, self._early) if idle else (self._early, None)
            connection = idle or await (early or self._connect())
            reply = connection.send(head, body, self._broken)
            try:
                await reply.wait_for_head()
            except UpstreamFailed:
                if idle is not None and not connection.has_received:
                    continue
                raise
            except asyncio.CancelledError:
                reply.close()
                raise
            return reply

    async def _connect(self) -> HttpConnection:
        limit = self._provider.timeouts.connect
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(limit or None):
                return await self._connector.open(lambda: HttpConnection(loop, self._pool.give_back))
        except TimeoutError:
            raise self._failure("timeout", f"cannot be reached within {limit:g} s") from None
        except ssl.SSLCertVerificationError as error:
            raise self._failure("server", f"its certificate is not trusted: {error.verify_message}") from None
        except (OSError, UnicodeError) as error:
            raise self._failure("unreachable", self._describe_unreachable(error)) from None

    def _build_head(self, request: UpstreamRequest) -> bytes:
        provider = self._provider
        cached = self._fixed_heads.get((request.key, request.stream))
        if cached is None:
            cached = self._fixed_heads[(request.key, request.stream)] = self._build_fixed_head(request)
        fixed, configured = cached
        target = build_request_target(provider, request)
        if self._proxy is not None and not self._origin.is_secure:
            target = f"http://{self._origin.authority}{target}"
        lines = [f"POST {target} HTTP/1.1\r\n".encode("latin-1"), fixed]
        http_api = dialect_named(provider.wire_dialect).http_api
        for name in http_api.forwarded_headers:
            value = request.headers.get(name)
            if value is None or not _HEADER_VALUE.fullmatch(value):
                value = http_api.default_headers.get(name)
            if value is not None and name not in configured:
                lines.append(f"{name}: {value}\r\n".encode("latin-1"))
        for name, secret in request.credential.items():
            if _HEADER_VALUE.fullmatch(secret.reveal()):
                lines.append(f"{name}: {secret.reveal()}\r\n".encode("latin-1"))
        lines.append(b"content-length: %d\r\n\r\n" % len(request.body))
        return b"".join(lines)

    def _build_fixed_head(self, request: UpstreamRequest) -> tuple[bytes, frozenset[str]]:
        """Build the headers that are the same for all requests; also return the names that are configured."""
        provider = self._provider
        headers = {
            "host": self._origin.authority,
            "content-type": "application/json",
            "accept": "text/event-stream" if request.stream else "application/json",
            "accept-encoding": "identity",
            "user-agent": "dragoman",
        }
        if self._origin.authorization:
            headers["authorization"] = self._origin.authorization
        if self._proxy is not None and self._proxy.authorization and not self._origin.is_secure:
            headers["proxy-authorization"] = self._proxy.authorization
        if provider.keys:
            key = provider.keys[request.key % len(provider.keys)].reveal().strip()
            if key:
                headers |= dialect_named(provider.wire_dialect).http_api.build_key_header(key)
        headers |= {name.lower(): value.reveal() for name, value in provider.headers.items()}
        return _write_headers(headers, provider.name), frozenset(name.lower() for name in provider.headers)

    def _describe_unreachable(self, error: Exception) -> str:
        """Why there is no connection, with the address and the next step."""
        via = " through the proxy" if self._proxy is not None else ""
        step = "is the server running? check base_url"
        address = hide_password(self._provider.base_url)
        return f"cannot be reached at {address}{via} ({_describe(error)}); {step}"

    def _broken(self, reason: str) -> UpstreamFailed:
        return self._failure("overloaded", reason)

    def _failure(self, kind: FailureKind, reason: str) -> UpstreamFailed:
        status = 504 if kind == "timeout" else 502
        message = f"provider {self._provider.name} {reason}"
        return UpstreamFailed(Failure(kind=kind, status=status, message=message))


class DecompressedReply:
    """A reply that arrives compressed although the request asks for `identity`."""

    def __init__(
        self, reply: HttpReply, encoding: str, build_failure: Callable[[str], UpstreamFailed]
    ) -> None:
        self._reply = reply
        self._build_failure = build_failure
        self._window = _WINDOWS.get(encoding.strip().lower())
        self.status = reply.status
        self.headers: Mapping[str, str] = reply.headers

    async def pieces(self) -> AsyncIterator[bytes]:
        """Inflate piece by piece. The output of one step is bounded, so a compression bomb is harmless."""
        if self._window is None:
            raise self._build_failure("answered in an encoding that was not asked for")
        inflater = zlib.decompressobj(self._window)
        async for piece in self._reply:
            if inflater.eof:
                # zlib would keep everything that follows the end of its data.
                self._reply.close()
                return
            while piece:
                try:
                    inflated = inflater.decompress(piece, MAX_INFLATED)
                except zlib.error:
                    raise self._build_failure("answered with damaged data") from None
                if inflated:
                    yield inflated
                piece = inflater.unconsumed_tail
        if not inflater.eof:
            raise self._build_failure("broke off")

    def close(self) -> None:
        self._reply.close()


def build_request_target(provider: Provider, request: UpstreamRequest) -> str:
    """Build path and query of a request. The configured address may or may not end in a version segment."""
    base = urlsplit(provider.base_url)
    http_api = dialect_named(provider.wire_dialect).http_api
    root = build_root(base.path, http_api.version)
    path, query = http_api.build_upstream_path(
        request.model, stream=request.stream, endpoint=request.endpoint
    )
    query = "&".join(part for part in (base.query, query) if part)
    return f"{root}/{path}?{query}" if query else f"{root}/{path}"


def build_root(address: str, version: str) -> str:
    """An address or path of the configuration with the version segment of its API."""
    root = address.rstrip("/")
    return root if not version or _VERSION_END.search(root) else f"{root}/{version}"


def _write_headers(headers: Mapping[str, str], provider: str) -> bytes:
    lines: list[str] = []
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ConfigError(
                f"providers.{provider}: header {name!r} has characters that a header must not have",
                hint="does the key end in a line break?",
            )
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("latin-1")


def _describe(error: Exception) -> str:
    """Describe a connection error without its address, which may contain a password."""
    if isinstance(error, ProxyError):
        return str(error)
    if isinstance(error, ConnectionRefusedError):
        # OpenCode repeats a request without an end if the message has the usual name of this error.
        return "no server listens there"
    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno).lower()
    return "its name is not known" if isinstance(error, socket.gaierror) else type(error).__name__
