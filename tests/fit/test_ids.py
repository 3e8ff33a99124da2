"""Call ids at the target, and codes that lead back to an upstream's own."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.fit.ids import SAFE, ClientIds, decode_id, is_legal_id
from dragoman.hub.blocks import ToolCall, ToolResult
from dragoman.hub.request import Message
from tests.fit.building import DIALECTS, build_message, call, fitted, request, result, target_for


def ids_at(dialect: str, *pairs: str, **facts: object) -> list[tuple[str, str]]:
    """Each id is called and answered in steps of its own: what calls and results are called at the target."""
    steps = [
        each
        for i in pairs
        for each in (build_message("assistant", call(i)), build_message("tool", result(i, "ok")))
    ]
    after, _ = fitted(request(build_message("user", "Hi"), *steps), dialect, **facts)
    return list(zip(calls(after.messages), results(after.messages), strict=True))


def calls(messages: tuple[Message, ...]) -> list[str]:
    return [block.id for each in messages for block in each.blocks if isinstance(block, ToolCall)]


def results(messages: tuple[Message, ...]) -> list[str]:
    return [block.call_id for each in messages for block in each.blocks if isinstance(block, ToolResult)]


@pytest.mark.rule("R30")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_legal_ids_stay(dialect: str) -> None:
    assert ids_at(dialect, "toolu_01", "call_2") == [("toolu_01", "toolu_01"), ("call_2", "call_2")]


@pytest.mark.rule("H16", "P33", "R30")
def test_an_id_with_foreign_characters_becomes_legal_on_both_sides() -> None:
    ((asked, answered),) = ids_at("anthropic", "functions.Read:0")
    assert asked == answered
    assert re.fullmatch(r"[A-Za-z0-9_-]+", asked)


@pytest.mark.rule("H16")
def test_long_ids_that_begin_alike_stay_apart() -> None:
    first, second = ids_at("openai_chat", "tool-1" + "0" * 50, "tool-1" + "0" * 51)
    assert first != second
    assert len(first[0]) <= 40


@pytest.mark.rule("H16")
def test_some_servers_want_exactly_nine_letters_and_digits() -> None:
    pairs = ids_at("openai_chat", "toolu_01", "abcdefgh1", call_id_exact=9)
    assert pairs[1] == ("abcdefgh1", "abcdefgh1")
    assert re.fullmatch(r"[a-z0-9]{9}", pairs[0][0])


@pytest.mark.rule("H17", "R30")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_id_that_comes_again_is_made_unique_on_call_and_result(dialect: str) -> None:
    pairs = ids_at(dialect, "call_0", "call_0", "call_0")
    assert len(set(pairs)) == 3
    assert pairs[0] == ("call_0", "call_0")
    assert all(asked == answered for asked, answered in pairs)


@pytest.mark.rule("H17")
def test_two_different_calls_with_one_id_in_one_message_get_one_result_each() -> None:
    asked = request(
        build_message("user", "Hi"),
        build_message("assistant", call("1", arguments='{"a":1}'), call("1", arguments='{"a":2}')),
        build_message("tool", result("1", "first"), result("1", "second")),
    )
    after, _ = fitted(asked, "openai_chat")
    assert len(set(calls(after.messages))) == 2
    assert calls(after.messages) == results(after.messages)


@pytest.mark.rule("H16", "P43")
def test_an_upstreams_id_comes_back_to_it_if_it_is_legal_there() -> None:
    coded = ClientIds(frozenset()).assign("functions.Read:0")
    assert SAFE.fullmatch(coded)
    assert ids_at("openai_chat", coded) == [("functions.Read:0", "functions.Read:0")]
    assert ids_at("anthropic", coded) == [(coded, coded)]


@pytest.mark.rule("R30")
def test_clients_of_the_same_dialect_keep_their_ids() -> None:
    asked = request(
        build_message("assistant", call("a b")), build_message("tool", result("a b")), dialect="openai_chat"
    )
    after, _ = fitted(asked, "openai_chat")
    assert after is asked


def test_a_code_is_not_read_out_of_a_foreign_id() -> None:
    assert decode_id("dgi_") is None
    assert decode_id("dgi_a") is None
    assert decode_id("dgi__w") is None
    assert decode_id("toolu_1") is None


@pytest.mark.rule("H17")
@settings(max_examples=100)
@given(st.lists(st.text(st.sampled_from("ab:.é_0"), max_size=60), max_size=12), st.booleans())
def test_client_ids_are_safe_unique_and_mostly_reversible(originals: list[str], known: bool) -> None:
    taken = frozenset(originals[:2]) if known else frozenset()
    ids = ClientIds(taken)
    given_out = [ids.assign(original) for original in originals]
    assert len(set(given_out) | taken) == len(given_out) + len(taken)
    assert all(map(SAFE.fullmatch, given_out))
    for original, client in zip(originals, given_out, strict=True):
        if client != original and 0 < len(original.encode()) <= 20:
            assert decode_id(client) == original


@pytest.mark.rule("H16", "H17", "P33")
@settings(max_examples=100)
@given(
    st.lists(st.text(st.sampled_from("ab:0"), max_size=45), max_size=6),
    st.sampled_from(DIALECTS),
    st.sampled_from([0, 9]),
)
def test_ids_are_legal_unique_and_equal_on_call_and_result(ids: list[str], dialect: str, exact: int) -> None:
    pairs = ids_at(dialect, *ids, call_id_exact=exact)
    assert len(set(pairs)) == len(ids)
    for asked, answered in pairs:
        assert asked == answered
        assert is_legal_id(asked, target_for(dialect, call_id_exact=exact))


def test_an_id_that_cannot_be_coded_still_gets_a_safe_one() -> None:
    assert SAFE.fullmatch(ClientIds(frozenset()).assign("\ud800"))


@pytest.mark.rule("H16")
def test_at_home_a_result_without_a_call_gets_a_legal_id_as_well() -> None:
    asked = request(
        build_message("tool", result("a b c")),
        build_message("tool", result("abcdefgh1")),
        dialect="openai_chat",
    )
    first, second = results(fitted(asked, "openai_chat", call_id_exact=9)[0].messages)
    assert re.fullmatch(r"[a-z0-9]{9}", first)
    assert second == "abcdefgh1"
