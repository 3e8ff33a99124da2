"""The published agents and SDKs run the whole scenario through the gateway, with every upstream dialect.

A run checks that the tools really ran, that their results reached the upstream in the vendor's legal form,
that sealed reasoning came back to who sealed it, and that the user got the right last words.
"""

from pathlib import Path

import pytest

from tests.e2e.agent_scenario import run_scenario
from tests.e2e.clients.client import CLIENT_KEY, Client
from tests.e2e.clients.roster import FORWARDED, PAIRS
from tests.e2e.environment import Environment
from tests.e2e.scenario_checks import find_problems


@pytest.mark.rule("R1", "R3", "R7", "R40", "H86", "P41", "P72")
@pytest.mark.parametrize(
    ("client", "dialect"), PAIRS, ids=lambda value: value if isinstance(value, str) else value.name
)
def test_a_client_runs_the_scenario_with_a_model_of(
    client: Client, dialect: str, environment: Environment, tmp_path: Path
) -> None:
    gateway = environment.gateway_to(dialect)
    run = run_scenario(environment, client, gateway.url, CLIENT_KEY, tmp_path / "home")
    assert find_problems(run, dialect) == [], gateway.tail()


@pytest.mark.rule("C22", "R125")
@pytest.mark.parametrize("client", FORWARDED, ids=lambda client: client.name)
def test_a_client_runs_the_scenario_with_its_own_kind_of_upstream_and_no_change(
    client: Client, environment: Environment, tmp_path: Path
) -> None:
    gateway = environment.gateway_to(client.dialect, keeps_model=True)
    run = run_scenario(environment, client, gateway.url, CLIENT_KEY, tmp_path / "home")
    assert find_problems(run, client.dialect) == [], gateway.tail()
