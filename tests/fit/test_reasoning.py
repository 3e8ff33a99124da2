"""How much the model should think."""

import pytest

from dragoman.hub.request import EFFORTS, Effort, ReasoningSettings, Request
from tests.fit.building import build_message, call, fitted, request, result

OFF = ReasoningSettings(mode="off")


def wishing(wish: ReasoningSettings, max_tokens: int | None = 64_000, dialect: str = "elsewhere") -> Request:
    return request(build_message("user", "Hi"), reasoning=wish, max_tokens=max_tokens, dialect=dialect)


def wish_at(dialect: str, wish: ReasoningSettings, **facts: object) -> ReasoningSettings:
    after, _ = fitted(wishing(wish), dialect, **facts)
    assert after.reasoning
    return after.reasoning


@pytest.mark.rule("H10", "R129")
@pytest.mark.parametrize(
    ("wish", "style", "expected"),
    [
        (OFF, "effort", ReasoningSettings(mode="off", effort="none")),
        (OFF, "level", ReasoningSettings(mode="off", effort="minimal")),
        (OFF, "adaptive", OFF),
        (OFF, "budget", ReasoningSettings(mode="off", budget=0)),
        (ReasoningSettings(effort="none"), "adaptive", OFF),
        (ReasoningSettings(budget=0), "effort", ReasoningSettings(mode="off", effort="none")),
        (ReasoningSettings(effort="minimal"), "adaptive", ReasoningSettings(mode="adaptive", effort="low")),
        (ReasoningSettings(effort="medium"), "adaptive", ReasoningSettings(mode="adaptive", effort="medium")),
        (ReasoningSettings(effort="low"), "budget", ReasoningSettings(mode="on", budget=1_024)),
        (ReasoningSettings(effort="medium"), "budget", ReasoningSettings(mode="on", budget=8_192)),
        (ReasoningSettings(effort="high"), "budget", ReasoningSettings(mode="on", budget=24_576)),
        (ReasoningSettings(effort="max"), "budget", ReasoningSettings(mode="on", budget=32_768)),
        (ReasoningSettings(effort="max"), "level", ReasoningSettings(effort="high")),
        (ReasoningSettings(mode="on", budget=31_999), "effort", ReasoningSettings(effort="high")),
        (ReasoningSettings(mode="on", budget=8_192), "level", ReasoningSettings(effort="medium")),
        (
            ReasoningSettings(mode="on", budget=2_000),
            "adaptive",
            ReasoningSettings(mode="adaptive", effort="low"),
        ),
        (ReasoningSettings(budget=500), "effort", ReasoningSettings(effort="minimal")),
        (ReasoningSettings(budget=50_000), "effort", ReasoningSettings(effort="xhigh")),
        (ReasoningSettings(mode="adaptive"), "effort", ReasoningSettings()),
        (ReasoningSettings(mode="adaptive", effort="high"), "effort", ReasoningSettings(effort="high")),
        (ReasoningSettings(mode="adaptive"), "adaptive", ReasoningSettings(mode="adaptive")),
        (ReasoningSettings(budget=-1), "adaptive", ReasoningSettings(mode="adaptive")),
        (
            ReasoningSettings(show=True, style="auto"),
            "adaptive",
            ReasoningSettings(mode="adaptive", show=True),
        ),
    ],
)
def test_a_wish_is_reported_in_the_targets_terms(
    wish: ReasoningSettings, style: str, expected: ReasoningSettings
) -> None:
    dialect = "anthropic" if style in ("adaptive", "budget") else "openai_chat"
    assert wish_at(dialect, wish, reasoning=style) == expected


@pytest.mark.rule("H10")
def test_gemini_can_choose_its_own_budget() -> None:
    assert wish_at("gemini", ReasoningSettings(mode="adaptive")) == ReasoningSettings(
        mode="adaptive", budget=-1
    )
    assert wish_at("gemini", ReasoningSettings(effort="minimal")) == ReasoningSettings(mode="on", budget=512)


@pytest.mark.rule("H10")
def test_a_budget_keeps_to_the_range_of_the_target() -> None:
    assert wish_at("anthropic", ReasoningSettings(budget=100), reasoning="budget").budget == 1_024
    assert wish_at("gemini", ReasoningSettings(budget=50_000)).budget == 32_768


@pytest.mark.rule("H11", "P49")
@pytest.mark.parametrize("effort", EFFORTS[1:])
def test_an_effort_that_the_target_does_not_know_becomes_the_nearest(effort: Effort) -> None:
    after, losses = fitted(
        wishing(ReasoningSettings(effort=effort)), "openai_chat", efforts=("low", "medium", "high")
    )
    assert after.reasoning
    assert after.reasoning.effort in ("low", "medium", "high")
    assert bool(losses) == (effort not in ("low", "medium", "high"))


@pytest.mark.rule("H11")
def test_the_lowest_effort_of_a_model_that_adapts_is_minimal_enough() -> None:
    after, losses = fitted(wishing(ReasoningSettings(effort="minimal")), "anthropic")
    assert after.reasoning == ReasoningSettings(mode="adaptive", effort="low")
    assert losses == []


