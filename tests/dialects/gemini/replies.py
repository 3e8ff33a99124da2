"""Helpers of the tests: build Gemini bodies and chunks, read and write replies, load recordings."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from dragoman.dialects.gemini import DIALECT
from dragoman.dialects.interfaces import ClientContext, UpstreamContext
from dragoman.hub.blocks import AnyBlock
from dragoman.hub.events import ReplyEvent
from dragoman.hub.fold import Reply, fold
from dragoman.hub.loss import Losses
from dragoman.hub.reply_grammar import GrammarChecker
from dragoman.hub.request import Request
from dragoman.hub.stage import Sequencer
from dragoman.providers.profile import Profile, TargetFacts, build_target_facts
from tests.dialects.reading import read_events
from tests.sse import collect_sse, write_sse

Json = dict[str, object]

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings" / "gemini"
NATIVE = build_target_facts(Profile(dialect="gemini"), "gemini")
FOREIGN = build_target_facts(Profile(dialect="gemini"), "anthropic")


def recorded(name: str) -> bytes:
    return (RECORDINGS / name).read_bytes()


def recorded_json(name: str) -> Json:
    return msgspec.json.decode(recorded(name), type=dict[str, object])


def stems(beginning: str, ending: str) -> list[str]:
    """The names of recordings, without what they all begin and end with."""
    return sorted(
        path.name.removeprefix(beginning).removesuffix(ending)
        for path in RECORDINGS.glob(f"{beginning}*{ending}")
    )


def source() -> UpstreamContext:
    return UpstreamContext(issuer="gemini")


def read(stream: bytes | Sequence[bytes], context: UpstreamContext | None = None) -> list[ReplyEvent]:
    """The events of a stream, whole or in pieces, checked against the grammar."""
    reader = DIALECT.stream_reader(context or source())
    pieces = [stream] if isinstance(stream, bytes) else stream
    events = read_events(reader, pieces)
    assert reader.close() == []
    return events


def reply_of(stream: bytes | Sequence[bytes], context: UpstreamContext | None = None) -> Reply:
    return fold(read(stream, context))


def blocks_of(
    stream: bytes | Sequence[bytes], context: UpstreamContext | None = None
) -> tuple[AnyBlock, ...]:
    return reply_of(stream, context).blocks


def write(events: Iterable[ReplyEvent], context: ClientContext | None = None) -> bytes:
    """What a client gets to read, written as the gateway writes: checked, and one block at a time."""
    writer = DIALECT.stream_writer(context or ClientContext(upstream="anthropic"))
    sequencer, checker = Sequencer(), GrammarChecker()
    written = []
    for event in events:
        for released in sequencer.feed(event):
            checker.check(released)
            written.append(write_sse(writer, released))
    return b"".join(written)


def through(stream: bytes) -> bytes:
    """A stream of Gemini's, read and written for a Gemini client."""
    return write(read(stream), ClientContext(upstream="gemini"))


def frame(payload: object) -> bytes:
    return b"data: " + msgspec.json.encode(payload) + b"\n\n"


def chunk(*parts: object, **fields: object) -> bytes:
    """A frame with these parts; `fields` stand on the candidate."""
    candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0, **fields}
    return frame({"candidates": [candidate], "modelVersion": "gemini-test", "responseId": "r1"})


def frames(stream: bytes) -> list[Json]:
    return [
        msgspec.json.decode(line.removeprefix(b"data: "), type=dict[str, object])
        for line in stream.split(b"\n\n")
        if line
    ]


def dig(value: object, *keys: str | int) -> object:
    """What stands at the end of a path through objects and arrays."""
    for key in keys:
        if isinstance(value, dict) and isinstance(key, str):
            value = value[key]
        else:
            assert isinstance(value, list)
            assert isinstance(key, int)
            value = value[key]
    return value


def parts_of(stream: bytes) -> list[Json]:
    """The parts that a client has after joining texts."""
    body = collect_sse(DIALECT, stream)
    candidates = body["candidates"]
    assert isinstance(candidates, list)
    content = candidates[0].get("content", {})
    parts = content.get("parts", [])
    assert isinstance(parts, list)
    return parts


def last_candidate(stream: bytes) -> Json:
    candidates = frames(stream)[-1]["candidates"]
    assert isinstance(candidates, list)
    assert isinstance(candidates[0], dict)
    return candidates[0]


def asked(
    body: object, losses: Losses | None = None, *, model: str = "gemini-test", stream: bool = False
) -> Request:
    """A request read from a copy of the body."""
    fresh = msgspec.json.decode(msgspec.json.encode(body), type=dict[str, object])
    return DIALECT.read_request(fresh, Losses() if losses is None else losses, model=model, stream=stream)


def sent(request: Request, target: TargetFacts = FOREIGN, losses: Losses | None = None) -> Json:
    return DIALECT.write_request(request, target, Losses() if losses is None else losses)


def echoed(body: object) -> Json:
    """The body after a visit to the hub, for a Gemini upstream."""
    return sent(asked(body), NATIVE)


def user(*parts: object) -> Json:
    return {"role": "user", "parts": list(parts)}


def model(*parts: object) -> Json:
    return {"role": "model", "parts": list(parts)}
