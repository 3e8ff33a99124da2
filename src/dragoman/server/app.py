"""The ASGI application: finds the endpoint, checks who calls, and hands the request to an exchange.

Replies go straight to ASGI `send`; no framework stands between, because a layer around every piece of a
stream costs more than translating it.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from dragoman.dialects.registry import dialect_named
from dragoman.exchange.ask import Ask
from dragoman.exchange.exchange import Exchange
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import DragomanError, Failure
from dragoman.server.body import ClientGone, Receive, decompressed, receive_body
from dragoman.server.guard import check_key, check_origin
from dragoman.server.models import models_body
from dragoman.server.paths import Endpoint, dialect_of, find
from dragoman.telemetry.log import log_exchange
from dragoman.tokens.count import count_body
from dragoman.wire.fields import encode

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MEGABYTE = 1024 * 1024


class App:
    """One gateway behind one port."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._exchanges: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await self._http(scope, receive, AsgiClient(send))

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self.gateway.close()
                await send({"type": "lifespan.shutdown.complete"})
                return
            await send({"type": "lifespan.startup.complete"})

    async def _http(self, scope: Scope, receive: Receive, client: "AsgiClient") -> None:
        path: str = scope["path"]
        endpoint = find(path)
        dialect = endpoint.dialect if endpoint else dialect_of(path)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        query = scope["query_string"].decode("latin-1")
        server = self.gateway.config.server
        client.is_head = scope["method"] == "HEAD"
        try:
            check_origin(headers, server)
            if endpoint is None:
                raise _unknown_path(path)
            if scope["method"] not in endpoint.methods:
                raise _wrong_method(scope["method"], endpoint)
            if endpoint.name == "health":
                return await client.json(
                    200, {"status": "ok", "service": "dragoman", "open_streams": self.gateway.heart.open}
                )
            check_key(headers, query, server)
            await self._endpoint(endpoint, scope["method"], headers, query, receive, client)
        except ClientGone:
            return
        except DragomanError as error:
            await client.failure(dialect, error.failure)

    async def _endpoint(
        self,
        endpoint: Endpoint,
        method: str,
        headers: Mapping[str, str],
        query: str,
        receive: Receive,
        client: "AsgiClient",
    ) -> None:
        if endpoint.name in ("models", "model"):
            return await client.json(200, models_body(self.gateway.config, endpoint, headers))
        if method == "GET":
            return await _answer_get(headers, client)
        limit = self.gateway.config.server.max_body_mb * MEGABYTE
        body = await receive_body(receive, limit)
        encoding = headers.get("content-encoding", "")
        if encoding:
            body = decompressed(body, encoding, limit)
        if endpoint.name == "count":
            return await client.json(200, count_body(endpoint.dialect, body, endpoint.model))
        streams = endpoint.name == "stream"
        ask = Ask(
            dialect=endpoint.dialect,
            body=body,
            headers=headers,
            model=endpoint.model,
            stream=streams,
            as_array=streams and parse_qs(query).get("alt", [""])[0] != "sse",
            request_id=f"req_{uuid.uuid4().hex[:24]}",
        )
        await self._exchange(ask, receive, client)

    async def _exchange(self, ask: Ask, receive: Receive, client: "AsgiClient") -> None:
        """Run the exchange; a client that hangs up cancels it, and with it the upstream."""
        exchange = Exchange(self.gateway, ask, client)
        running = asyncio.ensure_future(exchange.run())
        watching = asyncio.ensure_future(_gone(receive))
        self._exchanges.add(running)
        try:
            await asyncio.wait((running, watching), return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                running.cancel()
            await asyncio.wait((running,))
            if not running.cancelled():
                running.result()
        finally:
            watching.cancel()
            self._exchanges.discard(running)
            log_exchange(exchange.record)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class AsgiClient:
    """The way back to the client, over ASGI."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._ended = False
        self.is_head = False

    async def head(self, status: int, headers: Mapping[str, str]) -> None:
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def send(self, data: bytes) -> None:
        if data and not self._ended:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        if not self._ended:
            self._ended = True
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def json(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        data = encode(body)
        length = {"content-type": "application/json", "content-length": str(len(data))}
        await self.head(status, {**length, **(headers or {})})
        self._ended = True
        await self._send({"type": "http.response.body", "body": b"" if self.is_head else data})

    async def failure(self, dialect: str, failure: Failure) -> None:
        """An error before any exchange began, in the dialect of the path."""
        speaker = dialect_named(dialect)
        await self.json(
            speaker.error_status(failure), speaker.write_error(failure), speaker.error_headers(failure)
        )


def _unknown_path(path: str) -> DragomanError:
    return DragomanError(
        "unknown path",
        failure=Failure(
            kind="not_found",
            status=404,
            message="no such endpoint; there are /v1/messages, /v1/chat/completions, /v1/responses, "
            "/v1beta/models/MODEL:generateContent and /v1/models",
        ),
    )


def _wrong_method(method: str, endpoint: Endpoint) -> DragomanError:
    allowed = ", ".join(endpoint.methods)
    return DragomanError(
        "wrong method",
        failure=Failure(kind="invalid_request", status=405, message=f"this endpoint takes {allowed}"),
    )


async def _answer_get(headers: Mapping[str, str], client: AsgiClient) -> None:
    """Codex asks for a WebSocket first; 426 sends it to plain HTTP at once."""
    await client.json(
        426,
        dialect_named("openai_responses").write_error(
            Failure(kind="invalid_request", status=426, message="send POST requests; WebSocket is not served")
        ),
    )