@pytest.mark.rule("H11")
def test_a_model_that_cannot_stop_thinking_thinks_as_little_as_it_can() -> None:
    after, losses = fitted(wishing(OFF), "openai_responses", efforts=("low", "high"))
    assert after.reasoning == ReasoningSettings(effort="low")
    assert losses == ["reasoning: the target cannot stop reasoning, 'low' was sent"]


@pytest.mark.rule("P49")
@pytest.mark.parametrize(
    ("style", "least"),
    [
        ("adaptive", ReasoningSettings(mode="adaptive", effort="low")),
        ("budget", ReasoningSettings(mode="on", budget=512)),
    ],
)
def test_a_model_that_always_thinks_is_not_reported_to_stop(style: str, least: ReasoningSettings) -> None:
    facts = {"reasoning": style, "always_reasons": True, "budget_range": (128, 32_768)}
    after, losses = fitted(wishing(OFF), "anthropic", **facts)
    assert after.reasoning == least
    assert ["cannot stop reasoning" in loss for loss in losses] == [True]


def test_a_model_that_does_not_think_is_not_asked_to() -> None:
    after, losses = fitted(wishing(ReasoningSettings(effort="high")), "openai_chat", reasoning="none")
    assert after.reasoning is None
    assert losses == ["reasoning: the target does not reason on demand"]
    assert fitted(wishing(OFF), "openai_chat", reasoning="none")[1] == []


@pytest.mark.rule("H10")
def test_a_budget_stays_below_the_cap() -> None:
    after, losses = fitted(
        wishing(ReasoningSettings(effort="high"), max_tokens=4_000), "anthropic", reasoning="budget"
    )
    assert after.reasoning
    assert after.reasoning.budget == 3_000
    assert after.max_tokens == 4_000
    assert losses == ["reasoning: the reasoning budget was cut to fit below the token cap"]


@pytest.mark.rule("H10")
def test_a_cap_that_leaves_no_room_is_raised() -> None:
    after, losses = fitted(
        wishing(ReasoningSettings(effort="low"), max_tokens=100), "anthropic", reasoning="budget"
    )
    assert after.reasoning
    assert (after.reasoning.budget, after.max_tokens) == (1_024, 1_124)
    assert losses == ["max_tokens: raised to leave room for reasoning"]


@pytest.mark.rule("P44", "R129")
def test_calls_of_another_model_cannot_be_thought_on_from() -> None:
    asked = request(
        build_message("user", "Hi"),
        build_message("assistant", call("1")),
        build_message("tool", result("1")),
        reasoning=ReasoningSettings(effort="low"),
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
        ReasoningSettings(mode="adaptive", effort="xhigh", budget=5, style="updates"), dialect="anthropic"
    )
    assert fitted(asked, "anthropic")[0] is asked
    older = fitted(asked, "anthropic", reasoning="budget", efforts=("low", "high"))[0].reasoning
    assert older == ReasoningSettings(mode="on", budget=5, style="updates")
    clamped = fitted(asked, "anthropic", efforts=("low", "high"))[0].reasoning
    assert clamped
    assert clamped.effort == "high"


@pytest.mark.rule("H11")
def test_a_server_that_knows_no_efforts_is_reported_none() -> None:
    assert wish_at(
        "openai_chat", ReasoningSettings(effort="high", show=True), efforts=()
    ) == ReasoningSettings(show=True)
    assert wish_at("openai_chat", OFF, efforts=()) == OFF
    assert (
        wish_at("openai_chat", ReasoningSettings(effort="high"), reasoning="level", efforts=())
        == ReasoningSettings()
    )


@pytest.mark.rule("P44")
@pytest.mark.parametrize("last", ["text", "call"])
def test_only_calls_that_are_being_answered_need_their_reasoning(last: str) -> None:
    conversation = [
        build_message("assistant", call("1")),
        build_message("tool", result("1")),
        build_message("user", "Go on"),
    ]
    if last == "text":
        conversation = [build_message("assistant", "Well."), build_message("user", "Go on")]
    asked = request(
        build_message("user", "Hi"),
        *conversation,
        reasoning=ReasoningSettings(effort="low"),
        max_tokens=64_000,
    )
    after, _ = fitted(asked, "anthropic", reasoning="budget", alternation=False)
    assert after.reasoning
    assert after.reasoning.mode == "on"


@pytest.mark.rule("H10", "H11")
@pytest.mark.parametrize(
    ("wish", "path"),
    [
        (ReasoningSettings(mode="adaptive", effort="max"), "where.effort"),
        (ReasoningSettings(mode="on", budget=60_000), "where.thinking"),
    ],
)
def test_a_loss_of_effort_points_at_what_the_client_wrote(wish: ReasoningSettings, path: str) -> None:
    paths = {"reasoning": "where.thinking", "effort": "where.effort"}
    asked = request(build_message("user", "Hi"), reasoning=wish, paths=paths)
    _, losses = fitted(asked, "openai_chat", efforts=("low", "high"))
    assert [loss.partition(":")[0] for loss in losses] == [path]
