"""A policy can raise the choice of tools, with a way out for plain answers."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.governance.settings import Governance, read_governance
from dragoman.governance.tool_choice import (
    EXIT_ARGUMENT,
    EXIT_NAME,
    ExitToolStage,
    ToolChoiceResult,
    apply_tool_choice,
)
from dragoman.hub.blocks import Text, ToolCall
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReplyEvent,
    ReplyFinished,
    SealAttached,
    StopCause,
    TextDelta,
)
from dragoman.hub.fold import fold
from dragoman.hub.request import OutputFormat, ReasoningSettings, Request, ToolChoice
from dragoman.hub.seal import Seal
from tests.dialects.strategies import replies, texts
from tests.fit.building import build_message, function, request
from tests.fit.reply.running import call_block, calls_in, recut, reply_of, through
from tests.governance.running import RecordedInterventions, a_call

ALL = frozenset({"auto", "required", "none", "named", "allowed"})
REQUIRED = Governance(choice="required")
ASKED = request(build_message("user", "hi"), tools=(function("Read"),))


def chosen(
    asked: Request = ASKED, governance: Governance = REQUIRED, choices: frozenset[str] = ALL
) -> ToolChoiceResult:
    return apply_tool_choice(asked, governance, choices=choices)


@pytest.mark.rule("R17")
@pytest.mark.parametrize("tool_choice", [None, ToolChoice(mode="auto")])
def test_an_open_choice_is_raised(tool_choice: ToolChoice | None) -> None:
    after = chosen(msgspec.structs.replace(ASKED, tool_choice=tool_choice))
    assert after.request.tool_choice == ToolChoice(mode="required")
    assert after.exit_name == EXIT_NAME
    assert [tool.name for tool in after.request.tools] == ["Read", EXIT_NAME]


@pytest.mark.rule("R17")
@pytest.mark.parametrize("policy", ["auto", "required"])
@pytest.mark.parametrize(
    "tool_choice",
    [
        ToolChoice(mode="none"),
        ToolChoice(mode="required"),
        ToolChoice(mode="named", name="Read"),
        ToolChoice(mode="allowed", allowed=("Read",)),
    ],
)
def test_an_explicit_choice_stays(tool_choice: ToolChoice, policy: str) -> None:
    asked = msgspec.structs.replace(ASKED, tool_choice=tool_choice)
    after = chosen(asked, read_governance({"choice": policy}))
    assert after.request is asked
    assert after.exit_name == ""


@pytest.mark.rule("R17")
def test_a_choice_can_be_filled_in_without_raising_it() -> None:
    after = chosen(governance=Governance(choice="auto"))
    assert after.request.tool_choice == ToolChoice(mode="auto")
    assert after.request.tools == ASKED.tools
    assert chosen(governance=Governance(choice="auto"), choices=frozenset()).request is ASKED


@pytest.mark.rule("R17")
def test_targets_that_cannot_be_forced_are_left_alone() -> None:
    assert chosen(choices=frozenset({"auto", "none"})).request is ASKED


@pytest.mark.parametrize(
    "asked",
    [
        request(build_message("user", "hi")),
        request(build_message("user", "hi"), tools=(function("web_search", kind="hosted"),)),
        msgspec.structs.replace(ASKED, output=OutputFormat(kind="json_object")),
    ],
)
def test_without_tools_or_with_a_form_for_the_answer_nothing_is_forced(asked: Request) -> None:
    assert chosen(asked).request is asked


@pytest.mark.parametrize("wish", [ReasoningSettings(mode="on"), ReasoningSettings(effort="high")])
def test_thinking_is_not_given_up_for_a_call(wish: ReasoningSettings) -> None:
    asked = msgspec.structs.replace(ASKED, reasoning=wish)
    assert apply_tool_choice(asked, REQUIRED, choices=ALL, while_reasoning=False).request is asked
    assert apply_tool_choice(asked, REQUIRED, choices=ALL).request is not asked


@pytest.mark.rule("R18", "R89")
def test_without_a_policy_the_request_is_the_very_same() -> None:
    assert chosen(governance=Governance()).request is ASKED


def test_the_exit_can_be_left_out() -> None:
    after = chosen(governance=Governance(choice="required", exit=False))
    assert after.request.tools == ASKED.tools
    assert after.exit_name == ""


def test_the_exit_takes_a_name_that_is_free() -> None:
    asked = request(
        build_message("user", "hi"), tools=(function(EXIT_NAME.upper()), function(EXIT_NAME + "_"))
    )
    assert chosen(asked).exit_name == EXIT_NAME + "__"


def exit_call(*pieces: str, index: int = 0) -> list[ReplyEvent]:
    return call_block(index, ToolCall(id=f"e{index}", name=EXIT_NAME), *pieces)


def exit_stage(reported: RecordedInterventions | None = None) -> ExitToolStage:
    return ExitToolStage(EXIT_NAME, RecordedInterventions() if reported is None else reported)


def answer(text: str) -> str:
    return msgspec.json.encode({EXIT_ARGUMENT: text}).decode()


@given(text=texts)
def test_an_answer_through_the_exit_is_a_plain_answer(text: str) -> None:
    reported = RecordedInterventions()
    reply = fold(through([exit_stage(reported)], reply_of(exit_call(*answer(text)), cause="tool_calls")))
    assert reply.blocks == (Text(text=text),)
    assert reply.ending == ReplyFinished(cause="end")
    assert reported.kinds == ["exit"]


def test_the_answer_streams() -> None:
    stage = exit_stage()
    stage.feed(BlockOpened(0, ToolCall(id="1", name=EXIT_NAME)))
    assert stage.feed(ArgumentsDelta(0, f'{{"{EXIT_ARGUMENT}":"Good mor')) == [TextDelta(0, "Good mor")]
    assert stage.feed(ArgumentsDelta(0, "ning")) == [TextDelta(0, "ning")]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [('{"text":"hello"}', "hello"), ('"hello"', "hello"), ("hello", "hello"), ("", ""), ("{}", "{}")],
)
def test_an_answer_in_another_form_is_still_an_answer(arguments: str, text: str) -> None:
    reply = fold(through([exit_stage()], reply_of(exit_call(*arguments), cause="tool_calls")))
    assert reply.blocks == (Text(text=text),)


def test_words_and_calls_can_stand_together() -> None:
    events = reply_of(exit_call(answer("First")), a_call("{}", index=1), cause="tool_calls")
    reply = fold(through([exit_stage()], events))
    assert [type(each) for each in reply.blocks] == [Text, ToolCall]
    assert reply.ending == ReplyFinished(cause="tool_calls")


@pytest.mark.parametrize("cause", ["length", "content_filter"])
def test_an_answer_that_was_cut_off_is_reported_as_such(cause: StopCause) -> None:
    events = reply_of(exit_call(f'{{"{EXIT_ARGUMENT}":"So fa'), cause=cause)
    reply = fold(through([exit_stage()], events))
    assert reply.blocks == (Text(text="So fa"),)
    assert reply.ending == ReplyFinished(cause=cause)


def test_the_seal_of_a_call_that_is_none_is_dropped() -> None:
    opened, piece, closed = exit_call(answer("x"))
    seal = SealAttached(0, Seal("gemini", "", "proof"))
    events = reply_of([opened, seal, piece, closed], cause="tool_calls")
    assert fold(through([exit_stage()], events)).blocks == (Text(text="x"),)


def with_exits(events: list[ReplyEvent]) -> list[ReplyEvent]:
    """The reply with every second call going to the exit."""
    return [
        BlockOpened(event.index, msgspec.structs.replace(event.block, name=EXIT_NAME))
        if isinstance(event, BlockOpened) and isinstance(event.block, ToolCall) and event.index % 2
        else event
        for event in events
    ]


@given(data=st.data())
@settings(max_examples=100)
def test_any_reply_stays_grammatical_whatever_its_cuts(data: st.DataObject) -> None:
    events = with_exits(data.draw(replies()))
    again = data.draw(recut(events))
    assert fold(through([exit_stage()], events)) == fold(through([exit_stage()], again))


@given(events=replies())
@settings(max_examples=50)
def test_replies_without_the_exit_are_not_changed(events: list[ReplyEvent]) -> None:
    assert through([exit_stage()], events) == events
    assert calls_in(events) == calls_in(through([exit_stage()], events))


def test_a_closed_answer_costs_later_deltas_nothing() -> None:
    stage = exit_stage()
    assert ArgumentsDelta in stage.unchanged_kinds
    stage.feed(BlockOpened(0, ToolCall(id="1", name=EXIT_NAME)))
    assert ArgumentsDelta not in stage.unchanged_kinds
    stage.feed(BlockClosed(0))
    assert ArgumentsDelta in stage.unchanged_kinds
