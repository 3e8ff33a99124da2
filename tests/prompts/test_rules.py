"""Prompt rules: what each operation does, where it is reported, and that prompts keep their beginning."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config.load import load
from dragoman.config.prompts import PromptRule
from dragoman.config.rules import RuleConditions
from dragoman.exchange.gateway import Gateway
from dragoman.governance.interventions import Intervention
from dragoman.hub.errors import ConfigError
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.prompts.rules import apply_prompts, compile_prompts
from dragoman.records.prompts import find_break, list_parts
from dragoman.routing.traits import RequestTraits
from tests.cli.run_command import dragoman
from tests.records.recorded_gateway import CLAUDE, RecordedGateway, ask

HELLO: list[dict[str, Any]] = [{"role": "user", "content": "hello world"}]
TOOLS = [
    {"name": name, "description": f"does {name}", "input_schema": {"type": "object"}}
    for name in ("Read", "WebFetch")
]


def change(body: bytes, *rules: PromptRule) -> tuple[dict[str, Any], list[Intervention]]:
    """The request after the rules, in the client's dialect, and what was reported."""
    plan = RequestPlan(RequestMetadata(dialect="anthropic", headers=CLAUDE), body)
    plan.peek()
    traits = RequestTraits(plan, key="ci", clock=datetime.now)
    reports: list[Intervention] = []
    plan.rewrite(lambda request: apply_prompts(request, compile_prompts(rules), traits, reports.append))
    return msgspec.json.decode(plan.body), reports


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (PromptRule(find="k.nd", text="brief"), "be brief"),
        (PromptRule(find="(be) (kind)", text=r"\2 \1"), "kind be"),
        (PromptRule(operation="remove", find=" kind"), "be"),
        (PromptRule(operation="insert_before", find="kind", text="very "), "be very kind"),
        (PromptRule(operation="insert_after", find="be", text=" always"), "be always kind"),
        (PromptRule(operation="append", text="!"), "be kind!"),
        (PromptRule(operation="prepend", text="Please "), "Please be kind"),
        (PromptRule(operation="set", text="new"), "new"),
        (PromptRule(find="absent", text="x"), "be kind"),
        (PromptRule(operation="set", text="x", when=RuleConditions(agent=("codex",))), "be kind"),
        (PromptRule(operation="set", text="x", when=RuleConditions(agent=("claude-code",))), "x"),
        (PromptRule(operation="set", text="x", when=RuleConditions(model=("other",))), "be kind"),
        (PromptRule(operation="set", text="x", when=RuleConditions(tools=("Read",))), "x"),
        (PromptRule(operation="set", text="x", contains="kind"), "x"),
        (PromptRule(operation="set", text="x", contains="unkind"), "be kind"),
    ],
)
def test_an_operation_changes_the_system_text(rule: PromptRule, expected: str) -> None:
    named = msgspec.structs.replace(rule, name="mine")
    changed, reports = change(ask(HELLO, system="be kind", tools=TOOLS), named)
    assert changed["system"] == expected
    assert changed["messages"] == HELLO
    assert [report.detail for report in reports] == ([] if expected == "be kind" else [("mine",)])


def test_messages_and_tools_are_changed() -> None:
    body = ask(HELLO, tools=TOOLS)
    changed, _ = change(body, PromptRule(place="user", find="world", text="all"))
    assert changed["messages"][0]["content"] == "hello all"
    changed, _ = change(body, PromptRule(place="tools", tool="Web*", operation="remove"))
    assert [tool["name"] for tool in changed["tools"]] == ["Read"]
    changed, _ = change(body, PromptRule(place="tools", tool="Read", operation="append", text=" well"))
    assert [tool["description"] for tool in changed["tools"]] == ["does Read well", "does WebFetch"]
    changed, _ = change(body, PromptRule(operation="append", text="added"))
    assert (
        changed["system"][0]["text"] if isinstance(changed["system"], list) else changed["system"] == "added"
    )


