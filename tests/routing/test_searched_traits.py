"""Rules choose the same whether bodies are searched for words first, or read at once."""

from collections import Counter
from datetime import datetime
from math import inf
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.agents import REQUEST_CLASSES, ClassSign
from dragoman.config.provider import Provider, TargetName
from dragoman.config.rules import Rule, RuleConditions
from dragoman.dialects.forwarding import ContentName
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.pipeline.remembered import OwnHistories, RememberedHistories
from dragoman.routing.rules import RuleTable
from dragoman.routing.traits import RequestTraits, Trait
from tests.pipeline.sessions import DIALECTS, MODEL, PADDING, play
from tests.routing.test_abridged_traits import AGENTS, LIMIT, REPLACED, ROLES, encode, talk

#: Conditions that some requests of the generated sessions fulfil, and others do not.
CONDITIONS = (
    *(RuleConditions(classes=(name,)) for name in REQUEST_CLASSES if name != "turn"),
    *(RuleConditions(tokens_over=limit) for limit in (3_000, 5_000, 8_000, 20_000)),
    RuleConditions(images="any"),
    RuleConditions(images="new"),
    RuleConditions(images="none", tokens_under=4_000),
    RuleConditions(web_search=True),
    RuleConditions(web_search=False, tokens_over=7_000),
    RuleConditions(role=("lead", "absent")),
    RuleConditions(role=("reader",)),
    RuleConditions(project=("reads",)),
    RuleConditions(called=("Write", "mcp__*")),
    RuleConditions(called=("NoSuchTool",)),
    RuleConditions(tools=("a[.]b",)),
    RuleConditions(tools=("google*", "web_search")),
)
#: Other spellings of words in a body.
SPELLINGS = (
    (b'"image', b'"\\u0069mage'),
    (b"input_image", b"input\\u005fimage"),
    (b"inlineData", b"inline\\u0044ata"),
    (b"web_search", b"web\\u005Fsearch"),
    (b"Warmup", b"Warm\\u0075p"),
    (b"/", b"\\/"),
)


class ReadTraits(RequestTraits):
    """The traits without any search: the body may contain every word."""

    def _may_contain(self, *words: bytes) -> bool:
        return True

    def _may_have(self, content: ContentName) -> bool:
        return True

    def _may_match(self, sign: ClassSign) -> bool:
        return True

    @Trait
    def most_tokens(self) -> float:
        return inf


class Choices:
    """One caller's requests: what rules choose with remembered bodies and searches, and without."""

    def __init__(self, source: str, agent: str, conditions: list[RuleConditions], target: str) -> None:
        self._metadata = RequestMetadata(
            dialect=source, model=MODEL if source == "gemini" else "", headers={"user-agent": agent}
        )
        targets = (TargetName("server", "m"),)
        self._table = RuleTable([Rule(name="rule", when=when, targets=targets) for when in conditions])
        self._own = OwnHistories(RememberedHistories(LIMIT), "caller")
        self._provider = Provider(name="server", dialect=target, base_url="http://127.0.0.1:9")
        self.roles: dict[str, tuple[str, ...]] = ROLES
        self.counts: Counter[str] = Counter()

    def add(self, body: bytes) -> None:
        """Compare the choice for a request, then build it for the target."""
        plan, other = RequestPlan(self._metadata, body), RequestPlan(self._metadata, body)
        plan.histories = self._own
        for each in (plan, other):
            each.peek()
        found = RequestTraits(plan, roles=self.roles, clock=datetime.now)
        expected = ReadTraits(other, roles=self.roles, clock=datetime.now)
        index = self._table.find_match(found)
        assert index == self._table.find_match(expected)
        assert found.list_known() == expected.list_known()
        known = {name for name in vars(found) if not name.startswith("_") and name != "most_tokens"}
        assert {name: getattr(found, name) for name in known - {"request"}} == {
            name: getattr(expected, name) for name in known - {"request"}
        }
        if "tokens" not in known and (bound := found.most_tokens) < inf:
            self.counts["bounded"] += 1
            assert bound >= expected.tokens
        self.counts["requests"] += 1
        self.counts["matched"] += index is not None
        self.counts["recognised"] += plan.parts._known is not None
        self.counts["read"] += "_abridged" in vars(found)
        self.counts["abridged"] += vars(found).get("_abridged") is not None
        plan.build_target_request(self._provider, "m" if self._metadata.model == "" else MODEL)
        plan.keep_history()


def play_session(choices: Choices, seed: int, source: str) -> None:
    random = Random(seed)  # noqa: S311 (not for secrets)
    for body in play(seed, source):
        for word, other in REPLACED if seed % 2 else ():
            body = body.replace(word, other)
        for word, other in SPELLINGS:
            if random.random() < 0.05:
                body = body.replace(word, other)
        choices.add(body)


