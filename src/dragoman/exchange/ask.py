"""What a client asked, as the server received it, and the port by which it is answered."""

from collections.abc import Mapping
from typing import Protocol

import msgspec


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    dialect: str
    #: The request's body, decompressed.
    body: bytes
    #: Names in lower case.
    headers: Mapping[str, str] = {}
    #: Where the URL says them (Gemini).
    model: str = ""
    stream: bool = False
    #: Gemini without `alt=sse`: the stream is one JSON array.
    as_array: bool = False
    request_id: str = ""


class Client(Protocol):
    """The way back to the client."""

    async def head(self, status: int, headers: Mapping[str, str]) -> None: ...

    async def send(self, data: bytes) -> None: ...

    async def end(self) -> None: ...
