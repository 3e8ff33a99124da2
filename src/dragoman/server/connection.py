"""uvicorn's HTTP protocol with limits on what a stranger may cost before it has asked for anything.

uvicorn bounds neither the size of a request's head nor the time it takes to arrive.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any
from urllib.parse import unquote

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from dragoman.dialects.registry import dialect_named
from dragoman.server.client import EXTENSION
from dragoman.server.paths import find_endpoint

MAX_HEAD = 64 * 1024
#: Seconds for the head of a request, and for the whole of it.
HEAD_PATIENCE = 30.0
BODY_PATIENCE = 300.0
#: Seconds for what is still to be sent when a WebSocket closes.
CLOSE_PATIENCE = 15.0

#: What the WebSocket library takes of a head, with room to spare.
HANDSHAKE = frozenset({b"host", b"sec-websocket-key", b"sec-websocket-version"})
MOST_HEADERS = 120
LONGEST_LINE = 8000

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Connection(HttpToolsProtocol):
    """One client's connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        #: A request has begun and is not yet whole; its head is not yet whole.
        self._is_arriving = False
        self._is_in_head = False
        #: Bytes since the request or the last piece of its body began: a head, chunk sizes or trailers.
        self._overhead = 0
        self._piece_size = 0
        #: The request that is being answered. `cycle` is the one that came last, which may have to wait.
        self._answered: RequestResponseCycle | None = None
        self._waiting: asyncio.TimerHandle | None = self._wait(HEAD_PATIENCE)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)
        answered = self._answered
        if answered is not None and answered is not self.cycle:
            # uvicorn tells the last request only, and the others would be answered to nobody.
            answered.disconnected = not answered.response_complete
            answered.message_event.set()

    def data_received(self, data: bytes) -> None:
        self._piece_size = len(data)
        self._overhead += len(data)
        super().data_received(data)
        if not self._is_arriving:
            return
        if self._overhead > MAX_HEAD:
            # The parser keeps a header line until it ends, also a line of trailers.
            self._refuse(_TOO_LARGE)
            return
        if self._waiting is None:
            self._waiting = self._wait(HEAD_PATIENCE if self._is_in_head else BODY_PATIENCE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_arriving = self._is_in_head = True
        self._overhead = self._piece_size

    def on_header(self, name: bytes, value: bytes) -> None:
        """Ignore trailers: a header that counts stands in the head, where it is checked."""
        if self._is_in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._overhead = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._overhead = 0
        for name, value in self.headers:
            if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
                # The parser reads `gzip, chunked` as chunked and keeps the gzip. uvicorn answers 400.
                raise ValueError("unsupported transfer-encoding")
        self._stop_waiting()
        self.scope["extensions"] = {EXTENSION: {"connection": self}}
        super().on_headers_complete()
        if not self.pipeline:
            self._answered = self.cycle

    def on_response_complete(self) -> None:
        following = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()
        if following is not None:
            self._answered = following

    def on_message_complete(self) -> None:
        self._is_arriving = False
        self._stop_waiting()
        super().on_message_complete()

    def _wait(self, seconds: float) -> asyncio.TimerHandle:
        return self.loop.call_later(seconds, self._refuse, _TOO_SLOW)

    def write(self, data: bytes) -> bool:
        """A piece of a reply that has begun, at once; False: the client is slow, wait for `drained`."""
        if self._answered is not None and not self._answered.disconnected:
            self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return not self.flow.write_paused

    def drained(self) -> Awaitable[None]:
        return self.flow.drain()

    def break_off(self, *, at_once: bool) -> None:
        """End the connection, not the reply; the cycle must not take it for a mistake of ours."""
        if self._answered is not None:
            self._answered.disconnected = True
        if at_once:
            self.transport.abort()
        else:
            self.transport.close()

    def _refuse(self, answer: bytes) -> None:
        self._waiting = None
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _should_upgrade(self) -> bool:
        """Only one path is served over WebSockets; whatever else asks for one is an ordinary request.

        So is a head that the WebSocket library would not take: it answers such a one with a broken line.
        """
        if self.parser.get_method() != b"GET" or not super()._should_upgrade():
            return False
        path = unquote(self.url.partition(b"?")[0].decode("latin-1"))
        endpoint = find_endpoint(path)
        if endpoint is None or endpoint.name != "turn" or not dialect_named(endpoint.dialect).keeps_state:
            return False
        names = {name for name, _ in self.headers}
        longest = max(len(name) + len(value) for name, value in self.headers)
        return (
            names >= HANDSHAKE
            and len(self.headers) <= MOST_HEADERS
            and max(longest, len(self.url)) <= LONGEST_LINE
        )

    def handle_websocket_upgrade(self) -> None:
        self._is_arriving = False
        self._stop_waiting()
        super().handle_websocket_upgrade()

    def _unsupported_upgrade_warning(self) -> None:
        """Agents that ask for a WebSocket are told by the status; it is nothing to warn about."""


class SocketConnection(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket protocol; whether a message is a text is for its reader to say."""

    def send_receive_event_to_app(self) -> None:
        self.curr_msg_data_type = "bytes"
        super().send_receive_event_to_app()

    def handle_ping(self) -> None:
        """Answer pings; drop the answers while the client does not read, because its pings may never end."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._abort_later()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        super().on_task_complete(task)
        self._abort_later()

    def _abort_later(self) -> None:
        """A closing transport waits until all is sent, which never happens if the client does not read."""
        self.loop.call_later(CLOSE_PATIENCE, self.transport.abort)