@settings(max_examples=150)
@given(
    st.integers(0, 2**32),
    st.sampled_from(DIALECTS),
    st.sampled_from(DIALECTS),
    st.sampled_from(AGENTS),
    st.lists(st.sampled_from(CONDITIONS), max_size=6),
)
def test_searches_change_no_choice_in_a_generated_session(
    seed: int, source: str, target: str, agent: str, conditions: list[RuleConditions]
) -> None:
    play_session(Choices(source, agent, conditions, target), seed, source)


@pytest.mark.parametrize("source", DIALECTS)
def test_some_bodies_of_generated_sessions_are_bounded_and_not_read(source: str) -> None:
    counts: Counter[str] = Counter()
    for seed in range(16):
        conditions = [RuleConditions(tokens_over=14_000)]
        choices = Choices(source, AGENTS[0], conditions, source)
        play_session(choices, seed, source)
        counts += choices.counts
    assert counts["recognised"] > 30
    assert counts["bounded"] > 4
    assert counts["read"] < counts["requests"] - 4


#: Conditions of which none holds for an ordinary request.
OTHERS = [
    RuleConditions(classes=("title", "quota")),
    RuleConditions(images="any"),
    RuleConditions(web_search=True),
    RuleConditions(role=("absent",)),
    RuleConditions(called=("NoSuchTool",)),
]


def test_an_ordinary_conversation_is_not_read_for_rules() -> None:
    choices = Choices("anthropic", AGENTS[0], OTHERS, "anthropic")
    choices.roles = {"absent": ROLES["absent"]}
    for count in range(1, 9):
        choices.add(encode(talk(count, mark=count > 4)))
    assert choices.counts["read"] == choices.counts["matched"] == 0
    assert choices.counts["recognised"] >= 6


def test_a_translated_conversation_is_read_once_for_rules_and_translation() -> None:
    choices = Choices("anthropic", AGENTS[0], OTHERS, "openai_chat")
    choices.roles = {"absent": ROLES["absent"]}
    for count in range(1, 6):
        choices.add(encode(talk(count)))
    # The first request is only searched. The others are read for the translation in any case.
    assert (choices.counts["read"], choices.counts["abridged"]) == (4, 4)


def test_a_conversation_is_read_again_only_if_it_may_have_more_tokens() -> None:
    choices = Choices("anthropic", AGENTS[0], [RuleConditions(tokens_over=6_000)], "anthropic")
    for count in range(1, 9):
        choices.add(encode(talk(count)))
    assert choices.counts["read"] == 1
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    images = {"role": "user", "content": [image] * 4}
    choices.add(encode([*talk(9), {"role": "assistant", "content": "See."}, images]))
    assert (choices.counts["read"], choices.counts["matched"]) == (2, 1)


@pytest.mark.parametrize("place", ["messages", "system", "tools"])
def test_a_word_that_comes_late_is_found(place: str) -> None:
    """It comes in a new message, or in a member that changes."""
    conditions = [RuleConditions(role=("lead",)), RuleConditions(web_search=True)]
    choices = Choices("anthropic", AGENTS[0], conditions, "anthropic")
    for count in range(1, 6):
        messages = talk(count)
        members: dict[str, Any] = {"system": "Be brief.", "tools": []}
        if count > 2:
            late: dict[str, Any] = {
                "messages": [*messages, {"role": "system", "content": "hydra:lead"}],
                "system": "hydra:lead",
                "tools": [{"type": "web_search_20250305", "name": "web_search"}],
            }
            members[place] = late[place]
        choices.add(msgspec.json.encode({"model": "m", "max_tokens": 9, "messages": messages, **members}))
    assert choices.counts["matched"] == 3


def test_a_new_conversation_with_known_tools_is_read_without_them() -> None:
    choices = Choices("anthropic", AGENTS[0], [RuleConditions(tokens_over=9_000)], "anthropic")
    tools = [{"name": "Read", "description": PADDING * 2, "input_schema": {"type": "object"}}]
    for number in range(4):
        messages = [{"role": "user", "content": f"{number} {PADDING}"}]
        choices.add(encode(messages, tools=tools))
    assert choices.counts["read"] == 4
    assert len(choices._own.remembered) == 4


@pytest.mark.parametrize("target", ["anthropic", "openai_chat"])
def test_a_new_conversation_with_a_known_front_is_searched_behind_it(target: str) -> None:
    choices = Choices("anthropic", AGENTS[0], [RuleConditions(role=("lead",))], target)
    choices.roles = {"lead": ("hydra:lead",)}
    for word in ("none", "hydra:lead", "none", "hydra:lead"):
        prompt = {"role": "user", "content": f"<system-reminder>{word} {PADDING}"}
        begun = [prompt, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Go on."}]
        for messages in ([prompt], begun):
            choices.add(encode(messages, system="Be brief."))
    assert choices.counts["matched"] == 4
    # The marker of the last conversation is now in the system prompt.
    choices.add(encode(talk(2), system="hydra:lead"))
    choices.add(encode(talk(3), system="Be brief."))
    assert choices.counts["matched"] == 5
