"""How much the model should think."""

import pytest

from dragoman.hub.request import EFFORTS, Effort, ReasoningWish, Request
from tests.fit.building import call, fitted, request, result, turn

OFF = ReasoningWish(mode="off")


def wishing(wish: ReasoningWish, max_tokens: int | None = 64_000, dialect: str = "elsewhere") -> Request:
    return request(turn("user", "Hi"), reasoning=wish, max_tokens=max_tokens, dialect=dialect)


def wish_at(dialect: str, wish: ReasoningWish, **facts: object) -> ReasoningWish:
    after, _ = fitted(wishing(wish), dialect, **facts)
    assert after.reasoning
    return after.reasoning


@pytest.mark.rule("H10", "R129")
@pytest.mark.parametrize(
    ("wish", "style", "expected"),
    [
        (OFF, "effort", ReasoningWish(mode="off", effort="none")),
        (OFF, "level", ReasoningWish(mode="off", effort="minimal")),
        (OFF, "adaptive", OFF),
        (OFF, "budget", ReasoningWish(mode="off", budget=0)),
        (ReasoningWish(effort="none"), "adaptive", OFF),
        (ReasoningWish(budget=0), "effort", ReasoningWish(mode="off", effort="none")),
        (ReasoningWish(effort="minimal"), "adaptive", ReasoningWish(mode="adaptive", effort="low")),
        (ReasoningWish(effort="medium"), "adaptive", ReasoningWish(mode="adaptive", effort="medium")),
        (ReasoningWish(effort="low"), "budget", ReasoningWish(mode="on", budget=1_024)),
        (ReasoningWish(effort="medium"), "budget", ReasoningWish(mode="on", budget=8_192)),
        (ReasoningWish(effort="high"), "budget", ReasoningWish(mode="on", budget=24_576)),
        (ReasoningWish(effort="max"), "budget", ReasoningWish(mode="on", budget=32_768)),
        (ReasoningWish(effort="max"), "level", ReasoningWish(effort="high")),
        (ReasoningWish(mode="on", budget=31_999), "effort", ReasoningWish(effort="high")),
        (ReasoningWish(mode="on", budget=8_192), "level", ReasoningWish(effort="medium")),
        (ReasoningWish(mode="on", budget=2_000), "adaptive", ReasoningWish(mode="adaptive", effort="low")),
        (ReasoningWish(budget=500), "effort", ReasoningWish(effort="minimal")),
        (ReasoningWish(budget=50_000), "effort", ReasoningWish(effort="xhigh")),
        (ReasoningWish(mode="adaptive"), "effort", ReasoningWish()),
        (ReasoningWish(mode="adaptive", effort="high"), "effort", ReasoningWish(effort="high")),
        (ReasoningWish(mode="adaptive"), "adaptive", ReasoningWish(mode="adaptive")),
        (ReasoningWish(budget=-1), "adaptive", ReasoningWish(mode="adaptive")),
        (ReasoningWish(show=True, style="auto"), "adaptive", ReasoningWish(mode="adaptive", show=True)),
    ],
)
def test_a_wish_is_told_in_the_targets_terms(
    wish: ReasoningWish, style: str, expected: ReasoningWish
) -> None:
    dialect = "anthropic" if style in ("adaptive", "budget") else "openai_chat"
    assert wish_at(dialect, wish, reasoning=style) == expected


@pytest.mark.rule("H10")
def test_gemini_can_choose_its_own_budget() -> None:
    assert wish_at("gemini", ReasoningWish(mode="adaptive")) == ReasoningWish(mode="adaptive", budget=-1)
    assert wish_at("gemini", ReasoningWish(effort="minimal")) == ReasoningWish(mode="on", budget=512)


@pytest.mark.rule("H10")
def test_a_budget_keeps_to_the_range_of_the_target() -> None:
    assert wish_at("anthropic", ReasoningWish(budget=100), reasoning="budget").budget == 1_024
    assert wish_at("gemini", ReasoningWish(budget=50_000)).budget == 32_768


@pytest.mark.rule("H11", "P49")
@pytest.mark.parametrize("effort", EFFORTS[1:])
def test_an_effort_that_the_target_does_not_know_becomes_the_nearest(effort: Effort) -> None:
    after, losses = fitted(
        wishing(ReasoningWish(effort=effort)), "openai_chat", efforts=("low", "medium", "high")
    )
    assert after.reasoning
    assert after.reasoning.effort in ("low", "medium", "high")
    assert bool(losses) == (effort not in ("low", "medium", "high"))


@pytest.mark.rule("H11")
def test_the_lowest_effort_of_a_model_that_adapts_is_minimal_enough() -> None:
    after, losses = fitted(wishing(ReasoningWish(effort="minimal")), "anthropic")
    assert after.reasoning == ReasoningWish(mode="adaptive", effort="low")
    assert losses == []


@pytest.mark.rule("H11")
def test_a_model_that_cannot_stop_thinking_thinks_as_little_as_it_can() -> None:
    after, losses = fitted(wishing(OFF), "openai_responses", efforts=("low", "high"))
    assert after.reasoning == ReasoningWish(effort="low")
    assert losses == ["reasoning: the target cannot stop reasoning, 'low' was sent"]


