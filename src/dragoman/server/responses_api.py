"""The endpoints of the Responses API, over HTTP and WebSockets.

Requests that become exchanges take the way that `dragoman.responses` describes. The others read, cancel or
delete a stored response by its id.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qs

import msgspec

from dragoman.accounts.keys import Caller
from dragoman.exchange.client import Client
from dragoman.exchange.exchange import Exchange
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import ClientProtocolError, DragomanError, Failure
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.responses.background import BackgroundRun, BackgroundRuns
from dragoman.responses.compaction import CompactClient
from dragoman.responses.input_items import read_page
from dragoman.responses.service import ResponsesService
from dragoman.responses.stored_response import StoredResponse
from dragoman.responses.tool_outputs import build_continuation
from dragoman.responses.turn import ResponseTurn
from dragoman.responses.websocket import SocketSession
from dragoman.server.client import Send
from dragoman.server.counting import count_tokens
from dragoman.server.paths import Endpoint
from dragoman.server.request import HttpRequest, Receive
from dragoman.server.state import OpenExchanges
from dragoman.telemetry.log import log_socket

#: Digits of an event's number. No stream has so many events that their numbers are longer.
MAX_DIGITS = 9

#: The feature of the API that a client announces when it opens a WebSocket.
WEBSOCKET_FEATURE = "responses_websockets"
#: Open WebSockets. Each may hold a conversation in memory.
MAX_SOCKETS = 256
#: With this status Codex uses plain HTTP at once.
TOO_MANY_SOCKETS = Failure(
    kind="invalid_request", status=426, message="too many WebSockets are open; send POST requests"
)

Handler = Callable[[HttpRequest, Endpoint, Caller], Awaitable[None]]


class ResponsesEndpoints:
    """Handles the requests of the Responses API. It owns the background runs and the open WebSockets."""

    def __init__(self, gateway: Gateway, exchanges: OpenExchanges) -> None:
        self._gateway = gateway
        self._exchanges = exchanges
        self.service = ResponsesService(gateway)
        self.runs = BackgroundRuns(gateway, self.service, exchanges.run)
        self.sessions: set[SocketSession] = set()
        #: By the names of the endpoints.
        self.handlers: Mapping[str, Handler] = {
            "turn": self._handle_turn,
            "count": self._handle_count,
            "compact": self._handle_compact,
            "response": self._handle_response,
            "cancel": self._handle_cancel,
            "tool_outputs": self._handle_tool_outputs,
            "input_items": self._handle_input_items,
        }

    async def _handle_turn(self, request: HttpRequest, endpoint: Endpoint, caller: Caller) -> None:
        await self._answer(request, await self._build_turn(request, endpoint, caller), caller)

    async def _handle_tool_outputs(self, request: HttpRequest, endpoint: Endpoint, caller: Caller) -> None:
        """Continue a stored response with the outputs of its calls."""
        metadata, body = await self._receive(request, endpoint)
        found = await self.runs.get(endpoint.id, caller.owner)
        body = build_continuation(found.encode_response(), endpoint.id, body)
        await self._answer(request, await self.service.build_turn(metadata, body, caller), caller)

    async def _answer(self, request: HttpRequest, turn: ResponseTurn | RequestPlan, caller: Caller) -> None:
        if not isinstance(turn, ResponseTurn):
            return await self._run(request, turn, request.client, caller)
        if turn.facts.background:
            run = await self.runs.start(turn)
            if turn.stream:
                return await self._follow(request, run, -1)
            return await request.respond_json(msgspec.Raw(run.encode_response()))
        await self._run(request, turn.plan, self.service.build_client(turn, request.client), caller)

    async def _handle_count(self, request: HttpRequest, endpoint: Endpoint, caller: Caller) -> None:
        """Count a request with the conversation that it continues."""
        turn = await self._build_turn(request, endpoint, caller)
        plan = turn.plan if isinstance(turn, ResponseTurn) else turn
        await request.respond_json(await count_tokens(self._gateway, endpoint, plan.body, caller))

    async def _handle_compact(self, request: HttpRequest, endpoint: Endpoint, caller: Caller) -> None:
        metadata, body = await self._receive(request, endpoint)
        turn = await self.service.build_summary_turn(metadata, body, caller)
        compacting = CompactClient(request.client, turn.conversation)
        await self._run(request, turn.plan, self.service.build_client(turn, compacting), caller)

    async def _handle_response(self, request: HttpRequest, endpoint: Endpoint, caller: Caller) -> None:
        """Send a stored response or its events, or delete it."""
        if request.method == "DELETE":
            await self.runs.delete(endpoint.id, caller.owner)
            return await request.respond_json({"id": endpoint.id, "object": "response", "deleted": True})
        found = await self.runs.get(endpoint.id, caller.owner)
        query = parse_qs(request.query)
        if query.get("stream", [""])[0] == "true":
            after = _read_event_number(query.get("starting_after", ["-1"])[0])
            return await self._follow(request, found, after)
        await request.respond_json(msgspec.Raw(found.encode_response()))

    async def _handle_cancel(self, request: HttpRequest, endpoint: Endpoint, caller: Caller) -> None:
        await request.respond_json(msgspec.Raw(await self.runs.cancel(endpoint.id, caller.owner)))

    async def _handle_input_items(self, request: HttpRequest, endpoint: Endpoint, caller: Caller) -> None:
        page = read_page(parse_qs(request.query))
        await request.respond_json(await self.service.list_input_items(endpoint.id, caller.owner, page))

    async def _build_turn(
        self, request: HttpRequest, endpoint: Endpoint, caller: Caller
    ) -> ResponseTurn | RequestPlan:
        self._gateway.expect_request(caller)
        metadata, body = await self._receive(request, endpoint)
        return await self.service.build_turn(metadata, body, caller)

    async def _receive(self, request: HttpRequest, endpoint: Endpoint) -> tuple[RequestMetadata, bytes]:
        self._exchanges.check_open()
        return request.build_metadata(endpoint), await request.receive_body(self.service.limit)

    async def _run(self, request: HttpRequest, plan: RequestPlan, client: Client, caller: Caller) -> None:
        await self._exchanges.run_for(request, Exchange(self._gateway, plan, client, caller))

    async def _follow(self, request: HttpRequest, found: BackgroundRun | StoredResponse, after: int) -> None:
        """Send the events of a response until its end, or until the client leaves. The run goes on."""
        if isinstance(found, StoredResponse) and not found.is_background:
            raise ClientProtocolError(
                "only a response that was made in the background can be streamed again",
                path="stream",
                hint="leave it out to get the whole response",
            )
        ping = self._gateway.config.server.ping
        following = asyncio.ensure_future(
            self.runs.follow(found, after, request.client, ping, request.id_headers)
        )
        leaving = asyncio.ensure_future(request.wait_for_disconnect())
        await asyncio.wait((following, leaving), return_when=asyncio.FIRST_COMPLETED)
        for task in (following, leaving):
            task.cancel()
        await asyncio.wait((following, leaving))
        if not following.cancelled():
            following.result()

    async def serve_socket(
        self, request: HttpRequest, send: Send, authenticate: Callable[[], Awaitable[Caller]]
    ) -> None:
        """Accept a WebSocket and answer its messages. `authenticate` checks the client's key."""
        await authenticate()
        self._exchanges.check_open()
        if len(self.sessions) >= MAX_SOCKETS:
            raise DragomanError("too many", failure=TOO_MANY_SOCKETS)
        await request.receive()
        await send({"type": "websocket.accept", "headers": []})
        # Upstreams are called over HTTP, so they must not see the announcement of the WebSocket.
        headers = {name: value for name, value in request.headers.items() if WEBSOCKET_FEATURE not in value}
        dialect = request.endpoint.dialect if request.endpoint else request.dialect
        opening = RequestMetadata(dialect=dialect, headers=headers)
        session = SocketSession(
            self._gateway,
            self.service,
            AsgiSocket(request.receive, send),
            opening,
            authenticate,
            self._exchanges.run,
            lambda: self._exchanges.is_closing,
        )
        began = asyncio.get_running_loop().time()
        self.sessions.add(session)
        try:
            await session.run()
        finally:
            self.sessions.discard(session)
            log_socket(opening.agent, session.requests, asyncio.get_running_loop().time() - began)


class AsgiSocket:
    """A WebSocket as ASGI gives it."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send

    async def receive(self) -> bytes | None:
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            return None
        data: bytes = message["bytes"]
        return data

    async def send(self, text: bytes) -> None:
        await self._send({"type": "websocket.send", "text": text.decode()})

    async def close(self) -> None:
        await self._send({"type": "websocket.close", "code": 1000})


def refuse_over_http(send: Send) -> Send:
    """The `send` of an HTTP response to a request for a WebSocket."""

    async def send_response(message: MutableMapping[str, Any]) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return send_response


def _read_event_number(number: str) -> int:
    if number != "-1" and not (number.isdecimal() and len(number) <= MAX_DIGITS):
        raise ClientProtocolError("expected the number of an event", path="starting_after")
    return int(number)
