"""Frames come out of bytes whatever the network and the upstream do to them."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.hub.errors import UpstreamProtocolError
from dragoman.wire.sse import STRAY_LIMIT, Frame, RawEvents, SseReader, encode_sse, join_output, write_frame
from tests.wire.cuts import CUTS, cut, singly


def read(pieces: list[bytes], reader: SseReader | None = None) -> list[tuple[str, bytes]]:
    reader = reader or SseReader()
    frames = [frame for piece in pieces for frame in reader.feed(piece)]
    return [(frame.event, frame.data) for frame in frames + reader.close()]


def read_slowly(stream: bytes) -> list[tuple[str, bytes]]:
    """The rules of the format's specification, line by line, and the flush of a last event."""
    frames = []
    name, data = "", list[bytes]()
    for line in [*re.split(rb"\r\n|\r|\n", stream.removeprefix(b"\xef\xbb\xbf")), b""]:
        if not line:
            if data:
                frames.append((name, b"\n".join(data)))
            name, data = "", []
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    return frames


LINES = st.sampled_from(
    [
        b'data: {"a": 1}',
        b"data: {}",
        b'data:{"text":"\xf0\x9f\x98\x80"}',
        b"data:  two spaces",
        b"data",
        b"data:",
        b"data: ",
        b"event: ping",
        b"event: content_block_delta",
        b"event:",
        b": keep-alive",
        b":",
        b"id: 7",
        b"retry: 3000",
        b"unknown: x",
        b"datax: y",
        b"",
        b"",
        b"",
    ]
)
ENDS = st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"])
STREAMS = st.lists(st.tuples(LINES, ENDS), max_size=25).map(lambda rows: b"".join(a + b for a, b in rows))


@pytest.mark.rule("R59", "H76")
@given(stream=STREAMS, cuts=CUTS)
@example(stream=b"data: a\r\n\r\ndata: b\r\n\r\n", cuts=[8, 9, 10, 11])
@example(stream=b"data: a\n\n\n\ndata: b\n\n", cuts=[9])
@example(stream=b"\n\ndata: a\n\n", cuts=[1])
@example(stream=b"event:a\ndata: 1\n\n", cuts=[])
@example(stream=b"event: a\nid: 1\n\n", cuts=[])
def test_frames_do_not_depend_on_where_the_bytes_are_cut(stream: bytes, cuts: list[int]) -> None:
    expected = read_slowly(stream)
    assert read([stream]) == expected
    assert read(cut(stream, cuts)) == expected
    assert read(singly(stream)) == expected


@pytest.mark.rule("R59", "H76")
@given(stream=st.binary(max_size=300), cuts=CUTS)
def test_no_bytes_at_all_can_upset_the_reader(stream: bytes, cuts: list[int]) -> None:
    whole, pieces = SseReader(), SseReader()
    assert read([stream], whole) == read(cut(stream, cuts), pieces)
    assert (whole.saw_event, whole.stray) == (pieces.saw_event, pieces.stray)


@pytest.mark.rule("R59")
@given(stream=STREAMS, cuts=CUTS, limit=st.integers(0, 40))
@example(stream=b"data: 1\n\ndata: too long\n\ndata: 2", cuts=[9], limit=10)
def test_what_came_before_an_event_over_the_limit_does_not_depend_on_the_cuts(
    stream: bytes, cuts: list[int], limit: int
) -> None:
    def outcome(pieces: list[bytes]) -> tuple[list[Frame], bool]:
        reader = SseReader(limit=limit)
        frames: list[Frame] = []
        try:
            for piece in pieces:
                frames += reader.feed(piece)
            frames += reader.close()
        except UpstreamProtocolError:
            return frames, True
        return frames, False

    assert outcome(cut(stream, cuts)) == outcome([stream])


@pytest.mark.rule("H76")
def test_several_events_in_one_read_all_come_out() -> None:
    assert read([b"data: 1\n\ndata: 2\n\ndata: 3\n\n"]) == [("", b"1"), ("", b"2"), ("", b"3")]


