"""Opens the state that a configuration names: a SQLite file in the state folder, or PostgreSQL."""

from pathlib import Path
from typing import TypeVar

from dragoman.config.config import Config
from dragoman.hub.errors import ConfigError
from dragoman.storage.database import FILE_NAME, Schema
from dragoman.storage.port import StateStorage, Work
from dragoman.storage.postgres import PostgresOptions, PostgresStorage, import_driver, run_once
from dragoman.storage.sqlite import SqliteStorage

Result = TypeVar("Result")


def find_options(config: Config) -> PostgresOptions | None:
    """The options of PostgreSQL; None if the state is a file. Raises if the secret is not set."""
    state = config.state
    if state.url is None:
        return None
    if not state.url:
        raise ConfigError(
            f"state.url: the environment variable {state.url.variable} is not set",
            hint=f"export {state.url.variable}=postgresql://…",
        )
    import_driver()
    return PostgresOptions(
        url=state.url.reveal(),
        connections=state.connections,
        timeout=state.timeout,
        pooler=state.pooler,
    )


def build_storage(config: Config, folder: Path) -> StateStorage:
    """The storage of a gateway. `folder` is its state folder."""
    options = find_options(config)
    return PostgresStorage(options, folder) if options else SqliteStorage(folder / FILE_NAME)


def run_work(config: Config, folder: Path, work: Work[Result], *schemas: Schema) -> Result:
    """Run work in one transaction, for callers without an event loop, such as commands."""
    options = find_options(config)
    if options is not None:
        return run_once(options, work, *schemas)
    storage = SqliteStorage(folder / FILE_NAME, *schemas)
    try:
        return storage.run_now(work)
    finally:
        storage.close_now()


def has_state(config: Config, folder: Path) -> bool:
    """Whether there is something to read. Reading a file that does not exist would create it."""
    return config.state.url is not None or (folder / FILE_NAME).is_file()
