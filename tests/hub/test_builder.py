"""The builder's events are grammatical for any calls of a reader."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.hub.blocks import Citation, HostedCall, Reasoning, Refusal, Text, ToolCall
from dragoman.hub.builder import ReplyBuilder, reconcile_cause
from dragoman.hub.errors import Failure, UpstreamProtocolError
from dragoman.hub.events import (
    BlockClosed,
    BlockOpened,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    StopCause,
    TextDelta,
)
from dragoman.hub.reply_grammar import GrammarChecker
from dragoman.hub.seal import Seal
from dragoman.hub.usage import Usage

Step = tuple[Any, ...]

BLOCKS = [
    Text(text=""),
    Refusal(text=""),
    Reasoning(),
    ToolCall(id="call_1", name="Read"),
    HostedCall(id="h", tool="web_search"),
]

steps = st.one_of(
    st.tuples(st.just("open"), st.sampled_from(BLOCKS)),
    st.tuples(st.just("append"), st.integers(-1, 6), st.text(max_size=3)),
    st.tuples(st.just("seal"), st.integers(-1, 6)),
    st.tuples(st.just("cite"), st.integers(-1, 6)),
    st.tuples(st.just("close"), st.integers(-1, 6)),
    st.tuples(st.just("usage")),
    st.tuples(st.just("start")),
    st.tuples(st.just("finish"), st.sampled_from(["end", "tool_calls", "length", "other"])),
    st.tuples(st.just("fail")),
)


def drive(builder: ReplyBuilder, step: Step) -> None:
    match step:
        case ("open", block):
            builder.open(block)
        case ("append", index, text):
            builder.append(index, text)
        case ("seal", index):
            builder.seal(index, Seal("anthropic", "", "x"))
        case ("cite", index):
            builder.cite(index, Citation(url="https://example.com"))
        case ("close", index):
            builder.close(index)
        case ("usage",):
            builder.report_usage(Usage(input=1))
        case ("start",):
            builder.start(ReplyStarted(id="r"))
        case ("finish", cause):
            builder.finish(ReplyFinished(cause=cause))
        case ("fail",):
            builder.fail(Failure(kind="server", message="broken"))


@given(st.lists(steps, max_size=40))
def test_any_order_of_reports_becomes_a_grammatical_reply(script: list[Step]) -> None:
    builder, checker = ReplyBuilder(), GrammarChecker()
    for step in script:
        drive(builder, step)
        for event in builder.take():
            checker.check(event)
    builder.truncate()
    for event in builder.take():
        checker.check(event)
    assert checker.is_ended


@pytest.mark.rule("R46", "P9")
def test_an_empty_piece_of_text_is_no_delta() -> None:
    builder = ReplyBuilder()
    index = builder.open(Text(text=""))
    builder.append(index, "")
    builder.append(index, "a")
    assert builder.take()[2:] == [TextDelta(0, "a")]


@pytest.mark.rule("P5", "P6", "P21", "R55")
@pytest.mark.parametrize("cause", ["end", "other", "stop_sequence", "tool_calls"])
def test_a_reply_with_calls_always_states_that_it_ended_for_them(cause: StopCause) -> None:
    builder = ReplyBuilder()
    builder.add_block(ToolCall(id="c", name="Read", arguments="{}"))
    builder.finish(ReplyFinished(cause=cause))
    last = builder.take()[-1]
    assert isinstance(last, ReplyFinished)
    assert last.cause == "tool_calls"


def test_a_reply_without_calls_never_states_that_it_ended_for_them() -> None:
    assert reconcile_cause("tool_calls", has_calls=False) == "end"
    assert reconcile_cause("length", has_calls=True) == "length"


@pytest.mark.rule("H73", "R127")
def test_a_reply_that_is_cut_off_is_never_finished_and_leaves_its_block_open() -> None:
    builder = ReplyBuilder()
    builder.append(builder.open(Text(text="")), "half")
    builder.truncate()
    events = builder.take()
    assert isinstance(events[-1], ReplyFailed)
    assert events[-1].ending == "truncated"
    assert not any(isinstance(event, BlockClosed) for event in events)


@pytest.mark.rule("P12")
def test_nothing_follows_the_end() -> None:
    builder = ReplyBuilder()
    builder.finish(ReplyFinished(cause="end"))
    builder.take()
    builder.append(builder.open(Text(text="")), "late")
    builder.report_usage(Usage(input=1))
    builder.fail(Failure(kind="server", message="late"))
    assert builder.take() == []


def test_a_reply_of_too_many_blocks_is_an_upstream_fault() -> None:
    builder = ReplyBuilder()
    builder.MAX_BLOCKS = 2
    builder.add_block(Text(text=""))
    builder.add_block(Text(text=""))
    with pytest.raises(UpstreamProtocolError):
        builder.add_block(Text(text=""))


def test_a_reply_of_too_many_characters_is_an_upstream_fault() -> None:
    builder = ReplyBuilder()
    builder.MAX_CHARACTERS = 5
    index = builder.open(Text(text=""))
    with pytest.raises(UpstreamProtocolError):
        builder.append(index, "123456")


def test_the_first_block_starts_the_reply() -> None:
    builder = ReplyBuilder()
    builder.open(Text(text=""))
    assert [type(event) for event in builder.take()] == [ReplyStarted, BlockOpened]
