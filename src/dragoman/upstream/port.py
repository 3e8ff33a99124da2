"""The port of an upstream: what every kind of upstream offers to the exchange.

An upstream takes an `UpstreamRequest` in its wire dialect and gives an `UpstreamReply`: status and headers
at once, the body in pieces. `PushReply`, `SessionUpstream` and `EarlyUpstream` are optional abilities. The
exchange and the admin API find them with `can_push` and `isinstance`.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Protocol, TypeGuard, runtime_checkable

import msgspec

from dragoman.config.settings import Secret
from dragoman.hub.errors import Failure, UpstreamFailed


class UpstreamRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to an upstream, in the upstream's wire dialect."""

    body: bytes
    model: str
    stream: bool
    #: Index of the provider's key to use.
    key: int = 0
    #: Client headers that this upstream may see. Names are in lower case.
    headers: Mapping[str, str] = {}
    #: The client's own credential, by header, for this provider alone.
    credential: Mapping[str, Secret] = {}
    #: Path below the endpoint of a turn, for APIs with more than one endpoint (counting tokens).
    endpoint: str = ""
    #: Identity of the caller, used to keep callers' sessions apart. Empty if the gateway asks for no key.
    caller: str = ""
    #: Owner of the session, if another gateway has identified the caller and forwarded the request.
    owner: str = ""


class UpstreamReply(Protocol):
    """The reply to one request: status and headers at once, the body in pieces."""

    status: int
    headers: Mapping[str, str]

    def pieces(self) -> AsyncIterator[bytes]:
        """Iterate over the body. Called once per reply: the iterator may hold the state of a decoder.

        Raises `UpstreamFailed` if the reply breaks off.
        """
        ...

    def close(self) -> None:
        """Release the connection. An unfinished reply is cancelled at the upstream.

        A task that waits for the next piece gets `UpstreamFailed`.
        """
        ...


async def read_body(pieces: AsyncIterator[bytes], limit: int, count: Callable[[bytes], None]) -> bytes:
    """Read a whole body. `count` is called with each piece. Raises if the body exceeds the limit."""
    kept: list[bytes] = []
    size = 0
    async for piece in pieces:
        count(piece)
        size += len(piece)
        if size > limit:
            message = f"the upstream's reply is longer than {limit} bytes"
            raise UpstreamFailed(Failure(kind="server", status=502, message=message))
        kept.append(piece)
    return b"".join(kept)


class WaitingCalls(Protocol):
    """The calls for which sessions wait, shared by gateways. A result may arrive at any of them."""

    async def find_secret(self) -> bytes:
        """The secret that all gateways have; empty if it cannot be read."""
        ...

    def register(self, session: str, owner: str, calls: Collection[str], seconds: float) -> None:
        """Store for which calls a session waits. Without calls, it waits no more."""
        ...

    async def wait_until_written(self) -> None:
        """Wait a short time until the other gateways can find the calls."""
        ...

    async def forward(
        self, provider: str, owner: str, calls: Collection[str], request: UpstreamRequest
    ) -> UpstreamReply | None:
        """The reply of the gateway that waits for one of the calls; None if no other gateway does."""
        ...


@runtime_checkable
class PushReply(UpstreamReply, Protocol):
    """A reply that can hand each piece to a callback on arrival, without waking a task."""

    async def push_to(self, sink: Callable[[bytes], bool]) -> bool:
        """Call `sink` with each piece. Return True at the end of the body, False once `sink` returns False.

        After False the caller may call `push_to` again to receive the rest.
        """
        ...


def can_push(reply: UpstreamReply) -> TypeGuard[PushReply]:
    """Whether a reply is a `PushReply`. `isinstance` takes 15 microseconds, for each reply."""
    return hasattr(reply, "push_to")


@runtime_checkable
class SessionUpstream(Protocol):
    """An upstream that keeps sessions between requests and shows them to an operator."""

    def count_sessions(self) -> dict[str, int]:
        """Return the number of sessions per state and the counts of past events."""
        ...

    def list_sessions(self) -> list[dict[str, object]]:
        """Return one summary per live session."""
        ...

    def describe_session(self, session: str) -> dict[str, object] | None:
        """Return the details of one session, or None if it does not exist."""
        ...

    def end_session(self, session: str) -> bool:
        """End one session. Return False if it does not exist."""
        ...


@runtime_checkable
class EarlyUpstream(Protocol):
    """An upstream that can open a connection before there is a request."""

    def open_early(self) -> None:
        """Start to open a connection if none is idle."""
        ...


class Upstream(Protocol):
    """One provider. `send` may be called by many tasks at once, `close` once at the end."""

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        """Send the request and wait for the head of the reply.

        Raises `UpstreamFailed` if there is no reply at all.
        """
        ...

    async def close(self) -> None:
        """Release all connections and processes."""
        ...
