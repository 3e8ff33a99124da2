"""One session of each real agent over several providers: rules send each request to its own."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.e2e.agent_scenario import LAST_WORDS, prepare, run_scenario
from tests.e2e.clients.claude import CLAUDE_CODE, GRIPS, open_session
from tests.e2e.clients.client import CLIENT_KEY, AgentTask, Client, Outcome, write
from tests.e2e.clients.codex import CODEX_PLAIN
from tests.e2e.clients.gemini import GEMINI_CLI
from tests.e2e.clients.opencode import OPENCODE
from tests.e2e.environment import Environment
from tests.e2e.gateway import Gateway
from tests.e2e.upstream.script import Grip, Step, Turn, Use
from tests.e2e.upstream.server import UPSTREAM_KEY

#: The providers of the session: the name, and the API that each has.
PROVIDERS = {
    "lead": "anthropic",
    "mates": "openai_chat",
    "chores": "openai_responses",
    "eyes": "openai_chat",
    "long": "gemini",
}
RULES = """
[[rules]]
preset = "probes"
answer = "OK"

[[rules]]
preset = "webSearch"
target = "chores/small"

[[rules]]
preset = "background"
target = "chores/small"

[[rules]]
name = "compaction"
when.class = "compaction"
target = "chores/small"

[[rules]]
name = "long"
when.tokens_over = 50_000
target = "long/wide"

[[rules]]
preset = "image"
target = "eyes/vision"

[[rules]]
preset = "subAgent"
target = "mates/helper"

[[rules]]
preset = "lead"
target = "lead"
"""


def configure(environment: Environment, rules: str) -> str:
    parts = ['[server]\nping = 5.0\n\n[records]\nrecord = "bodies"\n']
    for name, dialect in PROVIDERS.items():
        # The lead's provider is like the vendor itself: the client's bytes and its credential arrive there.
        own = (
            'auth = "client"\ngovernance.tools = "live"' if name == "lead" else f'api_key = "{UPSTREAM_KEY}"'
        )
        url = environment.upstream.base_url(dialect, name)
        parts.append(f'[providers.{name}]\ndialect = "{dialect}"\nbase_url = "{url}"\n{own}\n')
    return "\n".join(parts) + rules


AGENT = Grip(
    tool="Agent", argument="prompt", more={"description": "Look", "subagent_type": "general-purpose"}
)
SEARCH = Grip(tool="WebSearch", argument="query")
#: All tools are declared, and the side requests name their kind.
SETTINGS = {"env": {"ENABLE_TOOL_SEARCH": "false", "CLAUDE_CODE_GATEWAY_HINT_HEADERS": "1"}}


def find_decisions(gateway: Gateway) -> list[tuple[str, str, str]]:
    """Rule, class and provider of each exchange in the log, in order."""
    found: list[tuple[str, str, str]] = re.findall(
        r" class=(\S+) .*rule=(\S+) route=\S+(?: target=([^/ ]+)/)?", "\n".join(gateway.log)
    )
    return [(rule, kind, provider) for kind, rule, provider in found]


def explain_session(gateway: Gateway) -> list[tuple[str, str, str]]:
    """The same for each recorded request, as `dragoman explain` decides."""
    turns = run_dragoman(gateway, "records", "show", "last")["list"]
    found = []
    for turn in turns:
        reply = run_dragoman(gateway, "explain", "last", str(turn["number"]))
        target = reply["targets"][0].partition("/")[0] if reply["targets"] else ""
        found.append((reply["rule"], reply["traits"]["class"], target))
    return found


def run_dragoman(gateway: Gateway, *arguments: str) -> Any:
    """The answer of a command that reads the gateway's configuration and records."""
    command = [sys.executable, "-m", "dragoman", *arguments, "--json"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(gateway.folder), "LANG": "C.UTF-8"}
    done = subprocess.run(command, cwd=gateway.folder, env=environment, capture_output=True, check=True)
    return msgspec.json.decode(done.stdout)


LOGIN = "sk-ant-oat01-login-of-a-person-0123456789"
SUMMARY = "<summary>The notes say marzipan.</summary>"


