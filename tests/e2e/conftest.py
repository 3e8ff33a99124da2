"""The environment of the end-to-end tests, one for each test process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.claude_code import Caller, Host
from tests.e2e.environment import Environment


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    environment = Environment(tmp_path_factory.mktemp("environment"))
    environment.open()
    yield environment
    environment.close()


@pytest.fixture
def caller(environment: Environment) -> Caller:
    return Caller(environment)


@pytest.fixture
def host(environment: Environment, tmp_path: Path) -> Iterator[Host]:
    host = Host(environment, tmp_path / "gateway")
    yield host
    host.close()
