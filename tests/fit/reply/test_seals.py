"""Seals of calls and texts, for clients that have no place for them."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.fit.seals import SealsStage
from dragoman.hub.blocks import AnyBlock, Reasoning, Text, ToolCall
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    SealAttached,
    TextDelta,
)
from dragoman.hub.fold import fold
from dragoman.hub.seal import Seal
from tests.dialects.strategies import replies
from tests.fit.building import build_message, request
from tests.fit.reply.running import BARE_CALLS, PLAIN, block, call_block, recut, reply_of, stages_for, through

SEAL = Seal("gemini", "m", "proof")
CALL = ToolCall(id="c1", name="a")
CARRIER = Reasoning(seal=SEAL, form="carrier:call:c1")
TEXT_CARRIER = Reasoning(seal=SEAL, form="carrier:text")


def blocks_after(events: list[ReplyEvent]) -> tuple[AnyBlock, ...]:
    return fold(through([SealsStage()], events)).blocks


@pytest.mark.rule("H6", "P42", "P43")
def test_a_seal_that_comes_with_a_call_goes_before_it() -> None:
    sealed = ToolCall(id="c1", name="a", seal=SEAL)
    events = reply_of(call_block(0, sealed, "{}"), cause="tool_calls")
    assert blocks_after(events) == (CARRIER, ToolCall(id="c1", name="a", arguments="{}"))


@pytest.mark.rule("H6")
def test_a_seal_that_comes_too_late_is_not_lost() -> None:
    events = reply_of(
        [BlockOpened(0, CALL), ArgumentsDelta(0, "{}"), SealAttached(0, SEAL), BlockClosed(0)],
        cause="tool_calls",
    )
    assert blocks_after(events) == (ToolCall(id="c1", name="a", arguments="{}"), CARRIER)


@pytest.mark.rule("H6", "P42")
@pytest.mark.parametrize("late", [True, False])
def test_a_seal_of_a_text_goes_behind_it(late: bool) -> None:
    opened = Text(text="", seal=None if late else SEAL)
    sealing: list[ReplyEvent] = [SealAttached(0, SEAL)] if late else []
    events = reply_of(
        [BlockOpened(0, opened), TextDelta(0, "a"), *sealing, TextDelta(0, "b"), BlockClosed(0)],
        block(1, Text(text=""), "c"),
    )
    assert blocks_after(events) == (Text(text="ab"), TEXT_CARRIER, Text(text="c"))


def test_seals_of_thoughts_stay_where_they_are() -> None:
    events = reply_of([BlockOpened(0, Reasoning()), SealAttached(0, SEAL), BlockClosed(0)])
    assert through([SealsStage()], events) == events


@pytest.mark.rule("G11")
def test_a_call_opens_at_once() -> None:
    stage = SealsStage()
    assert stage.feed(BlockOpened(0, CALL)) == [BlockOpened(0, CALL)]
    assert stage.feed(ArgumentsDelta(0, "{")) == [ArgumentsDelta(0, "{")]


def test_parallel_calls_open_in_their_order() -> None:
    other = ToolCall(id="c2", name="b")
    events: list[ReplyEvent] = [
        ReplyStarted(),
        BlockOpened(0, CALL),
        BlockOpened(1, other),
        SealAttached(1, SEAL),
        ArgumentsDelta(1, "{}"),
        ArgumentsDelta(0, "{}"),
        BlockClosed(1),
        BlockClosed(0),
        ReplyFinished(cause="tool_calls"),
    ]
    assert [type(each).__name__ for each in blocks_after(events)] == ["ToolCall", "ToolCall", "Reasoning"]


def test_a_call_that_never_got_further_is_still_reported_of() -> None:
    failed = ReplyFailed("truncated", Failure(kind="overloaded", message="gone"))
    out = through([SealsStage()], [ReplyStarted(), BlockOpened(0, CALL), failed])
    assert out == [ReplyStarted(), BlockOpened(0, CALL), failed]


def test_the_stage_is_there_only_for_clients_that_need_it() -> None:
    asked = request(build_message("user", "Hi"), dialect="anthropic")
    assert any(isinstance(stage, SealsStage) for stage in stages_for(asked, "gemini", BARE_CALLS))
    assert not any(isinstance(stage, SealsStage) for stage in stages_for(asked, "gemini", PLAIN))


@pytest.mark.rule("H6", "P42")
@settings(max_examples=100)
@given(replies(), st.data())
def test_any_reply_stays_grammatical_and_keeps_every_seal(
    events: list[ReplyEvent], data: st.DataObject
) -> None:
    out = through([SealsStage()], events)
    before, after = fold(events).blocks, fold(out).blocks
    if isinstance(events[-1], ReplyFinished):
        assert sum(bool(getattr(each, "seal", None)) for each in before) == sum(
            bool(getattr(each, "seal", None)) for each in after
        )
    assert not any(each.seal for each in after if isinstance(each, Text | ToolCall))
    assert [each for each in after if not each.form.startswith("carrier:")] == [
        _bare(each) for each in before
    ]
    assert fold(through([SealsStage()], data.draw(recut(events)))) == fold(out)


def _bare(each: AnyBlock) -> AnyBlock:
    return msgspec.structs.replace(each, seal=None) if isinstance(each, Text | ToolCall) else each