@pytest.mark.rule("R119", "R120", "R123", "R134")
def test_claude_code_uses_five_providers_in_one_session(environment: Environment, tmp_path: Path) -> None:
    """A person works in the terminal, with a login that only the lead's provider may see."""
    home, project = tmp_path / "home", prepare(tmp_path / "home")
    (project / "CLAUDE.md").write_text("Team role: hydra:lead\nBe brief.\n", encoding="utf-8")
    (project / "long.txt").write_text("some ordinary words of a long file\n" * 1900, encoding="utf-8")
    write(home / ".claude" / "settings.json", msgspec.json.encode(SETTINGS).decode())
    long_file = (Use("read", str(project / "long.txt")), Use("run", "cat long.txt"))
    steps: dict[str, list[Step]] = {
        "lead": [
            Turn(uses=(Use("image", str(project / "pixel.png")),)),
            Turn(uses=long_file),
        ],
        "mates": [
            Turn(uses=(Use("read", str(project / "notes.txt")),)),
            Turn(text="The notes say marzipan."),
        ],
        "eyes": [Turn(text="I see.", uses=(Use("run", "echo seen >> trail.txt"),))],
        "long": [Turn(text=LAST_WORDS)],
        "chores": [Turn(text=SUMMARY)],
    }
    client = msgspec.structs.replace(CLAUDE_CODE, grips={**GRIPS, "agent": AGENT, "search": SEARCH})
    gateway = environment.gateway("rules", configure(environment, RULES))
    conversation = environment.upstream.open(steps, client.grips)
    # The sub-agent and the search have prompts of their own, which must name the conversation too.
    steps["lead"][:0] = [
        Turn(uses=(Use("search", f"{conversation.key} marzipan"),)),
        Turn(uses=(Use("agent", f"This is {conversation.key}. Read the notes."),)),
    ]
    task = AgentTask(
        url=gateway.url,
        key=LOGIN,
        prompt=f"This is {conversation.key}. Do what is to be done.",
        home=home,
        project=project,
        model=client.model,
    )
    environment.upstream.keys.add(LOGIN)
    environment.run(work_in_terminal(task))
    assert conversation.refusals == conversation.problems == []
    # Each rule led to its provider, and `dragoman explain` names the same rule for each recorded request.
    decided = find_decisions(gateway)
    assert set(decided) == DECISIONS, gateway.tail()
    assert sorted(explain_session(gateway)) == sorted(decided)
    assert {each.provider for each in conversation.received} == set(PROVIDERS)
    log = "\n".join(gateway.log)
    assert re.search(r" sub_agent=\S+ class=turn .* rule=subAgent ", log)
    assert "/count_tokens status=404" not in log
    # Only the lead's provider has seen the login, and the gateway has written it nowhere.
    for each in conversation.received:
        assert (each.headers.get("authorization") == f"Bearer {LOGIN}") is (each.provider == "lead")
        assert each.provider == "lead" or LOGIN not in str(each.headers)
        assert LOGIN.encode() not in each.raw
    files = [path for path in gateway.folder.rglob("*") if path.is_file()]
    assert [path for path in files if LOGIN.encode() in path.read_bytes()] == []


#: The rules that the session triggers: the rule, the class of the request, and the provider.
DECISIONS = {
    ("probes", "quota", ""),
    ("background", "title", "chores"),
    ("webSearch", "background", "chores"),
    ("compaction", "compaction", "chores"),
    ("subAgent", "turn", "mates"),
    ("image", "turn", "eyes"),
    ("long", "turn", "long"),
    ("lead", "turn", "lead"),
}


async def work_in_terminal(task: AgentTask) -> None:
    async with open_session(task) as terminal:
        await terminal.see("bypass permissions on")
        await terminal.enter(task.prompt)
        await terminal.see(LAST_WORDS)
        terminal.forget()
        await terminal.enter("/compact")
        await terminal.see("Compacted")


