"""WebSockets, as ASGI gives them: who may open one, and its messages.

Everything that HTTP requests are checked for holds for them, too; what is refused gets an HTTP answer.
"""

import asyncio
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from dragoman.exchange.exchange import CLOSING
from dragoman.hub.errors import DragomanError, Failure
from dragoman.pipeline.plan import ClientRequest
from dragoman.responses.websocket import SocketSession
from dragoman.server.body import Receive
from dragoman.server.client import Send
from dragoman.telemetry.log import log_socket

if TYPE_CHECKING:
    from dragoman.server.app import App, Arrival

#: The feature of the API that a client announces when it opens a WebSocket.
SOCKETS = "responses_websockets"
#: Each may hold a conversation in memory.
MOST_OPEN = 256
#: The one status that sends Codex to plain HTTP at once.
TOO_MANY = Failure(
    kind="invalid_request", status=426, message="too many WebSockets are open; send POST requests"
)


def refusing(send: Send) -> Send:
    """A way to answer with HTTP what asked for a WebSocket."""

    async def answer(message: MutableMapping[str, Any]) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return answer


class AsgiSocket:
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


async def serve(app: "App", arrival: "Arrival", send: Send) -> None:
    """Accept, and answer until the connection ends."""
    await app.caller_of(arrival)
    if app.is_closing:
        raise DragomanError("closing", failure=CLOSING)
    if len(app.sockets) >= MOST_OPEN:
        raise DragomanError("too many", failure=TOO_MANY)
    await arrival.receive()
    await send({"type": "websocket.accept", "headers": []})
    # Upstreams are spoken to over HTTP.
    headers = {name: value for name, value in arrival.headers.items() if SOCKETS not in value}
    dialect = arrival.endpoint.dialect if arrival.endpoint else arrival.dialect
    opened = ClientRequest(dialect=dialect, headers=headers)
    session = SocketSession(
        app.gateway,
        app.responses,
        AsgiSocket(arrival.receive, send),
        opened,
        lambda: app.caller_of(arrival),
        app.carry,
        lambda: app.is_closing,
    )
    began = asyncio.get_running_loop().time()
    app.sockets.add(session)
    try:
        await session.run()
    finally:
        app.sockets.discard(session)
        log_socket(opened.agent, session.requests, asyncio.get_running_loop().time() - began)
