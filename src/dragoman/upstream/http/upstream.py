"""Providers over HTTP: a pool of connections each, and failures named by what they were.

The request's body is let go once it is sent, because a stream may stay open for an hour.
"""

import asyncio
import os
import re
import socket
import ssl
from collections.abc import Mapping

from dragoman.config.model import Provider
from dragoman.hub.errors import ConfigError, Failure, FailureKind, UpstreamFailed
from dragoman.upstream.http.addresses import key_headers, target_of
from dragoman.upstream.http.connection import Connection, Reply
from dragoman.upstream.http.connector import Dialler, NoWayThrough, origin_of
from dragoman.upstream.http.inflate import InflatedReply
from dragoman.upstream.http.pool import Pool
from dragoman.upstream.port import UpstreamReply, UpstreamRequest

#: Headers that a client's own kind of upstream understands, and no other should see.
OWN_HEADERS: dict[str, tuple[str, ...]] = {
    "anthropic": ("anthropic-beta", "anthropic-version", "x-claude-code-session-id"),
    "openai_chat": ("openai-organization", "openai-project"),
    "openai_responses": ("openai-organization", "openai-project", "openai-beta", "session-id", "thread-id"),
    "gemini": (),
}

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t -~\x80-\xff]*")


class HttpUpstream:
    """One provider."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._origin = origin_of(provider.base_url, f"providers.{provider.name}.base_url")
        what = f"providers.{provider.name}.proxy"
        self._proxy = origin_of(provider.proxy, what) if provider.proxy else None
        self._dialler = Dialler(self._origin, self._proxy, provider.verify)
        self._pool = Pool()
        self._heads: dict[tuple[int, bool], tuple[bytes, frozenset[str]]] = {}

    async def send(self, call: UpstreamRequest) -> UpstreamReply:
        limit = self._provider.timeouts.first_byte
        head = self._head(call)
        try:
            async with asyncio.timeout(limit or None):
                reply = await self._answered(head, call.body)
        except TimeoutError:
            raise self._failure("timeout", f"gave no answer within {limit:g} s") from None
        encoding = reply.headers.get("content-encoding", "identity")
        return reply if encoding == "identity" else InflatedReply(reply, encoding, self._broken)

    async def _answered(self, head: bytes, body: bytes) -> Reply:
        """The reply, once its head is there. An idle connection may turn out to be closed: then the next."""
        while True:
            idle = self._pool.take()
            connection = idle or await self._connected()
            reply = connection.call(head, body, self._broken)
            try:
                await reply.head()
            except UpstreamFailed:
                if idle is not None and not connection.has_heard:
                    continue
                raise
            except asyncio.CancelledError:
                reply.close()
                raise
            return reply

    async def _connected(self) -> Connection:
        limit = self._provider.timeouts.connect
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(limit or None):
                return await self._dialler.open(lambda: Connection(loop, self._pool.give_back))
        except TimeoutError:
            raise self._failure("timeout", f"cannot be reached within {limit:g} s") from None
        except ssl.SSLCertVerificationError as error:
            raise self._failure("server", f"its certificate is not trusted: {error.verify_message}") from None
        except (OSError, UnicodeError) as error:
            raise self._failure("overloaded", f"cannot be reached ({_reason(error)})") from None

    def _head(self, call: UpstreamRequest) -> bytes:
        provider = self._provider
        cached = self._heads.get((call.key, call.stream))
        if cached is None:
            cached = self._heads[(call.key, call.stream)] = self._fixed_head(call)
        fixed, names = cached
        target = target_of(provider, call)
        if self._proxy is not None and not self._origin.is_secure:
            target = f"http://{self._origin.authority}{target}"
        lines = [f"POST {target} HTTP/1.1\r\n".encode("latin-1"), fixed]
        for name in OWN_HEADERS[provider.wire_dialect]:
            value = call.headers.get(name)
            if value is not None and name not in names and _VALUE.fullmatch(value):
                lines.append(f"{name}: {value}\r\n".encode("latin-1"))
            elif name == "anthropic-version" and name not in names:
                lines.append(b"anthropic-version: 2023-06-01\r\n")
        lines.append(b"content-length: %d\r\n\r\n" % len(call.body))
        return b"".join(lines)

    def _fixed_head(self, call: UpstreamRequest) -> tuple[bytes, frozenset[str]]:
        """The headers that are the same for every call, and the names that the configuration sets."""
        provider = self._provider
        headers = {
            "host": self._origin.authority,
            "content-type": "application/json",
            "accept": "text/event-stream" if call.stream else "application/json",
            "accept-encoding": "identity",
            "user-agent": "dragoman",
        }
        if self._origin.authorization:
            headers["authorization"] = self._origin.authorization
        if self._proxy is not None and self._proxy.authorization and not self._origin.is_secure:
            headers["proxy-authorization"] = self._proxy.authorization
        if provider.keys:
            key = provider.keys[call.key % len(provider.keys)].reveal().strip()
            headers |= key_headers(provider.wire_dialect, key)
        headers |= {name.lower(): value.reveal() for name, value in provider.headers.items()}
        return _lines(headers, provider.name), frozenset(name.lower() for name in provider.headers)

    def _broken(self, what: str) -> UpstreamFailed:
        return self._failure("overloaded", what)

    def _failure(self, kind: FailureKind, what: str) -> UpstreamFailed:
        status = 504 if kind == "timeout" else 502
        message = f"provider {self._provider.name} {what}"
        return UpstreamFailed(Failure(kind=kind, status=status, message=message))

    async def close(self) -> None:
        self._pool.close()


def _lines(headers: Mapping[str, str], provider: str) -> bytes:
    lines: list[str] = []
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ConfigError(
                f"providers.{provider}: header {name!r} has characters that no header may have",
                hint="does the key end in a line break?",
            )
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("latin-1")


def _reason(error: Exception) -> str:
    """Why, in a few words; never an address, which may hold a password."""
    if isinstance(error, NoWayThrough):
        return str(error)
    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno).lower()
    return "its name is not known" if isinstance(error, socket.gaierror) else type(error).__name__
