"""`SharedCalls`: the calls for which sessions wait, and the requests between the gateways that hold them."""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping

import msgspec

from dragoman.hub.errors import ConfigError, Failure, UpstreamFailed
from dragoman.peers.forwarding import (
    METHOD,
    PATH,
    ForwardedRequest,
    NonceMemory,
    PieceDecoder,
    build_headers,
    is_signed,
    keep_headers,
)
from dragoman.peers.store import (
    PEERS_SCHEMA,
    PeerAddress,
    SessionCalls,
    delete_calls,
    find_holder,
    find_secret,
    write_calls,
)
from dragoman.storage.database import StorageError
from dragoman.storage.port import StateStorage
from dragoman.storage.processes import build_process_name, is_same_host
from dragoman.upstream.http.connection import HttpConnection, HttpReply
from dragoman.upstream.http.connector import Connector, read_origin
from dragoman.upstream.port import UpstreamReply, UpstreamRequest

LOGGER = logging.getLogger("dragoman")

#: Seconds until another gateway accepts a connection, and until it has found the session.
CONNECT_SECONDS = 3.0
HEAD_SECONDS = 10.0
#: Seconds that the end of a reply waits until its calls are stored. If they are not, the next request is
#: replayed.
WRITE_SECONDS = 2.0
#: Seconds until calls that the state did not accept are written again.
RETRY_SECONDS = 1.0
#: Seconds for which a call is kept if sessions have no limit.
MAX_WAIT = 86_400.0
LOST = "the gateway that holds the session has ended its reply early"


class PeerReply:
    """The reply of another gateway."""

    def __init__(self, reply: HttpReply) -> None:
        self.status = 200
        self.headers = keep_headers(reply.headers)
        self._reply = reply

    async def pieces(self) -> AsyncIterator[bytes]:
        decoder = PieceDecoder()
        async for data in self._reply.pieces():
            if piece := decoder.feed(data):
                yield piece
        if decoder.failure is not None:
            raise UpstreamFailed(decoder.failure)
        if not decoder.is_complete:
            raise _build_failure(LOST)

    def close(self) -> None:
        self._reply.close()


