"""Helpers of the tests: build chunks of Chat streams, read and write replies, load recordings."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from dragoman.dialects.interfaces import ClientContext, Json, UpstreamContext
from dragoman.dialects.openai_chat import DIALECT
from dragoman.hub.blocks import AnyBlock, ToolCall
from dragoman.hub.events import ReplyEvent
from dragoman.hub.fold import Reply, fold
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request
from tests.dialects.reading import read_events
from tests.sse import collect_sse, write_sse

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings" / "openai_chat"
DONE = b"data: [DONE]\n\n"


def frame(payload: object) -> bytes:
    return b"data: " + msgspec.json.encode(payload) + b"\n\n"


def chunk(delta: object = None, **choice: object) -> bytes:
    """One chunk with one choice."""
    merged = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": None, **choice}
    return frame({"id": "chatcmpl-1", "created": 7, "model": "m", "choices": [merged]})


def call(index: int | None = 0, **fields: object) -> Json:
    """An entry of `tool_calls`: `id`, `name` and `arguments` as given, and nothing else."""
    entry: Json = {} if index is None else {"index": index}
    if "id" in fields:
        entry |= {"id": fields.pop("id"), "type": "function"}
    return entry | ({"function": fields} if fields else {})


def calls(*entries: object) -> bytes:
    return chunk({"tool_calls": list(entries)})


def finish(reason: str = "stop") -> bytes:
    return chunk({}, finish_reason=reason)


def usage(**counts: int) -> bytes:
    return frame({"id": "chatcmpl-1", "choices": [], "usage": counts})


def a_request(**fields: object) -> Request:
    return msgspec.structs.replace(
        Request(dialect="openai_chat", model="m", messages=(Message(role="user"),)), **fields
    )


def events_of(
    *pieces: bytes, request: Request | None = None, losses: Losses | None = None, model: str = "m"
) -> list[ReplyEvent]:
    """The events of a stream, each checked against the grammar."""
    source = UpstreamContext(
        issuer="openai_chat",
        model=model,
        ids=IdSource("test"),
        losses=Losses() if losses is None else losses,
        request=request,
    )
    reader = DIALECT.stream_reader(source)
    return read_events(reader, pieces)


def reply_of(*pieces: bytes, request: Request | None = None, losses: Losses | None = None) -> Reply:
    return fold(events_of(*pieces, request=request, losses=losses))


def calls_of(*pieces: bytes, request: Request | None = None, losses: Losses | None = None) -> list[ToolCall]:
    reply = reply_of(*pieces, request=request, losses=losses)
    return [block for block in reply.blocks if isinstance(block, ToolCall)]


def kinds_of(blocks: Iterable[AnyBlock]) -> list[str]:
    return [type(block).__name__ for block in blocks]


def written(events: Sequence[ReplyEvent], context: ClientContext | None = None) -> bytes:
    writer = DIALECT.stream_writer(context or ClientContext(upstream="anthropic", ids=IdSource("test")))
    return write_sse(writer, *events)


def payloads(stream: bytes) -> list[Json]:
    """The JSON payloads of a stream, without its `[DONE]`."""
    frames = [part.removeprefix(b"data: ") for part in stream.split(b"\n\n") if part]
    return [msgspec.json.decode(part) for part in frames if part != b"[DONE]"]


def deltas(stream: bytes) -> list[Json]:
    """The deltas of the first choice."""
    choices = [choice for chunk in payloads(stream) for choice in list_of(chunk.get("choices"))]
    return [object_of(choice["delta"]) for choice in choices if choice["index"] == 0]


def list_of(value: object) -> list[Json]:
    assert isinstance(value, list)
    return value


def object_of(value: object) -> Json:
    assert isinstance(value, dict)
    return value


def message_of(stream: bytes) -> Json:
    """The message that a client accumulates."""
    return object_of(list_of(collect_sse(DIALECT, stream)["choices"])[0]["message"])
