"""Allowed models, and the properties of limits."""

import pytest

from dragoman.accounts.errors import ModelForbidden
from dragoman.accounts.keys import ANONYMOUS, Caller, check_model, may_use_model
from dragoman.accounts.limits import Limits
from dragoman.hub.errors import ClientProtocolError


@pytest.mark.parametrize(
    ("models", "model", "may"),
    [
        ((), "anything", True),
        (("claude-*",), "claude-sonnet", True),
        (("claude-*",), "gpt-5", False),
        (("gpt-5", "local/*"), "local/qwen3", True),
        (("gpt-5",), "GPT-5", False),
        (("claude-*",), "up/claude-sonnet", False),
    ],
)
def test_a_key_may_use_the_models_that_its_patterns_name(
    models: tuple[str, ...], model: str, may: bool
) -> None:
    assert may_use_model(Caller(models=models), model) is may


def test_a_forbidden_model_is_named_beside_those_that_are_allowed() -> None:
    caller = Caller(name="ci", models=("claude-*", "local/*"))
    check_model(caller, "claude:local/small")
    with pytest.raises(ModelForbidden, match=r"'ci' may not use the model 'gpt-5'.*claude-\*, local/\*") as e:
        check_model(caller, "gpt-5")
    assert (e.value.status, e.value.param) == (403, "model")


@pytest.mark.rule("F18")
def test_a_key_for_some_models_needs_the_name_of_one() -> None:
    with pytest.raises(ClientProtocolError) as caught:
        check_model(Caller(name="ci", models=("claude-*",)), "")
    assert (caught.value.status, caught.value.param) == (400, "model")


def test_a_model_name_of_any_length_makes_a_short_error() -> None:
    with pytest.raises(ModelForbidden) as caught:
        check_model(Caller(name="ci", models=("a",)), "x" * 100_000)
    assert len(caught.value.message) < 500


def test_an_anonymous_caller_has_no_limits() -> None:
    check_model(ANONYMOUS, "anything")
    assert not ANONYMOUS.limits.has_any


def test_only_limits_on_tokens_or_money_make_a_request_be_counted() -> None:
    assert not Limits(requests_per_minute=5).counts_tokens
    assert Limits(requests_per_minute=5, cost_per_day=1).counts_tokens
    assert Limits(tokens_per_minute=1).counts_tokens
