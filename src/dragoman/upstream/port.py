"""The port to whoever answers. Everything behind it speaks one of the four dialects in bytes."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol, runtime_checkable

import msgspec


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request to an upstream, in its dialect."""

    body: bytes
    model: str
    stream: bool
    #: Which of the provider's keys to use.
    key: int = 0
    #: The client's headers that its own kind of upstream should see; names in lower case.
    headers: Mapping[str, str] = {}
    #: The path below the API's root where the dialect has more than one, such as counting tokens.
    endpoint: str = ""
    #: Under which the gateway files what belongs to the caller; empty where it asks for no key.
    caller: str = ""


class Answer(Protocol):
    """What came back: the head at once, the body in pieces."""

    status: int
    headers: Mapping[str, str]

    def pieces(self) -> AsyncIterator[bytes]:
        """Always the same iterator. Raises `UpstreamFailed` if the reply breaks off."""
        ...

    def close(self) -> None:
        """Let go of the connection; an unfinished reply is cancelled at the upstream.

        Whoever waits for a piece gets `UpstreamFailed`.
        """
        ...


@runtime_checkable
class Pourable(Protocol):
    """An answer that can hand over its pieces the moment they come, without waking anybody."""

    async def pour(self, sink: Callable[[bytes], bool]) -> bool:
        """True when all is said; False when the sink, by returning False, has had enough for now."""
        ...


@runtime_checkable
class KeepsSessions(Protocol):
    """An upstream that keeps something between requests, and tells an operator about it."""

    def session_counts(self) -> dict[str, int]:
        """How many there are in which state, and what has happened to them so far."""
        ...

    def session_list(self) -> list[dict[str, object]]: ...

    def session_details(self, session: str) -> dict[str, object] | None: ...

    def end_session(self, session: str) -> bool:
        """False: there is no such session."""
        ...


class Upstream(Protocol):
    async def send(self, call: Call) -> Answer:
        """Send and wait for the head. Raises `UpstreamFailed` when there is no answer at all."""
        ...

    async def close(self) -> None: ...
