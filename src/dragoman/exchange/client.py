"""The port to the client: what the exchange needs of a connection. HTTP, WebSocket and background runs
implement it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol

from dragoman.pipeline.transports import Transport
from dragoman.wire.sse import Output


class DirectConnection(NamedTuple):
    """A connection that a stream whose head is sent can be written to without waiting for each piece."""

    encode: Callable[[Output], bytes]
    #: Writes what `encode` gave, unless it is empty. False: wait for `wait_until_drained`.
    write: Callable[[bytes], bool]
    wait_until_drained: Callable[[], Awaitable[None]]


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
