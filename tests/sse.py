"""Streams as bytes: what tests read, cut and compare, made from frames and made into frames."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from dragoman.dialects.interfaces import Json
from dragoman.hub.events import ReplyEvent
from dragoman.wire.sse import Frame, Frames, SseReader, encode_sse, join_frames


class _Writer(Protocol):
    def write(self, event: ReplyEvent) -> Frames: ...


class _Exploder(Protocol):
    def explode(self, body: Json) -> Frames: ...


class _Collector(Protocol):
    def collect(self, frames: Iterable[Frame]) -> Json: ...


def read_frames(stream: bytes) -> list[Frame]:
    """The frames of a whole stream, a last one without its blank line included."""
    reader = SseReader()
    return [*reader.feed(stream), *reader.close()]


def write_sse(writer: _Writer, *events: ReplyEvent) -> bytes:
    """The bytes that a stream writer's frames become on an HTTP connection."""
    return encode_sse(join_frames(map(writer.write, events)))


def explode_sse(dialect: _Exploder, body: Mapping[str, object]) -> bytes:
    """The stream of a whole reply, as bytes."""
    return encode_sse(dialect.explode(dict(body)))


def collect_sse(dialect: _Collector, stream: bytes) -> Json:
    """The whole reply of a stream that is given as bytes."""
    return dialect.collect(read_frames(stream))
