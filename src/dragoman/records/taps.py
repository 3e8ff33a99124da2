"""Taps: they keep references to what an exchange receives and sends, and do no work on it.

A `MetaTap` keeps nothing of the contents. A `BodyTap` wraps the client and the upstreams' replies. It keeps
the pieces of the replies until the exchange ends, and hands the requests to the recorder at once, so that a
long stream does not hold a large request.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import ClassVar

from dragoman.agents import ClientIdentity
from dragoman.config.provider import TargetName
from dragoman.config.settings import RecordLevel
from dragoman.exchange.client import Client, DirectConnection
from dragoman.exchange.record import ExchangeRecord
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
    #: Nothing waits for it.
    is_written: ClassVar[None] = None

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

    status = 0
    headers: Mapping[str, str] = MappingProxyType({})
    #: Bytes of the reply, and whether some of them are left out.
    size = 0
    is_cut = False

    def __init__(
        self, target: TargetName, dialect: str, sent_at: float, request: PendingBody | None = None
    ) -> None:
        self.target = target
        self.dialect = dialect
        self.sent_at = sent_at
        self.request = request
        # Two lists: tuples would be work for the garbage collector.
        self.pieces: list[bytes] = []
        self.times: list[float] = []

    def add(self, now: float, piece: bytes) -> None:
        self.size += len(piece)
        if self.size <= MAX_REPLY:
            self.pieces.append(piece)
            self.times.append(now)
        else:
            self.is_cut = True


class MetaTap:
    """The tap of an exchange whose contents are not recorded. `request`: the client's, if it is examined.

    `keep` keeps the turn, and returns what the end of the reply waits for, if anything.
    """

    level: RecordLevel = "meta"
    #: The turn is kept, or lost.
    is_kept = False

    def __init__(
        self,
        record: ExchangeRecord,
        plan: RequestPlan,
        identity: ClientIdentity,
        request: PendingBody | None,
        keep: "Callable[[MetaTap], Awaitable[None] | None]",
    ) -> None:
        self.record = record
        self.metadata = plan.metadata
        self.identity = identity
        self.request = request
        self._keep = keep
        self.now = now = asyncio.get_running_loop().time
        self.started_at = now()
        self.calls: list[TappedCall] = []

    def wrap_client(self, client: Client) -> Client:
        return client

    def note_request(self, target: TargetName, dialect: str, body: bytes) -> int:
        return self._add_call(target, dialect, None)

    def _add_call(self, target: TargetName, dialect: str, request: PendingBody | None) -> int:
        self.calls.append(TappedCall(target, dialect, self.now(), request))
        return len(self.calls) - 1

    def wrap_reply(self, number: int, reply: UpstreamReply) -> UpstreamReply:
        self.calls[number].status = reply.status
        return reply

    def mark_answer(self, number: int) -> None:
        self.calls.append(self.calls.pop(number))

    def keep_turn(
        self, output: Output | bytes, headers: Mapping[str, str] | None = None
    ) -> Awaitable[None] | None:
        return self._keep(self)


class BodyTap(MetaTap):
    """The tap of an exchange with contents. `submit` hands a request to the recorder's thread."""

    level: RecordLevel = "bodies"

    def __init__(
        self,
        record: ExchangeRecord,
        plan: RequestPlan,
        identity: ClientIdentity,
        request: PendingBody,
        keep: Callable[[MetaTap], Awaitable[None] | None],
        submit: Callable[[PendingBody], PendingBody],
    ) -> None:
        super().__init__(record, plan, identity, request, keep)
        self._submit = submit
        self._body = plan.body
        self.client: TappedClient | None = None

    def wrap_client(self, client: Client) -> Client:
        self.client = TappedClient(client, self.now)
        return self.client

    def keep_turn(
        self, output: Output | bytes, headers: Mapping[str, str] | None = None
    ) -> Awaitable[None] | None:
        if self.client is not None:
            self.client.keep(output)
            if headers is not None:
                self.client.headers = headers
        return super().keep_turn(output, headers)

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


class TappedClient:
    """A client whose replies are kept: as outputs, and as bytes where the connection takes bytes.

    The end of a reply is kept before it is sent, by `BodyTap.keep_turn`.
    """

    def __init__(self, client: Client, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self.transport: Transport = client.transport
        self.end = client.end
        self.ping = client.ping
        self.respond = client.respond
        self.abort = client.abort
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
            # Many reads give the client nothing: an event may come in several, and a call may wait.
            if data := encode(output):
                keep_time(now())
                keep_output(output if is_sse else data)
                keep_data(data)
            return data

        return direct._replace(encode=keep)

    def start(self, status: int, headers: Mapping[str, str]) -> Awaitable[None]:
        self.headers = headers
        return self._client.start(status, headers)

    def send(self, output: Output) -> Awaitable[None]:
        self.keep(output)
        return self._client.send(output)

    def keep(self, output: Output | bytes) -> None:
        self.times.append(self._now())
        self.outputs.append(output)
        self._encoded.append(None)
