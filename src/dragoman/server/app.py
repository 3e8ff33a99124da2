"""The ASGI application: finds the endpoint, checks who calls, and hands the request to an exchange.

Replies go straight to ASGI `send`; no framework stands between, because a layer around every piece of a
stream costs more than translating it.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

import msgspec

from dragoman.accounts.keys import Caller
from dragoman.config.find import identify_config
from dragoman.config.model import Config, Secret
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.client import Client
from dragoman.exchange.exchange import CLOSING, Exchange
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import DragomanError, Failure, FailureKind, RequestTooLarge
from dragoman.pipeline.plan import ClientRequest, RequestPlan
from dragoman.pipeline.transports import JsonArrayTransport
from dragoman.responses.background import BackgroundRuns
from dragoman.responses.service import ResponsesService
from dragoman.responses.websocket import SocketSession
from dragoman.server import admin, metrics, sockets, stateful
from dragoman.server.body import ClientGone, Receive, decompressed, receive_body
from dragoman.server.client import AsgiClient, Scope, Send
from dragoman.server.counting import count_answer
from dragoman.server.guard import check_key, check_origin
from dragoman.server.models import build_models_body, find_client_dialect
from dragoman.server.paths import Endpoint, find_endpoint, find_error_dialect, list_turn_paths
from dragoman.server.reload import Reloads
from dragoman.telemetry.log import log_exchange, log_refusal
from dragoman.telemetry.metrics import Metrics
from dragoman.telemetry.snapshots import SnapshotWriter
from dragoman.telemetry.spans import ExchangeTracer

MEGABYTE = 1024 * 1024
#: Inflating more than this would keep everyone else waiting, so it is done beside the loop.
INFLATED_BESIDE = 256 * 1024


class Arrival:
    """One HTTP request as it came in, before anybody has looked at its body."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.endpoint = find_endpoint(self.path)
        self.headers = _headers(scope["headers"])
        found = self.endpoint
        self.dialect = find_client_dialect(found, self.headers) if found else find_error_dialect(self.path)
        self.query: str = scope["query_string"].decode("latin-1")
        client = scope.get("client")
        self.peer: str = client[0] if client else ""
        self.request_id = f"req_{uuid4().hex[:24]}"
        self.receive = receive
        self.client = AsgiClient(scope, send)

    @property
    def identity(self) -> dict[str, str]:
        """The header that names the request."""
        return {dialect_named(self.dialect).surface.request_id_header: self.request_id}

    @property
    def wants_websocket(self) -> bool:
        return self.headers.get("upgrade", "").lower() == "websocket"


