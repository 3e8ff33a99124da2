"""Taps: they keep references to what an exchange receives and sends, and do no work on it.

A `MetaTap` keeps nothing of the contents. A `BodyTap` keeps the pieces of the replies until the exchange
ends, and hands the requests to the recorder at once, so that a long stream does not hold a large request.
Both wrap the client: before it gets the end of its reply, the turn is stored.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import MappingProxyType

from dragoman.agents import ClientIdentity
from dragoman.config.provider import TargetName
from dragoman.config.settings import RecordLevel
from dragoman.exchange.client import Client, DirectConnection
from dragoman.pipeline.plan import RequestPlan
from dragoman.pipeline.transports import Transport
from dragoman.records.segments import Segment
from dragoman.upstream.port import PushReply, UpstreamReply, can_push
from dragoman.wire.sse import Output, encode_sse

#: Bytes of an upstream's reply that are kept. The rest is left out, and the record is marked.
MAX_REPLY = 16 * 1024 * 1024


class PendingBody:
    """A request that is not stored yet. The recorder's thread takes the body and sets all else."""

    __slots__ = (
        *("body", "client", "generation", "headers", "identity", "is_grown", "is_stored"),
        *("owner", "segments"),
        *("session", "size", "target"),
    )

    def __init__(
        self,
        body: bytes,
        identity: ClientIdentity,
        owner: str = "",
        *,
        is_stored: bool = True,
        headers: Mapping[str, str] = MappingProxyType({}),
        client: "PendingBody | None" = None,
        target: str = "",
    ) -> None:
        self.body = body
        self.size = len(body)
        self.identity = identity
        self.owner = owner
        #: Whether the contents are stored. Otherwise only the session and the project are taken from them.
        self.is_stored = is_stored
        #: The client's request that a request to a target belongs to.
        self.client = client
        #: Those of the client, which may hold its credential.
        self.headers: Mapping[str, str] = client.headers if client else headers
        self.target = target
        #: The parts of the request; None if the body was not stored.
        self.segments: list[Segment] | None = None
        #: Of the writer's memory, when the request was split.
        self.generation = 0
        self.session = identity.session
        #: It has the conversation of the request before it, and more at the end.
        self.is_grown = False


class TappedCall:
    """One request to an upstream and its reply. Times are by the event loop's clock."""

    __slots__ = (
        *("dialect", "headers", "is_cut", "pieces", "request", "sent_at", "size", "status", "target"),
        "times",
    )

    def __init__(self, target: TargetName, dialect: str, request: PendingBody | None, sent_at: float) -> None:
        self.target = target
        self.dialect = dialect
        self.request = request
        self.sent_at = sent_at
        self.status = 0
        self.headers: Mapping[str, str] = {}
        # Two lists: tuples would be work for the garbage collector.
        self.pieces: list[bytes] = []
        self.times: list[float] = []
        self.size = 0
        self.is_cut = False

    def add(self, now: float, piece: bytes) -> None:
        self.size += len(piece)
        if self.size <= MAX_REPLY:
            self.pieces.append(piece)
            self.times.append(now)
        else:
            self.is_cut = True


class MetaTap:
    """The tap of an exchange whose contents are not recorded. `request`: the client's, if it is examined.

    `store` hands the turn to the recorder's thread, and returns when the file has it.
    """

    level: RecordLevel = "meta"

    def __init__(
        self,
        plan: RequestPlan,
        identity: ClientIdentity,
        request: PendingBody | None,
        store: Callable[[], Awaitable[None]],
    ) -> None:
        self.identity = identity
        self.headers = plan.metadata.headers
        self.entry = plan.metadata.entry
        self.request = request
        self._store = store
        #: The recorder's thread has the turn.
        self.is_submitted = False
        self.now = asyncio.get_running_loop().time
        self.started_at = self.now()
        self.calls: list[TappedCall] = []

    def wrap_client(self, client: Client) -> Client:
        return RecordedClient(client, self._store)

    def note_request(self, target: TargetName, dialect: str, body: bytes) -> int:
        return self._add_call(target, dialect, None)

    def _add_call(self, target: TargetName, dialect: str, request: PendingBody | None) -> int:
        self.calls.append(TappedCall(target, dialect, request, self.now()))
        return len(self.calls) - 1

    def wrap_reply(self, number: int, reply: UpstreamReply) -> UpstreamReply:
        self.calls[number].status = reply.status
        return reply

    def mark_answer(self, number: int) -> None:
        self.calls.append(self.calls.pop(number))


