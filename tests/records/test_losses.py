"""The losses of a session in groups, and the advice about them."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dragoman
from dragoman.hub.loss import Loss
from dragoman.providers.facts import Facts
from dragoman.records.losses import ADVICE, find_advice, find_pattern, group_losses
from dragoman.records.reading import read_session, read_turn
from dragoman.records.stored_turn import decode_losses
from tests.records.recorded_gateway import RecordedGateway, ask

PATHS = st.lists(st.sampled_from(["messages", "tools", "[0]", "[12]", "[*]", "[x]", ".text"]), max_size=5)
LOSSES = st.builds(Loss, PATHS.map("".join), st.sampled_from(["one", "two"]))
TURNS = st.dictionaries(st.integers(1, 50), st.lists(LOSSES, max_size=6), max_size=6)


@given(TURNS)
def test_every_loss_is_counted_once(turns: dict[int, list[Loss]]) -> None:
    groups = group_losses(turns.items())
    assert sum(group.count for group in groups) == sum(map(len, turns.values()))
    assert len({(group.path, group.reason) for group in groups}) == len(groups)
    for group in groups:
        members = {
            number: [
                loss
                for loss in losses
                if (find_pattern(loss.path), loss.reason) == (group.path, group.reason)
            ]
            for number, losses in turns.items()
        }
        numbers = [number for number, losses in members.items() if losses]
        assert group.count == sum(map(len, members.values()))
        assert (group.turns, group.first, group.last) == (len(numbers), min(numbers), max(numbers))
    assert [group.turns for group in groups] == sorted((group.turns for group in groups), reverse=True)


def test_places_that_differ_only_in_indices_are_one_group() -> None:
    found = group_losses(
        [
            (1, [Loss("messages[0].content[2]", "r"), Loss("", "r")]),
            (2, [Loss("messages[0].content[2]", "r"), Loss("messages[14].content[0]", "r")]),
        ]
    )
    counts = [(group.path, group.turns, group.count, group.first, group.last) for group in found]
    assert counts == [("messages[*].content[*]", 2, 3, 1, 2), ("", 1, 1, 1, 1)]


MESSAGES: dict[str, Any] = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
RESPONSES: dict[str, Any] = {"model": "m", "input": "hi"}
TOOL = {"name": "f", "input_schema": {"type": "object"}}
FUNCTION = {
    "type": "function",
    "name": "f",
    "parameters": {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
}


def build_media(kind: str, media_type: str) -> dict[str, object]:
    source = {"type": "base64", "media_type": media_type, "data": "aGk="}
    return {"role": "user", "content": [{"type": kind, "source": source}]}


IMAGE, DOCUMENT = build_media("image", "image/png"), build_media("document", "application/pdf")

#: A client's API and request, facts that cause a loss, and those that the advice names.
CASES: list[tuple[str, dict[str, Any], dict[str, object], dict[str, object]]] = [
    ("anthropic", {**MESSAGES, "messages": [IMAGE]}, {"images": False}, {"images": True}),
    ("anthropic", {**MESSAGES, "messages": [DOCUMENT]}, {"documents": False}, {"documents": True}),
    (
        "anthropic",
        {**MESSAGES, "max_tokens": 9000},
        {"max_output_tokens": 4096},
        {"max_output_tokens": 10000},
    ),
    ("openai_chat", {**CHAT, "temperature": 1.5}, {"temperature_limit": 1}, {"temperature_limit": 2}),
    ("anthropic", {**MESSAGES, "max_tokens": 5}, {"min_output_tokens": 16}, {"min_output_tokens": 1}),
    ("anthropic", MESSAGES, {"limits_output": False}, {"limits_output": True}),
    ("anthropic", {**MESSAGES, "temperature": 0.5}, {"sampling": []}, {"sampling": ["temperature"]}),
    ("openai_chat", {**CHAT, "logprobs": True}, {"sampling": []}, {"sampling": ["logprobs"]}),
    (
        "openai_responses",
        {**RESPONSES, "temperature": 0.5, "reasoning": {"effort": "high"}},
        {"sampling_with_reasoning": False, "efforts": ["high"], "reasoning": "effort"},
        {"sampling_with_reasoning": True},
    ),
    (
        "anthropic",
        {**MESSAGES, "temperature": 0.5, "top_p": 0.5},
        {"temperature_with_top_p": False},
        {"temperature_with_top_p": True},
    ),
    (
        "openai_responses",
        {**RESPONSES, "reasoning": {"effort": "high"}},
        {"reasoning": "effort", "efforts": ["low"]},
        {"efforts": ["low", "high"]},
    ),
    (
        "openai_responses",
        {**RESPONSES, "reasoning": {"effort": "high"}},
        {"reasoning": "none"},
        {"reasoning": "effort"},
    ),
    (
        "openai_responses",
        {**RESPONSES, "reasoning": {"effort": "high"}},
        {"whole_reasoning": False},
        {"whole_reasoning": True},
    ),
    (
        "openai_responses",
        {**RESPONSES, "tools": [{**FUNCTION, "strict": True}]},
        {"strict_tools": False},
        {"strict_tools": True},
    ),
    (
        "openai_responses",
        {**RESPONSES, "tools": [{"type": "web_search"}]},
        {"hosted_tools": []},
        {"hosted_tools": ["web_search"]},
    ),
    (
        "anthropic",
        {**MESSAGES, "tools": [TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        {"parallel_control": False},
        {"parallel_control": True},
    ),
    (
        "anthropic",
        {**MESSAGES, "tools": [TOOL], "tool_choice": {"type": "any"}},
        {"choices": ["auto"]},
        {"choices": ["auto", "required"]},
    ),
    ("openai_responses", {**RESPONSES, "prompt_cache_key": "k"}, {"caching": "none"}, {"caching": "key"}),
    (
        "openai_responses",
        {**RESPONSES, "service_tier": "flex"},
        {"service_tiers": []},
        {"service_tiers": ["flex"]},
    ),
    (
        "openai_chat",
        {**CHAT, "response_format": {"type": "json_object"}},
        {"outputs": ["text"]},
        {"outputs": ["text", "json_object"]},
    ),
    (
        "anthropic",
        {**MESSAGES, "messages": [*MESSAGES["messages"], {"role": "assistant", "content": "x"}]},
        {"prefill": False},
        {"prefill": True},
    ),
]


@pytest.mark.parametrize(
    ("source", "body", "causes", "advised"), CASES, ids=[next(iter(case[3])) for case in CASES]
)
def test_the_fact_that_is_advised_prevents_the_loss(
    source: str, body: dict[str, Any], causes: dict[str, object], advised: dict[str, object]
) -> None:
    def translate(facts: dict[str, object]) -> tuple[Loss, ...]:
        profile = dragoman.Profile(dialect="openai_chat").with_facts(**facts)
        return tuple(
            dragoman.translate_request(body, source=source, target="openai_chat", profile=profile).losses
        )

    (loss,) = translate(causes)
    assert translate({**causes, **advised}) == ()
    (fact,) = advised
    assert fact in find_advice(loss.reason).split()


def test_advice_names_facts_that_exist() -> None:
    words = {word for _, advice in ADVICE for word in advice.split() if "_" in word}
    assert words <= set(Facts.__struct_fields__)


def test_nothing_is_advised_where_nothing_is_known() -> None:
    assert find_advice("the call has no result, so a placeholder was added") == ""


def test_a_session_has_the_losses_of_its_turns(tmp_path: Path) -> None:
    recorded = RecordedGateway(tmp_path)

    async def run() -> None:
        for count in (1, 2):
            body = ask(
                [{"role": "user", "content": "hi"}] * count, context_management={"edits": [1]}, top_k=5
            )
            await recorded.send(body)
        await recorded.send(ask([{"role": "user", "content": "other"}]))
        await asyncio.to_thread(recorded.recorder.close)

    asyncio.run(run())
    session = recorded.read(read_session, "session-1")
    listed = [
        loss for number in (1, 2, 3) for loss in recorded.read(read_turn, "session-1", number)["loss_list"]
    ]
    groups = {group["path"]: group for group in session["loss_groups"]}
    assert sum(group["count"] for group in groups.values()) == session["losses"] == len(listed) > 0
    assert (groups["context_management"]["turns"], groups["context_management"]["last"]) == (2, 2)
    assert groups["context_management"]["advice"] == "use a target of the client's own API"


def test_details_of_earlier_versions_have_their_losses() -> None:
    losses = [{"path": "a", "reason": "b"}]
    details = {"losses": losses, "reply_losses": [{"path": "", "reason": "c"}], "attempts": []}
    assert decode_losses(msgspec.json.encode(details)) == [Loss("a", "b"), Loss("", "c")]
