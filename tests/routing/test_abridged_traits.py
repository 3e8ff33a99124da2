"""Rules get the same answers from the new messages and remembered history as from the whole request."""

from collections import Counter
from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.agents.instructions import Instructions
from dragoman.config.provider import Provider
from dragoman.pipeline import body_parts
from dragoman.pipeline.history import ConversationMemo
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.pipeline.remembered import OwnHistories, RememberedHistories
from dragoman.routing.traits import RequestTraits
from tests.pipeline.sessions import DIALECTS, MODEL, PADDING, play
from tests.pipeline.test_prefix import HISTORY, list_sessions

LIMIT = 50_000_000
AGENTS = ("claude-cli/2.1.325", "codex_cli_rs/0.9", "GeminiCLI/1.0", "opencode/1.0", "my-app/1.0")
#: The generated sessions are made of few words, so each of these is in some instructions and not in others.
ROLES = {"lead": ("hydra:lead", "naïve"), "reader": ("x = 1", "日本"), "absent": ("hydra:none",)}
TRAITS = (
    "request_class",
    "roles",
    "project",
    "model_tag",
    "tokens",
    "has_images",
    "has_new_images",
    "wants_web_search",
    "effort",
    "wants_reasoning",
    "tools",
    "called_tools",
)
#: Words of the generated sessions, and what agents write in their place.
REPLACED = (
    (b'"the ', b'"<system-reminder> the '),
    (b"reads", b"working directory: /src/reads"),
    (b'"end."', b'"Warmup"'),
    (b'"file', b'"<DRAGOMAN-MODEL>chat/m</DRAGOMAN-MODEL> file'),
)


def start(body: bytes, source: str, agent: str, own: OwnHistories | None) -> RequestPlan:
    model = MODEL if source == "gemini" else ""
    plan = RequestPlan(RequestMetadata(dialect=source, model=model, headers={"user-agent": agent}), body)
    plan.histories = own
    plan.peek()
    return plan


def list_traits(plan: RequestPlan) -> dict[str, object]:
    traits = RequestTraits(plan, roles=ROLES, clock=datetime.now)
    return {name: getattr(traits, name) for name in TRAITS}


class Comparison:
    """One caller's requests, each with remembered history and without."""

    def __init__(self, source: str, agent: str) -> None:
        self._source, self._agent = source, agent
        self._own = OwnHistories(RememberedHistories(LIMIT), "caller")
        self.counts: Counter[str] = Counter()

    def add(self, body: bytes, target: str) -> None:
        """Compare a request, then translate it for the target."""
        known = start(body, self._source, self._agent, self._own)
        whole = start(body, self._source, self._agent, None)
        self.counts["abridged"] += known.abridged is not None
        self.counts["recognised"] += known.parts._known is not None
        self.counts["requests"] += 1
        found = list_traits(known)
        assert found == list_traits(whole)
        self.counts.update(name for name, value in found.items() if value)
        provider = Provider(name="server", dialect=target, base_url="http://127.0.0.1:9")
        translated = known.build_target_request(provider, "model-2")
        assert translated.compare(whole.build_target_request(provider, "model-2")) == ""
        known.keep_history()


def compare_session(seed: int, source: str, target: str, agent: str) -> Counter[str]:
    comparison = Comparison(source, agent)
    for body in play(seed, source):
        for word, other in REPLACED:
            body = body.replace(word, other)
        comparison.add(body, target)
    return comparison.counts


@settings(max_examples=100)
@given(st.integers(0, 2**32), st.sampled_from(DIALECTS), st.sampled_from(DIALECTS), st.sampled_from(AGENTS))
def test_a_generated_session_has_the_traits_of_its_whole_requests(
    seed: int, source: str, target: str, agent: str
) -> None:
    compare_session(seed, source, target, agent)


@pytest.mark.parametrize("is_forwarded", [False, True])
@pytest.mark.parametrize("source", DIALECTS)
def test_generated_sessions_are_abridged_and_have_all_kinds_of_traits(
    source: str, is_forwarded: bool
) -> None:
    other = "openai_chat" if source != "openai_chat" else "anthropic"
    counts: Counter[str] = Counter()
    for seed in range(24):
        counts += compare_session(seed, source, source if is_forwarded else other, AGENTS[0])
    assert counts["abridged"] > 0.3 * counts["requests"]
    assert counts["recognised"] > 20
    for name in ("roles", "project", "tokens", "has_images", "tools", "called_tools", "request_class"):
        assert counts[name] > 0, name