def test_rules_apply_in_order_until_one_stops() -> None:
    rules = [
        PromptRule(name="a", operation="append", text="1"),
        PromptRule(name="b", operation="append", text="2", stop=True),
        PromptRule(name="c", operation="append", text="3"),
    ]
    changed, reports = change(ask(HELLO, system="0"), *rules)
    assert changed["system"] == "012"
    assert [report.detail[0] for report in reports] == ["a", "b"]


def test_a_request_that_no_rule_changes_stays_as_it_is() -> None:
    body = b'{ "model": "m",  "messages": [{"role": "user", "content": "x"}], "own": 1.0 }'
    plan = RequestPlan(RequestMetadata(dialect="anthropic"), body)
    plan.rewrite(lambda request: request)
    assert plan.body is body


TEXT = st.text("ab ", min_size=1, max_size=8).filter(str.strip)
RULE = st.builds(
    PromptRule,
    name=st.uuids().map(str),
    place=st.sampled_from(["system", "user", "assistant", "tools"]),
    operation=st.sampled_from(["replace", "insert_before", "insert_after"]),
    find=st.sampled_from(["a", "b+", "ab"]),
    text=st.text("xyz", max_size=3),
) | st.builds(
    PromptRule,
    name=st.uuids().map(str),
    place=st.sampled_from(["system", "user", "assistant", "tools"]),
    operation=st.sampled_from(["append", "prepend", "set"]),
    text=st.text("xyz", min_size=1, max_size=3),
)


@given(st.lists(RULE, max_size=4), st.lists(TEXT, min_size=1, max_size=5), TEXT, st.lists(TEXT, max_size=4))
def test_a_conversation_that_grows_keeps_its_prompt_under_any_rules(
    rules: list[PromptRule], texts: list[str], system: str, more: list[str]
) -> None:
    messages = [
        {"role": "assistant" if n % 2 else "user", "content": text} for n, text in enumerate([*texts, *more])
    ]
    before, after = (
        list_parts(change(ask(each, system=system, tools=TOOLS), *rules)[0])
        for each in (messages[: len(texts)], messages)
    )
    assert find_break(before, after) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('operation = "replace"', "needs `find`"),
        ('find = "("', "not a regular expression"),
        ('operation = "append"\nfind = "x"', "has no `find`"),
        ('operation = "remove"\nplace = "user"', "needs `find` in messages"),
        ('operation = "shout"', "expected"),
    ],
)
def test_a_wrong_rule_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(f"[[prompts]]\n{text}\n", "dragoman.toml", {})


def test_a_condition_that_changes_within_a_conversation_is_warned_about() -> None:
    config = load(
        '[[prompts]]\noperation = "append"\ntext = "x"\nwhen = { tokens_over = 10 }\n', "d.toml", {}
    )
    assert any("tokens_over" in str(warning) for warning in config.warnings)


def test_a_change_is_sent_recorded_and_tried(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    recorded = RecordedGateway(state)
    rule = PromptRule(name="mine", operation="append", text=" and brief")
    recorded.config = msgspec.structs.replace(recorded.config, prompts=(rule,))
    gateway = Gateway(recorded.config, upstreams={"up": recorded.upstream}, clock=recorded.gateway.clock)
    gateway.recorder = recorded.recorder
    gateway.observers.append(recorded.recorder.record_exchange)
    recorded.gateway = gateway

    async def run() -> str:
        client = await recorded.send(ask(HELLO, system="be kind"))
        await asyncio.to_thread(recorded.recorder.close)
        return client.headers["x-dragoman-repairs"]

    assert asyncio.run(run()) == "1: prompt (mine)"
    assert (
        msgspec.json.decode(recorded.upstream.calls[0].body)["messages"][0]["content"] == "be kind and brief"
    )
    configured = f'[server]\nstate = "{state}"\n[[prompts]]\nname = "loud"\nfind = "kind"\ntext = "LOUD"\n'
    (tmp_path / "dragoman.toml").write_text(configured, "utf-8")
    tried = dragoman(tmp_path, "prompts", "try", "last")
    assert tried.code == 0, tried.err
    assert "turn 1: loud" in tried.out
    assert "'be kind' → 'be LOUD'" in tried.out
