"""`StoringClient`: stores a response before its last event leaves the gateway.

`ResponseCollector` takes the response from the frames of the reply. It never parses a stream that the gateway
wrote: it sees frames, and of forwarded events only those that can matter.
"""

from collections.abc import Awaitable, Iterable, Mapping
from typing import Protocol

import msgspec

from dragoman.dialects.openai_responses.errors import error_status, write_error
from dragoman.exchange.client import Client, DirectConnection
from dragoman.hub.errors import DragomanError
from dragoman.pipeline.transports import Transport
from dragoman.responses.members import (
    Members,
    ResponseFacts,
    complete_response,
    encode_json,
    read_members,
    replace_response,
)
from dragoman.wire.sse import Frame, Output, RawEvents

#: The events that end a stream.
TERMINAL_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})
ITEM_DONE = "response.output_item.done"
#: Bytes of finished items that are kept; they are needed only if the last event leaves them out.
MAX_ITEMS = 16 * 1024 * 1024

#: Bytes of forwarded events that must be read: finished items, and the last event.
_MARKS = (ITEM_DONE.encode(), *(event.encode() for event in TERMINAL_EVENTS))


class ResponseCollector:
    """Takes the finished response from the frames of one stream. `response` is set by the last event."""

    #: Whether other events than the last one change.
    changes_stream = False

    def __init__(self, facts: ResponseFacts) -> None:
        self.facts = facts
        self.response: Members | None = None
        self._items: list[msgspec.Raw] = []
        self._size = 0

    def process(self, frame: Frame) -> Iterable[Frame]:
        """One frame in, the frames for the client out. Only the last event can change."""
        if frame.event == ITEM_DONE:
            self._keep_item(frame)
        elif frame.event in TERMINAL_EVENTS:
            return (self._finish(frame),)
        return (frame,)

    def process_whole(self, response: Members) -> Members:
        """Complete a response that is not streamed, and return it for the client."""
        return complete_response(response)

    def _keep_item(self, frame: Frame) -> None:
        if self._size > MAX_ITEMS:
            return
        try:
            item = bytes(read_members(frame.data)["item"])
        except (ValueError, KeyError, RecursionError):
            return
        self._size += len(item)
        self._items.append(msgspec.Raw(item))

    def _finish(self, frame: Frame) -> Frame:
        try:
            payload = read_members(frame.data)
            response = read_members(payload["response"])
        except (ValueError, KeyError, RecursionError):
            return frame
        self.response = completed = self._complete(response)
        if completed == response:
            return frame
        payload["response"] = msgspec.Raw(encode_json(completed))
        return Frame(frame.event, encode_json(payload))

    def _complete(self, response: Members) -> Members:
        """Some servers send the items only while they stream, and leave them out of the last event."""
        if self._items and bytes(response.get("output", b"")) in (b"", b"[]", b"null"):
            response = {**response, "output": msgspec.Raw(encode_json(self._items))}
        return complete_response(response)


class StoreResponse(Protocol):
    def __call__(self, response: Members) -> Awaitable[bool]:
        """Store a finished response. False if it cannot be stored."""
        ...


class WrappedClient:
    """Passes everything on to another client. Subclasses change a part."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.direct: DirectConnection | None = None

    @property
    def transport(self) -> Transport:
        return self._client.transport

    def start(self, status: int, headers: Mapping[str, str]) -> Awaitable[None]:
        return self._client.start(status, headers)

    def send(self, output: Output) -> Awaitable[None]:
        return self._client.send(output)

    def end(self, output: Output = ()) -> Awaitable[None]:
        return self._client.end(output)

    def ping(self, data: bytes) -> Awaitable[None]:
        return self._client.ping(data)

    def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> Awaitable[None]:
        return self._client.respond(status, headers, body)

    def abort(self, *, at_once: bool = False) -> None:
        self._client.abort(at_once=at_once)


class StoringClient(WrappedClient):
    """Stores the response when its last event comes, before the client gets the event."""

    def __init__(self, client: Client, collector: ResponseCollector, store: StoreResponse) -> None:
        super().__init__(client)
        self._collector = collector
        self._store = store
        self._is_stored = False
        direct = client.direct
        if direct is not None and not collector.changes_stream:
            # The last event never takes this way.
            self.direct = direct._replace(encode=lambda output: direct.encode(self._process(output)))

    async def send(self, output: Output) -> None:
        output = await self._process_and_store(output)
        if output:
            await self._client.send(output)

    async def end(self, output: Output = ()) -> None:
        await self._client.end(await self._process_and_store(output))

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        if status == 200:
            try:
                body = await self._store_whole(body)
            except DragomanError as error:
                status, body = error_status(error.failure), encode_json(write_error(error.failure))
            headers = {**headers, "content-length": str(len(body))}
        await self._client.respond(status, headers, body)

    def _process(self, output: Output) -> Output:
        """Give the frames to the collector and return the output for the client.

        Forwarded events that the collector does not need stay unparsed.
        """
        is_forwarded = isinstance(output, RawEvents) and not output.added
        if is_forwarded and not self._collector.changes_stream and not _matters(output):
            return output
        return [processed for frame in output for processed in self._collector.process(frame)]

    async def _process_and_store(self, output: Output) -> Output:
        output = self._process(output)
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
        response = collector.process_whole(read_members(body))
        if not await self._store(response) and collector.facts.store:
            response = msgspec.structs.replace(collector.facts, store=False).apply(response)
        return encode_json(response)


def _matters(output: Output) -> bool:
    return not isinstance(output, RawEvents) or any(mark in output.data for mark in _MARKS)


def _replace_last(frame: Frame, response: Members) -> Frame:
    return replace_response(frame, response) if frame.event in TERMINAL_EVENTS else frame
