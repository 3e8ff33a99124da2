"""One session of each real agent over several providers: rules send each request to its own."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.e2e.clients.claude import CLAUDE_CODE, GRIPS
from tests.e2e.clients.client import CLIENT_KEY, Client, Errand, Outcome, write
from tests.e2e.clients.codex import CODEX_PLAIN
from tests.e2e.clients.gemini import GEMINI_CLI
from tests.e2e.gateway import Gateway
from tests.e2e.stage import Stage
from tests.e2e.tour import LAST_WORDS, prepare, visit
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
name = "long"
when.tokens_over = 40_000
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


def configure(stage: Stage, rules: str) -> str:
    parts = ["[server]\nping = 5.0\n"]
    for name, dialect in PROVIDERS.items():
        # The lead's provider is like the vendor itself: the client's bytes and its credential arrive there.
        own = (
            'auth = "client"\ngovernance.tools = "live"' if name == "lead" else f'api_key = "{UPSTREAM_KEY}"'
        )
        url = stage.upstream.base_url(dialect, name)
        parts.append(f'[providers.{name}]\ndialect = "{dialect}"\nbase_url = "{url}"\n{own}\n')
    return "\n".join(parts) + rules


AGENT = Grip(
    tool="Agent", argument="prompt", more={"description": "Look", "subagent_type": "general-purpose"}
)
SEARCH = Grip(tool="WebSearch", argument="query")
#: All tools are declared, and the side requests say what they are.
SETTINGS = {"env": {"ENABLE_TOOL_SEARCH": "false", "CLAUDE_CODE_GATEWAY_HINT_HEADERS": "1"}}


def find_rules(gateway: Gateway) -> list[str]:
    """The rules of the exchanges in the log, in order."""
    return re.findall(r" rule=(\S+)", "\n".join(gateway.log))


@pytest.mark.rule("R119", "R120", "R123")
def test_claude_code_uses_five_providers_in_one_session(stage: Stage, tmp_path: Path) -> None:
    home, project = tmp_path / "home", prepare(tmp_path / "home")
    (project / "CLAUDE.md").write_text("Team role: hydra:lead\nBe brief.\n", encoding="utf-8")
    (project / "long.txt").write_text("some ordinary words of a long file\n" * 1900, encoding="utf-8")
    write(home / ".claude" / "settings.json", msgspec.json.encode(SETTINGS).decode())
    long_file = (Use("read", str(project / "long.txt")), Use("run", "cat long.txt"))
    steps: dict[str, list[Step]] = {
        "lead": [
            Turn(uses=(Use("search", "marzipan"),)),
            Turn(uses=(Use("agent", "Read the notes."),)),
            Turn(uses=(Use("image", str(project / "pixel.png")),)),
            Turn(uses=long_file),
        ],
        "mates": [
            Turn(uses=(Use("read", str(project / "notes.txt")),)),
            Turn(text="The notes say marzipan."),
        ],
        "eyes": [Turn(text="I see.", uses=(Use("run", "echo seen >> trail.txt"),))],
        "long": [Turn(text=LAST_WORDS)],
        "chores": [Turn(text="nothing was found")],
    }
    client = msgspec.structs.replace(CLAUDE_CODE, grips={**GRIPS, "agent": AGENT, "search": SEARCH})
    gateway = stage.gateway("rules", configure(stage, RULES))
    conversation = stage.upstream.open(steps, client.grips)
    # The sub-agent and the search have prompts of their own, which must name the conversation too.
    steps["lead"][:2] = [
        Turn(uses=(Use("search", f"{conversation.key} marzipan"),)),
        Turn(uses=(Use("agent", f"This is {conversation.key}. Read the notes."),)),
    ]
    errand = Errand(
        url=gateway.url,
        key=UPSTREAM_KEY,
        prompt=f"This is {conversation.key}. Do what is to be done.",
        home=home,
        project=project,
        model=client.model,
    )
    outcome = stage.run(_run(client, errand))
    assert (outcome.exit, outcome.text) == (0, LAST_WORDS), outcome.output
    assert conversation.refusals == conversation.problems == []
    assert set(find_rules(gateway)) == {"lead", "webSearch", "subAgent", "image", "long"}, gateway.tail()
    assert {each.provider for each in conversation.received} == set(PROVIDERS)
    log = "\n".join(gateway.log)
    assert re.search(r" sub_agent=\S+ class=turn .* rule=subAgent ", log)
    assert " class=background " in log
    assert " role=lead " in log
    lead = conversation.from_provider("lead")[0]
    assert lead.headers["x-api-key"] == UPSTREAM_KEY
    assert explain(gateway, {"path": "/v1/messages", "headers": USER_AGENT, "body": lead.body}) == "lead"
    helper = {**USER_AGENT, "x-claude-code-agent-id": "a1"}
    assert explain(gateway, {"path": "/v1/messages", "headers": helper, "body": lead.body}) == "subAgent"


USER_AGENT = {"user-agent": "claude-cli/2.1.325 (external, sdk-cli)"}


def explain(gateway: Gateway, request: dict[str, object]) -> str:
    """The rule that `dragoman explain` names for a request."""
    (gateway.folder / "request.json").write_bytes(msgspec.json.encode(request))
    command = [sys.executable, "-m", "dragoman", "explain", "request.json", "--json"]
    out = subprocess.run(command, cwd=gateway.folder, capture_output=True, check=True).stdout
    return str(msgspec.json.decode(out)["rule"])


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
    ("client", "provider"), [(CODEX_PLAIN, "mates"), (GEMINI_CLI, "eyes")], ids=["codex", "gemini-cli"]
)
def test_codex_and_gemini_cli_trigger_their_rules(
    client: Client, provider: str, stage: Stage, tmp_path: Path
) -> None:
    gateway = stage.gateway("other-rules", configure(stage, OTHERS))
    tour = visit(stage, client, gateway.url, CLIENT_KEY, tmp_path / "home", steps=(Turn(text=LAST_WORDS),))
    assert tour.outcome.exit == 0, tour.outcome.output
    assert {each.provider for each in tour.conversation.turns} == {provider}, gateway.tail()


TEMPLATE = "You are a coding agent of this server."


@pytest.mark.rule("C24")
@pytest.mark.parametrize("client", [CODEX_PLAIN, CLAUDE_CODE], ids=["codex", "claude-code"])
def test_a_server_that_expects_its_own_instructions_gets_them(
    client: Client, stage: Stage, tmp_path: Path
) -> None:
    url = stage.upstream.base_url("openai_responses", "plan")
    facts = f'models."*".instructions = "{TEMPLATE}"\napi_key = "{UPSTREAM_KEY}"'
    provider = f'[providers.plan]\ndialect = "openai_responses"\nbase_url = "{url}"\n{facts}\n'
    gateway = stage.gateway("template", f'default = "plan"\n{provider}')
    steps = (Turn(uses=(Use("run", "echo seen >> trail.txt"),)), Turn(text=LAST_WORDS))
    tour = visit(stage, client, gateway.url, CLIENT_KEY, tmp_path / "home", steps=steps)
    assert (tour.outcome.exit, tour.trail()) == (0, ["seen"]), tour.outcome.output
    assert {each.body["instructions"] for each in tour.conversation.turns} == {TEMPLATE}
    # The agent's own system text is still there.
    texts = [str(each.body["input"]) for each in tour.conversation.turns]
    assert all("'developer'" in text and len(text) > 10_000 for text in texts)


async def _run(client: Client, errand: Errand) -> Outcome:
    return await client.run(client, errand)
