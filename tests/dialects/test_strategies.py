"""The strategies draw what they promise: grammatical replies, and damage that keeps to its kind."""

from hypothesis import find, given, settings
from hypothesis import strategies as st

from dragoman.hub.events import ReplyEvent
from dragoman.hub.fold import fold
from dragoman.hub.reply_grammar import GrammarChecker
from dragoman.hub.stage import Sequencer
from tests.dialects.strategies import frames_of, mutated_bodies, mutated_streams, pieces_of, replies

STREAM = b'event: a\ndata: {"x": [1, {"y": "z"}]}\n\ndata: {"x": 2}\r\n\r\ndata: [DONE]\n\n'


@given(replies())
@settings(max_examples=100)
def test_every_drawn_reply_is_grammatical_and_ends(events: list[ReplyEvent]) -> None:
    checker = GrammarChecker()
    for event in events:
        checker.check(event)
    assert checker.is_ended
    assert fold(events).ending is events[-1]


@given(replies())
@settings(max_examples=50)
def test_every_drawn_reply_is_grammatical_in_sequence_too(events: list[ReplyEvent]) -> None:
    checker = GrammarChecker()
    sequencer = Sequencer()
    for event in events:
        for released in sequencer.feed(event):
            checker.check(released)
    assert checker.is_ended


@given(pieces_of(STREAM))
@settings(max_examples=50)
def test_pieces_join_to_the_same_bytes(pieces: list[bytes]) -> None:
    assert b"".join(pieces) == STREAM


def test_frames_keep_every_byte() -> None:
    assert len(frames_of(STREAM)) == 3
    assert b"".join(frames_of(STREAM)) == STREAM


BODY: dict[str, object] = {"a": [1, {"b": None}]}


@given(st.data())
@settings(max_examples=50)
def test_damage_draws_bytes_and_objects_and_leaves_the_original_alone(data: st.DataObject) -> None:
    assert isinstance(data.draw(mutated_streams([STREAM])), bytes)
    assert isinstance(data.draw(mutated_bodies([BODY])), dict)
    assert BODY == {"a": [1, {"b": None}]}


def test_damage_does_change_streams_and_bodies() -> None:
    assert find(mutated_streams([STREAM]), lambda stream: stream != STREAM) != STREAM
    assert find(mutated_bodies([BODY]), lambda body: body != BODY) != BODY
