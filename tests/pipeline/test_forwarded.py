"""Forwarded replies, fed in pieces of any size."""

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.forwarding import SLICE
from dragoman.dialects.interfaces import UpstreamContext
from dragoman.dialects.registry import dialect_named
from dragoman.hub.errors import Failure
from dragoman.hub.events import ReplyFailed
from dragoman.hub.tally import Tally
from dragoman.wire.sse import LIMIT
from tests.exchange.sample_replies import (
    ANTHROPIC_STREAM,
    CHAT_STREAM,
    GEMINI_STREAM,
    anthropic_text,
    chat_text,
)
from tests.pipeline.forwarding import ForwardedBytes, forward, forward_as_array

STREAMS = {
    "anthropic": b"".join(ANTHROPIC_STREAM),
    "openai_chat": b"".join(CHAT_STREAM),
    "gemini": b"".join(GEMINI_STREAM),
}
FAILURE = ReplyFailed("truncated", Failure(kind="overloaded", message="broke off"))


def pieces_of(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % len(stream) for cut in cuts), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges) if start < end]


def fed(flow: ForwardedBytes, pieces: list[bytes]) -> list[bytes]:
    return [*(flow.feed(piece) for piece in pieces), flow.close()]


@given(dialect=st.sampled_from(sorted(STREAMS)), cuts=st.lists(st.integers(0, 5000), max_size=30))
def test_a_forwarded_stream_is_the_same_however_it_is_cut(dialect: str, cuts: list[int]) -> None:
    stream = STREAMS[dialect]
    assert b"".join(fed(forward(dialect), pieces_of(stream, cuts))) == stream


@given(line_end=st.sampled_from([b"\n", b"\r\n", b"\r"]), cuts=st.lists(st.integers(0, 5000), max_size=30))
def test_what_is_forwarded_always_ends_between_two_events(line_end: bytes, cuts: list[int]) -> None:
    stream = STREAMS["anthropic"].replace(b"\n", line_end)
    outs = fed(forward("anthropic"), pieces_of(stream, cuts))
    assert b"".join(outs) == stream
    plain = [out.replace(b"\r\n", b"\n").replace(b"\r", b"\n") for out in outs[:-1]]
    assert all(out == b"" or out.endswith(b"\n\n") for out in plain)


@given(cut=st.integers(1, len(STREAMS["anthropic"]) - 1))
def test_wherever_a_forwarded_stream_breaks_off_it_ends_as_a_legal_one(cut: int) -> None:
    flow = forward("anthropic")
    sent = flow.feed(STREAMS["anthropic"][:cut])
    sent += b"" if flow.ended else flow.fail(FAILURE)
    violations = dialect_named("anthropic").check_stream(sent)
    # Without a start there is nothing but the error.
    assert violations == [] or not sent.startswith(b"event: message_start")


@given(cuts=st.lists(st.integers(0, 5000), max_size=30))
def test_an_array_is_the_same_however_its_stream_is_cut(cuts: list[int]) -> None:
    stream = STREAMS["gemini"]
    sent = b"".join(fed(forward_as_array("gemini"), pieces_of(stream, cuts)))
    assert msgspec.json.decode(sent) == [msgspec.json.decode(piece[6:-2]) for piece in GEMINI_STREAM]


