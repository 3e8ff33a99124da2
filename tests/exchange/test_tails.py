"""The ending of a forwarded stream that broke off agrees with what was forwarded."""

from pathlib import Path

import msgspec
import pytest

from dragoman.dialects.base import Source
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.flows import ForwardFlow
from dragoman.hub.errors import Failure
from dragoman.hub.events import ReplyFailed
from dragoman.wire.sse import SseReader

RESPONSES = sorted((Path(__file__).parent.parent / "recordings" / "openai_responses").glob("stream-*.sse"))
FAILURE = ReplyFailed("truncated", Failure(kind="overloaded", message="broke off"))


def forward() -> ForwardFlow:
    dialect = dialect_named("openai_responses")
    return ForwardFlow(dialect.stream_reader(Source(issuer=dialect.name)), dialect)


def events_of(stream: bytes) -> list[bytes]:
    return [event + b"\n\n" for event in stream.split(b"\n\n") if event]


def payloads(stream: bytes) -> list[dict[str, object]]:
    frames = [frame for frame in SseReader().feed(stream) if frame.event]
    return [msgspec.json.decode(frame.data) for frame in frames]


def broken_after(events: list[bytes]) -> bytes:
    flow = forward()
    told = b"".join(flow.feed(event) for event in events)
    return told if flow.ended else told + flow.fail(FAILURE)


@pytest.mark.rule("H72", "H79")
@pytest.mark.parametrize("path", RESPONSES, ids=lambda path: path.stem)
def test_a_responses_stream_that_breaks_off_anywhere_is_counted_on(path: Path) -> None:
    events = events_of(path.read_bytes())
    for cut in range(1, len(events)):
        told = broken_after(events[:cut])
        numbers = [payload["sequence_number"] for payload in payloads(told)]
        first = numbers[0]
        assert isinstance(first, int)
        assert numbers == list(range(first, first + len(numbers)))


@pytest.mark.rule("H72")
@pytest.mark.parametrize("path", RESPONSES, ids=lambda path: path.stem)
def test_a_responses_stream_that_breaks_off_repeats_the_items_that_were_finished(path: Path) -> None:
    events = events_of(path.read_bytes())
    for cut in range(1, len(events)):
        told = payloads(broken_after(events[:cut]))
        finished = [payload["item"] for payload in told if payload["type"] == "response.output_item.done"]
        last = told[-1]
        if last["type"] == "response.failed" and b"response.failed" not in b"".join(events[:cut]):
            response = last["response"]
            assert isinstance(response, dict)
            assert response["output"] == finished
            first = told[0]["response"]
            assert isinstance(first, dict)
            assert response["id"] == first["id"]


def test_items_that_are_no_json_are_left_out() -> None:
    events = events_of(RESPONSES[0].read_bytes())[:2]
    bad = b"event: response.output_item.done\ndata: {broken\n\n"
    told = broken_after([*events, bad])
    assert b'"output":[]' in told.rpartition(b"event: response.failed")[2]


def test_what_is_kept_of_a_long_reply_is_bounded() -> None:
    flow = forward()
    events = events_of(RESPONSES[0].read_bytes())[:2]
    flow.feed(b"".join(events))
    item = msgspec.json.encode({"type": "message", "id": "m", "content": ["x" * 100_000]})
    for number in range(100):
        head = b'{"type":"response.output_item.done","sequence_number":%d,"item":' % (number + 2)
        flow.feed(b"event: response.output_item.done\ndata: " + head + item + b"}\n\n")
    assert len(flow.fail(FAILURE)) < 6_000_000