class App:
    """One gateway behind one port. `read` gives its configuration anew, for reloads.

    Without an admin token nobody can use the admin API.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        read: Callable[[], Config] | None = None,
        admin_token: Secret | None = None,
        spans: ExchangeTracer | None = None,
    ) -> None:
        self.gateway = gateway
        self.metrics = Metrics(lambda: gateway.config)
        self._snapshots = SnapshotWriter(gateway.database.path, gateway.hide_secrets)
        gateway.observers += (log_exchange, self.metrics.count_exchange, self._snapshots.write_snapshot)
        self._spans = spans
        if spans is not None:
            gateway.observers.append(spans.trace_exchange)
        self.reloads = Reloads(gateway, read)
        self.admin_token = admin_token
        self.started_at = gateway.clock()
        self.is_closing = False
        self.responses = ResponsesService(gateway)
        self.open: set[Exchange] = set()
        self.sockets: set[SocketSession] = set()
        self.background = BackgroundRuns(gateway, self.responses, self.carry)
        self._idle = asyncio.Event()
        self._idle.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await self._websocket({**scope, "method": "GET"}, receive, send)
        else:
            await self._http(Arrival(scope, receive, send))

    async def drain(self, seconds: float) -> None:
        """Take nothing new, let what is open finish within the limit, then end the rest, truthfully."""
        self.is_closing = True
        await self.background.close()
        if seconds > 0 and await self._is_idle_within(seconds):
            return
        for exchange in tuple(self.open):
            exchange.stop(CLOSING)
        await self._is_idle_within(1.0)

    async def _is_idle_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                self.reloads.stop()
                if self._spans is not None:
                    await asyncio.to_thread(self._spans.close)
                await self.gateway.close()
                self._snapshots.close()
                await send({"type": "lifespan.shutdown.complete"})
                return
            self.reloads.start()
            await send({"type": "lifespan.startup.complete"})

    async def _http(self, arrival: Arrival) -> None:
        try:
            await self._serve(arrival)
        except ClientGone:
            return
        except DragomanError as error:
            await self._refuse(arrival, error.failure)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrival = Arrival(scope, receive, sockets.refusing(send))
        try:
            await self._check_origin(arrival)
            await sockets.serve(self, arrival, send)
        except DragomanError as error:
            await self._refuse(arrival, error.failure)

    async def _check_origin(self, arrival: Arrival) -> None:
        keys = self.gateway.accounts.keys
        if keys.is_stale:
            await keys.refresh()
        check_origin(arrival.headers, self.gateway.config.server, needs_key=keys.has_keys)

    async def caller_of(self, arrival: Arrival) -> Caller:
        """Who calls, by the keys that are good now."""
        keys = self.gateway.accounts.keys
        if keys.is_stale:
            await keys.refresh()
        return check_key(arrival.headers, arrival.query, self.gateway.config.server, keys)

    async def _serve(self, arrival: Arrival) -> None:
        await self._check_origin(arrival)
        endpoint = _endpoint_of(arrival)
        if endpoint.name == "health":
            return await arrival.client.json(200, self._health())
        if endpoint.name == "admin":
            return await admin.answer(self, arrival)
        if endpoint.name == "metrics":
            return await metrics.answer(self, arrival)
        caller = await self.caller_of(arrival)
        if endpoint.name in ("models", "model"):
            body = build_models_body(self.gateway.config, endpoint, arrival.headers, caller)
            return await arrival.client.json(200, body, arrival.identity)
        if endpoint.id:
            return await stateful.answer(self, arrival, endpoint, caller)
        if self.is_closing:
            raise DragomanError("closing", failure=CLOSING)
        if dialect_named(endpoint.dialect).keeps_state:
            return await stateful.run(self, arrival, endpoint, caller)
        if endpoint.name == "count":
            count = count_answer(self.gateway.config, endpoint, await self.receive_body(arrival))
            return await arrival.client.json(200, count, arrival.identity)
        client = self.read_client_request(arrival, endpoint)
        plan = RequestPlan(client, await self.receive_body(arrival), created=int(self.gateway.clock()))
        await self.exchange(plan, arrival, arrival.client, caller)

    def _health(self) -> dict[str, object]:
        status = "closing" if self.is_closing else "ok"
        return {
            "status": status,
            "service": "dragoman",
            "open_exchanges": len(self.open),
            # `dragoman run` must not send the prompts of one project to the gateway of another.
            "configuration": identify_config(self.gateway.config.path),
        }

    async def _refuse(self, arrival: Arrival, failure: Failure) -> None:
        headers = dict(arrival.identity)
        failure = msgspec.structs.replace(failure, request_id=arrival.request_id)
        if arrival.endpoint is not None and failure.status == 405:
            headers["allow"] = ", ".join(_methods(arrival.endpoint))
        if failure.status == 426:
            # What else comes over this connection would not be HTTP.
            headers["connection"] = "close"
        status = await arrival.client.failure(arrival.dialect, failure, headers)
        self.metrics.count_refusal(failure)
        log_refusal(arrival.request_id, arrival.method, arrival.path, status, failure)

    def read_client_request(self, arrival: Arrival, endpoint: Endpoint) -> ClientRequest:
        """What the request says beside its body."""
        is_stream = endpoint.name == "stream"
        if is_stream and dialect_named(endpoint.dialect).surface.wants_json_array(arrival.query):
            arrival.client.transport = JsonArrayTransport()
        return ClientRequest(
            dialect=endpoint.dialect,
            headers=arrival.headers,
            model=endpoint.model,
            stream=is_stream,
            request_id=arrival.request_id,
        )

    async def receive_body(self, arrival: Arrival) -> bytes:
        limit = self.gateway.config.server.max_body_mb * MEGABYTE
        announced = arrival.headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:18]) > limit:
            raise RequestTooLarge(f"the request body exceeds {limit} bytes")
        body = await receive_body(arrival.receive, limit)
        encoding = arrival.headers.get("content-encoding", "")
        if not encoding:
            return body
        if len(body) <= INFLATED_BESIDE:
            with suppress(RequestTooLarge):
                return decompressed(body, encoding, min(INFLATED_BESIDE, limit))
        return await asyncio.to_thread(decompressed, body, encoding, limit)

    async def exchange(self, plan: RequestPlan, arrival: Arrival, client: Client, caller: Caller) -> None:
        """Run an exchange. A client that closes the connection ends it, and with it the upstream's reply."""
        exchange = Exchange(self.gateway, plan, client, caller)
        watching = asyncio.get_running_loop().create_task(_watch(arrival, exchange))
        try:
            await self.carry(exchange)
        finally:
            watching.cancel()

    async def carry(self, exchange: Exchange) -> None:
        """Run an exchange to its end, which a shutdown waits for."""
        self.open.add(exchange)
        self._idle.clear()
        try:
            await exchange.run()
        finally:
            self.open.discard(exchange)
            if not self.open:
                self._idle.set()


def _headers(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """By names in lower case; a header that comes twice is one header with two values."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in raw}
    if len(headers) < len(raw):
        values: dict[str, list[str]] = {}
        for name, value in raw:
            values.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        headers = {name: ", ".join(several) for name, several in values.items()}
    return headers


async def _watch(arrival: Arrival, exchange: Exchange) -> None:
    """The server says that the client is gone also when the reply has simply ended."""
    while (await arrival.receive())["type"] != "http.disconnect":
        pass
    if not arrival.client.ended:
        exchange.abandon()


def _methods(endpoint: Endpoint) -> tuple[str, ...]:
    """A turn's GET is the beginning of a WebSocket and nothing else."""
    return ("POST",) if endpoint.name == "turn" else endpoint.methods


def _endpoint_of(arrival: Arrival) -> Endpoint:
    endpoint = arrival.endpoint
    if endpoint is None:
        message = f"no such endpoint; there are {', '.join(list_turn_paths())} and /v1/models"
        raise _failed("not_found", 404, message, code="unknown_endpoint")
    if arrival.wants_websocket and endpoint.name == "turn":
        # Codex asks for a WebSocket first; this status alone sends it to plain HTTP at once.
        raise _failed(
            "invalid_request", 426, "no WebSocket can be opened by this request; send POST requests"
        )
    methods = _methods(endpoint)
    if arrival.method not in methods:
        raise _failed("invalid_request", 405, f"this endpoint takes {', '.join(methods)}")
    return endpoint


def _failed(kind: FailureKind, status: int, message: str, code: str = "") -> DragomanError:
    return DragomanError(message, failure=Failure(kind=kind, status=status, message=message, code=code))
