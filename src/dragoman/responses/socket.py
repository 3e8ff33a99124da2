"""The Responses API over a WebSocket: one response after another, each event a text of its own.

What a connection said is remembered as long as it stays open, stored or not: the next request may name the
last response and send only what is new.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol
from uuid import uuid4

import msgspec

from dragoman.accounts.keys import Caller
from dragoman.dialects.base import Json
from dragoman.dialects.openai_responses.errors import error_status, write_error
from dragoman.dialects.openai_responses.response_object import build_started_response
from dragoman.exchange.client import DirectConnection
from dragoman.exchange.exchange import CLOSING, Exchange
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import ClientProtocolError, DragomanError, Failure
from dragoman.pipeline.plan import ClientRequest
from dragoman.pipeline.transports import SSE
from dragoman.responses.compaction import gone_on
from dragoman.responses.service import ResponsesService
from dragoman.responses.stored import Members, items_of, members_of
from dragoman.responses.turn import Local, Turn, read_checked_body
from dragoman.wire.fields import encode
from dragoman.wire.sse import Output

#: Requests that may wait while one is answered.
MOST_WAITING = 8
IDLE = 1800.0
LIFETIME = 3600.0
#: Headers of an error that a client acts on.
ERROR_HEADERS = ("retry-after", "retry-after-ms", "x-should-retry", "x-request-id")

LIMIT_REACHED = Failure(
    kind="invalid_request",
    status=400,
    message="the connection has lasted as long as it may; open a new one and go on there",
    code="websocket_connection_limit_reached",
)


class Socket(Protocol):
    async def receive(self) -> bytes | None:
        """The next message; None when the client is gone."""
        ...

    async def send(self, text: bytes) -> None: ...

    async def close(self) -> None: ...


class SocketClient:
    """Sends each frame of a stream as a message of its own, and an error as one message."""

    transport = SSE

    def __init__(self, socket: Socket, stream_id: str) -> None:
        self._socket = socket
        #: A client that runs several conversations over one connection finds its own by this.
        self._mark = b',"stream_id":%b}' % encode(stream_id) if stream_id else b""
        self.is_broken = False
        self.direct: DirectConnection | None = None

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """A message has no head."""

    async def send(self, output: Output) -> None:
        for frame in output:
            if frame.data[:1] == b"{":
                await self.send_message(frame.data)

    async def end(self, output: Output = ()) -> None:
        await self.send(output)

    async def ping(self, data: bytes) -> None:
        """The server keeps the WebSocket alive with pings of its own."""

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Over a WebSocket every reply is streamed, so a whole response is an error."""
        kept = {name: headers[name] for name in ERROR_HEADERS if name in headers}
        await self.fail(status, members_of(body)["error"], kept)

    async def fail(self, status: int, error: object, headers: Mapping[str, str] | None = None) -> None:
        """Tell of an error before there was a response: what HTTP says in its head stands beside it."""
        event: Json = {"type": "error", "status": status, "error": error}
        await self.send_message(encode({**event, "headers": headers} if headers else event))

    async def send_message(self, event: bytes) -> None:
        await self._socket.send(event[:-1] + self._mark if self._mark else event)

    def abort(self, *, at_once: bool = False) -> None:
        self.is_broken = True


class Create(msgspec.Struct, frozen=True):
    """What a message says beside the request itself."""

    type: object = None
    generate: object = None
    stream_id: object = None


_create = msgspec.json.Decoder(Create).decode


