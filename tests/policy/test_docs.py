"""The pages about governance speak of everything there is, and their examples are true."""

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from dragoman.hub.content import ToolCall
from dragoman.policy.judge import Judgement
from dragoman.policy.rules import VERDICTS, GuardRule, read_rules, rule_sets
from dragoman.policy.settings import KEYS, SWITCHES, Governance, read_governance

DOCS = Path(__file__).resolve().parents[2] / "docs"
GOVERNANCE = (DOCS / "governance.md").read_text(encoding="utf-8")
GUARD = (DOCS / "guard.md").read_text(encoding="utf-8")


def toml_examples() -> list[str]:
    return re.findall(r"```toml\n(.*?)```", GOVERNANCE + GUARD, re.DOTALL)


@pytest.mark.parametrize("key", [*KEYS, "guard"])
def test_every_key_is_documented_with_its_default(key: str) -> None:
    (row,) = re.findall(rf"^\| `{key}` \|.*$", GOVERNANCE, re.MULTILINE)
    default = getattr(Governance(), key)
    shown = row.split("|")[3].strip().strip("`")
    assert shown == ("none" if key == "guard" else msgspec.json.encode(default).decode().removesuffix(".0"))


@pytest.mark.parametrize("variable", SWITCHES)
def test_every_switch_is_documented(variable: str) -> None:
    assert variable in GOVERNANCE


@pytest.mark.parametrize("key", GuardRule.__struct_fields__)
def test_every_key_of_a_rule_is_documented(key: str) -> None:
    assert f"| `{key}` |" in GUARD


@pytest.mark.parametrize("verdict", VERDICTS)
def test_every_verdict_is_documented(verdict: str) -> None:
    assert f"| `{verdict}` |" in GUARD


def test_every_ready_rule_is_documented() -> None:
    names = [(name, str(rule["name"])) for name, each in rule_sets().items() for rule in each.rules]
    assert [(name, rule) for name, rule in names if f"`{name}`" not in GUARD] == []
    assert [(name, rule) for name, rule in names if name != "shell_fold" and f"`{rule}`" not in GUARD] == []


@pytest.mark.parametrize("example", toml_examples())
def test_every_example_can_be_read(example: str) -> None:
    for route in tomllib.loads(example)["routes"]:
        assert not read_governance(route["governance"]).is_off


@pytest.mark.parametrize(
    ("verdict", "command"), re.findall(r"^(denied|passes)    (.*)$", GUARD, re.MULTILINE)
)
def test_every_command_shown_is_judged_as_shown(verdict: str, command: str) -> None:
    judgement = Judgement(read_rules(["shell_writes", "git_destructive"], "guard"))
    arguments = msgspec.json.encode({"command": command}).decode()
    said = judgement.verdict(ToolCall(id="1", name="shell"), arguments, None)
    assert (said.kind if said else "passes") == {"denied": "deny", "passes": "passes"}[verdict]


def test_the_folded_command_is_folded_as_shown() -> None:
    ((before, after),) = re.findall(r"^before    (.*)\nafter     (.*)$", GUARD, re.MULTILINE)
    said = Judgement(read_rules(["shell_fold"], "guard")).verdict(
        ToolCall(id="1", name="shell"), before, None
    )
    assert said is not None
    assert msgspec.json.decode(said.arguments) == msgspec.json.decode(after)
