"""Rules: each condition, their order, and that nothing is read which no rule asks for."""

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config.config import Config
from dragoman.config.load import load
from dragoman.config.rules import PRESETS, RuleConditions
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.routing import rules as routing_rules
from dragoman.routing.choose import apply_rule, choose, choose_exact, find_direct_target
from dragoman.routing.rules import TESTS, RuleTable, compile_rules, find_failed_check
from dragoman.routing.traits import RequestTraits

HEAD = """
default = "p/base"
[providers.p]
dialect = "openai_chat"
base_url = "http://127.0.0.1:9/v1"
"""
Json = dict[str, Any]
CLAUDE = {"user-agent": "claude-cli/2.1.325 (external, cli)"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
TITLE = {"type": "object", "properties": {"title": {"type": "string"}}}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
NIGHT = datetime(2026, 11, 18, 23, 30)


def config(rules: str, head: str = HEAD) -> Config:
    return load(head + rules, "dragoman.toml", {})


def traits(
    *messages: Json,
    headers: dict[str, str] = CLAUDE,
    model: str = "claude-opus-5-5",
    entry: str = "",
    key: str = "",
    **members: object,
) -> RequestTraits:
    body = {"model": model, "max_tokens": 99, "messages": list(messages) or [user("hi")], **members}
    plan = RequestPlan(
        RequestMetadata(dialect="anthropic", headers=headers, entry=entry), msgspec.json.encode(body)
    )
    plan.peek()
    roles = {"lead": ("hydra:lead",)}
    return RequestTraits(plan, key=key, roles=roles, clock=lambda: NIGHT)


def user(*content: object) -> Json:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else list(content)}


def answer(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


EDIT = {"type": "tool_use", "id": "t1", "name": "Edit", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "done"}
RESULT_IMAGE = {"type": "tool_result", "tool_use_id": "t1", "content": [IMAGE]}
LATER = (user("hi"), answer(EDIT), user(RESULT))
READ = {"name": "Read", "input_schema": {"type": "object"}}

#: Of each condition: a request for which it holds, and one for which it does not.
CASES: dict[str, tuple[RuleConditions, RequestTraits, RequestTraits]] = {
    "agent": (RuleConditions(agent=("claude-*",)), traits(), traits(headers={"user-agent": "x/1"})),
    "agent_version": (
        RuleConditions(agent_version=">=2.1.300"),
        traits(),
        traits(headers={"user-agent": "claude-cli/2.1.97"}),
    ),
    "sub_agent": (
        RuleConditions(sub_agent=True),
        traits(headers={**CLAUDE, "x-claude-code-agent-id": "a1"}),
        traits(),
    ),
    "role": (RuleConditions(role=("lead",)), traits(system="hydra:lead"), traits(user("hydra:lead"))),
    "classes": (RuleConditions(classes=("quota",)), traits(user("quota"), max_tokens=1), traits()),
    "model": (RuleConditions(model=("gpt-*", "claude-o*")), traits(), traits(model="claude-haiku-4-5")),
    "key": (RuleConditions(key=("ci*",)), traits(key="ci-1"), traits(key="dev")),
    "project": (
        RuleConditions(project=("shop",)),
        traits(system="Working directory: /src/shop\n"),
        traits(system="Working directory: /src/shop2\n"),
    ),
    "path": (RuleConditions(path=("/claude",)), traits(entry="/claude"), traits(entry="/codex")),
    "tokens_over": (RuleConditions(tokens_over=500), traits(user("word " * 2000)), traits()),
    "tokens_under": (RuleConditions(tokens_under=500), traits(), traits(user("word " * 2000))),
    "images": (
        RuleConditions(images="new"),
        traits(user("hi"), answer(EDIT), user(RESULT_IMAGE)),
        traits(user(IMAGE, text("see")), answer(text("I see")), user("go on")),
    ),
    "web_search": (RuleConditions(web_search=True), traits(tools=[SEARCH]), traits(tools=[READ])),
    "thinking": (
        RuleConditions(thinking=True),
        traits(thinking={"type": "enabled", "budget_tokens": 50}),
        traits(thinking={"type": "disabled"}),
    ),
    "effort": (
        RuleConditions(effort=("high", "max")),
        traits(output_config={"effort": "high"}),
        traits(output_config={"effort": "low"}),
    ),
    "tools": (RuleConditions(tools=("R*d",)), traits(tools=[READ]), traits()),
    "called": (
        RuleConditions(called=("Edit",)),
        traits(*LATER),
        traits(*LATER, answer(text("ok")), user("x")),
    ),
    "hours": (RuleConditions(hours="22:00-06:00"), traits(), traits()),
    "days": (RuleConditions(days=("wed",)), traits(), traits()),
    "headers": (
        RuleConditions(headers={"X-Team": "red*"}),
        traits(headers={**CLAUDE, "x-team": "red-1"}),
        traits(),
    ),
}


def holds(when: RuleConditions, request: RequestTraits) -> bool:
    (rule,) = compile_rules([msgspec.structs.replace(config("[[rules]]\ntarget='p'").rules[0], when=when)])
    return find_failed_check(rule, request) is None


@pytest.mark.parametrize("name", CASES)
@pytest.mark.rule("R131")
def test_a_condition_holds_for_the_right_requests_only(name: str) -> None:
    when, right, wrong = CASES[name]
    assert holds(when, right)
    if name not in ("hours", "days"):
        assert not holds(when, wrong)


def test_every_condition_has_a_test_and_a_case() -> None:
    assert set(TESTS) == set(RuleConditions.__struct_fields__) == set(CASES)


@pytest.mark.parametrize(
    ("hours", "expected"), [("09:00-17:00", False), ("23:00-24:00", True), ("23:31-23:30", False)]
)
def test_hours_may_pass_midnight(hours: str, expected: bool) -> None:
    assert holds(RuleConditions(hours=hours), traits()) is expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [("2.1.*", True), ("<2.2", True), (">2.1.325", False), ("=2.1.325.0", True), ("<=2.1.4", False)],
)
def test_versions_are_compared_number_by_number(wanted: str, expected: bool) -> None:
    assert holds(RuleConditions(agent_version=wanted), traits()) is expected