def test_the_last_text_of_the_user_may_stand_before_many_results_of_tools() -> None:
    comparison = Comparison("openai_chat", AGENTS[0])
    tool = {"type": "function", "function": {"name": "Read", "description": PADDING, "parameters": {}}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Begin."},
        {"role": "assistant", "content": "Begun."},
        {"role": "user", "content": "Warmup"},
    ]
    for number in range(5):
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": "done"},
        ]
        body = {"model": "m", "tools": [tool], "messages": messages}
        comparison.add(msgspec.json.encode(body), "anthropic")
    assert comparison.counts["abridged"] >= 2


@pytest.mark.parametrize("agent", AGENTS[:3])
@pytest.mark.parametrize("target", ["openai_chat", "gemini"])
@pytest.mark.parametrize(("source", "body", "cuts"), list_sessions())
def test_a_recorded_session_has_the_traits_of_its_whole_requests(
    source: str,
    body: dict[str, Any],
    cuts: list[int],
    target: str,
    agent: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(body_parts, "MIN_BODY", 0)
    comparison = Comparison(source, agent)
    member = HISTORY[source]
    for cut in (*cuts, len(body[member])):
        comparison.add(msgspec.json.encode({**body, member: body[member][:cut]}), target)


def talk(count: int, *, mark: bool = False) -> list[dict[str, Any]]:
    """The messages of a conversation with so many answers. `mark`: its last message has a cache mark."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": PADDING}]
    for number in range(count):
        messages += [
            {"role": "assistant", "content": f"answer {number}"},
            {"role": "user", "content": [{"type": "text", "text": f"prompt {number}"}]},
        ]
    if mark:
        messages[-1]["content"][0]["cache_control"] = {"type": "ephemeral"}
    return messages


def encode(messages: list[dict[str, Any]], **members: Any) -> bytes:
    return msgspec.json.encode({"model": "m", "max_tokens": 9, "messages": messages, **members})


@pytest.mark.parametrize("target", ["anthropic", "openai_chat"])
def test_moved_cache_marks_leave_most_of_a_conversation_known(target: str) -> None:
    comparison = Comparison("anthropic", AGENTS[0])
    for count in range(1, 8):
        comparison.add(encode(talk(count, mark=True)), target)
    assert comparison.counts["abridged"] >= 5
    assert comparison.counts["recognised"] >= 4


def test_the_reminder_of_the_first_prompt_may_be_new() -> None:
    comparison = Comparison("openai_chat", AGENTS[0])
    call = {"id": "call_1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
    begun: list[dict[str, Any]] = [
        {"role": "assistant", "content": PADDING, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "done"},
        {"role": "assistant", "content": "Done."},
    ]
    comparison.add(encode([*begun, {"role": "user", "content": "hi"}]), "openai_chat")
    for marker in ("naïve", "nothing", "naïve"):
        prompt = {"role": "user", "content": f"<system-reminder>{marker}"}
        comparison.add(encode([*begun, prompt]), "openai_chat")
    assert comparison.counts["roles"] == 2
    assert comparison.counts["abridged"] == 3


def test_the_same_history_with_another_system_prompt_has_other_traits() -> None:
    comparison = Comparison("anthropic", AGENTS[0])
    for number, system in enumerate(("naïve", "naïve", "other", "x = 1", "Working directory: /src/shop")):
        comparison.add(encode(talk(2 + number), system=system), "anthropic")
    assert comparison.counts["abridged"] == 4
    assert comparison.counts["roles"] == 3
    assert comparison.counts["project"] == 1


class OverwrittenMemo(ConversationMemo):
    """What the thread of another request of the conversation overwrites at once."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, ((), Instructions(())) if name == "instructions" and value else value)


def test_two_requests_of_a_conversation_may_be_read_at_once() -> None:
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    provider = Provider(name="server", dialect="openai_chat", base_url="http://127.0.0.1:9")
    for count in (2, 3):
        plan = start(encode(talk(count), system="naïve"), "anthropic", AGENTS[0], own)
        abridged = plan.abridged
        plan.build_target_request(provider, "model-2")
        plan.keep_history()
    assert abridged is not None
    history = msgspec.structs.replace(abridged.history, memo=OverwrittenMemo())
    read = msgspec.structs.replace(abridged, history=history)
    assert read.find_instructions().find_roles(ROLES) == {"lead"}


@pytest.mark.parametrize("target", ["anthropic", "openai_chat"])
def test_nothing_is_kept_for_rules_that_do_not_ask_for_the_body(target: str) -> None:
    remembered = RememberedHistories(LIMIT)
    own = OwnHistories(remembered, "caller")
    provider = Provider(name="server", dialect=target, base_url="http://127.0.0.1:9")
    for count in range(1, 5):
        plan = start(encode(talk(count)), "anthropic", AGENTS[0], own)
        traits = RequestTraits(plan, roles=ROLES, clock=datetime.now)
        assert (traits.model, traits.identity.agent, traits.list_known()) == ("m", "claude-code", {})
        plan.build_target_request(provider, "m")
        plan.keep_history()
    entries = [entry.history for entry in remembered._entries.values()]
    assert [history.end.kept for history in entries] == ([] if target == "anthropic" else [None])
    # The first rule that asks for the body reads all of it, the next one only what is new.
    found = []
    for count in range(5, 8):
        plan = start(encode(talk(count)), "anthropic", AGENTS[0], own)
        found.append(plan.abridged is not None)
        assert (
            list_traits(plan)["tokens"]
            == list_traits(start(plan.body, "anthropic", AGENTS[0], None))["tokens"]
        )
        plan.build_target_request(provider, "m")
        plan.keep_history()
    assert found == [False, True, True]


def test_what_is_kept_for_rules_is_forgotten_with_its_conversation() -> None:
    remembered = RememberedHistories(LIMIT)
    for caller in range(3):
        comparison = Comparison("anthropic", AGENTS[0])
        comparison._own = OwnHistories(remembered, caller)
        for count in range(1, 4):
            comparison.add(encode(talk(count)), "anthropic")
    assert len(remembered) == len(remembered._latest) == len(remembered._marks) / 2 == 3
    remembered.resize(remembered.bytes - 1, checks=False)
    assert len(remembered) == len(remembered._latest) == len(remembered._marks) / 2 == 2
    remembered.resize(0, checks=False)
    assert (len(remembered), remembered.bytes) == (0, 0)
    assert (remembered._latest, remembered._marks) == ({}, {})


@pytest.mark.parametrize("source", ["anthropic", "openai_chat"])
@pytest.mark.parametrize("has_spaces", [False, True])
def test_system_prompts_count_as_memory(source: str, has_spaces: bool) -> None:
    system = "Be brief. " * 20_000
    remembered = RememberedHistories(LIMIT)
    own = OwnHistories(remembered, "caller")
    provider = Provider(name="server", dialect=source, base_url="http://127.0.0.1:9")
    for count in range(1, 4):
        body = {"model": "m", "max_tokens": 9, "messages": talk(count)}
        if source == "anthropic":
            body["system"] = system
        else:
            body["messages"] = [{"role": "system", "content": system}, *talk(count)]
        encoded = msgspec.json.format(msgspec.json.encode(body), indent=1 if has_spaces else -1)
        plan = start(encoded, source, AGENTS[0], own)
        list_traits(plan)
        plan.build_target_request(provider, "m")
        plan.keep_history()
    # As a message, and in what was found in the instructions.
    assert remembered.bytes > 2 * len(system)


def test_a_tool_that_an_undone_message_declared_is_not_counted() -> None:
    comparison = Comparison("openai_responses", AGENTS[1])
    tool = {"type": "function", "name": "Late", "description": PADDING, "parameters": {}}
    items: list[dict[str, Any]] = [
        {"role": "user", "content": PADDING},
        {"role": "assistant", "content": "One."},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": "Two."},
        {"role": "user", "content": "three"},
    ]
    declared = {"type": "additional_tools", "role": "developer", "tools": [tool]}
    own = {**tool, "name": "Read"}
    for late in ([declared], [], []):
        body = {"model": "m", "tools": [own], "input": [*items, *late]}
        comparison.add(msgspec.json.encode(body), "openai_responses")
        items += [{"role": "assistant", "content": "More."}, {"role": "user", "content": "more"}]
    assert comparison.counts["abridged"] == 2
