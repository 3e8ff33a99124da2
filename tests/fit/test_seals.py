"""Seals go home, reasoning goes with its seal."""

import msgspec
import pytest

from dragoman.hub.blocks import Reasoning, Text, ToolCall
from dragoman.hub.request import Request
from dragoman.hub.seal import Seal
from tests.fit.building import DIALECTS, FOREIGN, build_message, call, fitted, request, result, shape, thought


def thinking(*thoughts: Reasoning, dialect: str) -> Request:
    return request(
        build_message("user", "Hi"),
        build_message("assistant", *thoughts, call("1")),
        build_message("tool", result("1", "a")),
        build_message("assistant", *thoughts, "So."),
        build_message("user", "Go on"),
        dialect=dialect,
    )


@pytest.mark.rule("H1", "P44")
@pytest.mark.parametrize(("source", "target"), FOREIGN)
def test_reasoning_goes_back_to_who_sealed_it(source: str, target: str) -> None:
    after, losses = fitted(thinking(thought("mine", target), dialect=source), target)
    assert shape(after.messages)[1] == ["assistant", "thought mine", "call 1"]
    assert losses == []


@pytest.mark.rule("H1", "H3", "P44", "P46", "P36", "R25", "R129")
@pytest.mark.parametrize("target", DIALECTS)
def test_reasoning_that_another_sealed_is_dropped_and_never_reported_as_text(target: str) -> None:
    for source in DIALECTS:
        after, losses = fitted(thinking(thought("secret", "somebody"), dialect=source), target)
        assert "secret" not in str([each.blocks for each in after.messages])
        assert losses == ["thought secret: reasoning cannot go to another model"]


@pytest.mark.rule("P45", "P48")
def test_a_seal_is_for_one_model() -> None:
    asked = thinking(thought("mine", "anthropic", "opus"), dialect="openai_chat")
    assert shape(fitted(asked, "anthropic", model="opus")[0].messages)[1][1] == "thought mine"
    assert shape(fitted(asked, "anthropic", model="sonnet")[0].messages)[1][1] == "call 1"
    assert shape(fitted(asked, "anthropic")[0].messages)[1][1] == "call 1"
    named = msgspec.structs.replace(asked, model="opus")
    assert shape(fitted(named, "anthropic")[0].messages)[1][1] == "thought mine"


@pytest.mark.rule("H1", "P47")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_at_home_reasoning_with_the_vendors_seal_or_none_is_left_alone(dialect: str) -> None:
    asked = thinking(thought("native", dialect), thought("plain"), dialect=dialect)
    assert fitted(asked, dialect)[0] is asked


@pytest.mark.rule("H7", "F5")
@pytest.mark.parametrize(("source", "target"), FOREIGN)
def test_servers_that_want_reasoning_back_get_it_on_every_message_without_seals(
    source: str, target: str
) -> None:
    asked = thinking(thought("why", "somebody"), dialect=source)
    after, losses = fitted(asked, target, replay_reasoning=True)
    for place in (1, 3):
        assert after.messages[place].blocks[0] == Reasoning(parts=("why",), at="thought why")
    assert losses == []


@pytest.mark.rule("H7", "F5")
def test_reasoning_in_a_message_of_its_own_belongs_to_what_follows() -> None:
    asked = request(
        build_message("user", "Hi"),
        build_message("assistant", thought("why")),
        build_message("assistant", call("1")),
        build_message("tool", result("1", "a")),
        build_message("assistant", thought("so")),
        build_message("assistant", "Done."),
        build_message("user", "Go on"),
        dialect="openai_responses",
    )
    after, _ = fitted(asked, "openai_chat", replay_reasoning=True)
    assert shape(after.messages)[1] == ["assistant", "thought why", "call 1"]
    assert shape(after.messages)[3] == ["assistant", "thought so", "Done."]


@pytest.mark.rule("H3")
def test_redacted_reasoning_is_a_loss_and_a_mere_carrier_is_none() -> None:
    redacted = Reasoning(redacted=True, seal=Seal("anthropic", "", "x"), at="messages[1].content[0]")
    carrier = Reasoning(seal=Seal("gemini", "", "x"))
    _, losses = fitted(thinking(redacted, carrier, dialect="anthropic"), "openai_chat")
    assert losses == ["messages[1].content[0]: reasoning cannot go to another model"]


@pytest.mark.rule("H6", "P42")
@pytest.mark.parametrize(("target", "kept"), [("gemini", True), ("anthropic", False), ("openai_chat", False)])
def test_seals_on_calls_and_texts_stay_only_for_their_issuer(target: str, kept: bool) -> None:
    seal = Seal("gemini", "", "proof")
    asked = request(
        build_message("user", "Hi"),
        build_message("assistant", Text(text="a", seal=seal), ToolCall(id="1", name="Read", seal=seal)),
        build_message("tool", result("1")),
        dialect="openai_responses",
    )
    after, losses = fitted(asked, target)
    text, sealed = after.messages[1].blocks
    assert isinstance(text, Text)
    assert isinstance(sealed, ToolCall)
    assert (text.seal is not None, sealed.seal is not None) == (kept, kept)
    assert losses == []


@pytest.mark.rule("H6")
def test_an_empty_text_that_carries_the_targets_seal_is_not_empty() -> None:
    asked = request(
        build_message("user", "Hi"),
        build_message("assistant", "a", Text(text="", seal=Seal("gemini", "", "proof"))),
        build_message("user", "b"),
        dialect="anthropic",
    )
    assert len(fitted(asked, "gemini")[0].messages[1].blocks) == 2
    assert len(fitted(asked, "openai_chat")[0].messages[1].blocks) == 1


@pytest.mark.rule("H1")
def test_at_home_a_seal_that_came_from_elsewhere_in_an_envelope_still_goes() -> None:
    asked = thinking(thought("theirs", "gemini"), dialect="anthropic")
    assert shape(fitted(asked, "anthropic")[0].messages)[1] == ["assistant", "call 1"]


@pytest.mark.rule("H1", "P44")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_message_that_held_nothing_but_foreign_seals_goes_with_them_also_at_home(dialect: str) -> None:
    asked = request(
        build_message("user", "Hi"),
        build_message("assistant", thought("theirs", "somebody")),
        build_message("assistant", Text(text="", seal=Seal("somebody", "", "proof"))),
        build_message("assistant"),
        build_message("assistant", call("1")),
        build_message("tool", result("1", "a")),
        dialect=dialect,
    )
    after, _ = fitted(asked, dialect)
    assert shape(after.messages) == [
        ["user", "Hi"],
        ["assistant"],
        ["assistant", "call 1"],
        ["tool", "result 1: a"],
    ]
