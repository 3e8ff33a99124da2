"""Arguments for clients that read them as an object."""

import json
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.fit.arguments import AMBIGUOUS, ArgumentsStage
from dragoman.governance.repair import repair
from dragoman.hub.blocks import ToolCall
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    StopCause,
)
from dragoman.hub.fold import fold
from dragoman.hub.loss import Losses
from tests.dialects.strategies import argument_texts, replies
from tests.fit.building import build_message, request
from tests.fit.reply.running import (
    OBJECTS,
    PLAIN,
    call_block,
    calls_in,
    recut,
    reply_of,
    stages_for,
    through,
)
from tests.governance.running import broken_arguments


def arguments_after(*pieces: str, losses: Losses | None = None) -> str:
    events = reply_of(call_block(0, ToolCall(id="1", name="a"), *pieces), cause="tool_calls")
    (call,) = calls_in(through([ArgumentsStage(Losses() if losses is None else losses)], events))
    return call.arguments


@pytest.mark.rule("H12", "H13", "R51", "R60", "C16")
@pytest.mark.parametrize(
    "text",
    ['{"a":1}', "{}", ' {"a": [1, {"b": "\\u00e9"}]}\n', '{"a":"x", "b":-1.5e3}', '{"a":"unfinis', '{"a":'],
)
def test_an_object_or_the_beginning_of_one_passes_as_it_is(text: str) -> None:
    assert arguments_after(text) == text
    assert arguments_after(*text) == text


@pytest.mark.rule("C15", "C16")
@pytest.mark.parametrize(
    ("text", "cause"), [('{"a":1}', "tool_calls"), ('{"a":', "length"), ("[1", "tool_calls")]
)
def test_a_reply_with_a_call_that_broke_off_was_cut_short(text: str, cause: str) -> None:
    events = reply_of(call_block(0, ToolCall(id="1", name="a"), text), cause="tool_calls")
    ending = fold(through([ArgumentsStage(Losses())], events)).ending
    assert isinstance(ending, ReplyFinished)
    assert ending.cause == cause


CUTTING = ("length", "context_window", "refusal", "content_filter")


@pytest.mark.rule("S15", "C15")
@pytest.mark.parametrize("cause", [cause for cause in get_args(StopCause) if cause != "end"])
def test_no_cause_makes_half_a_call_a_whole_one(cause: StopCause) -> None:
    events = reply_of(call_block(0, ToolCall(id="1", name="a"), '{"a":'), cause=cause)
    ending = fold(through([ArgumentsStage(Losses())], events)).ending
    assert isinstance(ending, ReplyFinished)
    assert ending.cause == (cause if cause in CUTTING else "length")


def test_pieces_that_are_sound_pass_untouched() -> None:
    stage = ArgumentsStage(Losses())
    stage.feed(ReplyStarted())
    stage.feed(BlockOpened(0, ToolCall(id="1", name="a")))
    for piece in ('{"a":', '"x', '"}'):
        delta = ArgumentsDelta(0, piece)
        (out,) = stage.feed(delta)
        assert out is delta


@pytest.mark.rule("H12", "C15")
@pytest.mark.parametrize("text", ["{'text': 'delete every", "{text: delete"])
def test_what_broke_off_and_is_no_json_either_stands_where_no_tool_looks_for_it(text: str) -> None:
    decoded = msgspec.json.decode(arguments_after(*text))
    assert decoded["incomplete_arguments"] == text
    assert not decoded.get("text")


@pytest.mark.rule("H35", "R111", "H12")
@pytest.mark.parametrize("text", ["", " ", "\n\t ", "null", " null "])
def test_no_arguments_are_nothing(text: str) -> None:
    losses = Losses()
    assert arguments_after(*text, losses=losses) == ""
    assert len(losses) == 0


@pytest.mark.rule("C15", "H12", "R72")
@pytest.mark.parametrize("text", ["[1]", '"x"', "12", "true", "ls -la", "nul", " x", "nullable"])
def test_what_is_no_object_is_shown_in_one(text: str) -> None:
    losses = Losses()
    assert msgspec.json.decode(arguments_after(text, losses=losses)) == {"text": text}
    assert msgspec.json.decode(arguments_after(*text)) == {"text": text}
    assert [loss.reason for loss in losses] == [
        "the arguments of a call are no JSON object and stand in 'text'"
    ]


@pytest.mark.rule("C15", "C16", "H12")
@pytest.mark.parametrize("text", ["{'a':1}", "{ a: 1}", " {'a':1}"])
def test_from_the_first_deviation_on_everything_is_held_and_shown(text: str) -> None:
    completed = arguments_after(text)
    decoded = msgspec.json.decode(completed)
    assert decoded["text"] == text
    assert arguments_after(*text) == completed
    stage = ArgumentsStage(Losses())
    stage.feed(BlockOpened(0, ToolCall(id="1", name="a")))
    live = "".join(e.text for e in stage.feed(ArgumentsDelta(0, text)) if isinstance(e, ArgumentsDelta))
    assert text.startswith(live)
    assert completed.startswith(live)


