from collections.abc import Sequence
from itertools import pairwise

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.dialects.delta_template import DeltaTemplate, TextChange
from dragoman.wire.sse import Frame
from tests.dialects.openai_chat.replies import DONE, call, calls, chunk, events_of, finish

TEXTS = st.text(max_size=8) | st.sampled_from(
    ['"', '"}', "\\", '\\"', "\x00", "é\U0001f600", '","content":"x']
)
DELTAS = st.one_of(
    st.builds(lambda text: {"content": text}, TEXTS),
    st.builds(lambda text: {"reasoning_content": text}, TEXTS),
    st.builds(lambda text: {"refusal": text}, TEXTS),
    st.builds(lambda index, text: {"tool_calls": [call(index, arguments=text)]}, st.integers(0, 1), TEXTS),
)
BEGINNING = (
    chunk({"role": "assistant", "content": ""}),
    calls(call(0, id="c0", name="ls"), call(1, id="c1", name="cat")),
)


def unlike(number: int, piece: bytes) -> bytes:
    """The same chunk with a member that means nothing and is never the same twice."""
    return piece.replace(b"}\n\n", b',"obfuscation":"%d"}\n\n' % number)


@given(deltas=st.lists(DELTAS, max_size=30), joined=st.booleans())
def test_a_reply_means_the_same_whether_its_chunks_repeat_each_other_or_not(
    deltas: list[dict[str, object]], joined: bool
) -> None:
    pieces = [*BEGINNING, *map(chunk, deltas), finish("tool_calls")]
    apart = [unlike(number, piece) for number, piece in enumerate(pieces)]
    sent = [b"".join(pieces)] if joined else pieces
    assert events_of(*sent, DONE) == events_of(*apart, DONE)


def change_of(payload: dict[str, object], received: list[str], *, accepts: bool = True) -> TextChange:
    def take(text: str) -> bool:
        return take_run([text])

    def take_run(texts: Sequence[str]) -> bool:
        received.extend(texts)
        return accepts

    return TextChange(payload, "content", take, take_run)


def learned(data: bytes, received: list[str], *, accepts: bool = True) -> DeltaTemplate:
    repetition = DeltaTemplate()
    payload = msgspec.json.decode(data)
    repetition.learn(Frame("", data), payload, change_of(payload, received, accepts=accepts))
    assert payload == msgspec.json.decode(data)
    return repetition


@pytest.mark.parametrize(
    "data",
    [b'{"a":1,"content":"one","b":[]}', b'{"content": "one"}', b'{"b":{"content":"one"},"content":"one"}'],
)
def test_a_chunk_with_another_text_is_taken_without_being_decoded(data: bytes) -> None:
    received: list[str] = []
    repetition = learned(data, received)
    before, _, after = data.rpartition(b"one")
    two = before + rb"two\n" + after
    assert repetition.take_run([Frame("", two)], 0)
    assert repetition.take_events(b"data: " + two + b"\n\n")
    assert repetition.take_event(b"data: " + two + b"\n\n")
    assert received == ["two\n"] * 3


@pytest.mark.parametrize(
    "other",
    [
        b'{"a":2,"content":"two","b":[]}',
        b'{"a":1,"content":"two","b":[1]}',
        b'{"a":1,"content":"two","error":"x","b":[]}',
        b'{"a":1,"content":null,"b":[]}',
        b'{"a":1,"content":"two\n","b":[]}',
        b'{"a":1,"content":"\xff","b":[]}',
        b'{"a":1,"content":","b":[]}',
        b'{"a":1,"content":"b":[]}',
    ],
)
def test_a_chunk_that_differs_elsewhere_is_not_taken(other: bytes) -> None:
    received: list[str] = []
    template = learned(b'{"a":1,"content":"one","b":[]}', received)
    assert not template.take_run([Frame("", other)], 0)
    assert not template.take_events(b"data: " + other + b"\n\n")
    assert not template.take_event(b"data: " + other + b"\n\n")
    assert received == []


