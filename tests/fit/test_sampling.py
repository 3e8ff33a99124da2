"""Sampling settings, caps and stop sequences."""

from typing import Any

import pytest

from dragoman.fit import build_restoration
from dragoman.fit.stops import MAX_STOPS
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.request import Effort, ReasoningSettings, Request
from tests.fit.building import DIALECTS, FOREIGN, build_message, fitted, request, target_for

USER = build_message("user", "Hi")
EVERYTHING: dict[str, Any] = {
    "temperature": 0.5,
    "top_k": 3,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "seed": 7,
    "logit_bias": {"1": 2},
    "verbosity": "low",
}


@pytest.mark.rule("H53", "R118", "H58")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_setting_is_kept_or_reported_as_lost(dialect: str) -> None:
    asked = request(USER, **EVERYTHING)
    after, losses = fitted(asked, dialect)
    for name in EVERYTHING:
        dropped = not getattr(after, name)
        assert dropped == (f"{name}: the target has no such setting" in losses)
        assert dropped == (name not in target_for(dialect).sampling)


@pytest.mark.rule("R118", "P49")
def test_a_model_that_takes_no_temperature_gets_none() -> None:
    asked = request(USER, temperature=0.5, dialect="openai_chat", paths={"temperature": "a.b"})
    after, losses = fitted(asked, "openai_chat", sampling=frozenset({"top_p"}))
    assert after.temperature is None
    assert losses == ["a.b: the target has no such setting"]


@pytest.mark.rule("H54")
def test_a_temperature_is_lowered_to_what_the_target_takes() -> None:
    after, losses = fitted(request(USER, temperature=1.7), "anthropic")
    assert after.temperature == 1
    assert losses == ["temperature: lowered to 1, the most that the target takes"]
    assert fitted(request(USER, temperature=1.7), "openai_chat")[0].temperature == 1.7


@pytest.mark.rule("H54")
def test_of_temperature_and_top_p_the_temperature_stays() -> None:
    after, losses = fitted(request(USER, temperature=0.5, top_p=0.9), "anthropic")
    assert (after.temperature, after.top_p) == (0.5, None)
    assert losses == ["top_p: the target takes temperature or top_p, not both"]


@pytest.mark.rule("P49", "H53")
def test_a_model_that_reasons_is_not_given_a_temperature_where_it_refuses_one() -> None:
    asked = request(USER, temperature=0.5, top_p=1.0, top_k=64, reasoning=ReasoningSettings(effort="low"))
    after, losses = fitted(asked, "anthropic")
    assert (after.temperature, after.top_p, after.top_k) == (None, None, None)
    assert [loss.split(":")[0] for loss in losses] == ["temperature", "top_k"]
    assert fitted(asked, "gemini")[0].temperature == 0.5


@pytest.mark.parametrize(("effort", "kept"), [("high", None), ("none", 0.5)])
def test_an_effort_is_reasoning_and_none_is_none(effort: Effort, kept: float | None) -> None:
    asked = request(USER, temperature=0.5, reasoning=ReasoningSettings(effort=effort))
    after, _ = fitted(asked, "openai_responses", sampling_with_reasoning=False)
    assert after.temperature == kept


@pytest.mark.rule("H51")
@pytest.mark.parametrize(("source", "target"), FOREIGN)
def test_several_answers_are_refused_across_dialects(source: str, target: str) -> None:
    asked = request(USER, candidates=2, dialect=source, paths={"candidates": "n"})
    with pytest.raises(ClientProtocolError) as caught:
        fitted(asked, target)
    assert (caught.value.status, caught.value.path) == (400, "n")


@pytest.mark.rule("H51")
def test_one_answer_is_what_everybody_gives() -> None:
    after, losses = fitted(request(USER, candidates=1), "anthropic")
    assert (after.candidates, losses) == (None, [])
    home = request(USER, candidates=3, dialect="openai_chat")
    assert fitted(home, "openai_chat")[0] is home


