"""A table or the environment becomes governance settings, or an error that names the key."""

import pytest

from dragoman.governance.guard.rules import load_rule_sets
from dragoman.governance.settings import KEYS, Governance, apply_switches, read_governance
from dragoman.hub.errors import ConfigError


@pytest.mark.rule("R18", "R89", "C6")
def test_nothing_is_on_unless_asked_for() -> None:
    assert Governance().is_off
    assert read_governance({}) == Governance()


def test_what_a_table_does_not_state_stays_as_it_was() -> None:
    base = Governance(tools="auto", dedupe=True)
    assert read_governance({"harvest": "kimi_k2"}, base=base) == Governance(
        tools="auto", dedupe=True, harvest="kimi_k2"
    )


@pytest.mark.parametrize(
    "values",
    [
        {"tools": "hold"},
        {"tools": "auto"},
        {"harvest": "auto"},
        {"choice": "required"},
        {"contract": True},
        {"guard": ["secrets"]},
        {"rename": True},
        {"dedupe": True},
        {"validate": True},
    ],
)
def test_anything_that_acts_means_not_off(values: dict[str, object]) -> None:
    assert not read_governance(values).is_off


def test_a_contract_brings_the_harvest_of_its_format() -> None:
    assert read_governance({"contract": True}).family == "hermes"
    assert read_governance({"contract": True, "harvest": "auto"}).family == "auto"


