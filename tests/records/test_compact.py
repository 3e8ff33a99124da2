"""The compact form of streams: exact for any bytes, and short for the streams of servers and writers."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.records.compact import CODES, compact_outputs, compact_stream
from dragoman.records.redaction import redact_stream
from dragoman.wire.sse import Frame, FrameRun, FrameRuns, Output, RawEvents, encode_sse

SHAPES = [
    b'event: content_block_delta\ndata: {"index":0,"delta":{"type":"text_delta","text":%b}}\n\n',
    b'data: {"id":"1","choices":[{"index":0,"delta":{"content":%b}}]}\n\n',
    b'data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":%b}}]}}],"usage":null}\n\n',
    b'id: 1\r\ndata: {"type": "response.output_text.delta", "delta": %b}\r\n\r\n',
    b'event: ping\ndata: {"type": "ping"}\n\n: comment %b\n\n',
    b'data: {"text":%b}\n',
]
TEXTS = st.text(max_size=12) | st.sampled_from(["\\", '"', "\n\n", 'x","text":"', "", " the"])
EVENTS = st.builds(
    lambda shape, texts: b"".join(shape % msgspec.json.encode(text) for text in texts),
    st.sampled_from(SHAPES),
    st.lists(TEXTS, max_size=12),
)
#: Also bytes that are codes, and streams that are cut anywhere.
STREAMS = st.builds(
    lambda parts, low, high: b"".join(parts)[low : max(low, 100_000 - high)],
    st.lists(EVENTS | st.binary(max_size=20) | st.sampled_from(CODES), max_size=8),
    st.integers(0, 60),
    st.integers(0, 60),
)


@given(STREAMS, STREAMS)
def test_the_form_of_any_bytes_is_exact(stream: bytes, other: bytes) -> None:
    parts = compact_stream(stream)
    assert parts.compact.expand() == stream
    assert compact_stream(stream, compact_stream(other).runs).compact.expand() == stream
    assert compact_stream(stream, parts.runs).compact.expand() == stream


VALUES = st.lists(TEXTS, min_size=1, max_size=8).map(
    lambda texts: b"".join(msgspec.json.encode(text) + b"\n" for text in texts)
) | st.just(b"1\n2\n")
PARTS = st.one_of(
    st.builds(
        FrameRun,
        st.sampled_from(["", "delta"]),
        st.sampled_from([b'{"text":', b'{"index":1,"partial_json":', b'{"text":"\xf8"']),
        VALUES,
        st.sampled_from([b"}", b"}}"]),
    ),
    st.builds(
        lambda event, text: Frame(event, b'{"text":%b}' % msgspec.json.encode(text)),
        st.sampled_from(["", "delta"]),
        TEXTS,
    ),
)
OUTPUT: st.SearchStrategy[Output] = st.one_of(
    st.lists(PARTS, max_size=4).map(FrameRuns),
    st.lists(st.just(Frame("delta", b'{"text":"a"}')), max_size=3),
    st.just(RawEvents(b"data: 1\n\n")),
)


@given(st.lists(OUTPUT, max_size=6))
def test_the_form_of_outputs_is_that_of_their_bytes(outputs: Sequence[Output]) -> None:
    pieces = [encode_sse(output) for output in outputs]
    found = compact_outputs(outputs)
    if found is None:
        return
    parts, lengths = found
    assert parts.compact.expand() == b"".join(pieces)
    assert lengths == [len(piece) for piece in pieces]
    # What another stream takes over of it is exact, too.
    for shape in SHAPES:
        texts = [text for run in parts.runs for text in run.texts.split(run.code)]
        stream = b"".join(shape % (b'"' + text + b'"') for text in texts)
        assert compact_stream(stream, parts.runs).compact.expand() == stream


def test_runs_of_texts_are_recognised() -> None:
    texts = ["", *(f" word {number}" for number in range(200))]
    values = b"".join(msgspec.json.encode(text) + b"\n" for text in texts)
    alone = Frame("delta", b'{"text":" first"}')
    run = FrameRun("delta", b'{"text":', values, b"}")
    outputs: list[Output] = [FrameRuns((alone, alone)), FrameRuns((run, alone, run)), (Frame("end", b"{}"),)]
    found = compact_outputs(outputs)
    assert found is not None
    assert len(found[0].runs) == 1
    assert len(found[0].compact.content) < 2 * len(values)
    assert found[0].list_texts() == ["".join([" first"] * 2 + texts + [" first"] + texts).encode()]


@pytest.mark.parametrize("shape", SHAPES[:4])
def test_the_stream_of_a_server_becomes_short(shape: bytes) -> None:
    stream = b"".join(shape % msgspec.json.encode(f" word {number}") for number in range(300))
    compact = redact_stream(stream)
    assert compact.expand() == stream
    if shape != SHAPES[3]:
        assert len(compact.content) < len(stream) / 5


def test_texts_with_events_of_other_kinds_between_them_are_joined() -> None:
    """Whole texts are searched for secrets, so that no event that comes between hides one."""
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    pieces = [
        SHAPES[0] % msgspec.json.encode(part) for part in ("sk-", "ant-", "api03-", "abcdefghij", "klmnop")
    ]
    for place in range(1, len(pieces)):
        stream = b"".join([*pieces[:place], ping, *pieces[place:]])
        assert b"klmnop" not in redact_stream(stream).expand()