#: Conditions that need only headers, the model's name or the clock.
CHEAP = ("agent", "agent_version", "sub_agent", "model", "key", "path", "hours", "days", "headers")


@pytest.mark.parametrize("name", CHEAP)
def test_cheap_conditions_do_not_read_the_body(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    when, right, wrong = CASES[name]
    monkeypatch.setattr(RequestPlan, "request", property(lambda plan: pytest.fail("the body is read")))
    for request in (right, wrong):
        vars(request).pop("request", None)
        holds(when, request)


def test_a_rule_that_fails_by_a_header_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestPlan, "request", property(lambda plan: pytest.fail("the body is read")))
    when = RuleConditions(agent=("codex",), images="any", tokens_over=1, role=("lead",), classes=("title",))
    assert not holds(when, traits())


@given(st.lists(st.sampled_from(sorted(CASES)), min_size=1, max_size=8, unique=True))
def test_the_first_rule_that_holds_wins(names: list[str]) -> None:
    base = config("[[rules]]\ntarget='p'").rules[0]
    rules = RuleTable([msgspec.structs.replace(base, name=name, when=CASES[name][0]) for name in names])
    request = CASES[names[-1]][1]
    expected = next(index for index, name in enumerate(names) if holds(CASES[name][0], request))
    assert rules.find_match(request) == expected


#: Requests that differ in everything that conditions without the body ask for.
SENDERS = [
    traits(headers={**headers, **team}, model=model, entry=entry, key=key)
    for headers in (
        CLAUDE,
        {"user-agent": "claude-cli/2.3"},
        {**CLAUDE, "x-claude-code-agent-id": "a1"},
        {**CLAUDE, "x-claude-code-agent-id": "a2"},
        {"user-agent": "codex_cli_rs/0.9"},
    )
    for team in ({}, {"x-team": "red-1"})
    for model in ("claude-opus-5-5", "p/claude-haiku-4-5", "m" * 300)
    for entry in ("", "/claude")
    for key in ("", "ci-1")
]


@given(
    st.lists(st.lists(st.sampled_from(sorted(CASES)), max_size=3, unique=True), min_size=1, max_size=8),
    st.lists(st.tuples(st.sampled_from(SENDERS), st.integers(0, 8), st.booleans()), min_size=1, max_size=12),
    st.integers(1, 3),
)
def test_what_is_kept_of_a_sender_changes_no_match(
    names: list[list[str]], requests: list[tuple[RequestTraits, int, bool]], most: int
) -> None:
    base = config("[[rules]]\ntarget='p'").rules[0]
    conditions = [{name: getattr(CASES[name][0], name) for name in each} for each in names]
    rules = [msgspec.structs.replace(base, when=RuleConditions(**each)) for each in conditions]
    table = RuleTable(rules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing_rules, "MAX_SENDERS", most)
        for request, first, is_direct in requests:
            holding = [
                index
                for index, rule in enumerate(compile_rules(rules))
                if index >= first
                and find_failed_check(rule, request) is None
                and (not is_direct or rule.rule.when.model)
            ]
            assert table.find_match(request, first, is_direct=is_direct) == next(iter(holding), None)
            assert len(table._candidates) <= most


@given(st.binary(max_size=200))
def test_a_body_that_cannot_be_read_matches_no_condition_about_it(body: bytes) -> None:
    plan = RequestPlan(RequestMetadata(dialect="anthropic", headers=CLAUDE, model="m", is_peeked=True), body)
    request = RequestTraits(plan, clock=lambda: NIGHT)
    for name in ("role", "project", "tools", "called", "web_search", "thinking", "images", "tokens_over"):
        assert not holds(CASES[name][0], request)


