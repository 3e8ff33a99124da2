"""Held calls are sent complete and valid, or marked as what they are."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.governance.held_arguments import StreamedArguments
from dragoman.governance.hold import DONE, TRUNCATED, UNREPAIRABLE, HoldStage
from dragoman.governance.repair import RepairResult
from dragoman.governance.settings import read_governance
from dragoman.governance.tool_names import DeclaredTool
from dragoman.hub.blocks import Text, ToolCall
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    FailedEnding,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    SealAttached,
    StopCause,
    TextDelta,
)
from dragoman.hub.fold import fold
from dragoman.hub.seal import Seal
from dragoman.wire.partial_json import parse_object
from tests.dialects.strategies import argument_texts, json_objects, replies
from tests.fit.reply.running import block, calls_in, recut, reply_of, through
from tests.governance.running import (
    SHELL,
    RecordedInterventions,
    a_call,
    arguments_after,
    broken_arguments,
    fed,
    gate,
)

MODES = ["hold", "auto"]
HALF_CAUSES: list[StopCause] = ["length", "context_window", "content_filter", "refusal", "stop_sequence"]

#: What models do to JSON, and what they meant.
MALFORMED = [
    ("{'command': 'ls'}", {"command": "ls"}),
    ('{"command": "ls",}', {"command": "ls"}),
    ('{"command": "ls", "timeout": 5,}', {"command": "ls", "timeout": 5}),
    ('{"command": "ls" "timeout": 5}', {"command": "ls", "timeout": 5}),
    ('{"command": "a\nb"}', {"command": "a\nb"}),
    ('{"command": "a", timeout: 5}', {"command": "a", "timeout": 5}),
    (
        '{"command": "a", "deep": {"x": [1, 2, {"y": True}]}}',
        {"command": "a", "deep": {"x": [1, 2, {"y": True}]}},
    ),
    ('```json\n{"command": "ls"}\n```', {"command": "ls"}),
    ('"{\\"command\\": \\"ls\\"}"', {"command": "ls"}),
    ('{"command": "dir C:\\Users"}', {"command": "dir C:\\Users"}),
    ('{"command": "ls", "flag": None}', {"command": "ls", "flag": None}),
    ('{"command": "ls"', {"command": "ls"}),
    ('{command: "ls"}', {"command": "ls"}),
]


def whole(index: int, arguments: str, call_id: str = "call_0") -> BlockOpened:
    """A call that opens with all its arguments."""
    return BlockOpened(index, ToolCall(id=call_id, name="any", arguments=arguments))


def begun(index: int) -> ArgumentsDelta:
    """Arguments have come, and none may go yet."""
    return ArgumentsDelta(index, "")


@pytest.mark.rule("R80", "R83", "C16")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", ['{"a":1}', '{ "a" : 1.10, "b":"\\u00e9" }\n', "{}", "", '{"a":[1,2]}'])
def test_what_is_json_goes_out_to_the_byte(mode: str, text: str) -> None:
    reported = RecordedInterventions()
    assert arguments_after(gate(reported, mode=mode), text) == text
    assert arguments_after(gate(reported, mode=mode), *text) == text
    assert set(reported.kinds) <= {"hold"}


@pytest.mark.rule("G10")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tool", ["any", "shell"])
def test_arguments_of_white_space_alone_are_none(mode: str, tool: str) -> None:
    for pieces in (["  "], [" ", "\n"]):
        assert arguments_after(gate(mode=mode), *pieces, tool=tool) == ""


@pytest.mark.rule("R80", "C16", "H12")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("text", "meant"), MALFORMED)
def test_what_is_nearly_json_becomes_what_was_meant(mode: str, text: str, meant: dict[str, object]) -> None:
    for pieces in ([text], list(text), [text[:9], text[9:]]):
        reported = RecordedInterventions()
        after = arguments_after(gate(reported, mode=mode), *pieces, tool="shell")
        assert msgspec.json.decode(after) == meant
        assert reported.kinds == ["hold", "repair"]
        assert reported[1].tool == "shell"
        assert reported[1].detail
        assert (reported[1].before, reported[1].after) == (len(text), len(after))


@pytest.mark.rule("R81", "C17", "G11")
def test_a_held_call_is_sent_when_it_is_whole() -> None:
    events = reply_of(a_call('{"a"', ":1", "}"), cause="tool_calls")
    _, opened, *pieces, closed, finished = fed(gate(), events)
    assert (opened, pieces) == ([], [[], [], []])
    assert closed == [whole(0, '{"a":1}'), BlockClosed(0)]
    assert finished == [ReplyFinished(cause="tool_calls")]


@pytest.mark.rule("R81")
def test_arguments_that_come_with_the_call_are_held_like_any_others() -> None:
    call = ToolCall(id="1", name="any", arguments="{'a'")
    stage = gate()
    assert stage.feed(BlockOpened(0, call)) == []
    assert stage.feed(ArgumentsDelta(0, ": 1}")) == []
    assert stage.feed(BlockClosed(0)) == []
    finished = ReplyFinished(cause="tool_calls")
    assert stage.feed(finished) == [whole(0, '{"a": 1}', "1"), BlockClosed(0), finished]


@pytest.mark.rule("R82", "G11")
@pytest.mark.parametrize("mode", MODES)
def test_text_is_never_delayed(mode: str) -> None:
    stage = gate(mode=mode)
    fed(stage, [ReplyStarted(), BlockOpened(0, ToolCall(id="1", name="any")), ArgumentsDelta(0, "{'a")])
    number = 0 if mode == "hold" else 1
    for event in (BlockOpened(1, Text(text="")), TextDelta(1, "meanwhile"), BlockClosed(1)):
        assert stage.feed(event) == [msgspec.structs.replace(event, index=number)]
    fed(stage, [ArgumentsDelta(0, "': 1}"), BlockClosed(0)])
    sent = stage.feed(ReplyFinished(cause="tool_calls"))
    assert sent[-2:] == [BlockClosed(1 - number), ReplyFinished(cause="tool_calls")]


@pytest.mark.rule("G11", "H6")
def test_a_seal_stays_with_its_held_call() -> None:
    stage = gate()
    seal = Seal("gemini", "m", "proof")
    events: list[ReplyEvent] = [BlockOpened(0, ToolCall(id="1", name="any")), SealAttached(0, seal)]
    assert fed(stage, [*events, ArgumentsDelta(0, "{}")]) == [[], [], []]
    call = ToolCall(id="1", name="any", arguments="{}", seal=seal)
    assert stage.feed(BlockClosed(0)) == [BlockOpened(0, call), BlockClosed(0)]


@pytest.mark.rule("G11", "R53")
def test_held_calls_leave_in_the_order_in_which_they_opened() -> None:
    stage = gate()
    fed(stage, [BlockOpened(0, ToolCall(id="1", name="any")), BlockOpened(1, ToolCall(id="2", name="any"))])
    assert fed(stage, [ArgumentsDelta(1, "{}"), BlockClosed(1), ArgumentsDelta(0, "{}")]) == [[], [], []]
    expected = [whole(0, "{}", "1"), BlockClosed(0), whole(1, "{}", "2"), BlockClosed(1)]
    assert stage.feed(BlockClosed(0)) == expected


@pytest.mark.rule("C16", "R81")
def test_in_auto_sound_arguments_stream() -> None:
    stage = gate(mode="auto")
    stage.feed(BlockOpened(0, ToolCall(id="1", name="any")))
    assert stage.feed(ArgumentsDelta(0, '{"co')) == [begun(0)]
    assert stage.feed(ArgumentsDelta(0, 'mmand":"')) == [ArgumentsDelta(0, '{"command":"')]
    for piece in ("ls -la", " /some/where", '"'):
        assert stage.feed(ArgumentsDelta(0, piece)) == [ArgumentsDelta(0, piece)]
    assert stage.feed(ArgumentsDelta(0, "}")) == []
    assert stage.feed(BlockClosed(0)) == [ArgumentsDelta(0, "}"), BlockClosed(0)]


@pytest.mark.rule("C16")
@pytest.mark.parametrize(
    ("pieces", "sent"),
    [
        (["{", "'a'"], ""),
        (["{", " ", '"a"', ":"], '{ "a":'),
        (['{"a', ': "x"'], ""),
        (['{"x":"y","a', '"', " x"], '{"x":"y"'),
        (['{"x":"y",', '"a\\"b', "c"], '{"x":"y"'),
        (['{"a":1', ",", "}"], '{"a":'),
        (['{"a":"x"', ",", "}"], '{"a":"x"'),
        (['{"a":tr', "y}"], '{"a":'),
        (['{"a":"\\', "q"], '{"a":"'),
        (['{"a":"\\ud83d', "x"], '{"a":"'),
        (['{"a":"\\u00', "e9"], '{"a":"\\u00e9'),
        (['{"a":1}', ', "b'], '{"a":'),
        (['{"a":{}', "}", " "], '{"a":{}'),
        (["[", "1]"], ""),
        (['"', "x"], ""),
    ],
)
def test_in_auto_nothing_goes_out_that_may_have_to_change(pieces: list[str], sent: str) -> None:
    stage = gate(mode="auto")
    stage.feed(BlockOpened(0, ToolCall(id="1", name="any")))
    out = [event for piece in pieces for event in stage.feed(ArgumentsDelta(0, piece))]
    assert "".join(event.text for event in out if isinstance(event, ArgumentsDelta)) == sent


@pytest.mark.rule("R80", "R84", "C15")
@pytest.mark.parametrize("mode", MODES)
def test_what_cannot_be_mended_is_shown_in_an_object(mode: str) -> None:
    reported = RecordedInterventions()
    raw = "run the tests, please ]["
    after = msgspec.json.decode(arguments_after(gate(reported, mode=mode), *raw))
    assert after == {"text": raw}
    (last,) = reported
    assert (last.kind, last.ok, last.reason) == ("unrepairable", False, "parse_failed")
    assert last.before == len(raw)


@pytest.mark.rule("C15")
def test_the_member_that_shows_raw_arguments_is_none_of_the_tools_own() -> None:
    tools = [DeclaredTool("any", {"type": "object", "properties": {"text": {}, "path": {}}})]
    raw = "][ what"
    assert msgspec.json.decode(arguments_after(gate(tools=tools), raw)) == {"raw_text": raw}
    assert msgspec.json.decode(arguments_after(gate(tools=tools, raw_key="said"), raw)) == {"said": raw}


@pytest.mark.rule("R84", "C15")
@pytest.mark.parametrize("mode", MODES)
def test_by_choice_the_reply_fails_instead(mode: str) -> None:
    reported = RecordedInterventions()
    stage = gate(reported, mode=mode, on_unrepairable="error")
    out = through([stage], reply_of(a_call("][ what"), block(1, Text(text=""), "more"), cause="tool_calls"))
    assert out[-1] == ReplyFailed("failed", UNREPAIRABLE)
    assert UNREPAIRABLE.http_status == 502
    assert reported.kinds == ["unrepairable"]


@pytest.mark.rule("C15")
@pytest.mark.parametrize("mode", MODES)
def test_by_choice_arguments_beyond_repair_go_out_raw(mode: str) -> None:
    reported = RecordedInterventions()
    assert arguments_after(gate(reported, mode=mode, on_unrepairable="raw"), "][ what") == "][ what"
    assert reported.kinds == ["unrepairable"]


@pytest.mark.rule("C16")
def test_half_a_value_that_went_out_is_never_closed() -> None:
    def hopeless(arguments: str, schema: dict[str, object] | None, *, truncated: bool) -> RepairResult:
        return RepairResult(text="", ok=False, steps=(), reason="parse_failed")

    stage = HoldStage(
        read_governance({"tools": "auto"}), [SHELL], repair_arguments=hopeless, report=RecordedInterventions()
    )
    out = through(
        [stage], reply_of(a_call('{"command":"rm -rf /ho', "\nme}", tool="shell"), cause="tool_calls")
    )
    assert out[-1] == ReplyFailed("failed", UNREPAIRABLE)


@pytest.mark.rule("R81", "C15", "C16")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cause", HALF_CAUSES)
@pytest.mark.parametrize(
    "text", ["{'command': 'rm -rf /ho", '{"command": "rm -rf /ho', '{"command": "ls"', "{'command': 'ls'}"]
)
def test_a_call_that_was_cut_off_is_never_mended(mode: str, cause: StopCause, text: str) -> None:
    reported = RecordedInterventions()
    (call,) = calls_in(through([gate(reported, mode=mode)], reply_of(a_call(*text), cause=cause)))
    assert call.arguments == text
    assert parse_object(call.arguments) is None
    assert [(each.kind, each.ok, each.reason) for each in reported] == [("unrepairable", False, TRUNCATED)]


ALL_GIVEN = DeclaredTool(
    "any", {"type": "object", "properties": {"command": {"type": "string"}}, "additionalProperties": False}
)


@pytest.mark.rule("R81")
@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_was_cut_off_gets_its_last_bracket_only_if_nothing_is_missing(mode: str) -> None:
    text = '{"command": "ls"'
    for tool, expected in ((ALL_GIVEN, text + "}"), (SHELL, text)):
        events = reply_of(a_call(*text, tool=tool.name), cause="length")
        (call,) = calls_in(through([gate(mode=mode, tools=[tool])], events))
        assert call.arguments == expected


@pytest.mark.rule("R81")
@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_was_cut_off_before_its_arguments_is_no_call_without_arguments(mode: str) -> None:
    reported = RecordedInterventions()
    for pieces in ([], ["  "]):
        events = reply_of(a_call(*pieces, tool="shell"), cause="length")
        (call,) = calls_in(through([gate(reported, mode=mode)], events))
        assert parse_object(call.arguments) is None
    assert [(each.kind, each.reason) for each in reported] == [("unrepairable", TRUNCATED)] * 2
    (without,) = calls_in(through([gate(mode=mode)], reply_of(a_call(tool="any"), cause="length")))
    assert without.arguments == ""


@pytest.mark.rule("R81")
@pytest.mark.parametrize("mode", MODES)
def test_no_arguments_are_none_if_the_model_was_done(mode: str) -> None:
    reported = RecordedInterventions()
    (call,) = calls_in(
        through([gate(reported, mode=mode)], reply_of(a_call(tool="shell"), cause="tool_calls"))
    )
    assert call.arguments == ""
    assert all(each.ok for each in reported)


@pytest.mark.rule("R81")
@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_others_follow_was_not_cut_off(mode: str) -> None:
    first, second = "{'a': 1}", "{'a': 2"
    events = reply_of(a_call(first), a_call(second, index=1), cause="length")
    calls = calls_in(through([gate(mode=mode)], events))
    assert [call.arguments for call in calls] == ['{"a": 1}', second]


@pytest.mark.rule("R81", "R127")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ending", ["failed", "truncated", "cancelled"])
@pytest.mark.parametrize("text", ["{'command': 'rm -rf /ho", "{'command': 'ls'}"])
def test_a_reply_that_fails_leaves_its_calls_unfinished(mode: str, ending: FailedEnding, text: str) -> None:
    failed = ReplyFailed(ending, Failure(kind="server", message="gone"))
    reported = RecordedInterventions()
    for events in (a_call(*text)[:-1], a_call(*text)):
        out = through([gate(reported, mode=mode)], [ReplyStarted(), *events, failed])
        opened = [BlockOpened(0, ToolCall(id="call_0", name="any")), begun(0)]
        assert out == [ReplyStarted(), *(opened if mode == "auto" else []), failed]
    assert [(each.kind, each.ok) for each in reported] == [("hold", False), ("hold", False)]


@pytest.mark.rule("R81")
@given(
    cause=st.sampled_from(sorted(DONE | set(HALF_CAUSES))), text=argument_texts, mode=st.sampled_from(MODES)
)
def test_nothing_is_held_beyond_any_kind_of_ending(cause: StopCause, text: str, mode: str) -> None:
    cause = "tool_calls" if cause == "end" else cause
    reply = fold(through([gate(mode=mode)], reply_of(a_call(*text), cause=cause)))
    (call,) = reply.blocks
    assert isinstance(call, ToolCall)
    assert bool(call.arguments) == bool(text)
    endings = [ReplyFinished(cause=cause)]
    assert reply.ending in (endings if mode == "hold" else [*endings, ReplyFailed("failed", UNREPAIRABLE)])


@pytest.mark.parametrize("mode", MODES)
def test_free_text_is_not_touched(mode: str) -> None:
    call = ToolCall(id="1", name="apply_patch", kind="custom")
    stage = gate(mode=mode)
    events: list[ReplyEvent] = [BlockOpened(0, call), ArgumentsDelta(0, "*** Begin"), BlockClosed(0)]
    assert [stage.feed(event) for event in events] == [[event] for event in events]


@pytest.mark.parametrize("mode", MODES)
def test_without_repair_calls_are_only_joined(mode: str) -> None:
    assert arguments_after(gate(mode=mode, repair=False), *"{'a': 1}") == "{'a': 1}"


@pytest.mark.parametrize("mode", MODES)
def test_what_may_be_held_is_bounded(mode: str) -> None:
    reported = RecordedInterventions()
    text = "{'a': '" + "é" * 600 + "', b: 1}"
    assert arguments_after(gate(reported, mode=mode, hold_bytes=1024), *text) == text
    assert [(each.kind, each.ok) for each in reported] == [("hold", False)]


def test_many_calls_share_what_may_be_held() -> None:
    stage = gate(hold_bytes=1024)
    for index in range(3):
        stage.feed(BlockOpened(index, ToolCall(id=str(index), name="any")))
    out = [stage.feed(ArgumentsDelta(index, "x" * 400)) for index in range(3)]
    assert out == [[], [], [whole(0, "x" * 400, "2")]]


@pytest.mark.rule("R85")
def test_time_that_a_call_was_held_is_reported_and_bounded() -> None:
    now = 100.0
    reported = RecordedInterventions()
    governance = read_governance({"tools": "hold", "hold_seconds": 5})
    stage = HoldStage(governance, [], report=reported, clock=lambda: now)
    stage.feed(BlockOpened(0, ToolCall(id="1", name="any")))
    now = 104.0
    assert stage.feed(ArgumentsDelta(0, '{"a":')) == []
    now = 106.0
    assert stage.feed(ArgumentsDelta(0, "1}")) == [whole(0, '{"a":1}', "1")]
    assert stage.feed(BlockClosed(0)) == [BlockClosed(0)]
    assert [(each.kind, each.held, each.ok) for each in reported] == [("hold", 6.0, False)]


def test_time_passes_while_nothing_comes() -> None:
    now = 100.0
    reported = RecordedInterventions()
    governance = read_governance({"tools": "hold", "hold_seconds": 5})
    stage = HoldStage(governance, [], report=reported, clock=lambda: now)
    fed(stage, [BlockOpened(0, ToolCall(id="1", name="any")), ArgumentsDelta(0, "{'a': 1}"), BlockClosed(0)])
    fed(stage, [BlockOpened(1, ToolCall(id="2", name="any")), ArgumentsDelta(1, '{"a":')])
    assert stage.take_overdue() == []
    now = 106.0
    assert stage.take_overdue() == [whole(1, '{"a":', "2")]
    assert stage.take_overdue() == []
    assert stage.feed(ArgumentsDelta(1, "1}")) == [ArgumentsDelta(1, "1}")]
    assert [each.reason for each in reported if not each.ok] == ["held for as long as allowed"]


def test_a_call_that_waits_for_the_ending_goes_as_it_is_when_time_is_up() -> None:
    now = 100.0
    governance = read_governance({"tools": "hold", "hold_seconds": 5})
    stage = HoldStage(governance, [], report=RecordedInterventions(), clock=lambda: now)
    fed(stage, [BlockOpened(0, ToolCall(id="1", name="any")), ArgumentsDelta(0, "{'a': 1}"), BlockClosed(0)])
    now = 106.0
    assert stage.take_overdue() == [whole(0, "{'a': 1}", "1"), BlockClosed(0)]
    assert stage.feed(ReplyFinished(cause="tool_calls")) == [ReplyFinished(cause="tool_calls")]


@given(events=replies(), mode=st.sampled_from(MODES), choice=st.sampled_from(["diagnose", "error", "raw"]))
@settings(max_examples=100)
def test_any_reply_stays_grammatical(events: list[ReplyEvent], mode: str, choice: str) -> None:
    through([gate(mode=mode, on_unrepairable=choice)], events)


@given(data=st.data(), mode=st.sampled_from(MODES))
@settings(max_examples=100)
def test_the_outcome_does_not_depend_on_cuts(data: st.DataObject, mode: str) -> None:
    events = data.draw(replies())
    again = data.draw(recut(events))
    assert fold(through([gate(mode=mode)], events)) == fold(through([gate(mode=mode)], again))


@given(text=st.text(alphabet="{}[]\",:\\ \n1atn'", max_size=40), data=st.data())
@settings(max_examples=200)
def test_what_auto_lets_go_does_not_depend_on_cuts(text: str, data: st.DataObject) -> None:
    text = "{" + text
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole, cut = StreamedArguments(), StreamedArguments()
    sent = whole.add(text)
    assert "".join(cut.add(piece) for piece in pieces) == sent
    assert text.startswith(sent)
    assert (whole.rest, whole.is_valid, whole.is_held) == (cut.rest, cut.is_valid, cut.is_held)


@given(events=replies(failing=False), mode=st.sampled_from(MODES))
@settings(max_examples=100)
def test_every_call_of_a_finished_reply_is_json_or_was_cut_off(events: list[ReplyEvent], mode: str) -> None:
    reply = fold(through([gate(mode=mode)], events))
    done = isinstance(reply.ending, ReplyFinished) and reply.ending.cause in DONE
    for call in reply.blocks:
        if done and isinstance(call, ToolCall) and call.kind != "custom":
            assert parse_object(call.arguments) is not None


@pytest.mark.rule("G1")
@pytest.mark.parametrize(
    "text",
    [
        '{"command": "rm -rf /srv/u/"my dir""}',
        '{"command": "rm -rf /srv/u/"} my dir"}',
        '{"command": "rm", "timeout": 5}{"command": "ls"}',
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_in_auto_half_a_command_is_never_delivered(text: str, size: int) -> None:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    reply = fold(through([gate(mode="auto")], reply_of(a_call(*pieces, tool="shell"), cause="tool_calls")))
    assert reply.ending == ReplyFailed("failed", UNREPAIRABLE)
    (call,) = reply.blocks
    assert isinstance(call, ToolCall)
    assert parse_object(call.arguments) is None


@pytest.mark.rule("G1")
@given(pieces=broken_arguments(), tool=st.sampled_from(["shell", "any"]))
@settings(max_examples=200)
def test_in_auto_a_call_is_what_hold_gives_or_the_reply_fails(pieces: list[str], tool: str) -> None:
    events = reply_of(a_call(*pieces, tool=tool), cause="tool_calls")
    live, held = (fold(through([gate(mode=mode)], events)) for mode in ("auto", "hold"))
    if isinstance(live.ending, ReplyFailed):
        return
    ((got,), (wanted,)) = live.blocks, held.blocks
    assert isinstance(got, ToolCall)
    assert isinstance(wanted, ToolCall)
    ours, theirs = parse_object(got.arguments), parse_object(wanted.arguments)
    assert ours is not None
    assert msgspec.json.encode(ours, order="sorted") == msgspec.json.encode(theirs, order="sorted")


@given(value=json_objects, mode=st.sampled_from(MODES))
def test_sound_replies_stay_what_they_were(value: dict[str, object], mode: str) -> None:
    text = msgspec.json.encode(value).decode()
    events = reply_of(block(0, Text(text=""), "so"), a_call(*text, index=1), cause="tool_calls")
    assert fold(through([gate(mode=mode)], events)) == fold(events)


@pytest.mark.rule("R81", "R127")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", ["{'command': 'rm -rf /ho", '{"command": "rm -rf /ho', '{"command": "ls"'])
def test_an_ending_without_a_cause_may_have_cut_a_call_off(mode: str, text: str) -> None:
    reported = RecordedInterventions()
    *events, _ = reply_of(a_call(*text), cause="tool_calls")
    out = through([gate(reported, mode=mode)], [*events, ReplyFinished(cause="tool_calls", implied=True)])
    assert [call.arguments for call in calls_in(out)] == [text]
    assert out[-1] == ReplyFinished(cause="length", implied=True)
    assert [(each.kind, each.reason) for each in reported] == [("unrepairable", TRUNCATED)]
