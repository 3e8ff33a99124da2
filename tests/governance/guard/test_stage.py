"""The guard passes the calls that its rules allow, and reports the others to the client or the model."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.governance.guard.rules import read_rules
from dragoman.governance.guard.stage import GuardStage
from dragoman.governance.settings import OnDenied
from dragoman.hub.blocks import Text, ToolCall, ToolResult
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
    DELTAS,
    BlockClosed,
    BlockOpened,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    SealAttached,
    TextDelta,
    UsageReported,
)
from dragoman.hub.fold import fold
from dragoman.hub.reply_grammar import GrammarChecker
from dragoman.hub.rounds import RoundJoiner
from dragoman.hub.seal import Seal
from dragoman.hub.usage import Usage
from tests.dialects.strategies import replies
from tests.fit.building import build_message, request
from tests.fit.reply.running import block, calls_in, recut, reply_of, through
from tests.governance.running import RecordedInterventions, a_call

DENY_RM = {"tools": ["shell"], "paths": ["command"], "command": ["rm"], "verdict": "deny", "reason": "no"}
ASK_CURL = {"tools": ["shell"], "command": ["curl"], "verdict": "ask", "reason": "it talks to the network"}
ALLOW_LS = {"tools": ["shell"], "command": ["ls"], "verdict": "allow", "name": "ls"}
PREFIX = {
    "tools": ["shell"],
    "paths": ["command"],
    "pattern": "^make",
    "verdict": "rewrite",
    "replacement": "nice {value}",
}

RM, LS, CURL, MAKE = (f'{{"command":"{name} x"}}' for name in ("rm", "ls", "curl", "make"))


def guard(
    reported: RecordedInterventions | None = None,
    *rules: object,
    on_denied: OnDenied = "client",
    limit: int = 100_000,
) -> GuardStage:
    chosen = read_rules(list(rules) or [DENY_RM, ASK_CURL, ALLOW_LS, PREFIX], "guard")
    return GuardStage(
        chosen,
        [],
        RecordedInterventions() if reported is None else reported,
        on_denied=on_denied,
        limit=limit,
    )


def shell(*pieces: str, index: int = 0) -> list[ReplyEvent]:
    return a_call(*pieces, tool="shell", index=index)


@pytest.mark.rule("R87")
def test_a_denied_call_becomes_a_text_that_states_why() -> None:
    reported = RecordedInterventions()
    out = fold(through([guard(reported)], reply_of(shell(*RM), cause="tool_calls")))
    assert out.blocks == (Text(text="The call of `shell` was denied: no."),)
    assert out.ending == ReplyFinished(cause="end")
    (only,) = reported
    assert (only.kind, only.tool, only.detail[0], only.ok) == ("guard", "shell", "deny", False)
    assert (only.reason, only.before, only.after) == ("no", len(RM), 0)


def test_a_call_that_needs_consent_becomes_a_question() -> None:
    for on_denied in ("client", "model"):
        stage = guard(on_denied=on_denied)
        out = fold(through([stage], reply_of(shell(CURL), cause="tool_calls")))
        assert out.blocks == (
            Text(text="The call of `shell` was held back: it talks to the network. Should it go ahead?"),
        )
        assert stage.denied == ()


def test_an_allowed_call_goes_out_as_it_came() -> None:
    reported = RecordedInterventions()
    events = reply_of(shell(LS[:5], LS[5:]), cause="tool_calls")
    assert through([guard(reported)], events) == events
    assert [each.detail for each in reported] == [("allow", "ls")]


def test_a_call_that_matches_no_rule_goes_out_as_it_came() -> None:
    reported = RecordedInterventions()
    events = reply_of(shell('{"command":', '"cat x"}'), cause="tool_calls")
    assert through([guard(reported)], events) == events
    assert reported == []


def test_a_rewritten_call_keeps_its_id_and_seal() -> None:
    seal = SealAttached(0, Seal("gemini", "", "proof"))
    opened, *pieces, closed = shell(*MAKE)
    (call,) = calls_in(through([guard()], reply_of([opened, *pieces, seal, closed], cause="tool_calls")))
    assert (call.id, call.seal) == ("call_0", seal.seal)
    assert msgspec.json.decode(call.arguments) == {"command": "nice make x"}


@pytest.mark.rule("C19")
def test_other_tools_pass_without_waiting() -> None:
    stage = guard()
    for event in [ReplyStarted(), *a_call('{"command":"rm', ' x"}')]:
        assert stage.feed(event) == [event]
        assert stage.unchanged_kinds >= DELTAS


def test_a_guarded_call_waits_until_it_is_whole() -> None:
    stage = guard()
    *before, closed = shell(*LS)
    assert [stage.feed(event) for event in before] == [[]] * len(before)
    assert stage.feed(closed) == [*before, closed]


def test_text_passes_a_call_that_waits() -> None:
    stage = guard()
    for event in (ReplyStarted(), *shell(RM)[:-1]):
        stage.feed(event)
    assert stage.feed(BlockOpened(1, Text(text=""))) == [BlockOpened(0, Text(text=""))]
    assert stage.feed(TextDelta(1, "so")) == [TextDelta(0, "so")]


def test_calls_keep_their_order() -> None:
    events: list[ReplyEvent] = [
        ReplyStarted(),
        *shell(LS)[:-1],
        *a_call("{}", index=1),
        BlockClosed(0),
        ReplyFinished(cause="tool_calls"),
    ]
    assert [call.name for call in calls_in(through([guard()], events))] == ["shell", "any"]


def test_a_call_too_long_to_be_judged_is_denied() -> None:
    reported = RecordedInterventions()
    long = '{"command":"ls ' + "x" * 500 + '"}'
    out = fold(
        through(
            [guard(reported, limit=100)], reply_of(shell(*long), a_call("{}", index=1), cause="tool_calls")
        )
    )
    assert [type(each) for each in out.blocks] == [Text, ToolCall]
    assert [each.detail for each in reported] == [("deny", "too-long")]


def test_a_reply_cut_off_in_a_guarded_call_has_no_such_call() -> None:
    out = fold(through([guard()], reply_of(shell('{"command":"ls'), cause="length")))
    assert not any(isinstance(each, ToolCall) for each in out.blocks)
    assert out.ending == ReplyFinished(cause="length")


def test_a_failed_reply_takes_the_waiting_call_along() -> None:
    failed = ReplyFailed("failed", Failure(kind="server", message="gone"))
    assert through([guard()], [ReplyStarted(), *shell(LS)[:-1], failed]) == [ReplyStarted(), failed]


def test_for_the_model_a_denied_call_is_left_out_and_kept_aside() -> None:
    stage = guard(on_denied="model")
    events = reply_of(block(0, Text(text=""), "now"), shell(*RM, index=1), cause="tool_calls")
    out = fold(through([stage], events))
    assert out.blocks == (Text(text="now"),)
    assert out.ending == ReplyFinished(cause="end")
    (denied,) = stage.denied
    assert (denied.call.arguments, denied.reason) == (RM, "no")


@pytest.mark.parametrize("first", [True, False])
def test_the_client_is_reported_if_it_gets_other_calls(first: bool) -> None:
    stage = guard(on_denied="model")
    plans = [shell(RM), a_call("{}", index=1)] if first else [a_call("{}"), shell(RM, index=1)]
    out = fold(through([stage], reply_of(*plans, cause="tool_calls")))
    assert [type(each) for each in out.blocks] == [ToolCall, Text]
    assert out.ending == ReplyFinished(cause="tool_calls")
    assert stage.denied == ()


def test_the_client_is_reported_if_the_reply_was_cut_off() -> None:
    stage = guard(on_denied="model")
    out = fold(through([stage], reply_of(shell(RM), cause="length")))
    assert out.blocks == (Text(text="The call of `shell` was denied: no."),)
    assert stage.denied == ()


EVERY_TOOL = [{"verdict": "deny", "pattern": "[a-m]"}, {"verdict": "ask", "pattern": "[n-z]"}]


@given(events=replies(), on_denied=st.sampled_from(["client", "model"]), limit=st.sampled_from([5, 10_000]))
@settings(max_examples=150)
def test_any_reply_stays_grammatical(events: list[ReplyEvent], on_denied: OnDenied, limit: int) -> None:
    through([guard(None, *EVERY_TOOL, on_denied=on_denied, limit=limit)], events)


@given(data=st.data(), on_denied=st.sampled_from(["client", "model"]))
@settings(max_examples=100)
def test_the_outcome_does_not_depend_on_cuts(data: st.DataObject, on_denied: OnDenied) -> None:
    events = data.draw(replies())
    again = data.draw(recut(events))
    one, other = (guard(None, *EVERY_TOOL, on_denied=on_denied) for _ in range(2))
    assert fold(through([one], events)) == fold(through([other], again))
    assert one.denied == other.denied


@given(events=replies())
@settings(max_examples=50)
def test_a_guard_of_other_tools_changes_nothing(events: list[ReplyEvent]) -> None:
    assert through([guard(None, {"tools": ["no such tool"], "verdict": "deny"})], events) == events


def rounds_of(
    *replies_: Sequence[ReplyEvent], limit: int = 3
) -> tuple[list[ReplyEvent], RoundJoiner, list[int]]:
    """What the client gets of replies to one request after another, as long as they are asked for."""
    rounds = RoundJoiner()
    out: list[ReplyEvent] = []
    asked = request(build_message("user", "clean up"))
    lengths = []
    for events in replies_:
        stage = guard(on_denied="model")
        stage.max_rounds = limit
        rounds.begin(stage)
        for event in events:
            out += [after for each in stage.feed(event) for after in rounds.feed(each)]
        if not rounds.waits:
            break
        asked = rounds.next_request(asked)
        lengths.append(len(asked.messages))
    checker = GrammarChecker()
    for event in out:
        checker.check(event)
    return out, rounds, lengths


def usage(number: int) -> UsageReported:
    return UsageReported(Usage(input=number, output=number))


def test_the_model_is_reported_and_asked_again_within_one_reply() -> None:
    first = reply_of(block(0, Text(text=""), "I will."), shell(RM, index=1), [usage(10)], cause="tool_calls")
    second = reply_of(
        block(0, Text(text=""), "Then not."), a_call("{}", index=1), [usage(20)], cause="tool_calls"
    )
    out, _, lengths = rounds_of(first, second)
    reply = fold(out)
    assert [getattr(each, "text", None) or getattr(each, "name", None) for each in reply.blocks] == [
        "I will.",
        "Then not.",
        "any",
    ]
    assert reply.ending == ReplyFinished(cause="tool_calls")
    assert reply.usage == Usage(input=20, output=30)
    assert lengths == [3]


def test_the_next_request_shows_the_call_and_why_it_was_denied() -> None:
    rounds = RoundJoiner()
    stage = guard(on_denied="model")
    rounds.begin(stage)
    for event in reply_of(block(0, Text(text=""), "I will."), shell(RM, index=1), cause="tool_calls"):
        for each in stage.feed(event):
            rounds.feed(each)
    *_, assistant, answer = rounds.next_request(request(build_message("user", "clean up"))).messages
    assert assistant.role == "assistant"
    assert [type(each) for each in assistant.blocks] == [Text, ToolCall]
    (result,) = answer.blocks
    assert isinstance(result, ToolResult)
    assert (result.call_id, result.is_error) == ("call_1", True)
    assert result.content == (Text(text="The call of `shell` was denied: no."),)


def test_rounds_end_and_then_the_client_is_reported() -> None:
    stubborn = reply_of(shell(RM), cause="tool_calls")
    out, rounds, lengths = rounds_of(*[stubborn] * 10, limit=2)
    assert lengths == [3, 5]
    assert not rounds.waits
    assert fold(out).blocks == (Text(text="The call of `shell` was denied: no."),)
    assert fold(out).ending == ReplyFinished(cause="end")


def test_a_failure_in_a_later_round_ends_the_reply() -> None:
    failed = ReplyFailed("truncated", Failure(kind="server", message="gone"))
    second = [ReplyStarted(), *block(0, Text(text=""), "We")[:-1], failed]
    out, rounds, _ = rounds_of(reply_of(shell(RM), cause="tool_calls"), second)
    assert out[-1] == failed
    assert not rounds.waits


@given(events=replies())
@settings(max_examples=50)
def test_a_round_without_denials_is_the_reply(events: list[ReplyEvent]) -> None:
    rounds = RoundJoiner()
    rounds.begin(guard())
    assert [after for event in events for after in rounds.feed(event)] == events
