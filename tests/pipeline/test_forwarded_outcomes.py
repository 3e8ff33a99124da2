"""How forwarded replies end: it depends on what was sent, never on how it was cut or what of it was read."""

from pathlib import Path

import msgspec
import pytest

from dragoman.dialects.interfaces import UpstreamContext
from dragoman.dialects.registry import DIALECTS, dialect_named
from dragoman.hub.errors import Failure
from dragoman.hub.events import ReplyFailed
from dragoman.hub.ids import IdSource
from dragoman.pipeline.translate import StreamTranslator
from tests.pipeline.forwarding import ForwardedBytes, forward

RECORDINGS = Path(__file__).parent.parent / "recordings"
STREAMS = sorted(RECORDINGS.glob("*/stream-*.sse"))
REPLIES = sorted(RECORDINGS.glob("*/reply-*.json"))
LOST = ReplyFailed("truncated", Failure(kind="overloaded", status=502, message="the connection was lost"))
SHUTDOWN = ReplyFailed("cancelled", Failure(kind="overloaded", status=503, message="the gateway stops"))

#: A reply that thinks, and ends without an answer and without a reason.
THOUGHTS = {
    "anthropic": [
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","role":"assistant",'
        b'"model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}\n\n',
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
        b'"content_block":{"type":"thinking","thinking":"","signature":""}}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"thinking_delta","thinking":"hm"}}\n\n',
        b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n',
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    ],
    "openai_chat": [
        b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"h"},"finish_reason":null}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"m"},"finish_reason":null}]}\n\n',
        b"data: [DONE]\n\n",
    ],
}


