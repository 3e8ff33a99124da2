"""Without any configuration, every agent gets through to the embedded model and uses its own tools for it."""

from pathlib import Path

import pytest

from tests.e2e.agent_scenario import NOTES, prepare
from tests.e2e.clients.claude import AGENT_SDK
from tests.e2e.clients.client import CLIENT_KEY, AgentTask, Client, Outcome
from tests.e2e.clients.js_apps import AI_SDK_APPS, JS_APPS
from tests.e2e.clients.python_apps import PYTHON_APPS
from tests.e2e.clients.roster import AGENTS
from tests.e2e.environment import Environment

CLIENTS = (*AGENTS, AGENT_SDK, *PYTHON_APPS, *JS_APPS, *AI_SDK_APPS)


async def _run(client: Client, task: AgentTask) -> Outcome:
    return await client.run(client, task)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_an_agent_works_with_the_embedded_model(
    client: Client, environment: Environment, tmp_path: Path
) -> None:
    gateway = environment.gateway("embedded", "")
    home = tmp_path / "home"
    project = prepare(home)
    task = AgentTask(
        url=gateway.url,
        key=CLIENT_KEY,
        prompt=f"read {project / 'notes.txt'} then run echo embedded > trail.txt",
        home=home,
        project=project,
        model=client.model,
    )
    outcome = environment.run(_run(client, task))
    assert outcome.exit == 0, outcome.output + gateway.tail()
    assert NOTES in outcome.text
    assert (project / "trail.txt").read_text(encoding="utf-8") == "embedded\n"
