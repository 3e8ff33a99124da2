"""uvicorn's HTTP protocol with limits on the size of a request's head and on the time a request takes.

uvicorn itself limits neither, so a client without a key could hold memory and connections.
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
from dragoman.server.client import EXTENSION, AsgiClient
from dragoman.server.paths import find_endpoint

MAX_HEAD = 64 * 1024
#: Seconds for the head of a request, and for the whole of it.
HEAD_TIMEOUT = 30.0
BODY_TIMEOUT = 300.0
#: Seconds for data that is not sent yet when a WebSocket closes.
CLOSE_TIMEOUT = 15.0

#: Heads that the WebSocket library accepts, with a margin.
HANDSHAKE_HEADERS = frozenset({b"host", b"sec-websocket-key", b"sec-websocket-version"})
MAX_HEADERS = 120
MAX_LINE = 8000

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Connection(HttpToolsProtocol):
    """One connection of a client. It is also the `ServerConnection` of the replies sent over it."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        #: A request is incomplete; its head is incomplete.
        self._is_incomplete = False
        self._is_in_head = False
        #: Bytes since the request or the last piece of its body began: a head, chunk sizes or trailers.
        self._overhead = 0
        self._piece_size = 0
        #: The request that is answered now. `cycle` is the last one, which may wait for it (pipelining).
        self._current: RequestResponseCycle | None = None
        self._timer: asyncio.TimerHandle | None = self._start_timer(HEAD_TIMEOUT)
        #: The client of the exchange that began last.
        self._watcher: AsgiClient | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)
        current = self._current
        if self._watcher is not None:
            self._watcher.disconnect()
        if current is not None and current is not self.cycle:
            # uvicorn informs only the last request; the other exchange would run on without a client.
            current.disconnected = not current.response_complete
            current.message_event.set()

    def data_received(self, data: bytes) -> None:
        self._piece_size = len(data)
        self._overhead += len(data)
        super().data_received(data)
        if not self._is_incomplete:
            return
        if self._overhead > MAX_HEAD:
            # The parser keeps a header line until it ends, also a line of trailers.
            self._refuse(_TOO_LARGE)
            return
        if self._timer is None:
            self._timer = self._start_timer(HEAD_TIMEOUT if self._is_in_head else BODY_TIMEOUT)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_incomplete = self._is_in_head = True
        self._overhead = self._piece_size

    def on_header(self, name: bytes, value: bytes) -> None:
        """Ignore trailers: only headers in the head are checked, so only they count."""
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
        self._stop_timer()
        self.scope["extensions"] = {EXTENSION: {"connection": self}}
        super().on_headers_complete()
        if not self.pipeline:
            self._current = self.cycle

    def on_response_complete(self) -> None:
        following = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()
        if following is not None:
            self._current = following

    def on_message_complete(self) -> None:
        self._is_incomplete = False
        self._stop_timer()
        super().on_message_complete()

    def _start_timer(self, seconds: float) -> asyncio.TimerHandle:
        return self.loop.call_later(seconds, self._refuse, _TOO_SLOW)

    def write(self, data: bytes) -> bool:
        """Write a piece of a reply whose head is sent. False: wait for `wait_until_drained`."""
        if self._current is not None and not self._current.disconnected:
            self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return not self.flow.write_paused

    def wait_until_drained(self) -> Awaitable[None]:
        return self.flow.drain()

    def watch_disconnect(self, client: AsgiClient) -> None:
        """Call `disconnect` of this client when the connection ends.

        Cheaper than a task that waits for ASGI's message.
        """
        self._watcher = client
        if self.transport.is_closing():
            self.loop.call_soon(client.disconnect)
        # A large body stops the reading, without which the end of the connection is not seen.
        self.flow.resume_reading()

    def abort_connection(self, *, at_once: bool) -> None:
        """Close the connection without an end of the reply. uvicorn must not log that as an error."""
        if self._current is not None:
            self._current.disconnected = True
        if at_once:
            self.transport.abort()
        else:
            self.transport.close()

    def _refuse(self, response: bytes) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.write(response)
            self.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _should_upgrade(self) -> bool:
        """Whether to upgrade this request to a WebSocket: only turns of an API with state.

        The WebSocket library must accept the head: its own refusal would have a malformed status line.
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
            names >= HANDSHAKE_HEADERS
            and len(self.headers) <= MAX_HEADERS
            and max(longest, len(self.url)) <= MAX_LINE
        )

    def handle_websocket_upgrade(self) -> None:
        self._is_incomplete = False
        self._stop_timer()
        super().handle_websocket_upgrade()

    def _unsupported_upgrade_warning(self) -> None:
        """Agents learn from the response's status that there is no WebSocket. A warning is not needed."""


class SocketConnection(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket protocol. Messages stay bytes, because their reader checks that they are text."""

    def send_receive_event_to_app(self) -> None:
        self.curr_msg_data_type = "bytes"
        super().send_receive_event_to_app()

    def handle_ping(self) -> None:
        """Answer pings, but not while the client does not read: the answers would fill the memory."""
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
        """Abort the connection after a time: a client that does not read would keep it open for ever."""
        self.loop.call_later(CLOSE_TIMEOUT, self.transport.abort)