class SharedCalls:
    """The calls for which the sessions of one process wait. `clock` gives the date of the state.

    Calls that the state does not accept are written again until they are stored, or until their session waits
    no more. Meanwhile other gateways do not find them: they replay the conversation.
    """

    def __init__(self, storage: StateStorage, clock: Callable[[], float]) -> None:
        storage.add_schema(PEERS_SCHEMA)
        self._storage = storage
        self._clock = clock
        self._peer: PeerAddress | None = None
        self._secret = b""
        #: Calls that are not written yet, by session.
        self._changed: dict[str, SessionCalls] = {}
        #: Sessions of which the state has calls, or may have them.
        self._stored: set[str] = set()
        self._has_failed = False
        self._nonces = NonceMemory()
        self._writing: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None

    @property
    def is_announced(self) -> bool:
        return self._peer is not None

    def announce(self, address: str, local: str = "") -> None:
        """Share the calls from now on, under the address by which the other gateways reach this one."""
        self._peer = PeerAddress(build_process_name(), address, local)

    async def find_secret(self) -> bytes:
        """The secret that all gateways with this state have; empty if the state does not answer."""
        if not self._secret:
            try:
                self._secret = await self._storage.run(find_secret)
            except ConfigError as error:
                LOGGER.warning("the secret of the gateways cannot be read: %s", error)
        return self._secret

    def register(self, session: str, owner: str, calls: Collection[str], seconds: float) -> None:
        """Store for which calls a session waits. Without calls, it waits no more."""
        if not calls and session not in self._stored:
            self._changed.pop(session, None)
            return
        expires = self._clock() + min(seconds or MAX_WAIT, MAX_WAIT)
        self._changed[session] = SessionCalls(
            session=session, owner=owner, calls=tuple(calls), expires=expires
        )
        self._start_writing()

    async def wait_until_written(self) -> None:
        """Wait at most `WRITE_SECONDS` until the calls are stored: another gateway must find them.

        Returns after a failure: the reply does not wait until the state answers again.
        """
        if self._writing is not None:
            await asyncio.wait((self._writing,), timeout=WRITE_SECONDS)

    def _start_writing(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        """Write the calls that have changed. After a failure, write them again later."""
        peer = self._peer
        try:
            while self._changed and peer is not None:
                waiting, self._changed = self._changed, {}
                await self._write_calls(peer, waiting)
        except ConfigError as error:
            if not self._has_failed:
                LOGGER.warning("calls that wait cannot be stored: %s", error)
            self._has_failed = True
            self._retry = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._start_writing)
        else:
            self._has_failed = False
        finally:
            self._writing = None

    async def _write_calls(self, peer: PeerAddress, waiting: dict[str, SessionCalls]) -> None:
        """Write the calls of sessions. If that fails, they have changed as before."""
        new = waiting.keys() - self._stored
        self._stored |= new
        now = self._clock()
        try:
            await self._storage.run(lambda transaction: write_calls(transaction, peer, waiting.values(), now))
        except ConfigError as error:
            self._changed = {**waiting, **self._changed}
            if not (isinstance(error, StorageError) and error.is_uncertain):
                self._stored -= new
                for session in [name for name in new if not self._changed[name].calls]:
                    del self._changed[session]
            raise
        self._stored -= {
            session for session, each in waiting.items() if not each.calls and session not in self._changed
        }

    async def forward(
        self, provider: str, owner: str, calls: Collection[str], request: UpstreamRequest
    ) -> UpstreamReply | None:
        """Send the request to the gateway that waits for one of the calls. None: replay it from its history.

        None also if that gateway does not answer: its session is lost.
        """
        holder = await self._find_holder(owner, calls)
        if self._peer is None or holder is None or holder.gateway == self._peer.gateway:
            return None
        forwarded = ForwardedRequest(
            gateway=holder.gateway,
            nonce=secrets.token_hex(16),
            provider=provider,
            owner=owner,
            calls=tuple(calls),
            model=request.model,
            stream=request.stream,
            key=request.key,
            session=request.headers.get("x-session-id", ""),
            body=request.body,
        )
        reply = await self._send(holder, forwarded)
        return PeerReply(reply) if reply is not None else None

    async def relay(self, request: ForwardedRequest) -> HttpReply | None:
        """Pass a request on to the worker of this machine that holds its session."""
        holder = None if request.is_relayed else await self._find_holder(request.owner, request.calls)
        if holder is None or not holder.local or not is_same_host(holder.gateway):
            return None
        return await self._send(holder, msgspec.structs.replace(request, is_relayed=True))

    def is_own(self, request: ForwardedRequest) -> bool:
        return self._peer is not None and request.gateway == self._peer.gateway

    def accept(self, request: ForwardedRequest) -> bool:
        """Whether the request is for this process and has not come before."""
        return self.is_own(request) and self._nonces.accept(request.nonce, self._clock())

    async def is_authentic(self, headers: Mapping[str, str]) -> bool:
        """Whether another gateway with this state has signed the request."""
        return self.is_announced and is_signed(await self.find_secret(), headers, self._clock())

    async def close(self) -> None:
        """Delete the calls: the sessions end with the gateway."""
        if self._writing is not None:
            await asyncio.wait((self._writing,))
        if self._retry is not None:
            self._retry.cancel()
        if self._stored and self._peer is not None:
            await self._forget(self._peer)

    async def _find_holder(self, owner: str, calls: Collection[str]) -> PeerAddress | None:
        now = self._clock()
        try:
            return await self._storage.read(
                lambda transaction: find_holder(transaction, owner, tuple(calls), now)
            )
        except ConfigError as error:
            LOGGER.warning("calls that wait cannot be looked up: %s", error)
            return None

    async def _send(self, holder: PeerAddress, request: ForwardedRequest) -> HttpReply | None:
        secret = await self.find_secret()
        address = holder.local if holder.local and is_same_host(holder.gateway) else holder.address
        begun = time.monotonic()
        try:
            reply = await _post(address, msgspec.msgpack.encode(request), secret, self._clock())
        except (OSError, UnicodeError, UpstreamFailed, ConfigError) as error:
            LOGGER.warning(
                "the gateway at %s does not answer after %.1f s: %s; the conversation is replayed",
                address,
                time.monotonic() - begun,
                str(error) or type(error).__name__,
            )
            await self._forget(holder)
            return None
        if reply.status == 200:
            return reply
        reply.close()
        return None

    async def _forget(self, peer: PeerAddress) -> None:
        try:
            await self._storage.run(lambda transaction: delete_calls(transaction, peer.gateway))
        except ConfigError as error:
            LOGGER.warning("calls that wait cannot be deleted: %s", error)


async def _post(address: str, body: bytes, secret: bytes, now: float) -> HttpReply:
    """Send a signed request, and wait for the head of the reply. The connection is used once."""
    origin = read_origin(address, "the address of a gateway")
    loop = asyncio.get_running_loop()
    headers = {
        "host": origin.authority,
        "content-type": "application/msgpack",
        "content-length": str(len(body)),
        "connection": "close",
        **build_headers(secret, body, now),
    }
    lines = [f"{METHOD} {PATH} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    async with asyncio.timeout(CONNECT_SECONDS):
        connector = Connector(origin, None, verify=True)
        connection = await connector.open(lambda: HttpConnection(loop, HttpConnection.abort))
    reply = connection.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"), body, _build_failure)
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            await reply.wait_for_head()
    except BaseException:
        reply.close()
        raise
    return reply


def _build_failure(reason: str) -> UpstreamFailed:
    return UpstreamFailed(Failure(kind="server", status=502, message=f"another gateway: {reason}"))
