"""The table takes any message, and a correction is always a set of facts that a profile can state."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.registry import dialect_named
from dragoman.healing.corrections import Removal
from dragoman.healing.message_patterns import NEVER_HEALED
from dragoman.healing.refusals import find_correction
from dragoman.hub.errors import Failure
from dragoman.hub.loss import Losses
from dragoman.pipeline.refused_fields import remove_fields
from dragoman.providers.facts import PERMISSIVE
from dragoman.providers.profile import Profile
from dragoman.wire.fields import decode, encode
from tests.healing.messages import CASES

#: Parts of real messages, which find more of the table than random letters.
WORDS = sorted({word for case in CASES for word in case.error.decode().split()})
messages = st.lists(st.sampled_from(WORDS) | st.text(max_size=8), max_size=40).map(" ".join)


@given(messages, st.sampled_from(["", "unsupported_value"]), st.text(max_size=12))
def test_any_message_gives_valid_facts_or_none(message: str, code: str, param: str) -> None:
    failure = Failure(kind="invalid_request", status=400, message=message, code=code, param=param)
    correction = find_correction(failure)
    if correction is None:
        return
    removals = {name: each for name, each in correction.facts.items() if isinstance(each, Removal)}
    assert all(isinstance(getattr(PERMISSIVE, name), frozenset) for name in removals)
    stated: dict[str, Any] = {name: value for name, value in correction.facts.items() if name not in removals}
    assert Profile(dialect="openai_chat", **stated).stated.keys() == stated.keys()


#: What a message contains that no change of the request ends, with every alternative of `NEVER_HEALED`.
FINAL = (
    "You have no credits.",
    "The balance is too low.",
    "Check the billing details.",
    "You exceeded your current quota.",
    "A payment is due.",
    "Insufficient resources.",
    "Incorrect API key provided.",
    "The authentication failed.",
    "You are unauthorized.",
    "You lack the permission.",
    "You do not have access to this model.",
    "You are not allowed to do this.",
    "This is forbidden.",
    "The prompt triggers the content management policy.",
    "It was stopped by the content filter.",
    "Stopped by our safety system.",
    "Stopped by moderation.",
    "See our usage policies.",
    "This violates a rule.",
    "The prompt was flagged.",
    "The prompt was blocked.",
    "Rate limit reached.",
    "Too many requests.",
    "账户余额不足",
    "账户已欠费",
    "内容违规",
    "敏感内容",
    "Your plan has no such feature.",
    "Your subscription has no such feature.",
    "Upgrade to Pro.",
    "This needs tier 2.",
    "The license has no such feature.",
    "Your account has no such feature.",
    "Your organization must be verified.",
    "You reached your spending cap.",
    "Add funds.",
    "The token has expired.",
    "Access denied.",
    "The request is unsafe.",
    "The content is harmful.",
    "Found by the safety filter.",
    "The input was rejected.",
    "This is prohibited.",
    "See the terms of service.",
    "Not in your country.",
    "Not in your region.",
    "Not in the trial.",
)


def test_each_alternative_of_the_final_messages_has_an_example() -> None:
    alternatives = re.split(r"\|(?![^()]*\))", NEVER_HEALED)
    for alternative in alternatives:
        assert any(re.search(alternative, final, re.I | re.A) for final in FINAL), alternative


@pytest.mark.parametrize("final", FINAL)
def test_a_message_about_money_or_keys_is_final_in_any_company(final: str) -> None:
    for case in CASES:
        refusal = dialect_named(case.dialect).read_error(case.status, {}, case.error)
        assert refusal.message
        assert find_correction(refusal) is not None
        for message in (f"{final} {refusal.message}", f"{refusal.message} {final}"):
            assert find_correction(msgspec.structs.replace(refusal, message=message)) is None


json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from("abcd"), json, max_size=4),
    st.lists(
        st.lists(st.sampled_from(["a", "b", "c", "*", "d"]), min_size=1, max_size=4).map(".".join), max_size=3
    ),
)
def test_removing_fields_twice_is_removing_them_once(body: dict[str, object], paths: list[str]) -> None:
    losses = Losses()
    once = remove_fields(encode(body), paths, losses)
    assert remove_fields(once, paths, Losses()) == once
    assert (once == encode(body)) == (len(losses) == 0)
    assert isinstance(decode(once), dict)
