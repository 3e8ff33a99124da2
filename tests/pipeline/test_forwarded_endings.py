"""The ending of a forwarded stream that broke off agrees with what was forwarded."""

from pathlib import Path

import msgspec
import pytest

from dragoman.dialects.registry import dialect_named
from dragoman.hub.errors import Failure
from dragoman.hub.events import ReplyFailed
from dragoman.wire.sse import SseReader
from tests.pipeline.forwarding import ForwardedBytes

RESPONSES = sorted((Path(__file__).parent.parent / "recordings" / "openai_responses").glob("stream-*.sse"))
FAILURE = ReplyFailed("truncated", Failure(kind="overloaded", message="broke off"))


def forward() -> ForwardedBytes:
    return ForwardedBytes("openai_responses")


def events_of(stream: bytes) -> list[bytes]:
    return [event + b"\n\n" for event in stream.split(b"\n\n") if event]


def payloads(stream: bytes) -> list[dict[str, object]]:
    frames = [frame for frame in SseReader().feed(stream) if frame.event]
    return [msgspec.json.decode(frame.data) for frame in frames]


def broken_after(events: list[bytes]) -> bytes:
    flow = forward()
    sent = b"".join(flow.feed(event) for event in events)
    return sent if flow.ended else sent + flow.fail(FAILURE)


@pytest.mark.rule("H72", "H79")
@pytest.mark.parametrize("path", RESPONSES, ids=lambda path: path.stem)
def test_a_responses_stream_that_breaks_off_anywhere_is_counted_on(path: Path) -> None:
    events = events_of(path.read_bytes())
    for cut in range(1, len(events)):
        sent = broken_after(events[:cut])
        numbers = [payload["sequence_number"] for payload in payloads(sent)]
        first = numbers[0]
        assert isinstance(first, int)
        assert numbers == list(range(first, first + len(numbers)))


@pytest.mark.rule("H72")
@pytest.mark.parametrize("path", RESPONSES, ids=lambda path: path.stem)
def test_a_responses_stream_that_breaks_off_repeats_the_items_that_were_finished(path: Path) -> None:
    events = events_of(path.read_bytes())
    for cut in range(1, len(events)):
        sent = payloads(broken_after(events[:cut]))
        finished = [payload["item"] for payload in sent if payload["type"] == "response.output_item.done"]
        last = sent[-1]
        if last["type"] == "response.failed" and b"response.failed" not in b"".join(events[:cut]):
            response = last["response"]
            assert isinstance(response, dict)
            assert response["output"] == finished
            first = sent[0]["response"]
            assert isinstance(first, dict)
            assert response["id"] == first["id"]


def test_items_that_are_no_json_are_left_out() -> None:
    events = events_of(RESPONSES[0].read_bytes())[:2]
    bad = b"event: response.output_item.done\ndata: {broken\n\n"
    sent = broken_after([*events, bad])
    assert b'"output":[]' in sent.rpartition(b"event: response.failed")[2]


def test_what_is_kept_of_a_long_reply_is_bounded() -> None:
    flow = forward()
    events = events_of(RESPONSES[0].read_bytes())[:2]
    flow.feed(b"".join(events))
    item = msgspec.json.encode({"type": "message", "id": "m", "content": ["x" * 100_000]})
    for number in range(100):
        head = b'{"type":"response.output_item.done","sequence_number":%d,"item":' % (number + 2)
        flow.feed(b"event: response.output_item.done\ndata: " + head + item + b"}\n\n")
    assert len(flow.fail(FAILURE)) < 6_000_000


ERROR = (
    b'event: error\ndata: {"type":"error","sequence_number":%d,"code":"server_error","message":"busy"}\n\n'
)


def upstream_failed(*pieces: bytes) -> bytes:
    """What a client gets of a response that its upstream ends with these pieces, behind its first events."""
    flow = forward()
    sent = b"".join(flow.feed(event) for event in events_of(RESPONSES[0].read_bytes())[:4])
    for piece in pieces:
        assert not flow.ended or flow.trails
        sent += flow.feed(piece)
    return sent + (flow.close() if flow.trails else b"")


def write_last_event(number: int) -> bytes:
    response = (
        b'{"id":"resp_1","status":"failed","output":[],"error":{"code":"server_error","message":"busy"}}'
    )
    head = b'event: response.failed\ndata: {"type":"response.failed","sequence_number":%d,"response":%b}\n\n'
    return head % (number, response)


@pytest.mark.rule("H73")
def test_the_last_word_of_an_upstream_that_failed_follows_its_error_in_any_piece() -> None:
    begun = upstream_failed(ERROR % 4 + write_last_event(5))
    assert begun.endswith(ERROR % 4 + write_last_event(5))
    assert upstream_failed(ERROR % 4, write_last_event(5)) == begun
    assert upstream_failed(ERROR % 4, write_last_event(5)[:30], write_last_event(5)[30:]) == begun
    assert upstream_failed((ERROR % 4)[:20], (ERROR % 4)[20:] + write_last_event(5)[:-2]) == begun


@pytest.mark.rule("H73")
@pytest.mark.parametrize("rest", [b"", b'event: response.failed\ndata: {"ty'], ids=["nothing", "half of it"])
def test_an_upstream_that_owes_its_last_word_gets_one(rest: bytes) -> None:
    sent = payloads(upstream_failed(ERROR % 4, rest))
    assert [payload["type"] for payload in sent[-2:]] == ["error", "response.failed"]
    assert [payload["sequence_number"] for payload in sent[-2:]] == [4, 5]
    response = sent[-1]["response"]
    assert isinstance(response, dict)
    assert response["error"]["message"] == "busy"


def test_what_only_looks_like_an_error_is_none() -> None:
    """A response carries its error from the beginning, and it is nothing."""
    begun = b"".join(events_of(RESPONSES[0].read_bytes())[:2])
    dialect = dialect_named("openai_responses")
    ending = dialect.forwarding.build_ending(dialect)
    assert b'"error":null' in begun
    assert not ending.has_failure(begun)
    assert ending.has_failure(begun + ERROR % 2)
