"""The pages about governance name every setting, and their examples are true."""

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from dragoman.governance.guard.rules import VERDICTS, GuardRule, load_rule_sets, read_rules
from dragoman.governance.guard.verdicts import GuardRules
from dragoman.governance.settings import KEYS, SWITCHES, Governance, read_governance
from dragoman.governance.stages import build_stages
from dragoman.governance.tool_choice import EXIT_NAME
from dragoman.governance.tool_names import DeclaredTool
from dragoman.hub.blocks import Text, ToolCall
from dragoman.hub.events import StopCause
from dragoman.hub.fold import fold
from dragoman.hub.ids import IdSource
from tests.fit.reply.running import block, calls_in, reply_of, through
from tests.governance.running import SHELL, RecordedInterventions, a_call

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
    names = [(name, str(rule["name"])) for name, each in load_rule_sets().items() for rule in each.rules]
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
    judgement = GuardRules(read_rules(["shell_writes", "git_destructive"], "guard"))
    arguments = msgspec.json.encode({"command": command}).decode()
    decided = judgement.decide(ToolCall(id="1", name="shell"), arguments, None)
    assert (decided.kind if decided else "passes") == {"denied": "deny", "passes": "passes"}[verdict]


def test_the_folded_command_is_folded_as_shown() -> None:
    ((before, after),) = re.findall(r"^before    (.*)\nafter     (.*)$", GUARD, re.MULTILINE)
    decided = GuardRules(read_rules(["shell_fold"], "guard")).decide(
        ToolCall(id="1", name="shell"), before, None
    )
    assert decided is not None
    assert msgspec.json.decode(decided.arguments) == msgspec.json.decode(after)


def shown(heading: str, number: int = 0) -> str:
    """An example of the page about governance: the so-many-th block below a heading."""
    section = GOVERNANCE.split(f"\n## {heading}")[1].split("\n## ")[0]
    return str(re.findall(r"```\n(.*?)```", section, re.DOTALL)[number])


def read_line_of(example: str, who: str) -> str:
    """The text of one side in an example, without the remark behind it."""
    (line,) = re.findall(rf"^{who} +(.*?)(?:  +.*)?$", example, re.MULTILINE)
    return str(line)


def governed(
    values: dict[str, object], *calls: tuple[str, str], cause: StopCause = "tool_calls"
) -> list[ToolCall]:
    tools = (SHELL, DeclaredTool("Read"), DeclaredTool("Write"))
    stages = build_stages(
        read_governance(values), tools, ids=IdSource(""), report=RecordedInterventions(), exit_name=EXIT_NAME
    )
    plans = [a_call(*arguments, tool=name, index=index) for index, (name, arguments) in enumerate(calls)]
    return calls_in(through(stages, reply_of(*plans, cause=cause)))


@pytest.mark.parametrize(("number", "cause"), [(0, "tool_calls"), (2, "length"), (3, "tool_calls")])
def test_what_holding_shows_is_what_happens(number: int, cause: StopCause) -> None:
    example = shown("Holding calls", number)
    (call,) = governed({"tools": "hold"}, ("shell", read_line_of(example, "model")), cause=cause)
    assert call.arguments == read_line_of(example, "client")


def test_the_names_that_are_shown_are_mended_as_shown() -> None:
    lines = re.findall(
        r"^model +(\w+) (\{.*?\}) +->  (\w+) (\{.*?\})", shown("Names and doubles"), re.MULTILINE
    )
    assert len(lines) == 2
    for name, arguments, mended, after in lines:
        (call,) = governed({"rename": True}, (name, arguments))
        assert (call.name, call.arguments) == (mended, after)


def test_the_doubles_that_are_shown_are_left_out_as_shown() -> None:
    model, client = (
        re.findall(r"(\w+) (\{.*?\})", line) for line in shown("Names and doubles", 1).splitlines()
    )
    assert [(call.name, call.arguments) for call in governed({"dedupe": True}, *model)] == client


def test_the_answer_that_is_shown_is_text_as_shown() -> None:
    example = shown("Making a model use its tools")
    name, _, arguments = read_line_of(example, "model").partition(" ")
    stages = build_stages(
        read_governance({"choice": "required"}),
        (SHELL,),
        ids=IdSource(""),
        report=RecordedInterventions(),
        exit_name=name,
    )
    reply = fold(through(stages, reply_of(a_call(*arguments, tool=name), cause="tool_calls")))
    assert reply.blocks == (Text(text=read_line_of(example, "client")),)


def test_the_call_in_words_that_is_shown_is_read_as_shown() -> None:
    example = shown("Models without function calling")
    text = re.split(r"^model +", example, flags=re.MULTILINE)[1].split("\nclient")[0]
    text = "\n".join(line.strip() for line in text.splitlines())
    stages = build_stages(
        read_governance({"contract": True}),
        (DeclaredTool("Read"),),
        ids=IdSource(""),
        report=RecordedInterventions(),
    )
    reply = fold(through(stages, reply_of(block(0, Text(text=""), *text))))
    (decided, call) = reply.blocks
    assert isinstance(decided, Text)
    assert isinstance(call, ToolCall)
    assert f"{decided.text}      and a call of {call.name} {call.arguments}" in example


def examples_of_guards() -> list[GuardRules]:
    tables = [tomllib.loads(example) for example in re.findall(r"```toml\n(.*?)```", GUARD, re.DOTALL)]
    return [
        GuardRules(read_rules(route["governance"]["guard"], "guard"))
        for table in tables
        for route in table["routes"]
    ]


@pytest.mark.rule("G12")
@pytest.mark.parametrize(
    ("example", "tool", "command", "verdict"),
    [
        (0, "Bash", "git reset --hard", "deny"),
        (0, "Bash", "cd src && git push --force", "deny"),
        (0, "Bash", "echo x > a.txt", "deny"),
        (0, "Bash", "curl https://example.org", "ask"),
        (0, "Bash", "git status", ""),
        (1, "Bash", "git log | cat", "allow"),
        (1, "Bash", "python3 -c 'import os'", "deny"),
        (1, "Bash", "ls $(rm a)", "deny"),
        (1, "Write", "anything", "deny"),
    ],
)
def test_the_examples_guard_claude_codes_bash(example: int, tool: str, command: str, verdict: str) -> None:
    arguments = msgspec.json.encode({"command": command}).decode()
    call = ToolCall(id="1", name=tool, arguments=arguments)
    decided = examples_of_guards()[example].decide(call, arguments, None)
    assert (decided.kind if decided else "") == verdict
