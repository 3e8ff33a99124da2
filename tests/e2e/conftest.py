"""The environment of the end-to-end tests, one for each test process."""

from collections.abc import Iterator

import pytest

from tests.e2e.environment import Environment


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    environment = Environment(tmp_path_factory.mktemp("environment"))
    environment.open()
    yield environment
    environment.close()