OTHERS = """
[[rules]]
name = "router of Gemini CLI"
when = { agent = "gemini-cli", class = "background" }
target = "chores/small"

[[rules]]
name = "codex"
when = { agent = "codex", agent_version = ">=0.100", project = "project", sub_agent = false }
target = "mates/helper"

[[rules]]
name = "gemini"
when = { agent = "gemini-cli", project = "project", thinking = true }
target = "eyes/vision"
"""


@pytest.mark.parametrize(
    ("client", "rule", "provider"),
    [(CODEX_PLAIN, "codex", "mates"), (GEMINI_CLI, "gemini", "eyes")],
    ids=["codex", "gemini-cli"],
)
def test_codex_and_gemini_cli_trigger_their_rules(
    client: Client, rule: str, provider: str, environment: Environment, tmp_path: Path
) -> None:
    gateway = environment.gateway("other-rules", configure(environment, OTHERS))
    run = run_scenario(
        environment, client, gateway.url, CLIENT_KEY, tmp_path / "home", steps=(Turn(text=LAST_WORDS),)
    )
    assert run.outcome.exit == 0, run.outcome.output
    assert {each.provider for each in run.conversation.turns} == {provider}, gateway.tail()
    assert (rule, "turn", provider) in explain_session(gateway)


MATES = """
[[rules]]
preset = "subAgent"
target = "mates/helper"

[[routes]]
match = "*"
target = "eyes/vision"
"""
TASK = Grip(tool="task", argument="prompt", more={"description": "Look", "subagent_type": "general"})


def test_a_sub_agent_of_opencode_has_its_own_provider(environment: Environment, tmp_path: Path) -> None:
    client = msgspec.structs.replace(OPENCODE[0], grips={**OPENCODE[0].grips, "agent": TASK})
    gateway = environment.gateway("opencode-mates", configure(environment, MATES))
    project = prepare(tmp_path / "home")
    steps: dict[str, list[Step]] = {
        "eyes": [Turn(text=LAST_WORDS)],
        "mates": [Turn(text="The notes say marzipan.")],
    }
    conversation = environment.upstream.open(steps, client.grips)
    steps["eyes"].insert(0, Turn(uses=(Use("agent", f"This is {conversation.key}. Read the notes."),)))
    task = AgentTask(
        url=gateway.url,
        key=CLIENT_KEY,
        prompt=f"This is {conversation.key}. Do what is to be done.",
        home=tmp_path / "home",
        project=project,
        model=client.model,
    )
    outcome = environment.run(_run(client, task))
    assert outcome.exit == 0, outcome.output
    assert conversation.refusals == conversation.problems == []
    found = {(rule, target) for rule, _, target in explain_session(gateway)}
    assert found >= {("subAgent", "mates"), ("", "eyes")}, gateway.tail()


TEMPLATE = "You are a coding agent of this server."


@pytest.mark.rule("C24")
@pytest.mark.parametrize("client", [CODEX_PLAIN, CLAUDE_CODE], ids=["codex", "claude-code"])
def test_a_server_that_expects_its_own_instructions_gets_them(
    client: Client, environment: Environment, tmp_path: Path
) -> None:
    url = environment.upstream.base_url("openai_responses", "plan")
    facts = f'models."*".instructions = "{TEMPLATE}"\napi_key = "{UPSTREAM_KEY}"'
    provider = f'[providers.plan]\ndialect = "openai_responses"\nbase_url = "{url}"\n{facts}\n'
    gateway = environment.gateway("template", f'default = "plan"\n{provider}')
    steps = (Turn(uses=(Use("run", "echo seen >> trail.txt"),)), Turn(text=LAST_WORDS))
    run = run_scenario(environment, client, gateway.url, CLIENT_KEY, tmp_path / "home", steps=steps)
    assert (run.outcome.exit, run.trail()) == (0, ["seen"]), run.outcome.output
    assert {each.body["instructions"] for each in run.conversation.turns} == {TEMPLATE}
    # The agent's own system text is still there.
    texts = [str(each.body["input"]) for each in run.conversation.turns]
    assert all("'developer'" in text and len(text) > 10_000 for text in texts)


async def _run(client: Client, task: AgentTask) -> Outcome:
    return await client.run(client, task)
