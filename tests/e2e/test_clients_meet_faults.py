"""What the published clients make of a broken stream: agents recover, applications see an error."""

from pathlib import Path

import pytest

from tests.e2e.agent_scenario import prepare
from tests.e2e.all_pairs import ANSWER, GOOD, faulty_gateway
from tests.e2e.clients.claude import CLAUDE_CODE
from tests.e2e.clients.client import CLIENT_KEY, AgentTask, Client, Outcome
from tests.e2e.clients.codex import CODEX_PLAIN
from tests.e2e.clients.gemini import GEMINI_CLI
from tests.e2e.clients.js_apps import AI_SDK_APPS, JS_APPS
from tests.e2e.clients.python_apps import PYTHON_APPS
from tests.e2e.environment import Environment
from tests.e2e.upstream.script import Fault, FaultKind, Turn

CUT = Turn(text="These words are cut off before they are all said.", reasoning="A thought.")
BREAKS = ("error", "reset", "end")
FOREIGN = {
    "anthropic": "gemini",
    "openai_chat": "anthropic",
    "openai_responses": "anthropic",
    "gemini": "openai_chat",
}


def meet(client: Client, environment: Environment, upstream: str, kind: FaultKind, home: Path) -> Outcome:
    """Send a client into a stream that breaks in its text; a client that asks again gets the whole answer."""
    project = prepare(home)
    conversation = environment.upstream.open([Fault(kind=kind, place="text", turn=CUT), GOOD], client.grips)
    task = AgentTask(
        url=faulty_gateway(environment, upstream).url,
        key=CLIENT_KEY,
        prompt=f"This is {conversation.key}. Answer.",
        home=home,
        project=project,
        model=f"alone-{conversation.key}",
    )

    async def run() -> Outcome:
        return await client.run(client, task)

    return environment.run(run())


AGENTS = (CLAUDE_CODE, CODEX_PLAIN, GEMINI_CLI)


@pytest.mark.parametrize(
    ("client", "kind"),
    [pytest.param(client, kind, id=f"{client.name}-{kind}") for client in AGENTS for kind in BREAKS],
)
def test_an_agent_recovers_from_a_broken_stream(
    client: Client, kind: FaultKind, environment: Environment, tmp_path: Path
) -> None:
    outcome = meet(client, environment, FOREIGN[client.dialect], kind, tmp_path / "home")
    assert outcome.exit == 0, outcome.output
    assert outcome.text.strip().endswith(ANSWER)


@pytest.mark.rule("R127", "H73")
@pytest.mark.parametrize("kind", BREAKS)
@pytest.mark.parametrize("client", [*PYTHON_APPS, *JS_APPS, *AI_SDK_APPS], ids=lambda client: client.name)
def test_an_application_sees_an_error_when_a_stream_breaks(
    client: Client, kind: FaultKind, environment: Environment, tmp_path: Path
) -> None:
    outcome = meet(client, environment, FOREIGN[client.dialect], kind, tmp_path / "home")
    # If nothing had been passed on when the stream broke, the gateway itself has asked again.
    assert outcome.exit == 1 or outcome.text == ANSWER, outcome.output
