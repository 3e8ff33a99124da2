"""The steps work together: what a bad model writes reaches the client as good calls."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.governance.guard.stage import GuardStage
from dragoman.governance.settings import Governance, read_governance
from dragoman.governance.stages import build_stages
from dragoman.governance.tool_names import DeclaredTool, find_declared_tools
from dragoman.hub.blocks import Text, ToolCall
from dragoman.hub.events import ReplyEvent, ReplyFinished
from dragoman.hub.fold import fold
from dragoman.hub.ids import IdSource
from dragoman.hub.request import ToolChoice
from dragoman.hub.stage import Stage
from tests.dialects.strategies import replies
from tests.fit.building import build_message, function, request
from tests.fit.reply.running import block, calls_in, recut, reply_of, through
from tests.governance.running import ANY, SHELL, RecordedInterventions, a_call

EVERYTHING: dict[str, object] = {
    "tools": "hold",
    "harvest": "hermes",
    "rename": True,
    "dedupe": True,
    "validate": True,
    "guard": ["shell_fold", "shell_writes", "git_destructive", "secrets"],
}


def stages_of(
    governance: Governance,
    reported: RecordedInterventions | None = None,
    *,
    streams: bool = True,
    exit_name: str = "",
) -> list[Stage]:
    return build_stages(
        governance,
        (SHELL, ANY),
        ids=IdSource("seed"),
        report=RecordedInterventions() if reported is None else reported,
        streams=streams,
        exit_name=exit_name,
    )


@pytest.mark.rule("R79", "R89")
def test_off_means_no_stage_at_all() -> None:
    assert stages_of(Governance()) == []
    assert stages_of(Governance(repair=True, on_denied="model", exit=True)) == []


@pytest.mark.rule("R74")
def test_everything_has_its_place() -> None:
    names = [type(stage).__name__ for stage in stages_of(read_governance(EVERYTHING), exit_name="answer")]
    assert names == [
        "HarvestStage",
        "EchoStage",
        "ToolNameStage",
        "ExitToolStage",
        "HoldStage",
        "DedupeStage",
        "GuardStage",
        "ValidateStage",
    ]


@pytest.mark.rule("R74", "R80", "R90")
def test_a_bad_models_calls_arrive_whole_once_and_by_their_right_names() -> None:
    reported = RecordedInterventions()
    events = reply_of(
        block(0, Text(text=""), "Let me look."),
        a_call("{'command': 'ls',}", tool="Shell", index=1),
        a_call('{"command": "ls"', tool="shell", index=2),
        cause="tool_calls",
    )
    out = through(stages_of(read_governance({**EVERYTHING, "harvest": "off"}), reported), events)
    (call,) = calls_in(out)
    assert (call.name, msgspec.json.decode(call.arguments)) == ("shell", {"command": "ls"})
    assert sorted(reported.kinds) == ["dedupe", "hold", "hold", "rename", "repair", "repair", "validate"]


@pytest.mark.rule("R73", "R74")
def test_a_call_written_as_text_is_mended_and_judged_like_any_other() -> None:
    reported = RecordedInterventions()
    text = '<tool_call>\n{"name": "shell", "arguments": {"command": "git reset --hard"}}\n</tool_call>'
    reply = fold(
        through(stages_of(read_governance(EVERYTHING), reported), reply_of(block(0, Text(text=""), *text)))
    )
    assert [type(each) for each in reply.blocks][-1] is Text
    assert not any(isinstance(each, ToolCall) for each in reply.blocks)
    assert reply.ending == ReplyFinished(cause="end")
    assert "harvest" in reported.kinds
    assert "guard" in reported.kinds


@pytest.mark.rule("R90")
def test_a_whole_reply_is_held_even_where_a_stream_would_flow() -> None:
    # What was sent before the deviation cannot be repaired; held arguments can.
    governance = read_governance({"tools": "auto"})
    events = reply_of(a_call("{'a': 1}"), cause="tool_calls")
    streamed = calls_in(through(stages_of(governance), events))
    whole = calls_in(through(stages_of(governance, streams=False), events))
    assert [msgspec.json.decode(call.arguments) for call in (*streamed, *whole)] == [{"a": 1}] * 2


def test_a_client_gets_the_denial_if_the_model_cannot_be_asked_again() -> None:
    governance = read_governance({**EVERYTHING, "on_denied": "model"})
    events = reply_of(a_call('{"command":"git reset --hard"}', tool="shell"), cause="tool_calls")
    reply = fold(through(stages_of(governance), events))
    assert [type(each) for each in reply.blocks] == [Text]
    stages = build_stages(
        governance, (SHELL,), ids=IdSource(""), report=RecordedInterventions(), can_retry=True
    )
    for stage in stages:
        events = [after for event in events for after in stage.feed(event)]
    (guard,) = (stage for stage in stages if isinstance(stage, GuardStage))
    assert [each.call.name for each in guard.withheld] == ["shell"]


def test_tools_are_known_as_the_upstream_was_informed_of_them() -> None:
    tools = (
        function("Read"),
        function("apply_patch", kind="custom"),
        function("web_search", kind="hosted"),
        function("ls", namespace="files"),
    )
    asked = request(build_message("user", "hi"), tools=tools)
    assert find_declared_tools(asked) == (
        DeclaredTool("Read", tools[0].schema),
        DeclaredTool("apply_patch", None),
    )
    assert find_declared_tools(msgspec.structs.replace(asked, tool_choice=ToolChoice(mode="none"))) == ()


GOVERNANCES = [
    EVERYTHING,
    {**EVERYTHING, "tools": "auto"},
    {**EVERYTHING, "tools": "live", "harvest": "auto"},
    {**EVERYTHING, "on_unrepairable": "error", "harvest": "qwen3_coder", "hold_bytes": 1024},
]


@given(events=replies(), values=st.sampled_from(GOVERNANCES), streams=st.booleans())
@settings(max_examples=200)
def test_any_reply_stays_grammatical_through_all_of_them(
    events: list[ReplyEvent], values: dict[str, object], streams: bool
) -> None:
    through(stages_of(read_governance(values), streams=streams), events)


@given(data=st.data(), values=st.sampled_from(GOVERNANCES))
@settings(max_examples=100)
def test_the_outcome_does_not_depend_on_cuts(data: st.DataObject, values: dict[str, object]) -> None:
    events = data.draw(replies())
    again = data.draw(recut(events))
    governance = read_governance(values)
    assert fold(through(stages_of(governance), events)) == fold(through(stages_of(governance), again))


@given(data=st.data(), values=st.sampled_from(GOVERNANCES))
@settings(max_examples=100)
def test_asking_what_passes_spares_feeding_it(data: st.DataObject, values: dict[str, object]) -> None:
    """A stage passes the kinds in its `unchanged_kinds` unchanged, at any moment."""
    events = data.draw(replies())
    for stage in stages_of(read_governance(values)):
        out: list[ReplyEvent] = []
        for event in events:
            expected = type(event) in stage.unchanged_kinds
            given_back = stage.feed(event)
            assert not expected or given_back == [event]
            out += given_back
        events = out
