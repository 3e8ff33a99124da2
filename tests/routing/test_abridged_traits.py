"""Rules get the same answers from the new messages and remembered history as from the whole request."""

from collections import Counter
from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config.provider import Provider
from dragoman.pipeline import reuse
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


@pytest.mark.parametrize("source", DIALECTS)
def test_generated_sessions_are_abridged_and_have_all_kinds_of_traits(source: str) -> None:
    target = "openai_chat" if source != "openai_chat" else "anthropic"
    counts: Counter[str] = Counter()
    for seed in range(24):
        counts += compare_session(seed, source, target, AGENTS[0])
    assert counts["abridged"] > 0.3 * counts["requests"]
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
    monkeypatch.setattr(reuse, "MIN_BODY", 0)
    comparison = Comparison(source, agent)
    member = HISTORY[source]
    for cut in (*cuts, len(body[member])):
        comparison.add(msgspec.json.encode({**body, member: body[member][:cut]}), target)
