"""A session goes on with another vendor's model: nothing of the earlier models' secrets may break it."""

from pathlib import Path

import pytest

from tests.e2e.agent_scenario import prepare
from tests.e2e.clients.claude import CLAUDE_CODE
from tests.e2e.clients.client import CLIENT_KEY, AgentTask, Client, Outcome
from tests.e2e.clients.codex import CODEX_PATCHING
from tests.e2e.clients.gemini import GEMINI_CLI
from tests.e2e.clients.opencode import OPENCODE
from tests.e2e.environment import Environment
from tests.e2e.upstream.conversation import Conversation
from tests.e2e.upstream.script import Turn, Use

AGENTS = (CLAUDE_CODE, CODEX_PATCHING, GEMINI_CLI, OPENCODE[0])
#: Each model follows every other kind of model once, and the first comes back at the end.
HOPS = ("anthropic", "gemini", "openai_responses", "openai_chat", "anthropic")
#: A client that takes long and carries no seals goes only so far.
SLOW_HOPS = 3


async def _run(client: Client, task: AgentTask) -> Outcome:
    return await client.run(client, task)


def hop(client: Client, environment: Environment, number: int, home: Path) -> tuple[Outcome, Conversation]:
    """One prompt of the session, with the hop's own model."""
    script = (
        Turn(
            text=f"I will leave word {number}.",
            reasoning=f"Word {number} comes first.",
            uses=(Use("run", f"echo word-{number} >> trail.txt"),),
        ),
        Turn(text=f"Word {number} is left.", reasoning="That was all."),
    )
    conversation = environment.upstream.open(script, client.grips)
    task = AgentTask(
        url=environment.gateway_to(HOPS[number]).url,
        key=CLIENT_KEY,
        prompt=f"This is {conversation.key}. Leave word {number}.",
        home=home,
        project=home / "project",
        model=client.model,
        resumes=number > 0,
    )
    return environment.run(_run(client, task)), conversation


@pytest.mark.rule("H1", "P23", "P44", "P48", "R119")
@pytest.mark.parametrize("client", AGENTS, ids=lambda client: client.name)
def test_a_session_goes_on_with_models_of_other_vendors(
    client: Client, environment: Environment, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    project = prepare(home)
    hops = SLOW_HOPS if client in OPENCODE else len(HOPS)
    for number in range(hops):
        outcome, conversation = hop(client, environment, number, home)
        where = f"hop {number} to {HOPS[number]}"
        assert conversation.refusals + conversation.problems == [], where
        assert outcome.exit == 0, where + outcome.output
        assert outcome.text.strip() == f"Word {number} is left.", where
        earlier = f"word-{number - 1} >> trail.txt" if number else ""
        assert earlier.encode() in conversation.turns[-1].raw, f"{where}: the history is gone"
    words = (project / "trail.txt").read_text(encoding="utf-8").split()
    assert words == [f"word-{number}" for number in range(hops)]
