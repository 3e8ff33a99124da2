"""Repeated calls are sent once; calls of undeclared tools are reported."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.governance.dedupe import DedupeStage
from dragoman.governance.tool_names import DeclaredTool, ToolNameStage
from dragoman.hub.blocks import Text, ToolCall
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
    DELTAS,
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    TextDelta,
)
from dragoman.hub.fold import fold
from tests.dialects.strategies import replies
from tests.fit.reply.running import block, calls_in, recut, reply_of, through
from tests.governance.running import RecordedInterventions, a_call

LIMIT = 100_000


def dedupe(reported: RecordedInterventions | None = None, limit: int = LIMIT) -> DedupeStage:
    return DedupeStage(RecordedInterventions() if reported is None else reported, limit=limit)


def arguments_of(events: list[ReplyEvent]) -> list[str]:
    return [call.arguments for call in calls_in(through([dedupe()], events))]


def test_a_call_that_repeats_the_one_before_is_left_out() -> None:
    reported = RecordedInterventions()
    events = reply_of(
        block(0, Text(text=""), "so"),
        a_call('{"a":', "1}", index=1),
        a_call('{"a":1}', index=2),
        a_call('{"a":2}', index=3),
        cause="tool_calls",
    )
    out = through([dedupe(reported)], events)
    assert [call.id for call in calls_in(out)] == ["call_1", "call_3"]
    (only,) = reported
    assert (only.kind, only.tool, only.detail, only.before, only.after) == (
        "dedupe",
        "any",
        ("arguments",),
        7,
        0,
    )


def test_a_call_that_comes_three_times_goes_out_once() -> None:
    events = reply_of(*(a_call('{"a":1}', index=index) for index in range(3)), cause="tool_calls")
    assert arguments_of(events) == ['{"a":1}']


def test_calls_of_one_id_that_state_the_same_are_one_call() -> None:
    reported = RecordedInterventions()
    events = reply_of(
        a_call('{"a":1}', call_id="x"),
        a_call('{"b":1}', index=1),
        a_call('{"a":1}', index=2, call_id="x"),
        cause="tool_calls",
    )
    assert len(calls_in(through([dedupe(reported)], events))) == 2
    assert [each.detail for each in reported] == [("id",)]


@pytest.mark.parametrize(
    "other",
    [
        a_call('{"a":2}', index=1, call_id="x"),
        a_call('{"a":1}', index=1, call_id="x", tool="other"),
        a_call('{"a":1', index=1),
        a_call('{"a":1} ', index=1),
        a_call(index=1),
        [BlockOpened(1, ToolCall(id="1", name="any", kind="custom", arguments='{"a":1}')), BlockClosed(1)],
    ],
)
def test_calls_that_differ_are_two(other: list[ReplyEvent]) -> None:
    events = reply_of(a_call('{"a":1}', call_id="x"), other, cause="tool_calls")
    assert fold(through([dedupe()], events)) == fold(events)


def test_a_call_waits_only_while_it_repeats_the_other() -> None:
    stage = dedupe()
    for event in [ReplyStarted(), *a_call('{"a":"one"}')]:
        assert stage.feed(event) == [event]
    opened = BlockOpened(1, ToolCall(id="2", name="any"))
    assert stage.feed(opened) == []
    assert stage.feed(ArgumentsDelta(1, '{"a":"')) == []
    assert stage.feed(ArgumentsDelta(1, "two")) == [
        opened,
        ArgumentsDelta(1, '{"a":"'),
        ArgumentsDelta(1, "two"),
    ]
    assert stage.feed(ArgumentsDelta(1, '"}')) == [ArgumentsDelta(1, '"}')]


def test_calls_of_other_tools_never_wait() -> None:
    stage = dedupe()
    for event in [ReplyStarted(), *a_call('{"a":1}'), *a_call('{"a":1}', index=1, tool="other")]:
        assert stage.feed(event) == [event]


def test_calls_that_come_side_by_side_are_compared_as_they_come() -> None:
    opened: list[ReplyEvent] = [
        ReplyStarted(),
        BlockOpened(0, ToolCall(id="1", name="any")),
        BlockOpened(1, ToolCall(id="2", name="any")),
    ]
    pieces: list[ReplyEvent] = [
        ArgumentsDelta(1, '{"a"'),
        ArgumentsDelta(0, '{"a":'),
        ArgumentsDelta(1, ":1}"),
    ]
    ends: list[ReplyEvent] = [ArgumentsDelta(0, "1}"), BlockClosed(1), BlockClosed(0)]
    finish = ReplyFinished(cause="tool_calls")
    assert [call.id for call in calls_in(through([dedupe()], [*opened, *pieces, *ends, finish]))] == ["1"]
    other: list[ReplyEvent] = [ArgumentsDelta(0, "2}"), BlockClosed(1), BlockClosed(0)]
    calls = calls_in(through([dedupe()], [*opened, *pieces, *other, finish]))
    assert [(call.id, call.arguments) for call in calls] == [("1", '{"a":2}'), ("2", '{"a":1}')]


def test_text_is_not_delayed_by_a_call_that_waits() -> None:
    stage = dedupe()
    for event in [ReplyStarted(), *a_call('{"a":1}'), BlockOpened(1, ToolCall(id="2", name="any"))]:
        stage.feed(event)
    assert stage.feed(BlockOpened(2, Text(text=""))) == [BlockOpened(1, Text(text=""))]
    assert stage.feed(TextDelta(2, "so")) == [TextDelta(1, "so")]


def test_a_call_too_long_to_compare_goes_out() -> None:
    long = '{"a":"' + "x" * 500 + '"}'
    events = reply_of(a_call(long), a_call(long, index=1), a_call(long, index=2), cause="tool_calls")
    assert len(calls_in(through([dedupe(limit=100)], events))) == 3
    assert len(calls_in(through([dedupe(limit=2000)], events))) == 1


def test_a_failed_reply_takes_the_waiting_call_along() -> None:
    failed = ReplyFailed("truncated", Failure(kind="server", message="gone"))
    events = [ReplyStarted(), *a_call('{"a":1}'), *a_call('{"a":1}', index=1)[:-1], failed]
    assert through([dedupe()], events) == [ReplyStarted(), *a_call('{"a":1}'), failed]


@given(events=replies())
@settings(max_examples=100)
def test_replies_without_doubles_stay_what_they_were(events: list[ReplyEvent]) -> None:
    # Ids are made from the block's number, so no two calls have one; names and arguments rarely agree.
    reported = RecordedInterventions()
    out = through([dedupe(reported)], events)
    assert reported or fold(out).ending == fold(events).ending
    if not reported and not isinstance(events[-1], ReplyFailed):
        blocks = fold(out).blocks
        assert sorted(map(repr, blocks)) == sorted(map(repr, fold(events).blocks))


@st.composite
def replies_with_doubles(draw: st.DrawFn) -> list[ReplyEvent]:
    """A few calls of one or two tools, one or two arguments and ids, side by side or not."""
    plans: list[list[ReplyEvent]] = []
    for index in range(draw(st.integers(2, 4))):
        call = ToolCall(id=draw(st.sampled_from(["", "x", f"id{index}"])), name=draw(st.sampled_from("ab")))
        text = draw(st.sampled_from(['{"a":1}', '{"a":12}', "", '{"a']))
        plans.append(
            [BlockOpened(index, call), *(ArgumentsDelta(index, c) for c in text), BlockClosed(index)]
        )
    body: list[ReplyEvent] = []
    waiting = [list(plan) for plan in plans]
    while any(waiting):
        first = next(number for number, plan in enumerate(waiting) if plan)
        last = next((n for n, plan in enumerate(waiting) if len(plan) == len(plans[n])), len(waiting) - 1)
        chosen = draw(st.integers(first, last))
        if waiting[chosen]:
            body.append(waiting[chosen].pop(0))
    return [ReplyStarted(), *body, ReplyFinished(cause="tool_calls")]


def doubles_left_out(events: list[ReplyEvent]) -> list[ToolCall]:
    """The same by looking at whole calls."""
    kept: list[ToolCall] = []
    by_id: dict[str, ToolCall] = {}
    for call in calls_in(events):
        same = (call.name, call.arguments)
        rivals = [*kept[-1:], *([by_id[call.id]] if call.id in by_id else [])]
        if any((rival.name, rival.arguments) == same for rival in rivals):
            continue
        kept.append(call)
        if call.id:
            by_id.setdefault(call.id, call)
    return kept


@given(events=replies_with_doubles(), data=st.data())
def test_in_a_stream_the_same_calls_are_left_out_as_in_a_whole_reply(
    events: list[ReplyEvent], data: st.DataObject
) -> None:
    expected = doubles_left_out(events)
    assert calls_in(through([dedupe()], events)) == expected
    assert calls_in(through([dedupe()], data.draw(recut(events)))) == expected


READ = DeclaredTool("Read", None)


@pytest.mark.parametrize("name", ["read", "READ", "rEaD"])
def test_a_name_that_differs_in_case_means_the_declared_tool(name: str) -> None:
    reported = RecordedInterventions()
    stage = ToolNameStage([READ, DeclaredTool("Write")], reported)
    (call,) = calls_in(through([stage], reply_of(a_call("{}", tool=name), cause="tool_calls")))
    assert call.name == "Read"
    assert [(each.kind, each.tool, each.ok) for each in reported] == [("rename", "Read", True)]


@pytest.mark.rule("C19")
@pytest.mark.parametrize("name", ["Reed", "Read ", "functions.Read", "", "write"])
def test_any_other_name_goes_out_as_it_is_and_is_reported(name: str) -> None:
    reported = RecordedInterventions()
    stage = ToolNameStage([READ, DeclaredTool("Write"), DeclaredTool("WRITE")], reported)
    events = reply_of(a_call("{}", tool=name), cause="tool_calls")
    assert through([stage], events) == events
    assert [(each.kind, each.tool, each.ok) for each in reported] == [("undeclared", name, False)]


@pytest.mark.parametrize(
    "call",
    [
        ToolCall(id="1", name="Read"),
        ToolCall(id="1", name="read", namespace="files"),
        ToolCall(id="1", name="read", kind="local_shell"),
    ],
)
def test_declared_tools_and_those_declared_elsewhere_are_left_alone(call: ToolCall) -> None:
    reported = RecordedInterventions()
    opened = BlockOpened(0, call)
    assert ToolNameStage([READ], reported).feed(opened) == [opened]
    assert reported == []


@given(events=replies())
def test_names_cost_the_deltas_nothing(events: list[ReplyEvent]) -> None:
    stage = ToolNameStage([DeclaredTool("no name of a tool")], RecordedInterventions())
    assert stage.unchanged_kinds >= DELTAS
    assert through([stage], events) == events
