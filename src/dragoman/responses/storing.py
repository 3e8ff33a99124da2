"""`StoringClient`: stores a response before its last event leaves the gateway."""

from collections.abc import Awaitable, Mapping
from typing import Protocol

import msgspec

from dragoman.dialects.openai_responses.errors import error_status, write_error
from dragoman.exchange.client import Client, DirectConnection
from dragoman.hub.errors import DragomanError
from dragoman.pipeline.transports import Transport
from dragoman.responses.facts import ITEM_DONE, TERMINAL_EVENTS, ResponseCollector, replace_response
from dragoman.responses.stored import Members, Stored, members_of
from dragoman.responses.turn import Turn, encode_items
from dragoman.wire.sse import Frame, Output, RawEvents

_read_text = msgspec.json.Decoder(str).decode

#: Bytes of forwarded events that must be looked at: finished items, and the last event.
_MARKS = (ITEM_DONE.encode(), *(event.encode() for event in TERMINAL_EVENTS))


class StoreResponse(Protocol):
    def __call__(self, response: Members) -> Awaitable[bool]:
        """Store a finished response. False if it cannot be stored."""
        ...


class CollectingConnection:
    """The direct connection of a client whose response is stored. The last event never takes this way."""

    def __init__(self, direct: DirectConnection, client: "StoringClient") -> None:
        self._direct = direct
        self._process = client.process
        self.drained = direct.drained

    def write(self, output: Output) -> bool:
        return self._direct.write(self._process(output))


class StoringClient:
    """Passes everything on to the client; stores the response when its last event comes."""

    def __init__(self, client: Client, collector: ResponseCollector, store: StoreResponse) -> None:
        self._client = client
        self._collector = collector
        self._store = store
        self._is_stored = False
        direct = client.direct
        self.direct: DirectConnection | None = None
        if direct is not None and not collector.changes_stream:
            self.direct = CollectingConnection(direct, self)

    @property
    def transport(self) -> Transport:
        return self._client.transport

    def start(self, status: int, headers: Mapping[str, str]) -> Awaitable[None]:
        return self._client.start(status, headers)

    async def send(self, output: Output) -> None:
        output = await self._process_and_store(output)
        if output:
            await self._client.send(output)

    async def end(self, output: Output = ()) -> None:
        await self._client.end(await self._process_and_store(output))

    def ping(self, data: bytes) -> Awaitable[None]:
        return self._client.ping(data)

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        if status == 200:
            try:
                body = await self._store_whole(body)
            except DragomanError as error:
                status, body = error_status(error.failure), msgspec.json.encode(write_error(error.failure))
            headers = {**headers, "content-length": str(len(body))}
        await self._client.respond(status, headers, body)

    def abort(self, *, at_once: bool = False) -> None:
        self._client.abort(at_once=at_once)

    def process(self, output: Output) -> Output:
        """Collect from the output. Forwarded events that do not matter stay unparsed."""
        is_forwarded = isinstance(output, RawEvents) and not output.added
        if is_forwarded and not self._collector.changes_stream and not _matters(output):
            return output
        return [processed for frame in output for processed in self._collector.process(frame)]

    async def _process_and_store(self, output: Output) -> Output:
        output = self.process(output)
        collector = self._collector
        if collector.response is None or self._is_stored:
            return output
        self._is_stored = True
        if await self._store(collector.response) or not collector.facts.store:
            return output
        # The client must not take the response for one that can be retrieved.
        facts = msgspec.structs.replace(collector.facts, store=False)
        response = facts.apply(collector.response)
        return [_replace_last(frame, response) for frame in output]

    async def _store_whole(self, body: bytes) -> bytes:
        collector = self._collector
        response = collector.process_whole(members_of(body))
        if not await self._store(response) and collector.facts.store:
            response = msgspec.structs.replace(collector.facts, store=False).apply(response)
        return msgspec.json.encode(response)


def _matters(output: Output) -> bool:
    return not isinstance(output, RawEvents) or any(mark in output.data for mark in _MARKS)


def _replace_last(frame: Frame, response: Members) -> Frame:
    return replace_response(frame, response) if frame.event in TERMINAL_EVENTS else frame


def build_stored(turn: Turn, response: Members, created: float) -> Stored:
    """The row of a finished response."""
    body = {name: value for name, value in response.items() if name != "output"}
    return Stored(
        id=turn.facts.id,
        owner=turn.owner,
        previous=turn.parent,
        created=created,
        status=_read_text(response.get("status", b'"completed"')),
        input=encode_items(turn.input),
        output=bytes(response.get("output", b"[]")),
        body=msgspec.json.encode(body),
    )
