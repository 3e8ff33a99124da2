"""The published agents and SDKs take the whole tour through the gateway, with every upstream dialect.

A run checks that the tools really ran, that their results reached the upstream in the vendor's legal form,
that sealed reasoning came back to who sealed it, and that the user got the right last words.
"""

from pathlib import Path

import pytest

from tests.e2e.clients.client import CLIENT_KEY, Client
from tests.e2e.clients.roster import FORWARDED, PAIRS
from tests.e2e.complaints import complaints
from tests.e2e.stage import Stage
from tests.e2e.tour import visit


@pytest.mark.rule("R1", "R3", "R7", "R40", "H86", "P41", "P72")
@pytest.mark.parametrize(
    ("client", "dialect"), PAIRS, ids=lambda value: value if isinstance(value, str) else value.name
)
def test_a_client_takes_the_tour_with_a_model_of(
    client: Client, dialect: str, stage: Stage, tmp_path: Path
) -> None:
    gateway = stage.gateway_to(dialect)
    tour = visit(stage, client, gateway.url, CLIENT_KEY, tmp_path / "home")
    assert complaints(tour, dialect) == [], gateway.tail()


@pytest.mark.rule("C22", "R125")
@pytest.mark.parametrize("client", FORWARDED, ids=lambda client: client.name)
def test_a_client_takes_the_tour_with_its_own_kind_of_upstream_and_no_change(
    client: Client, stage: Stage, tmp_path: Path
) -> None:
    gateway = stage.gateway_to(client.dialect, keeps_model=True)
    tour = visit(stage, client, gateway.url, CLIENT_KEY, tmp_path / "home")
    assert complaints(tour, client.dialect) == [], gateway.tail()
