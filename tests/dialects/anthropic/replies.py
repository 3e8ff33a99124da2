"""What the tests of this dialect share: recordings, and the way of a reply through reader and writer."""

from collections.abc import Iterable

import msgspec

from dragoman.dialects.anthropic import DIALECT
from dragoman.dialects.interfaces import ClientContext, Json, UpstreamContext
from dragoman.hub.events import ReplyEvent
from dragoman.hub.stage import Sequencer
from dragoman.wire.sse import SseReader
from tests.dialects.reading import Recordings, read_events
from tests.sse import write_sse

_RECORDINGS = Recordings("anthropic")
recorded = _RECORDINGS.read
recorded_json = _RECORDINGS.read_json
names = _RECORDINGS.names
pairs = _RECORDINGS.pairs


def read(*pieces: bytes, issuer: str = "anthropic", model: str = "") -> list[ReplyEvent]:
    """The events that our reader makes of a stream, checked against the grammar."""
    reader = DIALECT.stream_reader(UpstreamContext(issuer=issuer, model=model))
    return read_events(reader, pieces)


def write(events: Iterable[ReplyEvent], context: ClientContext | None = None) -> bytes:
    """The stream that our writer makes of events."""
    writer = DIALECT.stream_writer(context or ClientContext())
    sequencer = Sequencer()
    return write_sse(writer, *(after for event in events for after in sequencer.feed(event)))


def payloads(stream: bytes) -> list[Json]:
    """The payloads of a stream, after a look at their event names."""
    reader = SseReader()
    found: list[Json] = []
    for frame in [*reader.feed(stream), *reader.close()]:
        payload = msgspec.json.decode(frame.data)
        assert isinstance(payload, dict)
        assert payload["type"] == frame.event
        found.append(payload)
    return found


def stream_of(*events: Json) -> bytes:
    """A stream with these payloads."""
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (str(payload["type"]).encode(), msgspec.json.encode(payload))
        for payload in events
    )


def message_start(**fields: object) -> Json:
    usage: Json = {"input_tokens": 1, "output_tokens": 1}
    message: Json = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
        **fields,
    }
    return {"type": "message_start", "message": message}


def block_start(index: int, **block: object) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


def block_delta(index: int, **delta: object) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def block_stop(index: int) -> Json:
    return {"type": "content_block_stop", "index": index}


def message_delta(reason: str | None = "end_turn", **fields: object) -> Json:
    delta: Json = {"stop_reason": reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}, **fields}


MESSAGE_STOP: Json = {"type": "message_stop"}
