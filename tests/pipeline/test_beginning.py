"""A new conversation is translated with the front of another one of the caller, as if nothing was known."""

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import translate_request
from dragoman.pipeline.remembered import OwnHistories, RememberedHistories
from tests.pipeline.session_bodies import encode_body, vary_items
from tests.pipeline.session_targets import choose_facts, choose_governance
from tests.pipeline.sessions import DIALECTS, PADDING, Session, build, compare_request

LIMIT = 50_000_000
READ = {"name": "Read", "description": PADDING, "input_schema": {"type": "object", "properties": {}}}


def compare_conversations(seed: int, source: str, target: str, counts: Counter[str]) -> None:
    """Play short conversations of an agent, which have the same tools, settings and target."""
    own = OwnHistories(RememberedHistories(LIMIT), 1)
    facts, governance = choose_facts(seed), choose_governance(seed)
    session = Session(seed)
    for number in range(8):
        if number % 3 == 0:
            session.messages = session.messages[:1] if number == 3 else []
            session.messages.append({"role": "user", "content": f"Conversation {number}."})
        session.grow(2 if number % 2 else 1)
        body: dict[str, Any] = session.write()
        if source != "anthropic":
            body = dict(translate_request(body, source="anthropic", target=source).body)
        vary_items(body, source, seed)
        sent = encode_body(body, source, seed % 8)
        difference = compare_request(counts, sent, source, target, own, facts, governance)
        assert not difference, f"seed {seed}, {source} to {target}, request {number}: {difference}"


@settings(max_examples=120)
@given(st.integers(0, 2**32), st.sampled_from(DIALECTS), st.sampled_from(DIALECTS))
def test_a_new_conversation_is_translated_as_if_nothing_was_remembered(
    seed: int, source: str, target: str
) -> None:
    if source != target:
        compare_conversations(seed, source, target, Counter())


def test_most_generated_conversations_begin_with_a_known_front() -> None:
    counts: Counter[str] = Counter()
    for seed in range(24):
        compare_conversations(seed, "anthropic", "openai_chat", counts)
    # Seven of eight could.
    assert counts["continued"] > 0.6 * counts["requests"]


def write(name: str, turns: int, **members: object) -> bytes:
    """A conversation of so many turns. Its first message and its ids have the name."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Begin {name}."}]
    for number in range(turns):
        call_id = f"toolu_{name}_{number}"
        call = {"type": "tool_use", "id": call_id, "name": "Read", "input": {"path": "x"}}
        result = {"type": "tool_result", "tool_use_id": call_id, "content": f"{number} done"}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    body = {"model": "m", "max_tokens": 10, "tools": [READ], "messages": messages, **members}
    return msgspec.json.encode(body)


def send(body: bytes, own: OwnHistories) -> bool:
    """Whether something remembered was reused. The result equals the whole translation."""
    sent = build(body, "anthropic", "openai_chat", own)
    assert sent.compare(build(body, "anthropic", "openai_chat", None)) == ""
    return sent.is_continued


def remember(owner: object = "caller") -> OwnHistories:
    """What is remembered after one conversation of a caller."""
    own = OwnHistories(RememberedHistories(LIMIT), owner)
    assert not send(write("a", 3), own)
    return own


@pytest.mark.parametrize("turns", [0, 1, 5])
def test_a_new_conversation_of_the_caller_reuses_the_front(turns: int) -> None:
    own = remember()
    assert send(write("b", turns), own)
    assert send(write("b", turns + 1), own)


def test_a_new_conversation_of_another_caller_does_not() -> None:
    remembered = remember("one").remembered
    assert not send(write("b", 3), OwnHistories(remembered, "two"))


@pytest.mark.parametrize(
    "changed",
    [
        {"max_tokens": 11},
        {"tools": [READ | {"description": PADDING[:-1] + "!"}]},
        {"tools": [READ | {"name": "Real"}]},
        {"tools": []},
        {"temperature": 0.5},
    ],
    ids=["setting", "tool", "undeclared call", "no tools", "further setting"],
)
def test_other_settings_and_tools_are_not_taken_from_another_conversation(changed: dict[str, object]) -> None:
    assert not send(write("b", 3, **changed), remember())


@pytest.mark.parametrize(
    "system", ["You write Go.", [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]]
)
def test_the_system_prompt_is_that_of_the_new_conversation(system: object) -> None:
    own = remember()
    assert send(write("b", 2, system=system), own)
    assert send(write("b", 3, system=system), own)
    assert send(write("c", 3), own)


def test_a_new_conversation_is_remembered_and_continued_byte_by_byte() -> None:
    own = remember()
    for turns in range(6):
        assert send(write("b", turns), own)
    marks = [own.remembered.find_marked(mark) for mark in own.remembered._marks]
    assert {history.end.count for history in marks if history} == {5, 9}


def test_a_front_is_forgotten_with_its_last_conversation() -> None:
    own = remember()
    own.remembered.resize(0, checks=False)
    own.remembered.resize(LIMIT, checks=False)
    assert not send(write("b", 3), own)
    assert send(write("c", 3), own)


def test_the_counted_bytes_are_bounded_while_conversations_begin() -> None:
    own = OwnHistories(RememberedHistories(200_000), "caller")
    for number in range(40):
        send(write(f"n{number}", 3), own)
        assert own.remembered.bytes <= 200_000
    assert len(own.remembered) < 40
    own.remembered.resize(0, checks=False)
    assert (own.remembered.bytes, own.remembered._fronts) == (0, {})


def find_known(own: OwnHistories) -> set[int]:
    """The numbers of remembered items of the conversations whose next body would be recognised."""
    remembered = own.remembered
    found = [remembered.find_marked(mark) for mark in remembered._marks]
    return {history.end.count for history in found if history and history.body}


def test_a_conversation_is_recognised_again_after_an_undo() -> None:
    own = remember()
    for turns in (4, 5, 3, 4, 5):
        assert send(write("b", turns), own)
    assert find_known(own) == {5, 9}


def test_a_conversation_is_continued_where_the_system_prompt_moved_it() -> None:
    # Members stand in this order: the place of the conversation depends on the system prompt.
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    nested = READ | {"input_schema": {"type": "object", "properties": {"messages": {"enum": [[]]}}}}
    for turns, system in enumerate(("x", "y", "longer", "", "longer"), 1):
        body = msgspec.json.decode(write("a", turns, tools=[nested]))
        head = {"model": "m", "max_tokens": 10, "system": system + PADDING}
        sent = msgspec.json.encode({**head, "messages": body["messages"], "tools": body["tools"]})
        assert send(sent, own) == (turns > 1)


def test_conversations_with_the_same_tools_count_them_once() -> None:
    own = remember()
    # Two conversations that do not know each other's tools.
    other = remember("other").remembered
    for turns in (3, 4):
        assert send(write("b", turns), own)
        send(write("b", turns), OwnHistories(other, "caller"))
    both = own.remembered.bytes
    tools = next(iter(own.remembered._tools.values()))
    assert (len(own.remembered._tools), tools.users) == (1, 2)
    assert both == other.bytes - tools.size
    own.remembered.resize(both - 1, checks=False)
    assert (len(own.remembered), tools.users) == (1, 1)
    own.remembered.resize(0, checks=False)
    assert (own.remembered.bytes, own.remembered._tools) == (0, {})
