"""Requests of other gateways with the same state: results for sessions that wait in this process."""

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from dragoman.config.config import Config
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import DragomanError, Failure, UpstreamFailed
from dragoman.peers.forwarding import (
    END,
    ForwardedRequest,
    encode_failure,
    encode_piece,
    keep_headers,
    read_request,
)
from dragoman.server.request import HttpRequest
from dragoman.upstream.port import SessionUpstream, UpstreamReply, UpstreamRequest

_WILDCARDS = ("0.0.0.0", "::", "")  # noqa: S104 (compared, not bound)
_POSTGRES_PORT = 5432
UNSIGNED = Failure(kind="permission", status=403, message="this path is for gateways with the same state")
REPEATED = Failure(kind="permission", status=403, message="this request of a gateway has come before")
#: The sender then replays the conversation.
GONE = Failure(kind="not_found", status=404, message="no session of this gateway waits for these results")


class PeerTurns:
    """Answers the requests of other gateways. `limit`: bytes of a request body."""

    def __init__(self, gateway: Gateway, limit: int) -> None:
        self._gateway = gateway
        self._limit = limit
        self._open: set[asyncio.Task[object]] = set()

    async def handle(self, request: HttpRequest) -> None:
        """Send the request to the session that waits for it, and its reply in pieces."""
        calls = self._gateway.calls
        if not await calls.is_authentic(request.headers):
            raise DragomanError(UNSIGNED.message, failure=UNSIGNED)
        forwarded = read_request(request.headers, await request.receive_body(self._limit))
        if not calls.is_own(forwarded):
            await self._relay(request, forwarded)
            return
        if not calls.accept(forwarded):
            raise DragomanError(REPEATED.message, failure=REPEATED)
        with self._gateway.use(self._gateway.snapshot):
            await self._answer(request, await self._send(forwarded))

    async def drain(self, seconds: float) -> None:
        """Wait at most `seconds` for the open replies. Then end them: the other gateway gets a failure."""
        if self._open and seconds > 0:
            await asyncio.wait(tuple(self._open), timeout=seconds)
        for task in tuple(self._open):
            task.cancel()

    async def _send(self, forwarded: ForwardedRequest) -> UpstreamReply:
        handle = self._gateway.snapshot.handles.get(forwarded.provider)
        upstream = handle.existing_upstream if handle is not None else None
        if upstream is None or not isinstance(upstream, SessionUpstream):
            raise DragomanError(GONE.message, failure=GONE)
        return await upstream.send(
            UpstreamRequest(
                body=forwarded.body,
                model=forwarded.model,
                stream=forwarded.stream,
                key=forwarded.key,
                headers={"x-session-id": forwarded.session} if forwarded.session else {},
                owner=forwarded.owner,
            )
        )

    async def _answer(self, request: HttpRequest, reply: UpstreamReply) -> None:
        """Send the reply. If the other gateway closes the connection, its client is gone."""
        copying = asyncio.ensure_future(self._copy(request, reply))
        leaving = asyncio.ensure_future(request.wait_for_disconnect())
        self._open.add(copying)
        try:
            await asyncio.wait((copying, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._open.discard(copying)
            leaving.cancel()
            if not copying.done():
                reply.close()
            copying.cancel()
            with suppress(asyncio.CancelledError):
                await copying

    async def _copy(self, request: HttpRequest, reply: UpstreamReply) -> None:
        client = request.client
        await client.start(200, reply.headers)
        try:
            async for piece in reply.pieces():
                await client.send_bytes(encode_piece(piece))
            end = END
        except UpstreamFailed as error:
            end = encode_failure(error.failure)
        await client.send_bytes(end)
        await client.end()

    async def _relay(self, request: HttpRequest, forwarded: ForwardedRequest) -> None:
        """Pass the request on to another worker of this machine, and its reply back unread."""
        reply = await self._gateway.calls.relay(forwarded)
        if reply is None:
            raise DragomanError(GONE.message, failure=GONE)
        await request.client.start(200, keep_headers(reply.headers))
        try:
            async for data in reply.pieces():
                await request.client.send_bytes(data)
            await request.client.end()
        finally:
            reply.close()


def find_addresses(config: Config, listeners: Sequence[socket.socket]) -> tuple[str, str]:
    """The address of this gateway for other machines, and that of its own socket if it is a worker."""
    host, port = listeners[0].getsockname()[:2]
    if host in _WILDCARDS:
        host = _find_own_host(config)
    address = config.state.address or f"http://{f'[{host}]' if ':' in host else host}:{port}"
    local = f"http://127.0.0.1:{listeners[1].getsockname()[1]}" if len(listeners) > 1 else ""
    return address, local


def _find_own_host(config: Config) -> str:
    """The address of this machine in the network of the database. Nothing is sent."""
    place = urlsplit(config.state.url.reveal() if config.state.url else "").netloc.rpartition("@")[2]
    name = urlsplit(f"//{place.split(',')[0]}").hostname
    with suppress(OSError):
        for family, _, _, _, target in socket.getaddrinfo(name, _POSTGRES_PORT, type=socket.SOCK_DGRAM):
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect(target)
                return str(probe.getsockname()[0])
    return "127.0.0.1"
