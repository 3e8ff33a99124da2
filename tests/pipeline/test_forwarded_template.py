"""Deltas that fit a learned template are forwarded unread, with the same result as without a template."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.interfaces import UpstreamContext
from dragoman.dialects.registry import dialect_named
from dragoman.hub.errors import Failure
from dragoman.hub.events import ReplyFailed
from dragoman.pipeline import forwarded
from dragoman.pipeline.forwarded import ForwardedReply
from dragoman.pipeline.transports import SSE
from tests.dialects.openai_chat.replies import DONE, call, calls, chunk, finish

MARKS = {"anthropic": b"event: content_block_delta", "openai_responses": b"event: response.output_text.delta"}
RECORDINGS = Path(__file__).parent.parent / "recordings"
TEXTS = st.text(max_size=8) | st.sampled_from(
    ['"', '"}', "\\", '\\"', "\n\n", "error", '"usage":{}', '"finish_reason":"stop"', "[DONE]", "model"]
)
DELTAS = st.one_of(
    st.builds(lambda text: {"content": text}, TEXTS),
    st.builds(lambda text: {"reasoning_content": text}, TEXTS),
    st.builds(lambda text: {"content": text, "reasoning": text}, TEXTS),
    st.builds(lambda text: {"content": "", "reasoning_content": text}, TEXTS),
    st.builds(lambda text: {"content": text, "reasoning_content": ""}, TEXTS),
    st.builds(lambda index, text: {"tool_calls": [call(index, arguments=text)]}, st.integers(0, 1), TEXTS),
)
CHUNKS = st.one_of(
    *[st.lists(DELTAS.map(chunk), min_size=2, max_size=9)] * 3,
    st.sampled_from([[b": ping\n\n"], [b"event: x\ndata: {}\n\n"], [chunk({"content": "é"}, usage=None)]]),
)
START = (
    chunk({"role": "assistant", "content": "Well"}),
    calls(call(0, id="c0", name="ls"), call(1, id="c1", name="cat")),
)
#: A reply without an answer fails, so a template must not hide the first text behind thoughts.
THOUGHTS = (
    chunk({"role": "assistant", "reasoning_content": "Hm"}),
    chunk({"content": "", "reasoning_content": "so"}),
)
USAGE = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
LAST = (finish("stop"), b"data: " + msgspec.json.encode(USAGE) + b"\n\n", DONE)


@contextmanager
def tries(number: int) -> Iterator[None]:
    before, forwarded.MOST_TRIES = forwarded.MOST_TRIES, number
    try:
        yield
    finally:
        forwarded.MOST_TRIES = before


def build(*, is_renamed: bool, hides_usage: bool) -> ForwardedReply:
    dialect = dialect_named("openai_chat")
    patch = dialect.forwarding.build_patch({"model": b'"alias"'}, {}) if is_renamed else None
    reader = dialect.stream_reader(UpstreamContext(issuer=dialect.name, forwards=True))
    return ForwardedReply(reader, dialect, hides_usage=hides_usage, patch=patch)


def forward(reply: ForwardedReply, pieces: list[bytes]) -> tuple[bytes, object, object]:
    sent = [SSE.encode(reply.feed(piece)) for piece in pieces]
    sent.append(SSE.encode_end(reply.close()))
    return b"".join(sent), reply.tally.usage, type(reply.tally.ending)


@given(
    start=st.sampled_from([START, THOUGHTS, THOUGHTS[:1]]),
    runs=st.lists(CHUNKS, max_size=6),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    cut=st.integers(0, 300),
    is_renamed=st.booleans(),
    hides_usage=st.booleans(),
    line_end=st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\r"]),
)
def test_a_template_changes_nothing(
    start: tuple[bytes, ...],
    runs: list[list[bytes]],
    sizes: list[int],
    cut: int,
    is_renamed: bool,
    hides_usage: bool,
    line_end: bytes,
) -> None:
    events = [*start, *[event for run in runs for event in run], *LAST]
    events = [event.replace(b"\n", line_end) for event in events]
    pieces: list[bytes] = []
    at = 0
    while at < len(events):
        size = sizes[len(pieces) % len(sizes)]
        piece = b"".join(events[at : at + size])
        # Some reads end inside an event.
        pieces += [piece[:cut], piece[cut:]] if cut < len(piece) and size == 6 else [piece]
        at += size
    pieces = [piece for piece in pieces if piece]
    with tries(0):
        plain = forward(build(is_renamed=is_renamed, hides_usage=hides_usage), pieces)
    fast = forward(build(is_renamed=is_renamed, hides_usage=hides_usage), pieces)
    assert fast == plain


@pytest.mark.parametrize("line_end", [b"\r\n", b"\r"])
def test_chunks_with_other_line_ends_get_the_name_of_the_client(line_end: bytes) -> None:
    events = b"".join([*START, chunk({"content": "a"}), *LAST])
    expected, _, _ = forward(build(is_renamed=True, hides_usage=False), [events])
    reply = build(is_renamed=True, hides_usage=False)
    assert forward(reply, [events.replace(b"\n", line_end)])[0] == expected


def test_an_end_with_other_white_space_is_read_behind_a_chunk_of_two_choices() -> None:
    reply = build(is_renamed=False, hides_usage=False)
    merged = {"index": 0, "delta": {"content": "a"}, "finish_reason": None}
    both = b"data: " + msgspec.json.encode({"choices": [merged, {**merged, "index": 1}]}) + b"\n\n"
    ending = finish("stop").replace(b'"finish_reason":"', b'"finish_reason": "')
    reply.feed(b"".join(START))
    reply.feed(both + ending)
    reply.close()
    assert reply.tally.failure is None


def test_thoughts_before_the_answer_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    reply = build(is_renamed=True, hides_usage=True)
    for event in THOUGHTS:
        reply.feed(event)
    searched: list[bytes] = []
    with monkeypatch.context() as patched:
        patched.setattr(reply, "_read", searched.append)
        for text in ("a", "b"):
            reply.feed(chunk({"content": "", "reasoning_content": text}))
        assert searched == []
    for event in (chunk({"content": "Well"}), *LAST):
        reply.feed(event)
    assert reply.tally.failure is None


def test_deltas_after_the_first_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_renamed in (False, True):
        reply = build(is_renamed=is_renamed, hides_usage=True)
        for event in (*START, chunk({"content": "a"})):
            reply.feed(event)
        searched: list[bytes] = []
        monkeypatch.setattr(reply, "_read", searched.append)
        deltas = [chunk({"content": text}) for text in ("b", 'c"', "", "d\\")]
        sent = [SSE.encode(reply.feed(delta)) for delta in (*deltas, b"".join(deltas))]
        expected = [
            delta.replace(b'"model":"m"', b'"model":"alias"') if is_renamed else delta for delta in deltas
        ]
        assert sent == [*expected, b"".join(expected)]
        assert searched == []


@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses"])
def test_deltas_with_names_are_not_searched_after_the_answer(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = (RECORDINGS / dialect / "stream-text.sse").read_bytes()
    events = [event + b"\n\n" for event in stream.split(b"\n\n") if event]
    last = max(number for number, event in enumerate(events) if MARKS[dialect] in event)
    forwarded_dialect = dialect_named(dialect)
    reader = forwarded_dialect.stream_reader(UpstreamContext(issuer=dialect, forwards=True))
    reply = ForwardedReply(reader, forwarded_dialect)
    for event in events[:last]:
        reply.feed(event)
    searched: list[bytes] = []
    with monkeypatch.context() as patched:
        patched.setattr(reply, "_read", searched.append)
        assert SSE.encode(reply.feed(events[last])) == events[last]
    assert searched == []
    broken = SSE.encode_end(reply.fail(ReplyFailed("truncated", Failure(kind="overloaded", message="lost"))))
    assert forwarded_dialect.check_stream(b"".join(events[: last + 1]) + broken) == []
