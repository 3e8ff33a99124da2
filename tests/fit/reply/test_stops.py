"""Stop sequences that the target does not watch for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.fit.stops import StopsStage
from dragoman.hub.blocks import Reasoning, Text, ToolCall
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    FailedEnding,
    ReasoningDelta,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    TextDelta,
    UsageReported,
)
from dragoman.hub.fold import fold
from dragoman.hub.usage import Usage
from tests.dialects.strategies import replies
from tests.fit.building import build_message, request
from tests.fit.reply.running import block, call_block, joined, recut, reply_of, stages_for, through

BROKEN = Failure(kind="overloaded", message="gone")


def run_stops(stops: tuple[str, ...], *pieces: str) -> tuple[str, str | None]:
    """What is left of a text, and which stop sequence ended it."""
    out = through([StopsStage(stops)], reply_of(block(0, Text(text=""), *pieces)))
    text = "".join(event.text for event in out if isinstance(event, TextDelta))
    (ending,) = [event for event in out if isinstance(event, ReplyFinished)]
    assert (ending.cause == "stop_sequence") == (ending.stop_sequence is not None)
    return text, ending.stop_sequence


@pytest.mark.rule("H55", "P22")
@pytest.mark.parametrize(
    ("stops", "pieces", "expected"),
    [
        (("END",), ["a b END c"], ("a b ", "END")),
        (("END",), ["a b E", "N", "D c"], ("a b ", "END")),
        (("END",), ["a b E", "N", "X"], ("a b ENX", None)),
        (("END",), ["a b EN"], ("a b EN", None)),
        (("END",), ["EEND"], ("E", "END")),
        (("aab",), ["aa", "ab"], ("a", "aab")),
        (("abcd", "bc"), ["abc", "d"], ("a", "bc")),
        (("x", "\n"), ["a\nx"], ("a", "\n")),
        (("ab", "b"), ["ab"], ("", "ab")),
    ],
)
def test_the_text_ends_before_the_first_whole_stop_sequence(
    stops: tuple[str, ...], pieces: list[str], expected: tuple[str, str | None]
) -> None:
    assert run_stops(stops, *pieces) == expected


@pytest.mark.rule("H55")
def test_only_what_may_begin_a_stop_sequence_is_held_back() -> None:
    stage = StopsStage(("END",))
    stage.feed(ReplyStarted())
    stage.feed(BlockOpened(0, Text(text="")))
    assert stage.feed(TextDelta(0, "a E")) == [TextDelta(0, "a ")]
    assert stage.feed(TextDelta(0, "x")) == [TextDelta(0, "Ex")]


@pytest.mark.rule("H55")
def test_after_the_cut_nothing_follows_but_usage_and_the_end() -> None:
    usage = UsageReported(Usage(output=9))
    events = [
        *reply_of(block(0, Text(text=""), "aENDb"), call_block(1, ToolCall(id="1", name="a"), "{}"))[:-1],
        usage,
        ReplyFinished(cause="tool_calls", raw_cause="stop"),
    ]
    assert through([StopsStage(("END",))], events) == [
        ReplyStarted(),
        BlockOpened(0, Text(text="")),
        TextDelta(0, "a"),
        BlockClosed(0),
        usage,
        ReplyFinished(cause="stop_sequence", stop_sequence="END"),
    ]


@pytest.mark.rule("H55")
def test_calls_before_the_cut_stay_and_are_what_the_reply_ended_for() -> None:
    events: list[ReplyEvent] = [
        ReplyStarted(),
        BlockOpened(0, ToolCall(id="1", name="a")),
        BlockOpened(1, Text(text="")),
        TextDelta(1, "aEND"),
        ArgumentsDelta(0, "{}"),
        BlockClosed(0),
        BlockClosed(1),
        ReplyFinished(cause="tool_calls"),
    ]
    reply = fold(through([StopsStage(("END",))], events))
    assert reply.blocks == (ToolCall(id="1", name="a", arguments="{}"), Text(text="a"))
    assert reply.ending == ReplyFinished(cause="tool_calls")


def test_thoughts_and_arguments_are_not_watched() -> None:
    events = reply_of(
        [BlockOpened(0, Reasoning()), ReasoningDelta(0, "END"), BlockClosed(0)],
        call_block(1, ToolCall(id="1", name="a"), '"END"'),
        cause="tool_calls",
    )
    assert through([StopsStage(("END",))], events) == events


def test_a_text_that_opens_with_words_is_watched_from_its_first_word() -> None:
    events = reply_of(block(0, Text(text="a E"), "ND b"))
    reply = fold(through([StopsStage(("END",))], events))
    assert reply.blocks == (Text(text="a "),)


@pytest.mark.parametrize("ending", ["failed", "truncated"])
def test_a_failure_after_the_cut_takes_nothing_away(ending: FailedEnding) -> None:
    events: list[ReplyEvent] = [
        ReplyStarted(),
        BlockOpened(0, Text(text="")),
        TextDelta(0, "aEND"),
        ReplyFailed(ending, BROKEN),
    ]
    assert through([StopsStage(("END",))], events)[-1] == ReplyFinished(
        cause="stop_sequence", stop_sequence="END"
    )


def test_a_failure_before_the_cut_is_reported_after_what_was_held_back() -> None:
    failed = ReplyFailed("truncated", BROKEN)
    events: list[ReplyEvent] = [ReplyStarted(), BlockOpened(0, Text(text="")), TextDelta(0, "a EN"), failed]
    assert through([StopsStage(("END",))], events)[-2:] == [TextDelta(0, "EN"), failed]


def test_a_cancelled_reply_stays_cancelled() -> None:
    failed = ReplyFailed("cancelled", BROKEN)
    events: list[ReplyEvent] = [ReplyStarted(), BlockOpened(0, Text(text="")), TextDelta(0, "aEND"), failed]
    assert through([StopsStage(("END",))], events)[-1] == failed


@pytest.mark.rule("H55")
def test_the_stage_is_there_only_when_it_is_needed() -> None:
    asked = request(build_message("user", "Hi"), stop=("END",), dialect="anthropic")
    assert any(isinstance(stage, StopsStage) for stage in stages_for(asked, "openai_responses"))
    assert not any(isinstance(stage, StopsStage) for stage in stages_for(asked, "openai_chat"))


stop_texts = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3).map(tuple)


@pytest.mark.rule("H55")
@settings(max_examples=100)
@given(stop_texts, st.lists(st.text("abc", min_size=1, max_size=5), max_size=6))
def test_the_cut_is_where_a_reader_of_single_letters_would_stop(
    stops: tuple[str, ...], pieces: list[str]
) -> None:
    text = "".join(pieces)
    expected: tuple[str, str | None] = (text, None)
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            longest = max(found, key=len)
            expected = (text[: end - len(longest)], longest)
            break
    assert run_stops(stops, *pieces) == expected


@settings(max_examples=60)
@given(replies(), st.data())
def test_any_reply_stays_grammatical_and_does_not_depend_on_the_pieces(
    events: list[ReplyEvent], data: st.DataObject
) -> None:
    stops = ("ab", "\n", "{")
    out = through([StopsStage(stops)], events)
    assert fold(through([StopsStage(stops)], data.draw(recut(events)))) == fold(out)
    assert fold(joined(out)) == fold(out)


@pytest.mark.rule("H55")
def test_a_text_beside_the_one_that_is_cut_ends_with_it() -> None:
    events: list[ReplyEvent] = [
        ReplyStarted(),
        BlockOpened(0, Text(text="")),
        BlockOpened(1, Text(text="")),
        TextDelta(0, "a E"),
        TextDelta(1, "b END"),
        TextDelta(0, "c"),
        BlockClosed(0),
        BlockClosed(1),
        ReplyFinished(cause="end"),
    ]
    assert fold(through([StopsStage(("END",))], events)).blocks == (Text(text="a E"), Text(text="b "))
