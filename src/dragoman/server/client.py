"""The way back to the client, over ASGI."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Protocol

from dragoman.dialects.registry import dialect_named
from dragoman.exchange.client import DirectConnection
from dragoman.exchange.sender import advise_retry
from dragoman.hub.errors import Failure
from dragoman.pipeline.transports import SSE, Transport
from dragoman.wire.fields import encode
from dragoman.wire.sse import Output

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

#: Under this name our own server offers its connection, beside what ASGI has.
EXTENSION = "dragoman"


class ServerConnection(Protocol):
    """What our own server's connection can do beyond ASGI."""

    def write(self, data: bytes) -> bool: ...

    def drained(self) -> Awaitable[None]: ...

    def break_off(self, *, at_once: bool) -> None: ...


class AsgiDirectConnection:
    """Writes a stream to the server's connection without ASGI messages."""

    def __init__(self, connection: ServerConnection, transport: Transport) -> None:
        self._write = connection.write
        self._encode = transport.encode
        self.drained = connection.drained

    def write(self, output: Output) -> bool:
        data = self._encode(output)
        # An empty piece would end the response.
        return self._write(data) if data else True


class AsgiClient:
    """A client over ASGI. `send` returns the server's own awaitable: a coroutine around it is expensive."""

    def __init__(self, scope: Scope, send: Send, transport: Transport = SSE) -> None:
        self._send = send
        extensions = scope.get("extensions") or {}
        self._connection: ServerConnection | None = extensions.get(EXTENSION, {}).get("connection")
        self.transport = transport
        self.ended = False

    @property
    def direct(self) -> DirectConnection | None:
        return AsgiDirectConnection(self._connection, self.transport) if self._connection else None

    def start(self, status: int, headers: Mapping[str, str]) -> Awaitable[None]:
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        return self._send({"type": "http.response.start", "status": status, "headers": raw})

    def send(self, output: Output) -> Awaitable[None]:
        return self._send_bytes(self.transport.encode(output))

    def end(self, output: Output = ()) -> Awaitable[None]:
        return self._end_with(self.transport.encode_end(output))

    def ping(self, data: bytes) -> Awaitable[None]:
        return self._send_bytes(data)

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        await self.start(status, headers)
        await self._end_with(body)

    def abort(self, *, at_once: bool = False) -> None:
        self.ended = True
        if self._connection is not None:
            self._connection.break_off(at_once=at_once)

    def _send_bytes(self, data: bytes) -> Awaitable[None]:
        return self._send({"type": "http.response.body", "body": data, "more_body": True})

    def _end_with(self, data: bytes) -> Awaitable[None]:
        self.ended = True
        return self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def json(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        data = encode(body)
        kind = {"content-type": "application/json", "content-length": str(len(data))}
        await self.respond(status, {**(headers or {}), **kind}, data)

    async def failure(self, dialect: str, failure: Failure, headers: Mapping[str, str]) -> int:
        """An error before any exchange began, in the dialect of the path; gives its status."""
        speaker = dialect_named(dialect)
        failure, advice = advise_retry(failure, speaker)
        status = speaker.error_status(failure)
        await self.json(status, speaker.write_error(failure), {**advice, **headers})
        return status
