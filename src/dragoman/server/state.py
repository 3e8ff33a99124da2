"""The live state of the server: the open exchanges, and the objects that status and metrics report on."""

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from dragoman.exchange.exchange import CLOSING, Exchange
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import DragomanError
from dragoman.records.recorder import Recorder
from dragoman.server.reload import ConfigReloader
from dragoman.server.request import HttpRequest
from dragoman.server.siblings import OWN_HEADER, Siblings
from dragoman.telemetry.metrics import Metrics
from dragoman.upstream.port import SessionUpstream


class OpenExchanges:
    """The exchanges that run now. A shutdown waits for them, and then stops them."""

    def __init__(self) -> None:
        self.is_closing = False
        self._open: set[Exchange] = set()
        #: Set when the last exchange ends while a shutdown waits for it.
        self._idle = asyncio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Exchange]:
        return iter(tuple(self._open))

    def check_open(self) -> None:
        """Raise the error for new requests while the gateway shuts down."""
        if self.is_closing:
            raise DragomanError("closing", failure=CLOSING)

    async def run(self, exchange: Exchange) -> None:
        """Run an exchange to its end."""
        self._open.add(exchange)
        try:
            await exchange.run()
        finally:
            self._open.discard(exchange)
            if self.is_closing and not self._open:
                self._idle.set()

    async def run_for(self, request: HttpRequest, exchange: Exchange) -> None:
        """Run an exchange to its end. If the client closes the connection before, call `Exchange.abandon`."""
        if request.client.watch_disconnect(exchange.abandon):
            try:
                return await self.run(exchange)
            finally:
                request.client.unwatch_disconnect()
        watching = asyncio.get_running_loop().create_task(_abandon_on_disconnect(request, exchange))
        try:
            await self.run(exchange)
        finally:
            watching.cancel()

    async def drain(self, seconds: float) -> None:
        """Wait at most `seconds` for the open exchanges. Then stop them: their clients get an error."""
        self.is_closing = True
        if seconds > 0 and await self._wait_until_idle(seconds):
            return
        for exchange in self:
            exchange.stop(CLOSING)
        await self._wait_until_idle(1.0)

    async def _wait_until_idle(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while self._open:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            return False
        return True


async def _abandon_on_disconnect(request: HttpRequest, exchange: Exchange) -> None:
    await request.wait_for_disconnect()
    # The server reports a disconnect also when the reply has simply ended.
    if not request.client.is_ended:
        exchange.abandon()


class ServerState(NamedTuple):
    """The objects that the status, the metrics and the admin API report on. The application owns them."""

    gateway: Gateway
    exchanges: OpenExchanges
    metrics: Metrics
    reloader: ConfigReloader
    #: When the gateway started, by its clock.
    started_at: float
    #: None if the gateway has no state file.
    recorder: Recorder | None = None
    #: The other workers of this gateway; None if there are none, or if a request is for this worker alone.
    siblings: Siblings | None = None

    def select_workers(self, request: HttpRequest) -> "ServerState":
        """The state to report on: without the other workers if one of them has sent the request."""
        return self._replace(siblings=None) if OWN_HEADER in request.headers else self

    def list_session_upstreams(self) -> Iterator[tuple[str, SessionUpstream]]:
        """The upstreams that keep sessions between requests, such as Claude Code's, by provider name."""
        for name, handle in self.gateway.snapshot.handles.items():
            upstream: object = handle.existing_upstream
            if isinstance(upstream, SessionUpstream):
                yield name, upstream