@pytest.mark.rule("R81", "C15", "G1")
@pytest.mark.parametrize(
    "text",
    [
        '{"command":"rm -r a\n b"}',
        '{"command":"rm -r a\\ b"}',
        '{"a":["x\ty"]}',
        '{"command": "rm -rf /srv/u/"my dir""}',
        '{"a":1,}',
        '{"a":nope}',
        '{"a":120_000}',
        '{"a":"x" "b":1}',
        '{"\\x":1}',
        '{"a":[1}',
        '{"text": delete every',
    ],
)
def test_half_a_call_that_went_out_is_never_made_a_whole_one(text: str) -> None:
    losses = Losses()
    unfinished = arguments_after(text, losses=losses)
    assert text.startswith(unfinished)
    assert arguments_after(*text) == unfinished
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(unfinished)
    assert "was left unfinished" in next(iter(losses)).reason
    events = reply_of(call_block(0, ToolCall(id="1", name="a"), text), cause="tool_calls")
    assert fold(through([ArgumentsStage(Losses())], events)).ending == ReplyFinished(cause="length")


@pytest.mark.rule("C15")
def test_brackets_after_a_whole_object_are_left_out_and_reported() -> None:
    losses = Losses()
    assert arguments_after('{"a":1} }', "}\n```", losses=losses) == '{"a":1} '
    assert [loss.reason for loss in losses] == ["what followed the arguments of a call was left out"]


@pytest.mark.rule("G1")
@pytest.mark.parametrize(
    "text", ['{"a":1}{"a":2}', '{"a":1} trailing', '{} {"a":1}', '{"command": "rm -rf /srv/u/"} my dir"}']
)
def test_a_reply_fails_if_more_json_follows_the_object_that_went_out(text: str) -> None:
    events = reply_of(call_block(0, ToolCall(id="1", name="a"), *text), cause="tool_calls")
    assert fold(through([ArgumentsStage(Losses())], events)).ending == ReplyFailed("failed", AMBIGUOUS)


@pytest.mark.rule("G1")
@given(pieces=broken_arguments())
@settings(max_examples=200)
def test_no_call_runs_that_the_model_did_not_make(pieces: list[str]) -> None:
    text = "".join(pieces)
    events = reply_of(call_block(0, ToolCall(id="1", name="a"), *pieces), cause="tool_calls")
    reply = fold(through([ArgumentsStage(Losses())], events))
    (call,) = reply.blocks
    assert isinstance(call, ToolCall)
    if reply.ending != ReplyFinished(cause="tool_calls"):
        return
    got = load(call.arguments)
    assert isinstance(got, dict)
    shown = [{"text": text}, {"incomplete_arguments": text}]
    assert got in [load(text), load(repair(text).text), *shown]


def load(text: str) -> object:
    """The value as clients read it: a number that is too large is infinite. None: it is no JSON."""
    try:
        return json.loads(text, parse_constant=refuse_constant) if text.strip() else {}
    except ValueError:
        return None


def refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


@pytest.mark.rule("R61", "H22")
def test_unrequested_free_text_is_wrapped() -> None:
    events = reply_of(
        call_block(0, ToolCall(id="1", name="a", kind="custom"), 'say "', 'hi"\n'), cause="tool_calls"
    )
    (call,) = calls_in(through([ArgumentsStage(Losses())], events))
    assert (call.kind, msgspec.json.decode(call.arguments)) == ("function", {"input": 'say "hi"\n'})


def test_arguments_that_come_with_the_opening_are_judged_alike() -> None:
    events = reply_of(call_block(0, ToolCall(id="1", name="a", arguments="[1")), cause="tool_calls")
    (call,) = calls_in(through([ArgumentsStage(Losses())], events))
    assert msgspec.json.decode(call.arguments) == {"text": "[1"}


def test_the_stage_is_there_only_for_clients_that_need_it() -> None:
    asked = request(build_message("user", "Hi"), dialect="anthropic")
    assert any(isinstance(stage, ArgumentsStage) for stage in stages_for(asked, "openai_chat", OBJECTS))
    assert not any(isinstance(stage, ArgumentsStage) for stage in stages_for(asked, "openai_chat", PLAIN))
    assert list(map(type, stages_for(asked, "anthropic", OBJECTS))) == [ArgumentsStage]


@pytest.mark.rule("C15", "C16", "H12", "R60")
@settings(max_examples=200)
@given(st.one_of(argument_texts, st.text('{}[]":,\\ utfnl19.-', max_size=12)))
def test_whatever_comes_is_an_object_or_the_beginning_of_one(text: str) -> None:
    whole = arguments_after(text)
    assert arguments_after(*text) == whole
    if whole.strip() and not (text.startswith(whole) or whole == text):
        assert isinstance(msgspec.json.decode(whole), dict)
    assert not whole or whole.lstrip().startswith("{")


@settings(max_examples=60)
@given(replies(), st.data())
def test_any_reply_stays_grammatical_and_does_not_depend_on_the_pieces(
    events: list[ReplyEvent], data: st.DataObject
) -> None:
    out = through([ArgumentsStage(Losses())], events)
    assert fold(through([ArgumentsStage(Losses())], data.draw(recut(events)))) == fold(out)
    assert sum(isinstance(event, BlockClosed) for event in out) == sum(
        isinstance(event, BlockClosed) for event in events
    )
