"""The way back to the client, over ASGI."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Protocol

from dragoman.dialects.registry import dialect_named
from dragoman.exchange.advice import advised
from dragoman.hub.errors import Failure
from dragoman.wire.fields import encode

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

#: Under this name our own server offers its connection, beside what ASGI has.
EXTENSION = "dragoman"


class Line(Protocol):
    """What our own server's connection can do beyond ASGI."""

    def write(self, data: bytes) -> bool: ...

    def drained(self) -> Awaitable[None]: ...

    def break_off(self, *, at_once: bool) -> None: ...


class AsgiClient:
    """`send` gives the server's own awaitable: a coroutine around it would cost as much again."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._send = send
        extensions = scope.get("extensions") or {}
        self.line: Line | None = extensions.get(EXTENSION, {}).get("connection")
        self.ended = False

    def head(self, status: int, headers: Mapping[str, str]) -> Awaitable[None]:
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        return self._send({"type": "http.response.start", "status": status, "headers": raw})

    def send(self, data: bytes) -> Awaitable[None]:
        return self._send({"type": "http.response.body", "body": data, "more_body": True})

    def end(self, data: bytes = b"") -> Awaitable[None]:
        self.ended = True
        return self._send({"type": "http.response.body", "body": data, "more_body": False})

    def break_off(self, *, at_once: bool = False) -> None:
        self.ended = True
        if self.line is not None:
            self.line.break_off(at_once=at_once)

    async def json(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        data = encode(body)
        kind = {"content-type": "application/json", "content-length": str(len(data))}
        await self.head(status, {**(headers or {}), **kind})
        await self.end(data)

    async def failure(self, dialect: str, failure: Failure, headers: Mapping[str, str]) -> int:
        """An error before any exchange began, in the dialect of the path; gives its status."""
        speaker = dialect_named(dialect)
        failure, advice = advised(failure, speaker)
        status = speaker.error_status(failure)
        await self.json(status, speaker.write_error(failure), {**advice, **headers})
        return status
