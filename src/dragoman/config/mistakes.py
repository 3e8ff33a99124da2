"""Mistakes and warnings about a configuration file, in the order of its lines.

A reader raises `ConfigError` for one mistake. `collect_mistakes` lets the caller continue with the next
table, so that one run reports all mistakes. `ConfigWarning` is about a part of a file that has no
effect or cannot work.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from dragoman.hub.errors import ConfigError


class ConfigWarning(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the file that has no effect or cannot work. The message begins with the file and the line."""

    message: str
    hint: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class ConfigMistakes(ConfigError):
    """Several mistakes of one file, in the order of their lines."""

    def __init__(self, mistakes: Sequence[ConfigError]) -> None:
        self.mistakes = tuple(mistakes)
        others = "; ".join(mistake.message for mistake in self.mistakes[1:])
        super().__init__(f"{self.mistakes[0].message}; {others}", hint=self.mistakes[0].hint)


def list_mistakes(error: ConfigError) -> tuple[ConfigError, ...]:
    """The single mistakes of an error."""
    return error.mistakes if isinstance(error, ConfigMistakes) else (error,)


@contextmanager
def collect_mistakes(found: list[ConfigError]) -> Iterator[None]:
    """Add a mistake that the block raises to `found`, and continue after the block."""
    try:
        yield
    except ConfigError as error:
        found.extend(list_mistakes(error))


def raise_mistakes(found: Sequence[ConfigError]) -> None:
    """Raise the mistakes as one error, the first line first. Does nothing if there are none."""
    if not found:
        return
    mistakes = sorted(found, key=lambda mistake: mistake.line)
    raise mistakes[0] if len(mistakes) == 1 else ConfigMistakes(mistakes)


def read_each(readers: Mapping[str, Callable[[], object]]) -> dict[str, object]:
    """The result of each reader, by name. The mistakes of all readers are raised together."""
    values: dict[str, object] = {}
    found: list[ConfigError] = []
    for name, read in readers.items():
        with collect_mistakes(found):
            values[name] = read()
    raise_mistakes(found)
    return values