def test_a_part_of_an_event_is_no_event_of_the_template() -> None:
    received: list[str] = []
    data = b'{"content":"one"}'
    template = learned(data, received)
    event = b"data: " + data + b"\n\n"
    for other in (b"", event[:-1], event[:-2], event[1:], data, b"event: x\n" + event, event[:-1] + b"x"):
        assert not template.take_events(other)
        assert not template.take_event(other)
    assert not template.take_event(event + event)
    assert received == []


@pytest.mark.parametrize(
    "rest", [b"", b"data: [DONE]\n\n", b'data: {"content":"th', b": ping\n\n", b"\n", b"data: "]
)
def test_events_that_fit_are_taken_up_to_the_first_that_does_not(rest: bytes) -> None:
    received: list[str] = []
    template = learned(b'{"content":"one"}', received)
    run = b"".join(b'data: {"content":"%b"}\n\n' % text for text in (b"a", b"", b"\\n", b"\xc3\xa9"))
    assert template.take_events(run + rest) == len(run)
    assert received == ["a", "", "\n", "é"]


def test_a_text_that_stands_elsewhere_is_not_learned() -> None:
    received: list[str] = []
    data = b'{"content":"one","b":{"content":"one"}}'
    template = learned(data, received)
    assert not template.take_run([Frame("", data)], 0)


def test_a_text_whose_block_has_ended_is_left_to_the_long_way() -> None:
    received: list[str] = []
    data = b'{"content":"one"}'
    template = learned(data, received, accepts=False)
    assert not template.take_run([Frame("", data)], 0)


def test_chunks_that_never_repeat_are_not_looked_at_for_ever() -> None:
    received: list[str] = []
    repetition = DeltaTemplate()
    tries = 0
    while repetition.can_learn:
        payload: dict[str, object] = {"content": "one", "n": tries}
        repetition.learn(Frame("", msgspec.json.encode(payload)), payload, change_of(payload, received))
        tries += 1
        assert tries < 100


@given(
    deltas=st.lists(DELTAS | st.just({"role": "assistant"}), max_size=40),
    ends=st.sampled_from([b"\n\n", b"\r\n\r\n", b"\n: ping\n\n"]),
    data=st.data(),
)
def test_where_a_reply_is_cut_changes_nothing(
    deltas: list[dict[str, object]], ends: bytes, data: st.DataObject
) -> None:
    pieces = [*BEGINNING, *map(chunk, deltas), finish("tool_calls"), DONE]
    whole = b"".join(pieces).replace(b"\n\n", ends)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=12)))
    read = [whole[start:end] for start, end in pairwise([0, *cuts, len(whole)])]
    assert events_of(*read) == events_of(*[whole[at : at + 1] for at in range(len(whole))])


FRAGMENTS = st.lists(
    st.sampled_from([b"a", b'"', b"\\", b",", b'","', b'\\"', b"\\\\", b"\\u00e4", b"\xff", b"{"]), max_size=4
).map(b"".join)


@given(st.lists(FRAGMENTS, min_size=1, max_size=5))
# Joined, these two are two valid texts, although neither chunk is valid.
@example([b"a\\", b',"b'])
def test_a_run_of_chunks_means_the_same_as_each_chunk_alone_whatever_bytes_they_hold(
    inner: list[bytes],
) -> None:
    before, after = chunk({"content": "TEXT"}).split(b"TEXT")
    known = [before + text + after for text in (b"one", b"two", b"three")]
    run = [before + text + after for text in inner]
    assert events_of(*known, b"".join(run), DONE) == events_of(*known, *run, DONE)


@pytest.mark.parametrize("data", [b'{"content":"one"}', b'{"content":"one","b":1}'])
def test_an_event_without_the_second_quote_of_its_text_is_not_taken(data: bytes) -> None:
    received: list[str] = []
    repetition = learned(data, received)
    before, _, after = data.rpartition(b"one")
    broken = b"data: " + before + after[1:] + b"\n\n"
    assert repetition.take_events(broken) == 0
    assert not repetition.take_event(broken)
    assert repetition.take_events(broken + broken) == 0
    assert repetition.take_events(b"data: " + before + after + b"\n\n") == len(broken) + 1
    assert received == [""]
