"""The ASGI application: finds the endpoint, checks the caller, and gives the request to a handler.

Replies go directly to ASGI's `send`. There is no framework in between, because a layer around every piece of
a stream costs more than its translation.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from dragoman.accounts.key_cache import ClientKeyCache
from dragoman.accounts.keys import Caller
from dragoman.agents import identify_client
from dragoman.config.config import Config
from dragoman.config.find import identify_config
from dragoman.config.settings import Secret
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.exchange import Exchange
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import DragomanError, Failure, FailureKind
from dragoman.pipeline.plan import RequestPlan
from dragoman.records.recorder import Recorder
from dragoman.records.store import find_records_file
from dragoman.server.access import authenticate, check_origin
from dragoman.server.admin import ENDPOINTS, handle_admin
from dragoman.server.admin_endpoint import AdminEndpoint
from dragoman.server.agent_telemetry import receive_telemetry
from dragoman.server.client import NO_STORE, Scope, Send
from dragoman.server.counting import count_tokens
from dragoman.server.key_usage import build_usage_body
from dragoman.server.managed_settings import respond_settings
from dragoman.server.metrics import handle_metrics
from dragoman.server.model_lists import ModelLists, ReadModels
from dragoman.server.models import build_models_body
from dragoman.server.paths import Endpoint, list_turn_paths, separate_entry
from dragoman.server.peer_turns import PeerTurns
from dragoman.server.reload import ConfigReloader
from dragoman.server.request import ClientDisconnected, HttpRequest, Receive
from dragoman.server.responses_api import Handler, ResponsesEndpoints, refuse_over_http
from dragoman.server.session_usage import build_session_body
from dragoman.server.siblings import Siblings
from dragoman.server.sign_in import SignInEndpoints
from dragoman.server.state import OpenExchanges, ServerState
from dragoman.server.web_page import serve_page, wants_page
from dragoman.storage.database import FILE_NAME
from dragoman.telemetry.log import log_exchange, log_refusal
from dragoman.telemetry.metrics import Metrics
from dragoman.telemetry.reply_snapshots import SnapshotWriter
from dragoman.telemetry.spans import ExchangeTracer


class App:
    """One gateway on one port. `read` reads its configuration for a reload.

    Without an admin token the admin API is off.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        read: Callable[[], Config] | None = None,
        admin_token: Secret | None = None,
        spans: ExchangeTracer | None = None,
        siblings: Siblings | None = None,
        endpoints: Sequence[AdminEndpoint] = (),
        read_models: ReadModels = lambda provider: {},
    ) -> None:
        self.gateway = gateway
        self._model_lists = ModelLists(read_models, gateway.clock)
        self.admin_token = admin_token
        self.metrics = Metrics(lambda: gateway.snapshot.config)
        self._snapshots = SnapshotWriter(gateway.storage.folder)
        gateway.observers += (log_exchange, self.metrics.count_exchange, self._snapshots.write_snapshot)
        self.recorder = _build_recorder(gateway)
        self._spans = spans
        if spans is not None:
            gateway.observers.append(spans.trace_exchange)
        self.reloader = ConfigReloader(gateway, read)
        self.exchanges = OpenExchanges()
        self.responses = ResponsesEndpoints(gateway, self.exchanges)
        self.peer_turns = PeerTurns(gateway, self.responses.service.limit)
        self.state = ServerState(
            gateway, self.exchanges, self.metrics, self.reloader, gateway.clock(), self.recorder, siblings
        )
        self._endpoints = (*ENDPOINTS, *endpoints)
        #: Endpoints that need no client key.
        self._own_handlers: Mapping[str, Callable[[HttpRequest], Awaitable[None]]] = {
            "health": self._handle_health,
            "ready": self._handle_ready,
            "admin": lambda request: handle_admin(request, self.state, self.admin_token, self._endpoints),
            "page": self._serve_page,
            "metrics": lambda request: handle_metrics(request, self.state, self.admin_token),
            **SignInEndpoints(gateway).handlers,
        }
        self._handlers: Mapping[str, Handler] = {
            "turn": self._handle_turn,
            "stream": self._handle_turn,
            "count": self._handle_count,
            "models": self._handle_models,
            "model": self._handle_models,
            "usage": self._handle_usage,
            "session": self._handle_session,
            "settings": self._handle_settings,
            "telemetry": self._handle_telemetry,
        }
        #: Those of dialects whose API has state.
        self._state_handlers: Mapping[str, Handler] = {**self._handlers, **self.responses.handlers}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.gateway.snapshot.entries and "path" in scope:
            scope = separate_entry(scope, self.gateway.snapshot.entries)
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "websocket":
            await self._serve_websocket({**scope, "method": "GET"}, receive, send)
        else:
            request = HttpRequest(scope, receive, send)
            try:
                await self._handle(request)
            except ClientDisconnected:
                return
            except DragomanError as error:
                await self._refuse(request, error.failure)

    async def drain(self, seconds: float) -> None:
        """Refuse new exchanges. Wait at most `seconds` for the open ones; then they end with an error."""
        self.exchanges.is_closing = True
        await self.responses.runs.close()
        await asyncio.gather(self.exchanges.drain(seconds), self.peer_turns.drain(seconds))

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                self.reloader.stop()
                if self._spans is not None:
                    await asyncio.to_thread(self._spans.close)
                await self.gateway.close()
                self._snapshots.close()
                if self.recorder is not None:
                    await asyncio.to_thread(self.recorder.close)
                await send({"type": "lifespan.shutdown.complete"})
                return
            self.reloader.start()
            self.gateway.accounts.ledger.recover()
            if self.gateway.calls.is_announced:
                self.gateway.hints.start()
                if self.gateway.storage.is_shared:
                    # Now, because the first session of Claude Code may begin while the state is away.
                    await self.gateway.calls.find_secret()
            await send({"type": "lifespan.startup.complete"})

    async def _serve_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A WebSocket passes the same checks as an HTTP request, and a refusal is an HTTP response."""
        request = HttpRequest(scope, receive, refuse_over_http(send))
        try:
            keys, server = await self._refresh_keys(), self.gateway.config.server
            check_origin(request.headers, server, needs_key=keys.has_keys)
            await self.responses.serve_socket(request, send, lambda: self._authenticate_socket(request))
        except DragomanError as error:
            await self._refuse(request, error.failure)

    async def _handle(self, request: HttpRequest) -> None:
        if request.endpoint is not None and request.endpoint.name == "peer":
            # A gateway calls by an address that no client uses, so its host is not one of `server.hosts`.
            return await self.peer_turns.handle(request)
        keys, server = await self._refresh_keys(), self.gateway.config.server
        check_origin(request.headers, server, needs_key=keys.has_keys)
        endpoint = _require_endpoint(request)
        handle_own = self._own_handlers.get(endpoint.name)
        if handle_own is not None:
            return await handle_own(request)
        caller = authenticate(request.headers, request.query, server, keys)
        has_state = dialect_named(endpoint.dialect).keeps_state
        handlers = self._state_handlers if has_state else self._handlers
        await handlers[endpoint.name](request, endpoint, caller)

    async def _authenticate_socket(self, request: HttpRequest) -> Caller:
        """Find the caller of a WebSocket or of one of its messages by the keys that are valid now."""
        keys = await self._refresh_keys()
        return authenticate(request.headers, request.query, self.gateway.config.server, keys)

    async def _refresh_keys(self) -> ClientKeyCache:
        """The stored keys, read again if they are stale."""
        keys = self.gateway.accounts.keys
        if keys.is_stale:
            await keys.refresh()
        keys.keep_fresh()
        return keys

    async def _serve_page(self, request: HttpRequest) -> None:
        await serve_page(request, self.state, is_on=self.admin_token is not None)

    async def _handle_health(self, request: HttpRequest) -> None:
        if wants_page(request):
            return await self._serve_page(request)
        health = {
            "status": "closing" if self.exchanges.is_closing else "ok",
            "service": "dragoman",
            "open_exchanges": len(self.exchanges),
            # `dragoman run` must not send the prompts of one project or user to the gateway of another.
            "configuration": identify_config(self.gateway.config.path, self.gateway.storage.folder),
        }
        await request.client.respond_json(200, health)

    async def _handle_ready(self, request: HttpRequest) -> None:
        """Whether new requests may come. The client keys have been read by now."""
        is_closing = self.exchanges.is_closing
        body = {"status": "closing" if is_closing else "ready", "service": "dragoman"}
        await request.client.respond_json(503 if is_closing else 200, body)

    async def _handle_models(self, request: HttpRequest, endpoint: Endpoint, caller: Caller) -> None:
        config = self.gateway.config
        reported = await self._model_lists.find(config) if endpoint.name == "models" else {}
        await request.respond_json(build_models_body(config, endpoint, request.headers, caller, reported))

    async def _handle_usage(self, request: HttpRequest, endpoint: Endpoint, caller: Caller) -> None:
        standing = await self.gateway.accounts.read_standing(caller)
        await request.client.respond_json(200, build_usage_body(standing), NO_STORE)

    async def _handle_session(self, request: HttpRequest, endpoint: Endpoint, caller: Caller) -> None:
        identity = identify_client(request.headers)
        body = await build_session_body(self.gateway, caller, identity)
        await request.client.respond_json(200, body, NO_STORE)

    async def _handle_settings(self, request: HttpRequest, endpoint: Endpoint, caller: Caller) -> None:
        await respond_settings(request, self.gateway.config.managed_settings)

    async def _handle_telemetry(self, request: HttpRequest, endpoint: Endpoint, caller: Caller) -> None:
        counts = await receive_telemetry(request, self.gateway.accounts, caller)
        self.metrics.count_activity(caller.name, counts)

    async def _handle_count(self, request: HttpRequest, endpoint: Endpoint, caller: Caller) -> None:
        self.exchanges.check_open()
        body = await request.receive_body(self.responses.service.limit)
        await request.respond_json(await count_tokens(self.gateway, endpoint, body, caller))

    async def _handle_turn(self, request: HttpRequest, endpoint: Endpoint, caller: Caller) -> None:
        """Run an exchange for a request of an API without state."""
        self.exchanges.check_open()
        self.gateway.expect_request(caller)
        metadata = request.build_metadata(endpoint)
        body = await request.receive_body(self.responses.service.limit)
        plan = RequestPlan(metadata, body, created=int(self.gateway.clock()))
        await self.exchanges.run_for(request, Exchange(self.gateway, plan, request.client, caller))

    async def _refuse(self, request: HttpRequest, failure: Failure) -> None:
        """Send an error for a request that became no exchange."""
        headers = dict(request.id_headers)
        failure = msgspec.structs.replace(failure, request_id=request.id)
        if request.endpoint is not None and failure.status == 405:
            headers["allow"] = ", ".join(request.endpoint.methods)
        if failure.status == 426:
            # The client may continue with WebSocket frames, which are not HTTP.
            headers["connection"] = "close"
        status = await request.client.refuse(dialect_named(request.dialect), failure, headers)
        self.metrics.count_refusal(failure)
        log_refusal(request.id, request.method, request.path, status, failure)


def _build_recorder(gateway: Gateway) -> Recorder | None:
    """The recorder in the state folder; None without one."""
    folder = gateway.storage.folder
    if folder is None:
        return None
    recorder = Recorder(find_records_file(folder / FILE_NAME), lambda: gateway.snapshot.config, gateway.clock)
    gateway.recorder = recorder
    gateway.observers.append(recorder.record_exchange)
    return recorder


def _require_endpoint(request: HttpRequest) -> Endpoint:
    """The endpoint of an HTTP request. Raises if there is none, or if it does not take the method."""
    endpoint = request.endpoint
    if endpoint is None:
        message = f"no such endpoint; there are {', '.join(list_turn_paths())} and /v1/models"
        raise _build_error("not_found", 404, message, code="unknown_endpoint")
    if endpoint.name == "turn" and request.headers.get("upgrade", "").lower() == "websocket":
        # Codex tries a WebSocket first; with this status it uses plain HTTP at once.
        message = "no WebSocket can be opened by this request; send POST requests"
        raise _build_error("invalid_request", 426, message)
    if request.method not in endpoint.methods:
        methods = ", ".join(endpoint.methods)
        raise _build_error("invalid_request", 405, f"this endpoint takes {methods}")
    return endpoint


def _build_error(kind: FailureKind, status: int, message: str, code: str = "") -> DragomanError:
    return DragomanError(message, failure=Failure(kind=kind, status=status, message=message, code=code))