@pytest.mark.rule("P49")
@pytest.mark.parametrize(
    ("style", "least"),
    [
        ("adaptive", ReasoningWish(mode="adaptive", effort="low")),
        ("budget", ReasoningWish(mode="on", budget=512)),
    ],
)
def test_a_model_that_always_thinks_is_not_told_to_stop(style: str, least: ReasoningWish) -> None:
    facts = {"reasoning": style, "always_reasons": True, "budget_range": (128, 32_768)}
    after, losses = fitted(wishing(OFF), "anthropic", **facts)
    assert after.reasoning == least
    assert ["cannot stop reasoning" in loss for loss in losses] == [True]


def test_a_model_that_does_not_think_is_not_asked_to() -> None:
    after, losses = fitted(wishing(ReasoningWish(effort="high")), "openai_chat", reasoning="none")
    assert after.reasoning is None
    assert losses == ["reasoning: the target does not reason on demand"]
    assert fitted(wishing(OFF), "openai_chat", reasoning="none")[1] == []


@pytest.mark.rule("H10")
def test_a_budget_stays_below_the_cap() -> None:
    after, losses = fitted(
        wishing(ReasoningWish(effort="high"), max_tokens=4_000), "anthropic", reasoning="budget"
    )
    assert after.reasoning
    assert after.reasoning.budget == 3_000
    assert after.max_tokens == 4_000
    assert losses == ["reasoning: the reasoning budget was cut to fit below the token cap"]


@pytest.mark.rule("H10")
def test_a_cap_that_leaves_no_room_is_raised() -> None:
    after, losses = fitted(
        wishing(ReasoningWish(effort="low"), max_tokens=100), "anthropic", reasoning="budget"
    )
    assert after.reasoning
    assert (after.reasoning.budget, after.max_tokens) == (1_024, 1_124)
    assert losses == ["max_tokens: raised to leave room for reasoning"]


@pytest.mark.rule("P44", "R129")
def test_calls_of_another_model_cannot_be_thought_on_from() -> None:
    asked = request(
        turn("user", "Hi"),
        turn("assistant", call("1")),
        turn("tool", result("1")),
        reasoning=ReasoningWish(effort="low"),
        max_tokens=64_000,
    )
    after, losses = fitted(asked, "anthropic", reasoning="budget")
    assert after.reasoning
    assert after.reasoning.mode == "off"
    assert losses == ["reasoning: the calls being answered came without their reasoning"]
    assert fitted(asked, "anthropic")[1] == []


@pytest.mark.rule("H11")
def test_at_home_only_what_the_profile_names_is_changed() -> None:
    asked = wishing(
        ReasoningWish(mode="adaptive", effort="xhigh", budget=5, style="updates"), dialect="anthropic"
    )
    assert fitted(asked, "anthropic")[0] is asked
    older = fitted(asked, "anthropic", reasoning="budget", efforts=("low", "high"))[0].reasoning
    assert older == ReasoningWish(mode="on", budget=5, style="updates")
    clamped = fitted(asked, "anthropic", efforts=("low", "high"))[0].reasoning
    assert clamped
    assert clamped.effort == "high"


@pytest.mark.rule("H11")
def test_a_server_that_knows_no_efforts_is_told_none() -> None:
    assert wish_at("openai_chat", ReasoningWish(effort="high", show=True), efforts=()) == ReasoningWish(
        show=True
    )
    assert wish_at("openai_chat", OFF, efforts=()) == OFF
    assert (
        wish_at("openai_chat", ReasoningWish(effort="high"), reasoning="level", efforts=()) == ReasoningWish()
    )


@pytest.mark.rule("P44")
@pytest.mark.parametrize("last", ["text", "call"])
def test_only_calls_that_are_being_answered_need_their_reasoning(last: str) -> None:
    spoken = [turn("assistant", call("1")), turn("tool", result("1")), turn("user", "Go on")]
    if last == "text":
        spoken = [turn("assistant", "Well."), turn("user", "Go on")]
    asked = request(turn("user", "Hi"), *spoken, reasoning=ReasoningWish(effort="low"), max_tokens=64_000)
    after, _ = fitted(asked, "anthropic", reasoning="budget", alternation=False)
    assert after.reasoning
    assert after.reasoning.mode == "on"


@pytest.mark.rule("H10", "H11")
@pytest.mark.parametrize(
    ("wish", "path"),
    [
        (ReasoningWish(mode="adaptive", effort="max"), "where.effort"),
        (ReasoningWish(mode="on", budget=60_000), "where.thinking"),
    ],
)
def test_a_loss_of_effort_points_at_what_the_client_wrote(wish: ReasoningWish, path: str) -> None:
    paths = {"reasoning": "where.thinking", "effort": "where.effort"}
    asked = request(turn("user", "Hi"), reasoning=wish, paths=paths)
    _, losses = fitted(asked, "openai_chat", efforts=("low", "high"))
    assert [loss.partition(":")[0] for loss in losses] == [path]
