"""A whole reply and its stream have the same content."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.hub.blocks import Citation, HostedCall, Reasoning, Refusal, Text, ToolCall
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReasoningDelta,
    ReplyFinished,
    ReplyStarted,
    TextDelta,
    UsageReported,
)
from dragoman.hub.fold import Reply, fold, unfold
from dragoman.hub.reply_grammar import GrammarChecker
from dragoman.hub.seal import Seal
from dragoman.hub.usage import Usage

seals = st.none() | st.builds(Seal, st.just("gemini"), st.just(""), st.text(min_size=1, max_size=5))
words = st.text(min_size=1, max_size=8)
blocks = st.one_of(
    st.builds(Text, text=words, seal=seals, citations=st.just(()) | st.just((Citation(url="u"),))),
    st.builds(Refusal, text=words),
    st.builds(Reasoning, parts=st.lists(words, max_size=3).map(tuple), seal=seals),
    st.builds(ToolCall, id=words, name=words, arguments=words, seal=seals),
    st.builds(HostedCall, id=words, tool=words),
)
replies = st.builds(
    Reply,
    started=st.builds(ReplyStarted, id=words),
    blocks=st.lists(blocks, max_size=6).map(tuple),
    usage=st.none() | st.builds(Usage, input=st.integers(0, 9), output=st.integers(0, 9)),
    ending=st.just(ReplyFinished(cause="length")),
)


@given(replies)
def test_folding_what_was_unfolded_gives_the_same_reply(reply: Reply) -> None:
    events = list(unfold(reply))
    checker = GrammarChecker()
    for event in events:
        checker.check(event)
    assert fold(events) == reply


@pytest.mark.rule("R60", "P15")
def test_interleaved_fragments_reach_their_own_call() -> None:
    reply = fold(
        [
            ReplyStarted(),
            BlockOpened(0, ToolCall(id="a", name="Read")),
            BlockOpened(1, ToolCall(id="b", name="Edit")),
            ArgumentsDelta(0, '{"x":'),
            ArgumentsDelta(1, '{"y":'),
            ArgumentsDelta(0, "1}"),
            ArgumentsDelta(1, "2}"),
            BlockClosed(0),
            BlockClosed(1, {"status": "completed"}),
            ReplyFinished(cause="tool_calls"),
        ]
    )
    first, second = reply.blocks
    assert isinstance(first, ToolCall)
    assert isinstance(second, ToolCall)
    assert (first.arguments, second.arguments) == ('{"x":1}', '{"y":2}')
    assert second.extras == {"status": "completed"}


def test_reasoning_keeps_its_parts_apart() -> None:
    reply = fold(
        [
            ReplyStarted(),
            BlockOpened(0, Reasoning()),
            ReasoningDelta(0, "first, "),
            ReasoningDelta(0, "still first"),
            ReasoningDelta(0, "second", 1),
        ]
    )
    block = reply.blocks[0]
    assert isinstance(block, Reasoning)
    assert block.parts == ("first, still first", "second")
    assert block.text == "first, still first\n\nsecond"


@pytest.mark.rule("H60")
def test_the_last_usage_report_wins_field_by_field() -> None:
    reports = [Usage(input=10, output=1), Usage(output=5, reasoning=2)]
    reply = fold([ReplyStarted(), *map(UsageReported, reports)])
    assert reply.usage == Usage(input=10, output=5, reasoning=2)


def test_a_reply_under_way_shows_what_has_come() -> None:
    reply = fold([ReplyStarted(), BlockOpened(0, Text(text="")), TextDelta(0, "so far")])
    assert reply.blocks == (Text(text="so far"),)
    assert reply.ending is None