PRESET_CASES: dict[str, Callable[[], RequestTraits]] = {
    "background": lambda: traits(model="claude-haiku-4-5"),
    "think": lambda: traits(thinking={"type": "adaptive"}),
    "longContext": lambda: traits(user("some word " * 60_000)),
    "webSearch": lambda: traits(tools=[SEARCH]),
    "image": lambda: traits(user(IMAGE)),
    "default": traits,
    "coding": lambda: traits(*LATER),
    "tools": lambda: traits(tools=[READ]),
    "lead": lambda: traits(system="hydra:lead"),
    "multimodal": lambda: traits(user(IMAGE), answer(text("ok")), user("and now?")),
    "vision": lambda: traits(user(IMAGE)),
    "longcontext": lambda: traits(user("some word " * 180_000)),
    "websearch": lambda: traits(tools=[SEARCH]),
    "thinking": lambda: traits(thinking={"type": "adaptive"}),
    "search": lambda: traits(user("hi"), answer({**EDIT, "name": "Grep"}), user(RESULT)),
    "probes": lambda: traits(user("quota"), max_tokens=1),
    "title": lambda: traits(output_config={"format": {"type": "json_schema", "schema": TITLE}}),
    "compaction": lambda: traits(user("Your task is to create a detailed summary of the conversation")),
    "subAgent": lambda: traits(headers={**CLAUDE, "x-claude-code-agent-id": "a1"}),
}
#: They hold for every request: the tag in the prompt decides.
ALWAYS = {"default", "tag"}


def test_every_preset_has_a_case() -> None:
    assert set(PRESET_CASES) | ALWAYS == set(PRESETS)


@pytest.mark.parametrize("preset", PRESET_CASES)
def test_presets_are_the_classes_of_other_routers(preset: str) -> None:
    assert holds(PRESETS[preset], PRESET_CASES[preset]())
    if preset != "default":
        assert not holds(PRESETS[preset], traits())


@pytest.mark.parametrize("name", ["p/gpt-5", "p,gpt-5", " p , gpt-5 "])
def test_a_name_with_its_provider_goes_there(name: str) -> None:
    found = find_direct_target(config(""), name)
    assert str(found) == "p/gpt-5"


def test_a_direct_name_passes_all_rules_that_do_not_ask_for_it() -> None:
    rules = RuleTable(config("[[rules]]\ntarget='p/a'\n[[rules]]\ntarget='p/b'\nwhen.model='p/*'").rules)
    request = traits(model="p/gpt-5")
    assert rules.find_match(request, is_direct=True) == 1
    assert rules.find_match(traits(model="p,gpt-5"), is_direct=True) is None


ROUTES = """
[[routes]]
match = "gpt-5"
target = "p/gpt-5"
effort_suffix = true
[[routes]]
match = "gpt-5-max"
target = "p/other"
[[routes]]
match = "q-*"
target = "p"
"""


@pytest.mark.parametrize(
    ("name", "target", "effort"),
    [
        ("gpt-5-high", "p/gpt-5", "high"),
        ("gpt-5", "p/gpt-5", None),
        ("gpt-5-max", "p/other", None),
        ("q-high", "p/q-high", None),
        ("gpt-5-huge", "p/base", None),
    ],
)
def test_the_end_of_a_name_sets_the_effort_where_the_route_allows_it(
    name: str, target: str, effort: str | None
) -> None:
    choice = choose(config(ROUTES), name)
    assert (str(choice.targets[0]), choice.effort) == (target, effort)


@pytest.mark.parametrize(
    ("route", "name", "target", "effort"),
    [
        ("gpt-5", "any-low", "p/gpt-5", "low"),
        ("gpt-5", "any", "p/gpt-5", None),
        ("q-*", "q-low", "p/q-low", None),
    ],
)
def test_a_rule_that_leads_to_a_route_has_the_efforts_of_the_route(
    route: str, name: str, target: str, effort: str | None
) -> None:
    settings = config(f"{ROUTES}[[rules]]\nroute = '{route}'")
    choice = apply_rule(settings, settings.rules[0], name)
    assert choice is not None
    assert (str(choice.targets[0]), choice.effort) == (target, effort)


def test_the_page_names_what_a_function_gets() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "rules.md").read_text("utf-8")
    listed = page.partition("The function gets a")[2].partition("It returns")[0].partition(": ")[2]
    names = re.findall(r"`(\w+)`", listed)
    assert "called_tools" in names
    assert [name for name in names if not hasattr(traits(), name)] == []


def test_an_exact_choice_never_uses_the_default() -> None:
    assert choose_exact(config(ROUTES), "nothing") is None
