"""A visible history as Claude Code's own transcript."""

from uuid import uuid4

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.upstream.claude_code.transcript import (
    CANCELLED,
    has_question,
    write_messages,
    write_project_folder,
    write_transcript,
)
from tests.upstream.claude_code.bodies import Json, call, claude, result, talk, user


def test_every_call_is_followed_by_its_result_and_has_the_name_that_claude_code_knows() -> None:
    conversation = talk(
        user("go"),
        claude("Well.", call("c1"), call("c2")),
        user(result("c2", "two"), result("c1", "one"), "ok?"),
    )
    assert write_messages(conversation) == [
        user("go"),
        claude("Well.", call("c1", "mcp__gateway__calculate"), call("c2", "mcp__gateway__calculate")),
        user(result("c1", "one"), result("c2", "two"), "ok?"),
    ]


def test_results_that_came_in_parts_become_one_round_again() -> None:
    conversation = talk(
        user("go"), claude(call("c1"), call("c2")), user(result("c2")), claude(call("c1")), user(result("c1"))
    )
    assert [message["role"] for message in write_messages(conversation)] == ["user", "assistant", "user"]


def test_a_result_after_the_answer_leaves_nothing_to_answer() -> None:
    history = (user("go"), claude(call("c1"), call("c2")), user(result("c1")))
    assert has_question(talk(*history))
    assert not has_question(talk(*history, claude("Done."), user(result("c2"))))
    assert has_question(talk(*history, claude("Done."), user(result("c2"), "and now?")))


def test_thoughts_come_along_if_they_are_signed() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    conversation = talk(user("go"), claude(thought, call("c1")), user(result("c1")))
    assert write_messages(conversation)[1]["content"][0] == thought


def test_rounds_stay_apart() -> None:
    conversation = talk(
        user("go"), claude(call("c1")), user(result("c1")), claude(call("c2")), user(result("c2"))
    )
    assert [message["role"] for message in write_messages(conversation)] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]


def test_a_call_that_was_passed_over_is_marked_as_such() -> None:
    answers = write_messages(talk(user("go"), claude(call("c1")), user("never mind")))[-1]["content"]
    assert answers[0] == {**result("c1", CANCELLED), "is_error": True}
    assert answers[1]["text"] == "never mind"


blocks = st.sampled_from(["a", "b", "call", "result"])


@given(st.lists(st.tuples(st.booleans(), st.lists(blocks, min_size=1, max_size=3)), min_size=1, max_size=6))
def test_a_transcript_is_a_chain_that_an_api_accepts(turns: list[tuple[bool, list[str]]]) -> None:
    output: list[Json] = [user("begin")]
    made: list[str] = []
    for is_claude, words in turns:
        parts: list[str | Json] = []
        for word in words:
            if word == "call" and is_claude:
                made.append(f"c{len(made)}")
                parts.append(call(made[-1]))
            elif word == "result" and not is_claude and made:
                parts.append(result(made[-1]))
            elif word in "ab":
                parts.append(word)
        output.append(claude(*parts) if is_claude else user(*parts))
    lines = [
        msgspec.json.decode(line)
        for line in write_transcript(talk(*output), str(uuid4()), "/w", "m").splitlines()
    ]
    assert [line["parentUuid"] for line in lines] == [None, *(line["uuid"] for line in lines[:-1])]
    waiting: set[str] = set()
    for line in lines:
        content = line["message"]["content"]
        results = {block["tool_use_id"] for block in content if block["type"] == "tool_result"}
        assert results == (waiting if line["type"] == "user" else set())
        assert line["type"] == "user" or not waiting
        waiting = {block["id"] for block in content if block["type"] == "tool_use"}


def test_a_folder_is_named_as_claude_code_names_it() -> None:
    assert write_project_folder("/srv/a.b/my work") == "-srv-a-b-my-work"


@pytest.mark.rule("D9")
@pytest.mark.parametrize("prompt", [(), ("and?",)], ids=["alone", "with-text"])
def test_the_last_results_are_followed_by_a_message_of_their_own(prompt: tuple[str, ...]) -> None:
    conversation = talk(user("go"), claude(call("c1")), user(result("c1"), *prompt))
    lines = [
        msgspec.json.decode(line)
        for line in write_transcript(conversation, str(uuid4()), "/w", "m").splitlines()
    ]
    contents = [[block["type"] for block in line["message"]["content"]] for line in lines]
    assert contents == [["text"], ["tool_use"], ["tool_result"], ["text"] * len(prompt)]
