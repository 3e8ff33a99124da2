"""Stands between an exchange and its client: labels the response, keeps it before its last word leaves."""

from collections.abc import Awaitable, Mapping
from typing import Protocol

import msgspec

from dragoman.dialects.openai_responses.errors import error_status, write_error
from dragoman.exchange.ask import Client, Line
from dragoman.hub.errors import DragomanError
from dragoman.responses.labels import Labelling
from dragoman.responses.stored import Members, Stored, members_of
from dragoman.responses.turn import Turn, array

_text = msgspec.json.Decoder(str).decode


class Keep(Protocol):
    def __call__(self, response: Members) -> Awaitable[bool]:
        """Keep the response, whose last word has been said; False if it cannot be kept."""
        ...


class KeepingLine:
    """The short way, for everything but a stream's end: that always comes by the long one."""

    def __init__(self, line: Line, labelling: Labelling) -> None:
        self._line = line
        self._feed = labelling.feed
        self.drained = line.drained

    def write(self, data: bytes) -> bool:
        data = self._feed(data)
        # An empty piece would be taken for the end.
        return self._line.write(data) if data else True


class KeepingClient:
    def __init__(self, client: Client, labelling: Labelling, keep: Keep) -> None:
        self._client = client
        self._labelling = labelling
        self._keep = keep
        self._is_stream = False
        #: A head that waits for the body it announces.
        self._head: tuple[int, Mapping[str, str]] | None = None
        self._is_kept = False
        line = client.line
        self.line: Line | None = None if line is None else KeepingLine(line, labelling)

    async def head(self, status: int, headers: Mapping[str, str]) -> None:
        self._is_stream = "event-stream" in headers.get("content-type", "")
        if self._is_stream:
            await self._client.head(status, headers)
        else:
            self._head = (status, headers)

    async def send(self, data: bytes) -> None:
        if data := await self._told(data):
            await self._client.send(data)

    async def end(self, data: bytes = b"") -> None:
        if self._head is None:
            return await self._client.end(await self._told(data) if data else data)
        status, headers = self._head
        if status == 200:
            try:
                data = await self._whole(data)
            except DragomanError as error:
                status, data = error_status(error.failure), msgspec.json.encode(write_error(error.failure))
            headers = {**headers, "content-length": str(len(data))}
        await self._client.head(status, headers)
        await self._client.end(data)

    def break_off(self, *, at_once: bool = False) -> None:
        self._client.break_off(at_once=at_once)

    async def _told(self, events: bytes) -> bytes:
        labelling = self._labelling
        labelled = labelling.feed(events)
        if labelling.last is None or self._is_kept:
            return labelled
        self._is_kept = True
        if await self._keep(labelling.last) or not labelling.label.store:
            return labelled
        # It says the truth about itself: it cannot be found again.
        return Labelling(msgspec.structs.replace(labelling.label, store=False)).feed(labelled)

    async def _whole(self, body: bytes) -> bytes:
        labelling = self._labelling
        response = labelling.whole(members_of(body))
        if not await self._keep(response) and labelling.label.store:
            response = msgspec.structs.replace(labelling.label, store=False).on(response)
        return msgspec.json.encode(response)


def stored(turn: Turn, response: Members, created: float) -> Stored:
    """What is kept of a response."""
    body = {name: value for name, value in response.items() if name != "output"}
    return Stored(
        id=turn.label.id,
        owner=turn.owner,
        previous=turn.parent,
        created=created,
        status=_text(response.get("status", b'"completed"')),
        input=array(turn.input),
        output=bytes(response.get("output", b"[]")),
        body=msgspec.json.encode(body),
    )
