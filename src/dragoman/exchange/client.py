"""The port to the client: what the exchange needs of a connection. HTTP, WebSocket and background runs
implement it."""

from collections.abc import Awaitable, Mapping
from typing import Protocol, TypeGuard

from dragoman.pipeline.transports import Transport
from dragoman.wire.sse import Output


class DirectConnection(Protocol):
    """A connection that a stream can be written to without waiting for each piece."""

    def write(self, output: Output) -> bool:
        """Write a part of a stream whose head is sent. False: wait for `wait_until_drained`."""
        ...

    def wait_until_drained(self) -> Awaitable[None]: ...


class ByteConnection(DirectConnection, Protocol):
    """A direct connection whose `write` is `write_bytes(encode(output))`, without empty pieces."""

    def encode(self, output: Output) -> bytes: ...

    def write_bytes(self, data: bytes) -> bool: ...


def takes_bytes(direct: DirectConnection) -> TypeGuard[ByteConnection]:
    """Whether a connection is a `ByteConnection`. `isinstance` takes 15 microseconds, for each reply."""
    return hasattr(direct, "write_bytes")


class Client(Protocol):
    """The connection to one client. `send` and `end` wait while the client is slow.

    Call order: `start`, then `send` any number of times, then `end`; or `respond` alone.
    """

    @property
    def transport(self) -> Transport: ...

    @property
    def direct(self) -> DirectConnection | None:
        """A connection that takes pieces of a stream without waiting; None if the server offers none."""
        ...

    def start(self, status: int, headers: Mapping[str, str]) -> Awaitable[None]:
        """Send the head of a stream."""
        ...

    def send(self, output: Output) -> Awaitable[None]: ...

    def end(self, output: Output = ()) -> Awaitable[None]:
        """Send the last output, if any, and end the stream."""
        ...

    def ping(self, data: bytes) -> Awaitable[None]:
        """Send bytes that keep the connection alive and mean nothing."""
        ...

    def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> Awaitable[None]:
        """Send a whole response."""
        ...

    def abort(self, *, at_once: bool = False) -> None:
        """Close the connection without an end, so that the client knows that something is missing.

        What was sent still arrives, unless `at_once`.
        """
        ...