class BodyTap(MetaTap):
    """The tap of an exchange with contents. `submit` hands a request to the recorder's thread."""

    level: RecordLevel = "bodies"

    def __init__(
        self,
        plan: RequestPlan,
        identity: ClientIdentity,
        request: PendingBody,
        store: Callable[[], Awaitable[None]],
        submit: Callable[[PendingBody], PendingBody],
    ) -> None:
        super().__init__(plan, identity, request, store)
        self._submit = submit
        self._body = plan.body
        self.client: TappedClient | None = None

    def wrap_client(self, client: Client) -> Client:
        self.client = TappedClient(client, self._store, self.now)
        return self.client

    def note_request(self, target: TargetName, dialect: str, body: bytes) -> int:
        if body is self._body and self.request is not None:
            # Forwarded unchanged.
            request = self.request
        else:
            pending = PendingBody(body, self.identity, client=self.request, target=str(target))
            request = self._submit(pending)
        return self._add_call(target, dialect, request)

    def wrap_reply(self, number: int, reply: UpstreamReply) -> UpstreamReply:
        call = self.calls[number]
        call.status, call.headers = reply.status, reply.headers
        # A long stream does not hold a large request.
        self._body = b""
        if can_push(reply):
            return TappedPushReply(reply, call, self.now)
        return TappedReply(reply, call, self.now)


class TappedReply:
    """An upstream's reply whose pieces are kept."""

    def __init__(self, reply: UpstreamReply, call: TappedCall, now: Callable[[], float]) -> None:
        self._reply = reply
        self._call = call
        self._now = now
        self.status = reply.status
        self.headers = reply.headers
        self.close = reply.close
        self._iterator: AsyncIterator[bytes] | None = None

    def pieces(self) -> AsyncIterator[bytes]:
        if self._iterator is None:
            self._iterator = self._keep_pieces()
        return self._iterator

    async def _keep_pieces(self) -> AsyncIterator[bytes]:
        async for piece in self._reply.pieces():
            self._call.add(self._now(), piece)
            yield piece


class TappedPushReply(TappedReply):
    """A `TappedReply` that also has `push_to`, for a reply that has it."""

    def __init__(self, reply: PushReply, call: TappedCall, now: Callable[[], float]) -> None:
        super().__init__(reply, call, now)
        self._push_to = reply.push_to

    async def push_to(self, sink: Callable[[bytes], bool]) -> bool:
        call, now = self._call, self._now
        keep_piece, keep_time = call.pieces.append, call.times.append
        room = MAX_REPLY - call.size

        def keep(piece: bytes) -> bool:
            nonlocal room
            room -= len(piece)
            if room >= 0:
                keep_time(now())
                keep_piece(piece)
            return sink(piece)

        try:
            return await self._push_to(keep)
        finally:
            call.size = MAX_REPLY - room
            call.is_cut = room < 0


class RecordedClient:
    """A client that gets the end of its reply when the turn is stored. `store` does that."""

    def __init__(self, client: Client, store: Callable[[], Awaitable[None]]) -> None:
        self._client = client
        self._store = store
        self.transport: Transport = client.transport
        self.ping = client.ping
        self.abort = client.abort

    @property
    def direct(self) -> DirectConnection | None:
        return self._client.direct

    def start(self, status: int, headers: Mapping[str, str]) -> Awaitable[None]:
        return self._client.start(status, headers)

    def send(self, output: Output) -> Awaitable[None]:
        return self._client.send(output)

    async def end(self, output: Output = ()) -> None:
        await self._store()
        await self._client.end(output)

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        await self._store()
        await self._client.respond(status, headers, body)


class TappedClient(RecordedClient):
    """A client whose replies are kept: as outputs, and as bytes where the connection takes bytes."""

    def __init__(
        self, client: Client, store: Callable[[], Awaitable[None]], now: Callable[[], float]
    ) -> None:
        super().__init__(client, store)
        self._now = now
        self.status = 0
        self.headers: Mapping[str, str] = {}
        #: What was written, as outputs if the client gets them as server-sent events.
        self.outputs: list[Output | bytes] = []
        #: The bytes of each output; None if they were not needed yet.
        self._encoded: list[bytes | None] = []
        self.times: list[float] = []

    def list_pieces(self) -> list[bytes]:
        """The outputs as bytes. Called by the recorder's thread."""
        return [
            data if data is not None else output if isinstance(output, bytes) else encode_sse(output)
            for output, data in zip(self.outputs, self._encoded, strict=True)
        ]

    @property
    def direct(self) -> DirectConnection | None:
        direct = self._client.direct
        if direct is None:
            return None
        keep_output, keep_time, now = self.outputs.append, self.times.append, self._now
        keep_data, encode = self._encoded.append, direct.encode
        is_sse = encode is encode_sse

        def keep(output: Output) -> bytes:
            data = encode(output)
            keep_time(now())
            keep_output(output if is_sse else data)
            keep_data(data)
            return data

        return direct._replace(encode=keep)

    def start(self, status: int, headers: Mapping[str, str]) -> Awaitable[None]:
        self.status, self.headers = status, headers
        return super().start(status, headers)

    def send(self, output: Output) -> Awaitable[None]:
        self._keep(output)
        return super().send(output)

    async def end(self, output: Output = ()) -> None:
        self._keep(output)
        await super().end(output)

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status, self.headers = status, headers
        self._keep(body)
        await super().respond(status, headers, body)

    def _keep(self, output: Output | bytes) -> None:
        self.times.append(self._now())
        self.outputs.append(output)
        self._encoded.append(None)
