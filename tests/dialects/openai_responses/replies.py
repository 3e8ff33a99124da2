"""Helpers for the tests of this dialect: recordings, payloads of streams, the pass through the hub."""

from collections.abc import Iterable

import msgspec

from dragoman.dialects.interfaces import ClientContext, Json, UpstreamContext
from dragoman.dialects.openai_responses import DIALECT
from dragoman.hub.events import BlockOpened, ReplyEvent, ReplyFailed, ReplyFinished
from dragoman.hub.fold import Reply, fold
from dragoman.hub.loss import Losses
from dragoman.hub.stage import Sequencer
from dragoman.wire.sse import SseReader
from tests.dialects.reading import Recordings, read_events
from tests.sse import write_sse

OWN = "openai_responses"

_RECORDINGS = Recordings("openai_responses")
recorded = _RECORDINGS.read
recorded_json = _RECORDINGS.read_json
names = _RECORDINGS.names
pairs = _RECORDINGS.pairs


def requests() -> dict[str, Json]:
    found: dict[str, Json] = {}
    for name in names("request-*.json"):
        body = recorded_json(name)["body"]
        assert isinstance(body, dict)
        found[name] = body
    return found


def read(*pieces: bytes, source: UpstreamContext | None = None) -> list[ReplyEvent]:
    """The events that our reader makes of a stream, checked against the grammar."""
    reader = DIALECT.stream_reader(source or UpstreamContext(issuer=OWN))
    return read_events(reader, pieces)


def write(events: Iterable[ReplyEvent], context: ClientContext | None = None) -> bytes:
    """The stream that our writer makes of events."""
    writer = DIALECT.stream_writer(context or ClientContext())
    sequencer = Sequencer()
    return write_sse(writer, *(after for event in events for after in sequencer.feed(event)))


def through(stream: bytes) -> tuple[bytes, Losses]:
    """The stream after a pass through the hub and back."""
    losses = Losses()
    events = read(stream, source=UpstreamContext(issuer=OWN, losses=losses))
    return write(events, ClientContext(upstream=OWN, losses=losses)), losses


def payloads(stream: bytes) -> list[Json]:
    """The payloads of a stream without `[DONE]`; checks the event names."""
    reader = SseReader()
    found: list[Json] = []
    for frame in [*reader.feed(stream), *reader.close()]:
        if frame.data == b"[DONE]":
            continue
        payload = msgspec.json.decode(frame.data)
        assert isinstance(payload, dict)
        assert payload["type"] == frame.event
        found.append(payload)
    return found


def types(stream: bytes) -> list[str]:
    """The types of the events, without the prefix `response.`."""
    return [str(payload["type"]).removeprefix("response.") for payload in payloads(stream)]


def payloads_of(stream: bytes, kind: str) -> list[Json]:
    """The payloads of one type."""
    return [payload for payload in payloads(stream) if payload["type"] == kind]


def output_of(response: Json) -> list[Json]:
    """The items of a response."""
    output = response["output"]
    assert isinstance(output, list)
    return output


def stream_of(*payloads: Json) -> bytes:
    return b"".join(
        b"event: %b\ndata: %b\n\n"
        % (str(payload.get("type")).encode(), msgspec.json.encode({**payload, "sequence_number": number}))
        for number, payload in enumerate(payloads)
    )


def created(**fields: object) -> Json:
    response = {"id": "resp_1", "model": "gpt-x", "status": "in_progress", "output": [], **fields}
    return {"type": "response.created", "response": response}


def completed(*output: Json, **fields: object) -> Json:
    response = {"id": "resp_1", "model": "gpt-x", "status": "completed", "output": list(output), **fields}
    return {"type": "response.completed", "response": response}


def call(number: int = 0, arguments: str = "", **fields: object) -> Json:
    return {
        "id": f"fc_{number}",
        "type": "function_call",
        "call_id": f"call_{number}",
        "name": f"tool_{number}",
        "arguments": arguments,
        **fields,
    }


def message(*texts: str, item_id: str = "msg_0", **fields: object) -> Json:
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"id": item_id, "type": "message", "role": "assistant", "content": parts, **fields}


def added(item: Json, index: int = 0) -> Json:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(item: Json, index: int = 0) -> Json:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def arguments_delta(delta: object, number: int = 0) -> Json:
    kind = "response.function_call_arguments.delta"
    return {"type": kind, "item_id": f"fc_{number}", "output_index": number, "delta": delta}


def arguments_done(arguments: str, number: int = 0) -> Json:
    kind = "response.function_call_arguments.done"
    return {"type": kind, "item_id": f"fc_{number}", "output_index": number, "arguments": arguments}


def text_delta(delta: str, index: int = 0, item_id: str = "msg_0", part: int = 0) -> Json:
    return {
        "type": "response.output_text.delta",
        "item_id": item_id,
        "output_index": index,
        "content_index": part,
        "delta": delta,
    }


def reply_of(*payloads: Json, source: UpstreamContext | None = None) -> Reply:
    """The whole reply that our reader makes of these payloads."""
    return fold(read(stream_of(*payloads), source=source))


def finish(reply: Reply) -> ReplyFinished:
    assert isinstance(reply.ending, ReplyFinished)
    return reply.ending


def failure(reply: Reply) -> ReplyFailed:
    assert isinstance(reply.ending, ReplyFailed)
    return reply.ending


def opened(events: Iterable[ReplyEvent]) -> list[str]:
    """The kinds of the blocks, in the order they opened."""
    return [type(event.block).__name__ for event in events if isinstance(event, BlockOpened)]