class SocketSession:
    """One connection. `ask` holds what was said when it was opened; `carry` runs an exchange to its end.

    `caller` says who calls, again for every request: a key may be worth nothing by now.
    `idle` and `lifetime` are seconds: without a request, and in all.
    """

    def __init__(
        self,
        gateway: Gateway,
        responses: ResponsesService,
        socket: Socket,
        opened: ClientRequest,
        caller: Callable[[], Awaitable[Caller]],
        carry: Callable[[Exchange], Awaitable[None]],
        is_closing: Callable[[], bool],
        *,
        idle: float = IDLE,
        lifetime: float = LIFETIME,
    ) -> None:
        self._gateway = gateway
        self._responses = responses
        self._socket = socket
        self._opened = opened
        self._caller = caller
        self._carry = carry
        self._is_closing = is_closing
        self._idle = idle
        self._lifetime = lifetime
        self.responses = 0
        self._local = Local()
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_WAITING)
        self._exchange: Exchange | None = None
        self._is_gone = False

    async def run(self) -> None:
        """Answer until the client leaves, or has been silent for too long."""
        loop = asyncio.get_running_loop()
        reading = loop.create_task(self._read())
        ends_at = loop.time() + self._lifetime
        try:
            while (message := await self._next()) is not None:
                if loop.time() >= ends_at:
                    await self._refuse(LIMIT_REACHED, SocketClient(self._socket, ""))
                    break
                if not await self._answer(message):
                    break
        finally:
            reading.cancel()
        if not self._is_gone:
            await self._socket.close()

    async def _next(self) -> bytes | None:
        try:
            async with asyncio.timeout(self._idle):
                return await self._waiting.get()
        except TimeoutError:
            return None

    async def _read(self) -> None:
        """Messages wait their turn; a client that leaves ends what is being said to it."""
        while (message := await self._socket.receive()) is not None:
            await self._waiting.put(message)
        self._is_gone = True
        if self._exchange is not None:
            self._exchange.abandon()
        await self._waiting.put(None)

    async def _answer(self, message: bytes) -> bool:
        """False if there is nobody left to answer."""
        client = SocketClient(self._socket, "")
        try:
            create = _create_of(message)
            if isinstance(create.stream_id, str):
                client = SocketClient(self._socket, create.stream_id)
            await self._respond(message, create, client)
        except DragomanError as error:
            await self._refuse(error.failure, client)
        return not (client.is_broken or self._is_gone)

    async def _refuse(self, failure: Failure, client: SocketClient) -> None:
        await client.fail(error_status(failure), write_error(failure)["error"])

    async def _respond(self, message: bytes, create: Create, client: SocketClient) -> None:
        if self._is_closing():
            raise DragomanError("closing", failure=CLOSING)
        turn = await self._build_turn(message, await self._caller())
        self.responses += 1
        if turn.facts.previous == self._local.id:
            # What fails to go on cannot be gone on with either: the client says everything again.
            self._local = Local()
        if create.generate is False:
            return await self._warm_up(turn, client)

        async def keep(response: Members) -> bool:
            if bytes(response["status"]) != b'"failed"':
                # A copy, so that the rest of the event need not stay in memory with it.
                items = gone_on(turn.conversation, items_of(bytes(response["output"])))
                self._local = Local(turn.facts.id, items)
            return turn.facts.store and await self._responses.keep(turn, response)

        exchange = Exchange(
            self._gateway, turn.plan, self._responses.build_client(turn, client, keep), turn.caller
        )
        self._exchange = exchange
        if not self._is_gone:
            await self._carry(exchange)
        self._exchange = None

    async def _build_turn(self, message: bytes, caller: Caller) -> Turn:
        """The turn of the request in a message, as if it had come over HTTP."""
        members = members_of(message)
        for name in ("type", "generate", "stream_id", "background"):
            members.pop(name, None)
        members["stream"] = msgspec.Raw(b"true")
        client = msgspec.structs.replace(self._opened, request_id=f"req_{uuid4().hex[:24]}")
        return await self._responses.build_local_turn(
            client, msgspec.json.encode(members), caller, self._local
        )

    async def _warm_up(self, turn: Turn, client: SocketClient) -> None:
        """The client says early what it will build on; nobody has to be asked for that."""
        body = read_checked_body(turn)
        created = int(self._gateway.clock())
        response = build_started_response(body, turn.facts.id, created, "in_progress")
        told = turn.facts.apply(members_of(encode(response)))
        await client.send_message(_event("response.created", told, 0))
        last = {**told, "status": msgspec.Raw(b'"completed"'), "completed_at": msgspec.Raw(encode(created))}
        last["usage"] = msgspec.Raw(encode(NO_USAGE))
        self._local = Local(turn.facts.id, turn.conversation)
        if turn.facts.store:
            await self._responses.keep(turn, last)
        await client.send_message(_event("response.completed", last, 1))


NO_USAGE: Json = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}


def _event(kind: str, response: Members, number: int) -> bytes:
    return msgspec.json.encode({"type": kind, "response": response, "sequence_number": number})


def _create_of(message: bytes) -> Create:
    try:
        create = _create(message)
    except (ValueError, RecursionError):
        raise ClientProtocolError("expected a JSON object in each message") from None
    if create.type != "response.create":
        raise ClientProtocolError("expected response.create", path="type")
    return create
