"""`AsgiClient`: sends responses over ASGI, or directly to our own server's connection."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from itertools import repeat
from typing import Any, Protocol

from dragoman.dialects.dialect import Dialect
from dragoman.exchange.client import DirectConnection
from dragoman.exchange.sender import advise_retry
from dragoman.hub.errors import Failure
from dragoman.pipeline.transports import SSE, Transport
from dragoman.wire.fields import encode
from dragoman.wire.sse import Output

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

#: The encoding of headers, for each of them.
_LATIN = repeat("latin-1")

#: The ASGI extension in which our own server offers its connection.
EXTENSION = "dragoman"


#: Headers of responses that no cache may keep.
NO_STORE = {"cache-control": "no-store"}


class ServerConnection(Protocol):
    """The methods of our own server's connection that ASGI lacks."""

    def write(self, data: bytes) -> bool: ...

    def wait_until_drained(self) -> Awaitable[None]: ...

    def abort_connection(self, *, at_once: bool) -> None: ...

    def watch_disconnect(self, client: "AsgiClient") -> None: ...


class AsgiClient:
    """A client over ASGI. `send` returns the server's own awaitable: a coroutine around it is expensive."""

    is_ended = False
    _on_disconnect: Callable[[], None] | None = None

    def __init__(self, scope: Scope, send: Send, transport: Transport = SSE) -> None:
        self._send = send
        offered = (scope.get("extensions") or {}).get(EXTENSION)
        self._connection: ServerConnection | None = offered["connection"] if offered else None
        self.transport = transport

    @property
    def direct(self) -> DirectConnection | None:
        connection = self._connection
        if connection is None:
            return None
        return DirectConnection(self.transport.encode, connection.write, connection.wait_until_drained)

    def start(self, status: int, headers: Mapping[str, str]) -> Awaitable[None]:
        names, values = map(str.encode, headers, _LATIN), map(str.encode, headers.values(), _LATIN)
        raw = list(zip(names, values, strict=True))
        return self._send({"type": "http.response.start", "status": status, "headers": raw})

    def send(self, output: Output) -> Awaitable[None]:
        return self.send_bytes(self.transport.encode(output))

    def end(self, output: Output = ()) -> Awaitable[None]:
        return self._end_bytes(self.transport.encode_end(output))

    def send_bytes(self, data: bytes) -> Awaitable[None]:
        """Send a piece of a stream as it is, without the transport's encoding."""
        return self._send({"type": "http.response.body", "body": data, "more_body": True})

    def ping(self, data: bytes) -> Awaitable[None]:
        return self.send_bytes(data)

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        await self.start(status, headers)
        await self._end_bytes(body)

    def watch_disconnect(self, on_disconnect: Callable[[], None]) -> bool:
        """Call this if the client closes the connection before it has its whole reply.

        Returns False if the server does not offer that. Then a task must wait for ASGI's message.
        """
        if self._connection is None:
            return False
        self._on_disconnect = on_disconnect
        self._connection.watch_disconnect(self)
        return True

    def unwatch_disconnect(self) -> None:
        self._on_disconnect = None

    def disconnect(self) -> None:
        """Called by the server's connection when the client has closed it."""
        if self._on_disconnect is not None and not self.is_ended:
            self._on_disconnect()

    def abort(self, *, at_once: bool = False) -> None:
        self.is_ended = True
        if self._connection is not None:
            self._connection.abort_connection(at_once=at_once)

    def _end_bytes(self, data: bytes) -> Awaitable[None]:
        self.is_ended = True
        return self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def respond_json(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        data = encode(body)
        kind = {"content-type": "application/json", "content-length": str(len(data))}
        await self.respond(status, {**(headers or {}), **kind}, data)

    async def refuse(self, dialect: Dialect, failure: Failure, headers: Mapping[str, str]) -> int:
        """Send an error for a request that becomes no exchange. Returns its HTTP status."""
        failure, advice = advise_retry(failure, dialect)
        status = dialect.error_status(failure)
        await self.respond_json(status, dialect.write_error(failure), {**advice, **headers})
        return status