@pytest.mark.rule("H52")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_token_probabilities_are_never_pretended(dialect: str) -> None:
    after, losses = fitted(request(USER, logprobs=True, top_logprobs=5), dialect)
    if dialect == "anthropic":
        assert (after.logprobs, after.top_logprobs) == (None, None)
        assert len(losses) == 2
    else:
        assert (after.logprobs, after.top_logprobs) == (True, 5)
        assert losses == []
        home = request(USER, logprobs=True, dialect=dialect)
        assert fitted(home, dialect)[0] is home
    assert fitted(request(USER, top_logprobs=5), dialect)[0].top_logprobs is None
    assert fitted(request(USER, logprobs=False), dialect)[1] == []


@pytest.mark.rule("H56", "R117")
def test_a_cap_is_added_where_one_is_demanded() -> None:
    assert fitted(request(USER), "anthropic")[0].max_tokens == 32_000
    assert fitted(request(USER), "openai_chat")[0].max_tokens is None
    assert fitted(request(USER), "anthropic", default_max_tokens=5)[0].max_tokens == 5


@pytest.mark.rule("H56", "R117")
def test_a_cap_is_lowered_to_what_the_model_gives() -> None:
    asked = request(USER, max_tokens=128_000, dialect="openai_chat")
    after, losses = fitted(asked, "openai_chat", max_output_tokens=16_384)
    assert after.max_tokens == 16_384
    assert losses == ["max_tokens: lowered to 16384, the most that the target gives"]
    assert fitted(request(USER), "anthropic", max_output_tokens=8_192)[1] == []


@pytest.mark.rule("H56")
def test_a_cap_is_raised_to_the_least_that_is_taken() -> None:
    after, losses = fitted(request(USER, max_tokens=1), "openai_responses")
    assert after.max_tokens == 16
    assert len(losses) == 1


def stopping(*stops: str, dialect: str = "elsewhere") -> Request:
    return request(USER, stop=stops, dialect=dialect)


def stops_at(dialect: str, *stops: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is sent, and what the reply is watched for."""
    asked = stopping(*stops)
    after, losses = fitted(asked, dialect)
    assert losses == []
    return after.stop, build_restoration(asked, target_for(dialect)).stops


@pytest.mark.rule("H55")
def test_stop_sequences_are_sent_where_there_is_room() -> None:
    assert stops_at("openai_chat", "a", "b") == (("a", "b"), ())
    assert stops_at("anthropic", *"abcdefgh") == (tuple("abcdefgh"), ())


@pytest.mark.rule("H55")
def test_stop_sequences_beyond_the_limit_are_watched_for_here() -> None:
    assert stops_at("openai_chat", *"abcdef") == (tuple("abcd"), tuple("abcdef"))
    assert stops_at("gemini", *"abcdef") == (tuple("abcde"), tuple("abcdef"))
    assert stops_at("openai_responses", "a") == ((), ("a",))


@pytest.mark.rule("H55")
def test_blank_stop_sequences_are_watched_for_where_they_are_refused() -> None:
    assert stops_at("anthropic", "\n", "x") == (("x",), ("\n", "x"))


def test_an_empty_stop_sequence_stops_nothing() -> None:
    assert stops_at("openai_responses", "", "x") == ((), ("x",))


def test_more_stop_sequences_than_anyone_needs_are_a_loss() -> None:
    after, losses = fitted(stopping(*map(str, range(MAX_STOPS + 1))), "openai_responses")
    assert after.stop == ()
    assert len(losses) == 1


@pytest.mark.rule("D12")
def test_a_cap_is_lost_where_the_target_sets_the_length_itself() -> None:
    after, losses = fitted(request(USER, max_tokens=100), "anthropic", limits_output=False)
    assert after.max_tokens != 100
    assert losses == ["max_tokens: the target sets the length of its answers itself"]
    assert fitted(request(USER), "anthropic", limits_output=False)[1] == []