@pytest.mark.rule("H76")
def test_names_come_out_beside_their_payloads() -> None:
    stream = b"event: ping\ndata: {}\n\nevent: message_stop\ndata: {}\n\n"
    assert read([stream]) == [("ping", b"{}"), ("message_stop", b"{}")]


@pytest.mark.rule("R59", "H76")
def test_events_of_every_shape_mix_in_one_read() -> None:
    stream = b"data: 1\n\nevent: two\ndata: 2\n\n: hold on\n\nid: 3\ndata: 3\n\nevent: lonely\n\ndata:4\n\n"
    assert read([stream]) == [("", b"1"), ("two", b"2"), ("", b"3"), ("", b"4")]


@pytest.mark.rule("H76")
def test_a_name_after_its_payload_still_names_it() -> None:
    assert read([b"data: 1\nevent: late\n\n"]) == [("late", b"1")]


@pytest.mark.rule("R59", "H76")
def test_lines_of_data_are_joined_with_line_feeds() -> None:
    assert read([b'data: {"a":\ndata: 1}\n\n']) == [("", b'{"a":\n1}')]


@pytest.mark.rule("R59", "H76")
def test_only_one_space_after_the_colon_is_not_data() -> None:
    assert read([b"data:1\n\ndata: 2\n\ndata:  3\n\n"]) == [("", b"1"), ("", b"2"), ("", b" 3")]


@pytest.mark.rule("R59", "H76")
@pytest.mark.parametrize("ending", [b"", b"\n", b"\r", b"\r\n"])
def test_a_last_event_without_its_blank_line_is_flushed(ending: bytes) -> None:
    reader = SseReader()
    assert reader.feed(b"event: end\ndata: [DONE]" + ending) == []
    assert reader.close() == [Frame("end", b"[DONE]")]
    assert reader.close() == []


@pytest.mark.rule("H76")
def test_a_byte_order_mark_is_skipped_even_when_it_is_cut() -> None:
    assert read([b"\xef", b"\xbb", b"\xbfdata: 1\n\n"]) == [("", b"1")]
    assert read([b"\xef\xbb\xbfevent: a\ndata: 1\n\n"]) == [("a", b"1")]
    assert read([b"\xef\xbb\xbfdata: 1"]) == [("", b"1")]


@pytest.mark.rule("R59", "H76")
def test_a_rune_cut_in_two_arrives_whole() -> None:
    assert read(singly("data: 😀é\n\n".encode())) == [("", "😀é".encode())]


@pytest.mark.rule("H76")
def test_a_carriage_return_ends_its_event_at_once() -> None:
    reader = SseReader()
    assert reader.feed(b"data: 1\r\r") == [Frame("", b"1")]
    assert reader.feed(b"") == []
    assert reader.feed(b"\ndata: 2\r\n\r") == [Frame("", b"2")]


@pytest.mark.rule("R59")
def test_comments_are_ignored() -> None:
    reader = SseReader()
    assert read([b": OPENROUTER PROCESSING\n\n:\n\ndata: 1\n: inside\n\n"], reader) == [("", b"1")]


@pytest.mark.rule("P16")
def test_an_event_that_mentions_events_is_one_event() -> None:
    payload = b'{"partial_json":"event: message_stop\\ndata: {}\\n\\n"}'
    assert read([write_frame(payload, "content_block_delta")]) == [("content_block_delta", payload)]


def test_a_json_answer_shows_up_as_stray() -> None:
    reader = SseReader()
    body = b'{\n  "error": {"message": "no such model"}\n}'
    assert read(singly(body), reader) == []
    assert not reader.saw_event
    assert reader.stray == body