def test_every_field_has_a_key_and_every_key_a_field() -> None:
    assert {*KEYS, "guard"} == set(Governance.__struct_fields__)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tool": "hold"}, "routes.a: unknown key 'tool'"),
        ({"tools": "slow"}, 'routes.a.tools: expected one of "live", "hold", "auto", got \'slow\''),
        ({"repair": 1}, "routes.a.repair: expected true or false, got 1"),
        ({"raw_key": ""}, "routes.a.raw_key: expected a text, got ''"),
        (
            {"harvest": ["kimi"]},
            'routes.a.harvest: expected "off", "auto", "model" or the name of a family, got an ar',
        ),
        (
            {"harvest": "hermess"},
            'routes.a.harvest: expected "off", "auto", "model" or the name of a family, got \'h',
        ),
        ({"hold_bytes": 10}, "routes.a.hold_bytes: expected an integer from 1024 on, got 10"),
        ({"hold_seconds": float("nan")}, "routes.a.hold_seconds: expected a number from 0 on, got nan"),
        ({"hold_seconds": True}, "routes.a.hold_seconds: expected a number from 0 on, got True"),
        ({"guard": "secrets"}, "routes.a.guard: expected a list of rules, got a string"),
        ({"guard": [1]}, "routes.a.guard[0]: expected a table or the name of a set, got a number"),
        ({"guard": ["secret"]}, "routes.a.guard[0].use: expected the name of a set of rules, got 'secret'"),
        ({"guard": [{"use": "secrets", "reason": "x"}]}, "routes.a.guard[0]: unknown key 'reason'"),
        ({"guard": [{"verdict": "refuse"}]}, "routes.a.guard[0].verdict: expected one of allow, deny, ask,"),
        ({"guard": [{"tools": ["a"]}]}, "routes.a.guard[0].verdict: expected one of allow, deny, ask,"),
        ({"guard": [{"verdict": "deny", "tools": "a"}]}, "routes.a.guard[0].tools: expected `array`"),
        ({"guard": [{"verdict": "deny", "tools": []}]}, "routes.a.guard[0].tools: expected at least one"),
        ({"guard": [{"verdict": "deny", "colour": 1}]}, "routes.a.guard[0]: unknown key 'colour'"),
        (
            {"guard": [{"verdict": "deny", "pattern": "(a"}]},
            "routes.a.guard[0].pattern: not a supported pattern: missing )",
        ),
        ({"guard": [{"verdict": "deny", "operators": ["?"]}]}, "routes.a.guard[0].operators: unknown oper"),
        (
            {"guard": [{"verdict": "deny", "pattern": "a", "command": ["b"]}]},
            "routes.a.guard[0]: expected one of pattern, command, operators, only, got several",
        ),
        ({"guard": [{"verdict": "deny", "fold": True}]}, "routes.a.guard[0]: only the verdict rewrite"),
        ({"guard": [{"verdict": "deny", "only": ["ls"]}]}, "routes.a.guard[0]: `only` needs `paths`"),
        ({"guard": [{"verdict": "rewrite"}]}, "routes.a.guard[0]: the verdict rewrite needs either"),
        ({"guard": [{"verdict": "deny"}] * 501}, "routes.a.guard: expected at most 500 rules, got 501"),
    ],
)
def test_errors_name_the_key_and_what_it_takes(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_governance(values, path="routes.a")
    assert caught.value.message.startswith(message)


@pytest.mark.rule("R79")
@pytest.mark.parametrize(
    ("environment", "tools", "repair"),
    [
        ({}, "live", True),
        ({"RCC_TOOL_ENHANCE": "1"}, "hold", True),
        ({"RCC_TOOL_ENHANCE": "TRUE"}, "hold", True),
        ({"RCC_TOOL_ENHANCE": "0"}, "live", False),
        ({"RCC_TOOL_ENHANCE": "false"}, "live", False),
        ({"RCC_TOOL_ENHANCE": ""}, "live", True),
        ({"DRAGOMAN_TOOL_ENHANCE": "1"}, "hold", True),
        ({"DRAGOMAN_TOOL_ENHANCE": "0", "RCC_TOOL_ENHANCE": "1"}, "live", False),
    ],
)
def test_the_environment_switches_mending(environment: dict[str, str], tools: str, repair: bool) -> None:
    governance = apply_switches(Governance(), environment)
    assert (governance.tools, governance.repair) == (tools, repair)


@pytest.mark.rule("R79", "C16")
def test_a_mode_that_mends_already_stays_when_mending_is_switched_on() -> None:
    assert apply_switches(Governance(tools="auto"), {"DRAGOMAN_TOOL_ENHANCE": "1"}).tools == "auto"


@pytest.mark.rule("R79", "C16")
def test_a_route_has_its_own_way_whatever_the_environment_states() -> None:
    base = apply_switches(Governance(), {"DRAGOMAN_TOOL_ENHANCE": "0"})
    governance = read_governance({"tools": "auto", "repair": True}, base=base)
    assert (governance.tools, governance.repair) == ("auto", True)


def test_a_switch_that_is_neither_on_nor_off_is_refused() -> None:
    with pytest.raises(ConfigError, match="RCC_TOOL_ENHANCE: expected 1, true, 0 or false, got 'maybe'"):
        apply_switches(Governance(), {"RCC_TOOL_ENHANCE": "maybe"})


@pytest.mark.rule("R87")
@pytest.mark.parametrize("name", ["shell_fold", "shell_writes", "git_destructive", "secrets"])
def test_every_ready_set_can_be_used(name: str) -> None:
    rules = read_governance({"guard": [name]}).guard
    assert len(rules) == len(load_rule_sets()[name].rules) > 0
    assert all(rule.reason for rule in rules)
    assert {rule.name.partition("/")[0] for rule in rules} == {name}


@pytest.mark.rule("R87")
def test_shell_rules_leave_claude_codes_own_shell_alone_unless_reported_otherwise() -> None:
    assert all("Bash" not in rule.tools for rule in read_governance({"guard": ["shell_writes"]}).guard)
    table = {"use": "shell_writes", "tools": ["Bash"], "paths": ["command"], "verdict": "ask"}
    for rule in read_governance({"guard": [table]}).guard:
        assert (rule.tools, rule.paths, rule.verdict) == (("Bash",), ("command",), "ask")


@pytest.mark.rule("G13")
@pytest.mark.parametrize(
    ("values", "has_tools", "is_idle"),
    [
        ({}, True, True),
        ({"tools": "hold"}, True, False),
        ({"tools": "hold", "guard": ["secrets"], "rename": True, "choice": "required"}, False, True),
        ({"harvest": "auto"}, False, False),
        ({"contract": True}, False, False),
    ],
)
def test_without_tools_only_a_harvest_has_anything_to_do(
    values: dict[str, object], has_tools: bool, is_idle: bool
) -> None:
    assert read_governance(values).is_idle(has_tools=has_tools) is is_idle
