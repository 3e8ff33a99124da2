"""Interleaved blocks come out one after another, each unchanged inside."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.hub.blocks import ToolCall
from dragoman.hub.events import ArgumentsDelta, BlockClosed, BlockOpened, ReplyEvent, ReplyStarted
from dragoman.hub.fold import fold
from dragoman.hub.stage import Sequencer


def interleaved(script: list[int], count: int) -> list[ReplyEvent]:
    opened = [BlockOpened(index, ToolCall(id=str(index), name="t")) for index in range(count)]
    deltas = [ArgumentsDelta(index % count, str(step)) for step, index in enumerate(script)]
    return [ReplyStarted(), *opened, *deltas, *(BlockClosed(index) for index in range(count))]


def sequenced(events: list[ReplyEvent]) -> list[ReplyEvent]:
    sequencer = Sequencer()
    return [after for event in events for after in sequencer.feed(event)]


@pytest.mark.rule("R52", "R53", "C7", "H71")
@given(st.lists(st.integers(0, 4), max_size=30), st.integers(1, 5))
def test_at_most_one_block_is_open_and_nothing_changes_inside_it(script: list[int], count: int) -> None:
    events = interleaved(script, count)
    after = sequenced(events)
    assert fold(after) == fold(events)
    is_open: int | None = None
    for event in after:
        if isinstance(event, BlockOpened):
            assert is_open is None
            is_open = event.index
        elif isinstance(event, BlockClosed):
            is_open = None


def test_the_first_open_block_streams_live() -> None:
    sequencer = Sequencer()
    first, second = (BlockOpened(index, ToolCall(id=str(index), name="t")) for index in (0, 1))
    assert sequencer.feed(first) == [first]
    assert sequencer.feed(second) == []
    assert sequencer.feed(ArgumentsDelta(1, "later")) == []
    assert sequencer.feed(ArgumentsDelta(0, "now")) == [ArgumentsDelta(0, "now")]
    assert sequencer.feed(BlockClosed(0)) == [BlockClosed(0), second, ArgumentsDelta(1, "later")]
    assert sequencer.feed(ArgumentsDelta(1, "live")) == [ArgumentsDelta(1, "live")]
