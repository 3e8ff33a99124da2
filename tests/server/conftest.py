"""Fixtures of the server's tests."""

import logging
from collections.abc import Iterator

import pytest

from dragoman.telemetry.log import LOGGER, LogFormatter


class Listener(logging.Handler):
    """What was logged, as it would stand in the log."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(LogFormatter("text").format(record))


@pytest.fixture
def log() -> Iterator[list[str]]:
    listener = Listener()
    before = LOGGER.handlers, LOGGER.level, LOGGER.propagate
    LOGGER.handlers, LOGGER.propagate = [listener], False
    # Unlike an assignment, this clears the logger's memory of enabled levels.
    LOGGER.setLevel(logging.INFO)
    yield listener.lines
    LOGGER.handlers, level, LOGGER.propagate = before
    LOGGER.setLevel(level)
