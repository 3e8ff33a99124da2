"""Elements come out of a JSON array that arrives in pieces."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.hub.errors import UpstreamProtocolError
from dragoman.wire.json_array import JsonArrayReader
from dragoman.wire.sse import STRAY_LIMIT, Frame
from tests.wire.cuts import CUTS, cut, singly

TEXTS = st.text(alphabet='ab"\\[]{},: \né😀', max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.floats(-1, 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def read(pieces: list[bytes], reader: JsonArrayReader | None = None) -> list[bytes]:
    reader = reader or JsonArrayReader()
    frames = [frame for piece in pieces for frame in reader.feed(piece)]
    return [frame.data for frame in frames + reader.close()]


@pytest.mark.rule("R59")
@given(
    elements=st.lists(VALUES, max_size=5), cuts=CUTS, separator=st.sampled_from([b",", b"\n,\r\n", b" , "])
)
def test_elements_do_not_depend_on_where_the_bytes_are_cut(
    elements: list[object], cuts: list[int], separator: bytes
) -> None:
    encoded = [msgspec.json.encode(element) for element in elements]
    stream = b"[" + separator.join(encoded) + b"\n]\n"
    assert read([stream]) == encoded
    assert read(cut(stream, cuts)) == encoded
    assert read(singly(stream)) == encoded


@pytest.mark.rule("R59")
@given(
    stream=st.binary(max_size=120) | st.text(alphabet='[]{}",\\ 1tnull<', max_size=60).map(str.encode),
    cuts=CUTS,
)
@example(stream=b'[1,"a\\', cuts=[5])
def test_no_bytes_at_all_can_upset_the_reader(stream: bytes, cuts: list[int]) -> None:
    whole, pieces = JsonArrayReader(), JsonArrayReader()
    assert read([stream], whole) == read(cut(stream, cuts), pieces)
    assert (whole.saw_event, whole.stray) == (pieces.saw_event, pieces.stray)


def test_an_element_comes_out_with_its_last_byte() -> None:
    reader = JsonArrayReader()
    assert reader.feed(b'[{"a": [1, "}"]') == []
    assert reader.feed(b'}\n,{"b"') == [Frame("", b'{"a": [1, "}"]}')]
    assert reader.saw_event
    assert reader.feed(b":2}") == [Frame("", b'{"b":2}')]
    assert reader.feed(b"]") == []
    assert reader.close() == []


def test_a_single_object_instead_of_an_array_is_one_element() -> None:
    body = b'{"error": {"code": 429}}'
    assert read([body + b"\n"]) == [body]


def test_an_empty_array_has_no_elements() -> None:
    reader = JsonArrayReader()
    assert read([b"\xef\xbb\xbf[ ]"], reader) == []
    assert not reader.saw_event
    assert reader.stray == b""


def test_an_element_that_was_cut_short_is_handed_on_as_it_is() -> None:
    assert read([b'[{"a":1},{"b":']) == [b'{"a":1}', b'{"b":']


@pytest.mark.parametrize("body", [b"<html>[502]</html>", b"Internal Server Error", b"]", b"\xff"])
def test_what_is_no_array_shows_up_as_stray(body: bytes) -> None:
    reader = JsonArrayReader()
    assert read(singly(body), reader) == []
    assert not reader.saw_event
    assert reader.stray == body


def test_of_a_long_stray_answer_only_the_start_is_kept() -> None:
    reader = JsonArrayReader()
    read([b"<p>" * STRAY_LIMIT], reader)
    assert len(reader.stray) == STRAY_LIMIT


@pytest.mark.rule("R59")
@pytest.mark.parametrize("piece", [b"[", b'{"', b"1", b'{"\\'])
def test_an_element_that_never_ends_is_refused_at_the_limit(piece: bytes) -> None:
    reader = JsonArrayReader(limit=1000)
    with pytest.raises(UpstreamProtocolError, match="longer than 1000 bytes"):
        read([piece] * 1003, reader)
    with pytest.raises(UpstreamProtocolError):
        reader.feed(b"]")
    with pytest.raises(UpstreamProtocolError):
        reader.close()


@pytest.mark.rule("R59")
def test_whole_elements_come_out_before_the_refusal() -> None:
    reader = JsonArrayReader(limit=10)
    assert reader.feed(b'[{"a":1},"' + b"x" * 20 + b'"]') == [Frame("", b'{"a":1}')]
    assert reader.stray == b""
    with pytest.raises(UpstreamProtocolError):
        reader.close()


@pytest.mark.rule("R59")
@pytest.mark.parametrize("text", [b"x" * 300_000, b"\\n" * 150_000, b"[" * 300_000])
def test_a_large_element_is_read_in_good_time_whole_or_in_single_bytes(text: bytes) -> None:
    element = b'{"text":"' + text + b'"}'
    assert read([b"[" + element + b"]"]) == [element]
    assert read(singly(b"[" + element + b"]")) == [element]
