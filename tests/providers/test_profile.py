"""A profile states facts; the target of a request has all of them."""

from typing import Any

import msgspec
import pytest

from dragoman.providers.dialect_facts import DIALECT_FACTS
from dragoman.providers.facts import PERMISSIVE, Facts, list_changes
from dragoman.providers.profile import PROFILE_FIELDS, Profile, build_target_facts


@pytest.mark.parametrize("dialect", list(DIALECT_FACTS))
def test_a_client_of_the_same_dialect_meets_no_restriction(dialect: str) -> None:
    target = build_target_facts(Profile(dialect=dialect), dialect)
    assert list_changes(target) == {"issuer": dialect}


@pytest.mark.parametrize("dialect", list(DIALECT_FACTS))
def test_a_client_of_another_dialect_meets_the_facts_of_the_dialect(dialect: str) -> None:
    target = build_target_facts(Profile(dialect=dialect), "another")
    assert list_changes(target) == {"issuer": dialect, **list_changes(DIALECT_FACTS[dialect])}


@pytest.mark.parametrize("client", ["anthropic", "openai_chat"])
def test_a_stated_fact_takes_precedence_over_the_dialect_also_if_it_permits(client: str) -> None:
    target = build_target_facts(
        Profile(dialect="anthropic", audio=True, images=False, issuer="vendor"), client
    )
    assert (target.audio, target.images, target.issuer) == (True, False, "vendor")


def test_a_dialect_without_facts_is_permissive() -> None:
    assert list_changes(build_target_facts(Profile(dialect="fifth"), "anthropic")) == {"issuer": "fifth"}


def test_a_target_has_the_place_of_its_profile() -> None:
    target = build_target_facts(Profile(dialect="gemini", provider="google", model="flash"), "anthropic")
    assert (target.dialect, target.provider, target.model) == ("gemini", "google", "flash")


def test_none_states_nothing() -> None:
    profile = Profile(dialect="gemini", provider=None, model=None, images=None, hosted_tools=None)
    assert (profile.stated, profile.provider, profile.model) == ({}, "", "")


@pytest.mark.parametrize(
    "facts", [{"imagse": True}, {"images": "yes"}, {"sampling": 3}, {"reasoning": "much"}]
)
def test_a_profile_refuses_unknown_facts_and_wrong_types(facts: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        Profile(dialect="gemini", **facts)


def test_a_profile_can_state_every_fact_and_its_place() -> None:
    stated = msgspec.to_builtins(PERMISSIVE)
    profile = Profile(dialect="gemini", provider="p", model="m", **stated)
    assert profile.stated.keys() == {name for name, value in stated.items() if value is not None}
    assert set(PROFILE_FIELDS) == {"dialect", "provider", "model", *Facts.__struct_fields__}