def path_name(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def read_events(path: Path) -> list[bytes]:
    *events, _ = path.read_bytes().replace(b"\r\n", b"\n").split(b"\n\n")
    return [event + b"\n\n" for event in events]


@pytest.mark.rule("F1", "S15")
@pytest.mark.parametrize("dialect", THOUGHTS)
@pytest.mark.parametrize("size", [1, 2, 100], ids=["event by event", "two at a time", "all at once"])
def test_thoughts_without_an_answer_are_a_failure_however_they_are_cut(dialect: str, size: int) -> None:
    flow, events = forward(dialect), THOUGHTS[dialect]
    for start in range(0, len(events), size):
        flow.feed(b"".join(events[start : start + size]))
    flow.close()
    assert flow.tally.failure is not None
    assert "without content" in flow.tally.failure.message


@pytest.mark.rule("S15")
@pytest.mark.parametrize("size", [1, 2, 100], ids=["event by event", "two at a time", "all at once"])
def test_an_answer_after_thoughts_needs_no_finish_reason_however_it_is_cut(size: int) -> None:
    *thoughts, done = THOUGHTS["openai_chat"]
    answer = b'data: {"choices":[{"index":0,"delta":{"content":"Yes"},"finish_reason":null}]}\n\n'
    events = [*thoughts, answer, answer, done]
    flow = forward("openai_chat")
    for start in range(0, len(events), size):
        flow.feed(b"".join(events[start : start + size]))
    flow.close()
    assert flow.tally.failure is None


@pytest.mark.parametrize("path", STREAMS, ids=path_name)
def test_a_run_that_is_said_to_hold_no_answer_holds_none(path: Path) -> None:
    dialect = dialect_named(path.parent.name)
    reader = dialect.stream_reader(UpstreamContext(issuer=dialect.name, forwards=True))
    for event in read_events(path):
        had_answer = reader.has_answer
        reader.feed(event)
        if dialect.forwarding.is_delta_run(event) and not dialect.forwarding.may_answer(event):
            assert reader.has_answer == had_answer


@pytest.mark.parametrize("dialect", THOUGHTS)
def test_thoughts_need_not_be_read(dialect: str) -> None:
    thought = THOUGHTS[dialect][2 if dialect == "anthropic" else 1]
    forwarding = dialect_named(dialect).forwarding
    assert forwarding.is_delta_run(thought * 3)
    assert not forwarding.may_answer(thought * 3)
    name = b'"thinking_delta","thinking"' if dialect == "anthropic" else b'"reasoning_content"'
    answer = thought.replace(name, b'"text_delta","text"' if dialect == "anthropic" else b'"content"')
    assert forwarding.may_answer(thought + answer)
    assert forwarding.may_answer(answer)


@pytest.mark.rule("S15")
@pytest.mark.parametrize("path", REPLIES, ids=path_name)
@pytest.mark.parametrize("size", [7, 1_000_000], ids=["in pieces", "at once"])
def test_a_whole_reply_under_the_type_of_a_stream_becomes_one(path: Path, size: int) -> None:
    """The client asked for a stream, and reads nothing else."""
    dialect = dialect_named(path.parent.name)
    body = b"\xef\xbb\xbf\n " + path.read_bytes()
    flow = forward(dialect.name)
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    stream = b"".join([*map(flow.feed, pieces), flow.close()])
    reader = dialect.stream_reader(UpstreamContext(issuer=dialect.name))
    frames = dialect.explode(msgspec.json.decode(path.read_bytes()))
    expected = [*reader.feed_frames(frames), *reader.close()]
    assert flow.tally.ending == expected[-1]
    if flow.tally.failure is None:
        again = dialect.stream_reader(UpstreamContext(issuer=dialect.name))
        assert [*again.feed(stream), *again.close()] == expected


def test_a_beginning_like_that_of_a_whole_reply_is_forwarded_if_events_follow() -> None:
    flow = forward("openai_chat")
    event = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
    stream = flow.feed(b'{"no": "event"}\n\n') + flow.feed(event) + flow.close()
    assert event in stream
    assert flow.tally.failure is None


def test_a_whole_reply_that_never_ends_is_not_kept() -> None:
    flow = forward("openai_chat")
    for _ in range(40):
        flow.feed(b'{"x": "' + b"y" * 1024 * 1024)
    assert flow.tally.failure is not None


def split_at_end(path: Path) -> int:
    """The number of events up to the first after which the bytes may end; 0 if there is none."""
    dialect, events = dialect_named(path.parent.name), read_events(path)
    for count in range(1, len(events) + 1):
        flow = ForwardedBytes(dialect.name)
        flow.feed(b"".join(events[:count]))
        flow.close()
        if flow.tally.failure is None:
            return count
    return 0


@pytest.mark.rule("S16")
@pytest.mark.parametrize("path", [path for path in STREAMS if split_at_end(path)], ids=path_name)
def test_a_connection_that_is_lost_after_the_end_marker_fails_nothing(path: Path) -> None:
    """The agent has everything that was paid for: it must not ask again."""
    dialect, events = dialect_named(path.parent.name), read_events(path)
    begun = b"".join(events[: split_at_end(path)])
    flow = forward(dialect.name)
    stream = flow.feed(begun) + flow.fail(LOST)
    assert flow.tally.failure is None
    closed = forward(dialect.name)
    assert stream == closed.feed(begun) + closed.close()


@pytest.mark.rule("S16")
@pytest.mark.parametrize("target", sorted(DIALECTS))
@pytest.mark.parametrize("path", [path for path in STREAMS if split_at_end(path)], ids=path_name)
def test_a_translated_reply_is_complete_too_if_the_connection_is_lost_later(path: Path, target: str) -> None:
    begun = b"".join(read_events(path)[: split_at_end(path)])
    lost, closed = (
        StreamTranslator(source=path.parent.name, target=target, ids=IdSource("x"), created=1)
        for _ in range(2)
    )
    stream = lost.feed(begun) + lost.fail(LOST.failure, "truncated")
    assert lost.failure is None
    assert stream == closed.feed(begun) + closed.close()


@pytest.mark.parametrize("dialect", ["openai_chat", "gemini"])
def test_a_reply_that_the_gateway_ends_has_failed(dialect: str) -> None:
    """Only a lost connection leaves the judgement to what has come."""
    finished = {
        "openai_chat": b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n',
        "gemini": b'data: {"candidates":[{"content":{"parts":[{"text":"Hi"}],"role":"model"},'
        b'"finishReason":"STOP","index":0}]}\n\n',
    }[dialect]
    flow = forward(dialect)
    flow.feed(finished)
    assert b"the gateway stops" in flow.fail(SHUTDOWN)
    assert flow.tally.failure is not None


def test_the_numbers_of_a_failed_responses_stream_go_on_after_an_event_without_one() -> None:
    events = read_events(RECORDINGS / "openai_responses" / "stream-text.sse")
    flow = forward("openai_responses")
    flow.feed(b"".join(events[:5]))
    flow.feed(b"event: response.garbage\ndata: {broken\n\n")
    ending = flow.fail(LOST)
    assert b'"sequence_number":5' in ending
    assert b'"sequence_number":0' not in ending


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_nothing_at_all_is_a_failure(dialect: str) -> None:
    flow = forward(dialect)
    flow.close()
    assert flow.tally.failure is not None
