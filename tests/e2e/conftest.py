"""The stage on which the end-to-end tests play, one to each test process."""

from collections.abc import Iterator

import pytest

from tests.e2e.stage import Stage


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("stage"))
    stage.open()
    yield stage
    stage.close()
