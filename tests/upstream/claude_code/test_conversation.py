"""Histories with the same content have the same fingerprint, and no others."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.hub.errors import ClientProtocolError
from dragoman.upstream.claude_code.conversation import (
    extend_history,
    fingerprint,
    outline,
    read_conversation,
)
from dragoman.upstream.claude_code.upstream import SessionRequest
from dragoman.upstream.port import UpstreamRequest
from tests.upstream.claude_code.bodies import Json, call, claude, result, talk, user

HISTORY = (
    user("add 1 and 2"),
    claude("I will.", call("c1", a=1, b={"x": [1, 2], "y": "z"})),
    user(result("c1", "3")),
)


def mark(*messages: Json) -> str:
    return fingerprint(talk(*messages).items)


@pytest.mark.rule("R101")
@pytest.mark.parametrize(
    "other",
    [
        pytest.param(
            (
                {"role": "user", "content": "add 1 and 2"},
                claude("I will.", call("c1", b={"y": "z", "x": [1, 2]}, a=1)),
                user(result("c1", [{"type": "text", "text": "3"}])),
            ),
            id="order-of-keys-and-wrapping",
        ),
        pytest.param(
            (
                user("add 1", {"type": "text", "text": " and 2\n", "cache_control": {"type": "ephemeral"}}),
                claude({"type": "thinking", "thinking": "hm", "signature": "s"}, "I  will."),
                claude({**call("c1", a=1, b={"x": [1, 2], "y": "z", "n": None}), "caller": None}),
                user(result("c1", "3")),
            ),
            id="cuts-blanks-nulls-marks-and-reasoning",
        ),
        pytest.param(
            (*HISTORY, claude(call("c1", a=1)), user(result("c1", "3"))), id="a-call-that-was-asked-for-again"
        ),
    ],
)
def test_what_clients_change_without_meaning_anything_makes_no_difference(other: tuple[Json, ...]) -> None:
    assert mark(*other) == mark(*HISTORY)


@pytest.mark.parametrize(
    "other",
    [
        (user("add 1 and 3"), *HISTORY[1:]),
        (HISTORY[0], claude("I won't.", call("c1", a=1, b={"x": [1, 2], "y": "z"})), HISTORY[2]),
        (HISTORY[0], claude("I will.", call("c1", a=2, b={"x": [1, 2], "y": "z"})), HISTORY[2]),
        (HISTORY[0], claude("I will.", call("c2", a=1, b={"x": [1, 2], "y": "z"})), user(result("c2", "3"))),
        (*HISTORY[:2], user(result("c1", "4"))),
        HISTORY[:2],
    ],
)
def test_other_content_makes_another_outline(other: tuple[Json, ...]) -> None:
    assert mark(*other) != mark(*HISTORY)


def test_an_outline_does_not_depend_on_the_text_of_claude() -> None:
    silent = (HISTORY[0], claude(call("c1", a=1, b={"x": [1, 2], "y": "z"})), HISTORY[2])
    assert outline(talk(*silent).items) == outline(talk(*HISTORY).items)
    assert fingerprint(talk(*silent).items) != fingerprint(talk(*HISTORY).items)


def test_the_news_are_what_comes_after_claude() -> None:
    conversation = talk(*HISTORY, claude(call("c2"), call("c3")), user(result("c2"), "and hurry"))
    assert [item.id for item in conversation.results] == ["c2"]
    assert [item.key for item in conversation.prompt] == ["and hurry"]
    assert [item.id for item in conversation.open_calls] == ["c3"]


def test_results_that_come_in_parts_are_news_until_claude_goes_on() -> None:
    conversation = talk(
        user("go"), claude(call("c1"), call("c2")), user(result("c2")), claude(call("c1")), user(result("c1"))
    )
    assert [item.id for item in conversation.results] == ["c2", "c1"]
    assert conversation.open_calls == ()
    assert conversation.call_groups == 1


@pytest.mark.rule("R100")
def test_rounds_are_counted_from_the_last_words_of_the_user() -> None:
    earlier = (user("go"), claude(call("c1")), user(result("c1")), claude(call("c2")), user(result("c2")))
    assert talk(*earlier).call_groups == 2
    assert talk(*earlier, claude("done"), user("more")).call_groups == 0
    assert (
        talk(*earlier, claude("done"), user("more"), claude(call("c3")), user(result("c3"))).call_groups == 1
    )


texts = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=4), texts)
def test_the_next_request_shows_the_history_that_was_foretold(
    turns: list[tuple[str, str]], question: str
) -> None:
    messages = [
        message for asked, answered in turns for message in (user(f"q{asked}"), claude(f"a{answered}"))
    ]
    before = talk(*messages[:-1])
    foretold = extend_history(before, messages[-1]["content"])
    after = talk(*messages, user(f"q{question}"))
    assert fingerprint(foretold) == fingerprint(after.history)


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}


def test_thoughts_that_lead_to_the_calls_being_answered_are_missed() -> None:
    answer = user(result("c1"))
    assert talk(user("go"), claude(call("c1")), answer).lacks_thinking
    assert talk(user("go"), claude({**THOUGHT, "signature": ""}, call("c1")), answer).lacks_thinking
    assert not talk(user("go"), claude(THOUGHT, "So.", call("c1")), answer).lacks_thinking
    assert not talk(user("go"), claude(call("c1")), user(result("c1"), "and?")).lacks_thinking
    assert talk(user("go"), claude(THOUGHT, call("c1"), THOUGHT, call("c2")), answer).call_groups == 1


def test_a_system_prompt_in_parts_is_one_text() -> None:
    blocks = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]
    assert read_conversation({"messages": [], "system": blocks}).system == "Be brief.\n\nBe kind."


@pytest.mark.rule("F13", "F14")
@pytest.mark.parametrize(
    ("field", "value"),
    [("thread", {"type": "continue", "previous_message_id": "m"}), ("safeguards", [{"type": "any"}])],
)
def test_what_only_the_servers_of_anthropic_can_do_is_refused(field: str, value: object) -> None:
    body = msgspec.json.encode({"messages": [{"role": "user", "content": "hello"}], field: value})
    with pytest.raises(ClientProtocolError) as caught:
        SessionRequest(UpstreamRequest(body=body, model="sonnet", stream=True))
    assert (caught.value.status, caught.value.path) == (400, field)
