"""A model name leads to its targets, or to an error that lists the known names."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config.config import Config
from dragoman.config.load import load
from dragoman.config.provider import TargetName
from dragoman.hub.errors import ClientProtocolError
from dragoman.routing.choose import MAX_QUOTED, ModelNotFound, choose, list_model_names

CONFIG = load(
    """
    [providers.local]
    dialect = "openai_chat"
    base_url = "http://127.0.0.1:1/v1"
    [providers.local.models."known"]
    images = false
    [providers.local.models."kn*"]
    audio = false
    [providers.other]
    preset = "embedded"
    [[routes]]
    match = "claude-*"
    target = ["local/large", "other"]
    [[routes]]
    match = "claude-small"
    target = "local/small"
    strict = true
    [[routes]]
    match = "local/pinned"
    target = "other/pinned"
    [[routes]]
    match = "*-?"
    target = "local"
    """,
    "dragoman.toml",
    {},
)


def targets(config: Config, model: str) -> list[str]:
    return [str(target) for target in choose(config, model).targets]


@pytest.mark.rule("R131")
def test_an_exact_name_is_taken_before_a_pattern_that_stands_first() -> None:
    choice = choose(CONFIG, "claude-small")
    assert (choice.targets, choice.route.strict, choice.route.match) == (
        (TargetName("local", "small"),),
        True,
        "claude-small",
    )


@pytest.mark.rule("R131")
def test_a_pattern_takes_the_names_that_fit_it_in_the_order_of_the_file() -> None:
    assert targets(CONFIG, "claude-9") == ["local/large", "other/claude-9"]
    assert targets(CONFIG, "gpt-5") == ["local/gpt-5"]


def test_a_target_without_a_model_takes_the_name_of_the_client() -> None:
    assert targets(CONFIG, "claude-opus") == ["local/large", "other/claude-opus"]


def test_every_model_of_every_provider_can_be_asked_for_directly() -> None:
    choice = choose(CONFIG, "local/org/model:free")
    assert (choice.targets, choice.route.match) == ((TargetName("local", "org/model:free"),), "direct")


def test_an_exact_route_goes_before_a_direct_name() -> None:
    assert targets(CONFIG, "local/pinned") == ["other/pinned"]


def test_a_direct_name_goes_before_a_pattern() -> None:
    assert targets(CONFIG, "local/x-1") == ["local/x-1"]


def test_a_name_that_no_route_takes_goes_to_the_default() -> None:
    config = load('default = ["other", "other/last"]\n[providers.other]\npreset = "embedded"', "", {})
    assert targets(config, "any") == ["other/any", "other/last"]
    assert choose(config, "any").route.match == "default"


def test_patterns_are_case_sensitive() -> None:
    with pytest.raises(ModelNotFound):
        choose(CONFIG, "CLAUDE-opus")


@pytest.mark.rule("R131")
def test_an_unknown_model_is_answered_with_what_there_is() -> None:
    with pytest.raises(ModelNotFound) as caught:
        choose(CONFIG, "claud-small")
    failure = caught.value.failure
    assert (failure.http_status, failure.code, failure.param) == (404, "model_not_found", "model")
    for name in ("claude-small", "claude-*", "local/large", "local/known", "other/MODEL"):
        assert name in failure.message
    assert failure.message.endswith("did you mean 'claude-small'?")


@pytest.mark.rule("F18")
def test_a_request_without_a_model_is_invalid_and_learns_what_there_is() -> None:
    with pytest.raises(ClientProtocolError, match=r"^model: expected the name of a model") as caught:
        choose(CONFIG, "")
    failure = caught.value.failure
    assert (failure.http_status, failure.param) == (400, "model")
    assert "claude-small" in failure.message


def test_the_answer_to_an_unknown_model_stays_short() -> None:
    routes = "".join(f'[[routes]]\nmatch = "model {n}"\ntarget = "other"\n' for n in range(500))
    config = load(routes + '[providers.other]\npreset = "embedded"', "", {})
    with pytest.raises(ModelNotFound) as caught:
        choose(config, "x" * 100_000)
    assert "and 481 more" in caught.value.message
    assert len(caught.value.message) < 1000


def test_without_any_configuration_there_is_nothing_to_list() -> None:
    with pytest.raises(ModelNotFound, match="there are: none"):
        choose(Config(), "any")


def test_the_names_that_stand_for_one_model_are_listed_without_patterns() -> None:
    assert list_model_names(CONFIG) == ["claude-small", "local/pinned", "local/large", "local/known"]


def test_the_default_is_listed_by_its_direct_name() -> None:
    config = load('default = "other/one"\n[providers.other]\npreset = "embedded"', "", {})
    assert list_model_names(config) == ["other/one"]


def test_every_listed_name_can_be_asked_for() -> None:
    for name in list_model_names(CONFIG):
        assert choose(CONFIG, name).targets


@given(model=st.text(min_size=1, max_size=3 * MAX_QUOTED))
def test_any_name_is_served_or_not_found(model: str) -> None:
    with suppress(ModelNotFound):
        assert choose(CONFIG, model).targets