def test_an_html_answer_shows_up_as_the_start_of_it() -> None:
    reader = SseReader()
    body = b"<!DOCTYPE html>\n" + b"<p>502 bad gateway</p>\n" * 1000
    assert read([body], reader) == []
    assert not reader.saw_event
    assert reader.stray == body.rstrip(b"\n")
    read([b"<p>more</p>\n" * (STRAY_LIMIT // 8)], reader)
    assert len(reader.stray) <= STRAY_LIMIT


def test_a_stream_of_events_leaves_nothing_astray() -> None:
    reader = SseReader()
    read([b": hello\nid: 1\nretry: 5\nevent: a\ndata: 1\n\n"], reader)
    assert reader.saw_event
    assert reader.stray == b""


@pytest.mark.rule("R59")
@pytest.mark.parametrize("piece", [b"x", b"data: x\n", b": comment\n"])
def test_an_event_that_never_ends_is_refused_at_the_limit(piece: bytes) -> None:
    reader = SseReader(limit=1000)
    with pytest.raises(UpstreamProtocolError, match="longer than 1000 bytes"):
        read([piece] * 1002, reader)
    with pytest.raises(UpstreamProtocolError):
        reader.feed(b"\n\n")
    with pytest.raises(UpstreamProtocolError):
        reader.close()


@pytest.mark.rule("R59")
def test_whole_frames_come_out_before_the_refusal() -> None:
    reader = SseReader(limit=10)
    assert reader.feed(b"data: 1\n\ndata: " + b"x" * 10 + b"\n\n") == [Frame("", b"1")]
    with pytest.raises(UpstreamProtocolError):
        reader.close()


@pytest.mark.rule("R59")
def test_many_events_in_one_read_may_exceed_the_limit_of_one() -> None:
    assert len(read([b"data: 123\n\n" * 100], SseReader(limit=10))) == 100


@pytest.mark.rule("R59")
def test_a_large_event_in_single_bytes_is_read_in_good_time() -> None:
    payload = b"x" * 1_000_000
    assert read(singly(write_frame(payload))) == [("", payload)]


@pytest.mark.rule("H76")
def test_a_frame_is_written_with_line_feeds_and_a_space() -> None:
    assert write_frame(b"{}") == b"data: {}\n\n"
    assert write_frame(b"{}", "ping") == b"event: ping\ndata: {}\n\n"


@pytest.mark.rule("H76")
def test_a_payload_of_several_lines_is_written_as_one() -> None:
    assert write_frame(b'{\r\n"a":\n1\r}') == b'data: { "a": 1 }\n\n'


@pytest.mark.rule("H76")
@given(
    event=st.sampled_from(["", "ping", "response.output_text.delta"]),
    data=st.binary(max_size=60).filter(lambda data: b"\n" not in data and b"\r" not in data),
)
def test_what_is_written_reads_the_same(event: str, data: bytes) -> None:
    assert read([write_frame(data, event)]) == [(event, data)]


FRAMES = st.lists(
    st.builds(
        Frame,
        st.sampled_from(["", "message_start", "response.output_text.delta"]),
        st.binary(max_size=20).map(lambda data: b" ".join(data.splitlines())),
    ),
    max_size=6,
)


@given(frames=FRAMES)
def test_frames_are_encoded_together_as_they_are_one_by_one(frames: list[Frame]) -> None:
    one_by_one = b"".join(write_frame(frame.data, frame.event) for frame in frames)
    assert encode_sse(frames) == encode_sse(tuple(frames)) == one_by_one


@given(frames=FRAMES, cut=st.integers(0, 6))
def test_forwarded_events_stay_as_they_are_and_give_their_frames(frames: list[Frame], cut: int) -> None:
    data = b": comment\r\n\r\ndata:{}\n\n"
    output = RawEvents(data, tuple(frames[:cut]))
    assert encode_sse(output) == data + encode_sse(frames[:cut])
    assert list(output) == [Frame("", b"{}"), *frames[:cut]]
    several_lines = RawEvents(b'data: {"a":\ndata: 1}\n\n')
    assert encode_sse(list(several_lines)) == b'data: {"a": 1}\n\n'
    joined = join_output([RawEvents(data), RawEvents(data)])
    assert encode_sse(joined) == data * 2
    mixed = join_output([RawEvents(data), frames])
    assert list(mixed) == [Frame("", b"{}"), *frames]
