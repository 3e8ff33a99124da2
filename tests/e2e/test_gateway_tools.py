"""Real agents on a model without eyes, web search and MCP: the gateway's own tools make up for it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.agent_scenario import prepare
from tests.e2e.clients.claude import CLAUDE_CODE
from tests.e2e.clients.client import CLIENT_KEY, AgentTask, Client, Outcome
from tests.e2e.clients.codex import CODEX_PLAIN
from tests.e2e.clients.gemini import GEMINI_CLI
from tests.e2e.environment import Environment
from tests.e2e.gateway import Gateway
from tests.e2e.text_only_model import TextOnlyModel

PROGRAM = Path(__file__).resolve().parent.parent / "gateway_tools" / "mcp_program.py"
CONFIG = """\
[providers.blind]
dialect = "openai_chat"
base_url = "{url}/v1"

[providers.blind.models."*"]
images = false

[providers.eye]
dialect = "anthropic"
base_url = "{url}"

[[routes]]
match = "*"
target = "blind/text-only"

[tools.image]
target = "eye/seer"

[tools.web_search]
engine = "searxng"
address = "{url}"

[tools.web_fetch]

[tools.mcp.notes]
command = ["{python}", "{program}"]
tools = ["lookup"]
"""
AGENTS = pytest.mark.parametrize("client", [CLAUDE_CODE, CODEX_PLAIN], ids=lambda client: client.name)


@pytest.fixture(scope="module")
def model(environment: Environment) -> Iterator[TextOnlyModel]:
    model = TextOnlyModel()
    environment.run(model.start())
    yield model
    environment.run(model.stop())


@pytest.fixture
def gateway(environment: Environment, model: TextOnlyModel) -> Gateway:
    model.requests.clear()
    config = CONFIG.format(url=model.url, python=sys.executable, program=PROGRAM)
    return environment.gateway("tools", config)


def send(environment: Environment, client: Client, gateway: Gateway, home: Path, prompt: str) -> Outcome:
    """Run an agent with a prompt, in a folder with a picture."""
    project = prepare(home)
    prompt = prompt.replace("pixel.png", str(project / "pixel.png"))
    task = AgentTask(
        url=gateway.url, key=CLIENT_KEY, prompt=prompt, home=home, project=project, model=client.model
    )

    async def run() -> Outcome:
        return await client.run(client, task)

    outcome = environment.run(run())
    assert outcome.exit == 0, outcome.output + gateway.tail()
    return outcome


@pytest.mark.rule("R77", "R78")
@AGENTS
def test_an_agent_answers_from_the_words_of_the_model_that_sees(
    client: Client, environment: Environment, gateway: Gateway, model: TextOnlyModel, tmp_path: Path
) -> None:
    outcome = send(environment, client, gateway, tmp_path / "home", "PICTURE: describe pixel.png please.")
    assert "a purple heron" in outcome.text, outcome.output + gateway.tail()
    assert not any("image_url" in str(body["messages"]) for body in model.requests)
    assert "look_at_image" not in outcome.text


@pytest.mark.rule("H28", "P40")
@pytest.mark.parametrize("client", [CLAUDE_CODE, CODEX_PLAIN, GEMINI_CLI], ids=lambda client: client.name)
def test_an_agent_searches_the_web_and_gets_cited_results(
    client: Client, environment: Environment, gateway: Gateway, model: TextOnlyModel, tmp_path: Path
) -> None:
    outcome = send(environment, client, gateway, tmp_path / "home", "SEARCH the web for dragomans.")
    assert "https://example.org/dragoman" in outcome.text, outcome.output + gateway.tail()
    searches = [line for line in gateway.log if "web_search" in line]
    assert searches, gateway.tail()
    if client is CODEX_PLAIN:
        # Codex reports the search as one of its own.
        assert '"type":"web_search"' in outcome.output.replace(" ", "")


@pytest.mark.rule("P40")
def test_a_search_without_an_engine_ends_with_a_clear_message(
    environment: Environment, model: TextOnlyModel, tmp_path: Path
) -> None:
    config = CONFIG.format(url=model.url, python=sys.executable, program=PROGRAM)
    bare = environment.gateway("no-tools", config.partition("[tools.image]")[0])
    outcome = send(environment, CLAUDE_CODE, bare, tmp_path / "home", "SEARCH the web for dragomans.")
    assert "the gateway has no search engine" in outcome.text, outcome.output + bare.tail()


@pytest.mark.rule("R77")
@AGENTS
def test_an_agent_uses_a_tool_that_only_the_gateway_knows(
    client: Client, environment: Environment, gateway: Gateway, model: TextOnlyModel, tmp_path: Path
) -> None:
    pytest.importorskip("mcp", reason="the extra mcp comes with the clients")
    outcome = send(environment, client, gateway, tmp_path / "home", "NOTE: what is the code word?")
    assert "The note k1 says: the code word is heron." in outcome.text, outcome.output + gateway.tail()
    assert "notes__lookup" not in outcome.output
