"""The table takes any message, and a correction is always a set of facts that a profile can state."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dragoman.healing.corrections import Removal
from dragoman.healing.refusals import find_correction
from dragoman.hub.errors import Failure
from dragoman.hub.loss import Losses
from dragoman.pipeline.refused_fields import remove_fields
from dragoman.providers.facts import PERMISSIVE
from dragoman.providers.profile import Profile
from dragoman.wire.fields import decode, encode
from tests.healing.messages import CASES, Case

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


#: What a message contains that no change of the request ends.
FINAL = (
    "Your credit balance is too low.",
    "You exceeded your current quota.",
    "Incorrect API key provided.",
    "You do not have access to this model.",
    "The prompt triggers the content management policy.",
    "Rate limit reached.",
    "账户余额不足",
)


@given(st.sampled_from(CASES), st.sampled_from(FINAL), st.booleans())
def test_a_message_about_money_or_keys_is_final_whatever_else_it_contains(
    case: Case, final: str, first: bool
) -> None:
    texts = [final, case.message] if first else [case.message, final]
    failure = Failure(kind="invalid_request", status=400, message=" ".join(texts))
    assert find_correction(failure) is None


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
