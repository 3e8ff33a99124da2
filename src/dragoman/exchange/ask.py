"""What a client asked, as the server received it, and the port by which it is answered."""

from collections.abc import Awaitable, Mapping
from typing import Protocol

import msgspec

from dragoman.accounts.keys import ANONYMOUS, Caller


class Ask(msgspec.Struct, kw_only=True):
    """Its body can be taken once: whoever takes it decides how long it stays in memory."""

    dialect: str
    #: Decompressed.
    body: bytes
    #: Names in lower case.
    headers: Mapping[str, str] = {}
    #: Where the URL says them (Gemini).
    model: str = ""
    stream: bool = False
    #: Gemini without `alt=sse`: the stream is one JSON array.
    as_array: bool = False
    request_id: str = ""
    caller: Caller = ANONYMOUS
    #: Somebody has looked into the body already: `model` and `stream` are what it says.
    is_glanced: bool = False
    #: The gateway put the conversation together, from replies of whichever upstreams: it is never forwarded
    #: without being read.
    assembled: bool = False
    #: Seals are wanted in the reply, asked for or not: the gateway keeps them for the next turn.
    seals: bool = False

    def take_body(self) -> bytes:
        body, self.body = self.body, b""
        return body

    @property
    def agent(self) -> str:
        return self.headers.get("user-agent", "")


class Line(Protocol):
    """A line to a client over which a stream can be written without waiting."""

    def write(self, data: bytes) -> bool:
        """A piece of a stream whose head is out. False: the client is slow, wait for `drained`."""
        ...

    def drained(self) -> Awaitable[None]: ...


class Client(Protocol):
    """The way back to the client. `send` and `end` wait while the client is slow."""

    @property
    def line(self) -> Line | None:
        """The short way, where the server has one."""
        ...

    def head(self, status: int, headers: Mapping[str, str]) -> Awaitable[None]: ...

    def send(self, data: bytes) -> Awaitable[None]: ...

    def end(self, data: bytes = b"") -> Awaitable[None]:
        """The last bytes, if any, and the end."""
        ...

    def break_off(self, *, at_once: bool = False) -> None:
        """Hang up without an end, so that nobody takes what came for all of it.

        What was sent still arrives, unless it shall end `at_once`.
        """
        ...
