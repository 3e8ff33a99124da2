"""Tools that are awkward to carry: names that only the client's vendor takes, and arguments of many bytes."""

from pathlib import Path

import pytest

from tests.e2e.agent_scenario import LAST_WORDS, run_scenario
from tests.e2e.clients.client import CLIENT_KEY, Client
from tests.e2e.clients.python_apps import PYTHON_APPS
from tests.e2e.environment import Environment
from tests.e2e.scenario_checks import find_problems
from tests.e2e.upstream.reply_writers.registry import DIALECTS
from tests.e2e.upstream.script import Turn, Use

LONG = "mcp__a_server_whose_name_is_long__and_whose_tools_have_names_that_go_on_and_on_and_on_"
DOTTED = "mcp_a.server:with-dots.and.a.name.that.is.longer.than.what.most.of.the.others.take."
ANTHROPIC_APP, _, _, GEMINI_APP = PYTHON_APPS


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("client", "prefix"), [(ANTHROPIC_APP, LONG), (GEMINI_APP, DOTTED)], ids=["long", "dotted"]
)
@pytest.mark.rule("R21", "H15", "P32")
def test_names_that_only_the_clients_vendor_takes_come_back_as_they_were(
    client: Client, prefix: str, dialect: str, environment: Environment, tmp_path: Path
) -> None:
    gateway = environment.gateway_to(dialect)
    run = run_scenario(environment, client, gateway.url, CLIENT_KEY, tmp_path / "home", tool_prefix=prefix)
    assert find_problems(run, dialect) == [], gateway.tail()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("client", PYTHON_APPS, ids=lambda client: client.name)
def test_a_long_argument_of_many_alphabets_arrives_byte_by_byte(
    client: Client, dialect: str, environment: Environment, tmp_path: Path
) -> None:
    text = 'Grüße, 世界, שלום, 🎉\\n "quoted" \\\\ ' * 1000
    command = f"cat > trail.txt <<'END'\n{text}\nEND"
    steps = (Turn(uses=(Use("run", command),)), Turn(text=LAST_WORDS))
    gateway = environment.gateway_to(dialect)
    run = run_scenario(environment, client, gateway.url, CLIENT_KEY, tmp_path / "home", steps=steps)
    assert run.outcome.exit == 0, run.outcome.output
    assert run.conversation.refusals == []
    assert (run.project / "trail.txt").read_text(encoding="utf-8") == f"{text}\n"
