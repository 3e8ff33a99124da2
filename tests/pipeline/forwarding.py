"""Forwarded replies as bytes, through the transport that a client would have."""

from dragoman.dialects.interfaces import UpstreamContext
from dragoman.dialects.registry import dialect_named
from dragoman.hub.events import ReplyFailed
from dragoman.pipeline.forwarded import ForwardedReply
from dragoman.pipeline.transports import SSE, JsonArrayTransport, Transport


class ForwardedBytes:
    """A forwarded reply whose output is encoded at once."""

    def __init__(self, dialect: str, transport: Transport = SSE) -> None:
        client = dialect_named(dialect)
        self.reader = client.stream_reader(UpstreamContext(issuer=dialect, forwards=True))
        self.reply = ForwardedReply(self.reader, client)
        self.tally = self.reply.tally
        self._transport = transport

    @property
    def ended(self) -> bool:
        return self.reply.is_ended

    @property
    def trails(self) -> bool:
        return self.reply.passes_trailing

    def feed(self, data: bytes) -> bytes:
        return self._transport.encode(self.reply.feed(data))

    def close(self) -> bytes:
        return self._transport.encode_end(self.reply.close())

    def fail(self, failure: ReplyFailed) -> bytes:
        return self._transport.encode_end(self.reply.fail(failure))


def forward(dialect: str) -> ForwardedBytes:
    return ForwardedBytes(dialect)


def forward_as_array(dialect: str) -> ForwardedBytes:
    return ForwardedBytes(dialect, JsonArrayTransport())
