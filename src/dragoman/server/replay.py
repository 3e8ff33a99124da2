"""A server that answers agents with the replies of a recorded session, byte for byte and offline."""

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from threading import Thread
from typing import Any

import msgspec

from dragoman.config.config import Config
from dragoman.config.settings import ServerSettings
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import DragomanError, Failure
from dragoman.records.replay import RecordedTurn, ReplaySession
from dragoman.server.access import check_origin
from dragoman.server.app import App
from dragoman.server.client import Scope, Send
from dragoman.server.request import HttpRequest, Receive
from dragoman.server.run import Server, bind
from dragoman.storage.port import StateStorage
from dragoman.wire.sse import RawEvents

#: The endpoints that are answered from the record.
_TURNS = ("turn", "stream")
#: Headers that the server writes itself.
_OWN_HEADERS = frozenset({"content-length", "transfer-encoding", "date"})


class ReplayingApp:
    """The ASGI application around the gateway's: turns are answered from the record, the rest by the gateway.

    In a fork, `model` answers the turns that the record does not have.
    """

    def __init__(self, app: App, session: ReplaySession, model: str = "") -> None:
        self._app = app
        self._session = session
        self._model = model

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            # Without a WebSocket, Codex sends whole requests over HTTP.
            await send({"type": "websocket.close"})
            return
        request = HttpRequest(scope, receive, send) if scope["type"] == "http" else None
        endpoint = request.endpoint if request is not None else None
        if request is None or endpoint is None or endpoint.name not in _TURNS or request.method != "POST":
            await self._app(scope, receive, send)
            return
        try:
            check_origin(request.headers, self._app.gateway.config.server)
            body = await request.receive_body(self._app.responses.service.limit)
            turn = self._session.answer(body)
            if turn is None and not self._model:
                raise _build_deviation(self._session)
        except DragomanError as error:
            await request.client.refuse(dialect_named(request.dialect), error.failure, request.id_headers)
            return
        if turn is None:
            await self._app(*self._redirect(scope, request, body), send)
        else:
            await _send_turn(request, turn)

    def _redirect(self, scope: Scope, request: HttpRequest, body: bytes) -> tuple[Scope, Receive]:
        """The request with the live model's name. Its body was received already; `Receive` gives it again."""
        endpoint = request.endpoint
        if endpoint is not None and endpoint.model:
            path = scope["path"].replace(endpoint.model, self._model)
            scope = {**scope, "path": path, "raw_path": path.encode()}
        elif endpoint is not None:
            body = dialect_named(endpoint.dialect).forwarding.rename_model(body, self._model)
        headers = [(name, value) for name, value in scope["headers"] if name not in _BODY_HEADERS]
        scope = {**scope, "headers": [*headers, (b"content-length", str(len(body)).encode())]}
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> MutableMapping[str, Any]:
            message = next(messages, None)
            return message if message is not None else await request.receive()

        return scope, receive


_BODY_HEADERS = (b"content-length", b"content-encoding")


async def _send_turn(request: HttpRequest, turn: RecordedTurn) -> None:
    headers = {name: value for name, value in turn.headers.items() if name not in _OWN_HEADERS}
    if "event-stream" not in headers.get("content-type", "") and turn.reply[:1] in (b"{", b"["):
        size = {"content-length": str(len(turn.reply))}
        await request.client.respond(turn.status, {**headers, **size}, turn.reply)
        return
    if request.endpoint is not None:
        request.build_metadata(request.endpoint)
    await request.client.start(turn.status, headers)
    await request.client.end(RawEvents(turn.reply))


def _build_deviation(session: ReplaySession) -> DragomanError:
    last = session.requests[-1]
    where = last.differences[0].path if last.differences else "the whole request"
    what = f"this request differs from turn {last.number} at {where}" if last.number else "no turn is left"
    message = f"replay: {what}"
    return DragomanError(message, failure=Failure(kind="invalid_request", status=400, message=message))


@contextmanager
def replay_server(
    config: Config,
    session: ReplaySession,
    *,
    model: str = "",
    storage: StateStorage | None = None,
    port: int = 0,
) -> Iterator[str]:
    """Serve a session on loopback while the context is open. Gives the address.

    `storage`: the state of a fork, whose live turns are recorded.
    """
    server = ServerSettings(port=port, admin="off", state=config.server.state)
    config = msgspec.structs.replace(config, server=server)
    listener = bind(config)
    app = App(Gateway(config, storage=storage))
    http = Server(app)
    http.config.app = ReplayingApp(app, session, model)
    thread = Thread(target=http.run, kwargs={"sockets": [listener]}, name="dragoman-replay", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        http.should_exit = True
        thread.join(10)
