"""The Responses API over a WebSocket: one request after another, one message for each event.

A connection keeps its last response in memory, stored or not. The next request can continue it and send only
the new items.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Protocol
from uuid import uuid4

import msgspec

from dragoman.accounts.keys import Caller
from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_responses.errors import error_status, write_error
from dragoman.dialects.openai_responses.response_object import build_started_response
from dragoman.exchange.client import DirectConnection
from dragoman.exchange.exchange import CLOSING, Exchange
from dragoman.exchange.gateway import Gateway
from dragoman.exchange.large_bodies import run_by_size
from dragoman.hub.errors import ClientProtocolError, DragomanError, Failure, RequestTooLarge
from dragoman.pipeline.plan import RequestMetadata
from dragoman.pipeline.transports import SSE
from dragoman.responses.compaction import extend_conversation
from dragoman.responses.members import Members, encode_json, read_items, read_members
from dragoman.responses.service import ResponsesService
from dragoman.responses.turn import NO_MEMORY, ConversationMemory, ResponseTurn
from dragoman.wire.fields import encode
from dragoman.wire.json_values import MAX_VALUES, MIN_SCANNED, has_too_many_values
from dragoman.wire.sse import Output

#: Messages that may wait while a request is answered.
MAX_WAITING = 8
#: Seconds without a request, and seconds in all, after which a connection is closed.
IDLE_SECONDS = 1800.0
LIFETIME_SECONDS = 3600.0
#: Seconds for the last messages to a client that does not read.
CLOSE_SECONDS = 5.0
#: Headers of an error that a client acts on.
ERROR_HEADERS = ("retry-after", "retry-after-ms", "x-should-retry", "x-request-id")
#: Members of a message that are no part of the request, or that do not apply over a WebSocket.
MESSAGE_MEMBERS = ("type", "generate", "stream_id", "background")

LIMIT_REACHED = Failure(
    kind="invalid_request",
    status=400,
    message="the connection has reached its time limit; open a new one and continue there",
    code="websocket_connection_limit_reached",
)

TOO_MANY_MESSAGES = Failure(
    kind="invalid_request",
    status=400,
    message=f"more than {MAX_WAITING} messages wait on this connection; send fewer requests ahead",
    code="too_many_messages",
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

    def __init__(self, socket: Socket, stream_id: str = "") -> None:
        self._socket = socket
        # A client that runs several conversations over one connection finds the events of each by this.
        self._suffix = b',"stream_id":%b}' % encode(stream_id) if stream_id else b""
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
        await self.send_error(status, read_members(body)["error"], kept)

    async def send_error(self, status: int, error: object, headers: Mapping[str, str] | None = None) -> None:
        """Send an error that comes before any event. The message contains the HTTP status and headers."""
        event: Json = {"type": "error", "status": status, "error": error}
        await self.send_message(encode({**event, "headers": headers} if headers else event))

    async def refuse(self, failure: Failure) -> None:
        await self.send_error(error_status(failure), write_error(failure)["error"])

    async def send_message(self, event: bytes) -> None:
        await self._socket.send(event[:-1] + self._suffix if self._suffix else event)

    def abort(self, *, at_once: bool = False) -> None:
        self.is_broken = True


class SocketSession:
    """One connection. `opening` is the request that opened it; `run_exchange` runs an exchange to its end.

    `authenticate` is called for every request: a key may be revoked while the connection is open. `idle` and
    `lifetime` are seconds.
    """

    def __init__(
        self,
        gateway: Gateway,
        responses: ResponsesService,
        socket: Socket,
        opening: RequestMetadata,
        authenticate: Callable[[], Awaitable[Caller]],
        run_exchange: Callable[[Exchange], Awaitable[None]],
        is_closing: Callable[[], bool],
        *,
        idle: float = IDLE_SECONDS,
        lifetime: float = LIFETIME_SECONDS,
    ) -> None:
        self._gateway = gateway
        self._responses = responses
        self._socket = socket
        self._opening = opening
        self._authenticate = authenticate
        self._run_exchange = run_exchange
        self._is_closing = is_closing
        self._idle = idle
        self._lifetime = lifetime
        #: The number of requests so far.
        self.requests = 0
        self._memory = NO_MEMORY
        self._messages: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._exchange: Exchange | None = None
        self._is_gone = False
        self._is_flooded = False

    async def run(self) -> None:
        """Answer requests until the client leaves, is silent for `idle` seconds, or `lifetime` is over."""
        loop = asyncio.get_running_loop()
        receiving = loop.create_task(self._receive())
        ends_at = loop.time() + self._lifetime
        try:
            while (message := await self._wait_for_message()) is not None:
                if loop.time() >= ends_at:
                    await SocketClient(self._socket).refuse(LIMIT_REACHED)
                    break
                if not await self._handle(message):
                    break
        finally:
            receiving.cancel()
        if not self._is_gone:
            await self._close()

    async def _close(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                if self._is_flooded:
                    await SocketClient(self._socket).refuse(TOO_MANY_MESSAGES)
                await self._socket.close()

    async def _wait_for_message(self) -> bytes | None:
        try:
            async with asyncio.timeout(self._idle):
                return await self._messages.get()
        except TimeoutError:
            return None

    async def _receive(self) -> None:
        """Queue messages. A client that leaves or sends too many ends the exchange that runs for it.

        It never waits for room in the queue: while nothing is read, a client can leave unnoticed.
        """
        while (message := await self._socket.receive()) is not None:
            if self._messages.qsize() >= MAX_WAITING:
                self._is_flooded = True
                break
            self._messages.put_nowait(message)
        self._is_gone = not self._is_flooded
        if self._exchange is not None:
            self._exchange.abandon()
        while not self._messages.empty():
            self._messages.get_nowait()
        self._messages.put_nowait(None)

    async def _handle(self, message: bytes) -> bool:
        """Answer one message. False if the connection cannot be used any more."""
        client = SocketClient(self._socket)
        try:
            if len(message) >= MIN_SCANNED and await asyncio.to_thread(has_too_many_values, message):
                raise RequestTooLarge(f"the message has more than {MAX_VALUES} JSON values")
            members = self._read_message(message)
            client = SocketClient(self._socket, _read_string(members, "stream_id"))
            await self._respond(members, client)
        except DragomanError as error:
            await client.refuse(error.failure)
        return not (client.is_broken or self._is_gone or self._is_flooded)

    def _read_message(self, message: bytes) -> Members:
        """The members of a `response.create` message."""
        try:
            members = read_members(message)
        except (ValueError, RecursionError):
            raise ClientProtocolError("expected a JSON object in each message") from None
        if _read_string(members, "type") != "response.create":
            raise ClientProtocolError("expected response.create", path="type")
        if len(message) > self._responses.limit:
            raise RequestTooLarge(f"the message exceeds {self._responses.limit} bytes")
        return members

    async def _respond(self, members: Members, client: SocketClient) -> None:
        if self._is_closing():
            raise DragomanError("closing", failure=CLOSING)
        is_warm_up = bytes(members.get("generate", b"")) == b"false"
        caller = await self._authenticate()
        memory = self._memory
        if _read_string(members, "previous_response_id") == memory.id:
            # If this turn fails, the response that it continues is forgotten too. The client then sends the
            # whole conversation.
            self._memory = NO_MEMORY
        turn = await self._build_turn(members, caller, memory)
        self.requests += 1
        if is_warm_up:
            return await self._warm_up(turn, client)

        async def store(response: Members) -> bool:
            if bytes(response["status"]) != b'"failed"':
                # A copy of the output, so that the rest of the event need not stay in memory.
                items = extend_conversation(turn.conversation, read_items(bytes(response["output"])))
                self._memory = ConversationMemory(turn.facts.id, items)
            return turn.facts.store and await self._responses.store_response(turn, response)

        exchange = Exchange(
            self._gateway, turn.plan, self._responses.build_client(turn, client, store), turn.caller
        )
        self._exchange = exchange
        if not (self._is_gone or self._is_flooded):
            await self._run_exchange(exchange)
        self._exchange = None

    async def _build_turn(self, members: Members, caller: Caller, memory: ConversationMemory) -> ResponseTurn:
        """The turn of the request in a message, as if it had come over HTTP."""
        for name in MESSAGE_MEMBERS:
            members.pop(name, None)
        members["stream"] = msgspec.Raw(b"true")
        metadata = msgspec.structs.replace(self._opening, request_id=f"req_{uuid4().hex[:24]}")
        return await self._responses.build_socket_turn(metadata, members, caller, memory)

    async def _warm_up(self, turn: ResponseTurn, client: SocketClient) -> None:
        """Answer `"generate": false`: no upstream is called, and the next request continues the response."""
        settings = await run_by_size(turn.plan.body, turn.check)
        created = int(self._gateway.clock())
        response = turn.facts.apply(
            read_members(encode(build_started_response(settings, turn.facts.id, created, "in_progress")))
        )
        await client.send_message(_build_event("response.created", response, 0))
        last = {
            **response,
            "status": msgspec.Raw(b'"completed"'),
            "completed_at": msgspec.Raw(encode(created)),
            "usage": msgspec.Raw(encode(NO_USAGE)),
        }
        self._memory = ConversationMemory(turn.facts.id, turn.conversation)
        if turn.facts.store:
            await self._responses.store_response(turn, last)
        await client.send_message(_build_event("response.completed", last, 1))


NO_USAGE: Json = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}


def _build_event(name: str, response: Members, number: int) -> bytes:
    return encode_json({"type": name, "response": response, "sequence_number": number})


def _read_string(members: Members, name: str) -> str:
    try:
        value = msgspec.json.decode(members.get(name, b"null"))
    except (ValueError, RecursionError):
        return ""
    return value if isinstance(value, str) else ""