RECORDED = sorted((Path(__file__).parent.parent / "recordings").glob("*/stream-*.sse"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}-{path.stem}")
@pytest.mark.parametrize("size", [1, 3, 1000], ids=["event by event", "three at a time", "all at once"])
def test_a_tally_of_what_is_forwarded_is_one_of_what_was_sent(path: Path, size: int) -> None:
    dialect = dialect_named(path.parent.name)
    stream = path.read_bytes().replace(b"\r\n", b"\n")
    events = [event + b"\n\n" for event in stream.split(b"\n\n") if event]
    pieces = [b"".join(events[start : start + size]) for start in range(0, len(events), size)]
    flow = forward(dialect.name)
    forwarded = b"".join(fed(flow, pieces))
    reader, tally = dialect.stream_reader(UpstreamContext(issuer=dialect.name)), Tally()
    for event in (*reader.feed(stream), *reader.close()):
        tally.add(event)
    assert flow.tally.usage == tally.usage
    assert flow.tally.failure == tally.failure
    assert type(flow.tally.ending) is type(tally.ending)
    assert flow.tally.has_content == tally.has_content
    if tally.failure is None:
        added = b"data: [DONE]\n\n" if path.stem == "stream-quirk-no-done" else b""
        assert forwarded == b"".join(pieces) + added


@given(lengths=st.lists(st.integers(0, 9000), min_size=1, max_size=12))
def test_many_events_in_one_piece_are_all_accounted_for(lengths: list[int]) -> None:
    flow = forward("openai_chat")
    piece = CHAT_STREAM[0] + b"".join(chat_text("x" * length) for length in lengths)
    assert flow.feed(piece) == piece
    rest = b"".join(CHAT_STREAM[3:])
    assert flow.feed(rest) == rest
    assert flow.tally.usage is not None
    assert flow.tally.failure is None


@pytest.mark.parametrize("excess", range(-3, 4))
def test_a_piece_of_just_about_the_size_of_a_slice_is_read(excess: int) -> None:
    flow = forward("openai_chat")
    piece = CHAT_STREAM[0] + CHAT_STREAM[1]
    piece += b":" + b" " * (SLICE + excess - len(piece) - 3) + b"\n\n"
    assert len(piece) == SLICE + excess
    assert flow.feed(piece) == piece
    assert flow.tally.has_content


def test_an_answer_cannot_pass_for_the_end_of_the_stream() -> None:
    sly = '"finish_reason":"stop" "usage":{"prompt_tokens":1} "error" [DONE] \n\n event: message_stop'
    for dialect, delta in (("anthropic", anthropic_text(sly)), ("openai_chat", chat_text(sly))):
        flow = forward(dialect)
        flow.feed(STREAMS[dialect].partition(b"good")[0].rpartition(b"\n\n")[0] + b"\n\n")
        flow.feed(delta)
        assert flow.feed(delta) == delta
        assert not flow.ended


def test_an_array_of_nothing_but_a_failure_holds_the_failure() -> None:
    (only,) = msgspec.json.decode(forward_as_array("gemini").fail(FAILURE))
    assert only["error"]["message"] == "broke off"


def test_a_stream_becomes_an_array() -> None:
    flow = forward_as_array("gemini")
    sent = flow.feed(STREAMS["gemini"]) + flow.close()
    assert len(msgspec.json.decode(sent)) == 2


def test_an_event_without_end_is_not_held_for_ever() -> None:
    flow = forward("anthropic")
    sent = flow.feed(b"".join(ANTHROPIC_STREAM[:3]))
    for _ in range(20):
        sent += flow.feed(b"x" * 1024 * 1024)
    assert flow.ended
    assert sent.startswith(b"".join(ANTHROPIC_STREAM[:3]) + b"event: error\n")
    for _ in range(20):
        flow.feed(b"x" * 1024 * 1024)
    assert len(flow.close()) <= LIMIT


def test_small_pieces_of_a_large_event_cost_little() -> None:
    event = anthropic_text("x" * 2_000_000)
    flow = forward("anthropic")
    flow.feed(b"".join(ANTHROPIC_STREAM[:3]))
    out = [flow.feed(event[start : start + 100]) for start in range(0, len(event), 100)]
    assert b"".join(out) == event


@pytest.mark.parametrize("dialect", STREAMS)
def test_a_failure_after_the_end_adds_nothing(dialect: str) -> None:
    flow = forward(dialect)
    flow.feed(STREAMS[dialect])
    flow.close()
    assert flow.fail(FAILURE) == b""


@pytest.mark.rule("H75")
@pytest.mark.parametrize(
    "noise",
    [
        b": keep-alive\n\n",
        b"event: message\n",
        b"id: 7\nretry: 100\n",
        b"data: [DONE]\n\n",
        b": keep-alive\r\n\r\n",
        b'data: "no object"\n\n',
    ],
    ids=["a comment", "a name", "other fields", "a closing word", "a comment with other line ends", "a text"],
)
def test_gemini_clients_get_nothing_but_data(noise: bytes) -> None:
    stream = GEMINI_STREAM[0] + noise + GEMINI_STREAM[1] + (b"" if noise.endswith(b"\n\n") else noise + b"\n")
    for size in (1, 7, 10_000):
        pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
        assert b"".join(fed(forward("gemini"), pieces)) == b"".join(GEMINI_STREAM)


def test_gemini_clients_get_data_in_the_only_spelling_they_read() -> None:
    odd = STREAMS["gemini"].replace(b"data: ", b"data:")
    assert b"".join(fed(forward("gemini"), [odd])) == STREAMS["gemini"]


@pytest.mark.rule("H76")
@pytest.mark.parametrize("dialect", STREAMS)
@pytest.mark.parametrize("missing", [1, 2])
def test_a_last_event_without_its_blank_line_gets_one(dialect: str, missing: int) -> None:
    stream = STREAMS[dialect]
    assert b"".join(fed(forward(dialect), [stream[:-missing]])) == stream


def test_half_of_an_event_behind_the_last_word_is_dropped() -> None:
    """After its whole answer an upstream may still break off in the middle of its usage."""
    flow = forward("openai_chat")
    stream = b"".join(CHAT_STREAM[:4])
    sent = flow.feed(stream) + flow.feed(CHAT_STREAM[4][:60]) + flow.close()
    assert sent == stream + b"data: [DONE]\n\n"
    assert flow.tally.failure is None


def test_what_is_no_json_does_not_spoil_an_array() -> None:
    flow = forward_as_array("gemini")
    stream = GEMINI_STREAM[0] + b"data: {bad\n\ndata: [DONE]\n\n" + GEMINI_STREAM[1]
    assert len(msgspec.json.decode(b"".join(fed(flow, [stream])))) == 2


@pytest.mark.parametrize(
    ("dialect", "missing"), [("anthropic", b"event: message_stop"), ("openai_chat", b"data: [DONE]")]
)
def test_a_whole_reply_that_lacks_its_closing_event_gets_it(dialect: str, missing: bytes) -> None:
    stream = STREAMS[dialect]
    begun = stream[: stream.index(missing)]
    assert b"".join(fed(forward(dialect), [begun])) == stream
    assert b"".join(fed(forward(dialect), [stream[:-1]])) == stream
