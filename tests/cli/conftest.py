"""What the tests of the commands share."""

import pytest


@pytest.fixture(autouse=True)
def unlimited_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are cut to the terminal's width, which pytest-xdist passes to its workers."""
    monkeypatch.delenv("COLUMNS", raising=False)
