"""Providers over HTTP: one pooled client per provider, and failures named by what they were.

The request's body is let go once it is sent, because a stream may stay open for an hour.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping

import aiohttp

from dragoman.config.model import Provider, Timeouts
from dragoman.hub.errors import Failure, UpstreamFailed
from dragoman.upstream.addresses import address, key_headers
from dragoman.upstream.port import Call

#: Headers that a client's own kind of upstream understands, and no other should see.
_OWN_HEADERS: dict[str, tuple[str, ...]] = {
    "anthropic": ("anthropic-beta", "anthropic-version", "x-claude-code-session-id"),
    "openai_chat": ("openai-organization", "openai-project"),
    "openai_responses": ("openai-organization", "openai-project", "openai-beta", "session-id", "thread-id"),
    "gemini": (),
}


class HttpUpstream:
    """One provider."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._session: aiohttp.ClientSession | None = None

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            connect = self._provider.timeouts.connect or None
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, ssl=_tls(self._provider.verify), keepalive_timeout=60
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect),
                auto_decompress=True,
                read_bufsize=2**18,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("User-Agent",),
            )
        return self._session

    async def send(self, call: Call) -> "HttpAnswer":
        provider = self._provider
        timeouts = provider.timeouts
        try:
            async with asyncio.timeout(timeouts.first_byte or None):
                response = await self._client().post(
                    address(provider, call),
                    data=call.body,
                    headers=self._headers(call),
                    proxy=provider.proxy or None,
                    allow_redirects=False,
                )
        except TimeoutError:
            raise _failed("timeout", f"no answer within {timeouts.first_byte:g} s", provider) from None
        except aiohttp.ClientConnectorCertificateError:
            raise _failed("server", "its certificate is not trusted", provider) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _failed("overloaded", f"cannot be reached ({type(error).__name__})", provider) from None
        return HttpAnswer(response, timeouts, provider)

    def _headers(self, call: Call) -> dict[str, str]:
        provider = self._provider
        dialect = provider.wire_dialect
        headers = {"content-type": "application/json", "user-agent": "dragoman"}
        if dialect == "anthropic":
            headers["anthropic-version"] = "2023-06-01"
        if call.stream:
            headers["accept"] = "text/event-stream"
        headers |= {name: call.headers[name] for name in _OWN_HEADERS[dialect] if name in call.headers}
        if provider.keys:
            headers |= key_headers(dialect, provider.keys[call.key % len(provider.keys)].reveal())
        return headers | {name.lower(): value.reveal() for name, value in provider.headers.items()}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


class HttpAnswer:
    """The head and the body, as they arrive."""

    def __init__(self, response: aiohttp.ClientResponse, timeouts: Timeouts, provider: Provider) -> None:
        self._response = response
        self._timeouts = timeouts
        self._provider = provider
        self.status = response.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}

    async def pieces(self) -> AsyncIterator[bytes]:
        content = self._response.content
        try:
            while piece := await content.readany():
                yield piece
        except (aiohttp.ClientError, OSError) as error:
            raise _failed("overloaded", f"broke off ({type(error).__name__})", self._provider) from None

    def close(self) -> None:
        # A reply that was read to its end has already given its connection back to the pool.
        self._response.close()


def _tls(verify: bool | str) -> ssl.SSLContext | bool:
    if isinstance(verify, str):
        return ssl.create_default_context(cafile=verify)
    return verify


def _failed(kind: str, what: str, provider: Provider) -> UpstreamFailed:
    status = {"timeout": 504, "server": 502, "overloaded": 502}[kind]
    return UpstreamFailed(
        Failure(
            kind="timeout" if kind == "timeout" else "server" if kind == "server" else "overloaded",
            status=status,
            message=f"provider {provider.name}: {what}",
        )
    )
