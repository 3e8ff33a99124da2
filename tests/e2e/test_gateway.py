"""The command that users run: it accepts requests once it prints its address, and stops at a signal."""

from pathlib import Path

import aiohttp
import pytest

from tests.e2e.clients.client import CLIENT_KEY
from tests.e2e.environment import Environment, leaks
from tests.e2e.gateway import Gateway
from tests.e2e.upstream.server import UPSTREAM_KEY


async def _first_words(folder: Path) -> tuple[int, int]:
    """Start, ask at once, stop: the status of the answer and the exit status."""
    gateway = Gateway("", folder)
    await gateway.start()
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{gateway.url}/health") as response:
            status = response.status
    finally:
        exit_status = await gateway.stop()
    return status, exit_status


def test_a_client_may_connect_as_soon_as_the_address_is_reported(
    environment: Environment, tmp_path: Path
) -> None:
    status, _ = environment.run(_first_words(tmp_path))
    assert status == 200


def test_an_interrupt_ends_the_gateway_without_complaint(environment: Environment, tmp_path: Path) -> None:
    _, exit_status = environment.run(_first_words(tmp_path))
    assert exit_status == 0


@pytest.mark.rule("R124")
def test_the_search_for_secrets_in_what_a_run_leaves_behind_finds_them(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "log.txt").write_text(f"error: bad key {UPSTREAM_KEY}")
    (tmp_path / "dragoman.toml").write_text(UPSTREAM_KEY)
    (tmp_path / "state.db").write_text(CLIENT_KEY)
    assert leaks(tmp_path) == ["deep/log.txt", "state.db"]
