"""The state on both engines, for tests that must hold on each of them."""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import pytest

from dragoman.storage.database import FILE_NAME, Schema
from dragoman.storage.port import StateStorage, Transaction
from dragoman.storage.postgres import PostgresOptions, PostgresStorage
from dragoman.storage.sqlite import SqliteStorage
from tests import postgres

Engine = Literal["sqlite", "postgres"]
ENGINES: tuple[Engine, ...] = ("sqlite", "postgres")

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


class StateBed:
    """One state. `open` gives it to one more process; `do` runs a function of a transaction on it."""

    def __init__(self, engine: Engine, *schemas: Schema) -> None:
        self.engine = engine
        self._schemas = schemas
        self._folder = tempfile.TemporaryDirectory(prefix="dragoman-state-")
        self.folder = Path(self._folder.name)
        self.url = postgres.create_schema() if engine == "postgres" else ""
        self._runner = asyncio.Runner()
        self._storage = self.open()

    @property
    def path(self) -> Path:
        """The file of SQLite."""
        return self.folder / FILE_NAME

    @property
    def toml(self) -> str:
        """The lines of a configuration that name this state."""
        server = f'[server]\nstate = "{self.folder}"\n'
        return server + (f'[state]\nurl = "{self.url}"\n' if self.url else "")

    def open(self) -> StateStorage:
        if self.engine == "sqlite":
            return SqliteStorage(self.path, *self._schemas)
        return PostgresStorage(PostgresOptions(url=self.url, timeout=20.0), self.folder, *self._schemas)

    def migrate(self, *schemas: Schema) -> None:
        """Open the state again, with later versions of its schemas."""
        self._runner.run(self._storage.close())
        self._schemas = schemas
        self._storage = self.open()

    def do(
        self,
        function: Callable[Concatenate[Transaction, Arguments], Coroutine[Any, Any, Result]],
        *arguments: Arguments.args,
        **options: Arguments.kwargs,
    ) -> Result:
        return self._runner.run(
            self._storage.run(lambda transaction: function(transaction, *arguments, **options))
        )

    def execute(self, sql: str, *values: object) -> int:
        return self.do(lambda transaction: transaction.execute(sql, *values))

    def fetch(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        rows = self.do(lambda transaction: transaction.fetch(sql, *values))
        return [tuple(row) for row in rows]

    def close(self) -> None:
        self._runner.run(self._storage.close())
        self._runner.close()
        if self.url:
            postgres.drop_schema(self.url)
        self._folder.cleanup()


def build_state_fixture(*schemas: Schema) -> Callable[..., Iterator[StateBed]]:
    """The fixture `state`: a new state with these schemas, once on each engine."""

    @pytest.fixture(params=ENGINES, name="state")
    def open_state(request: pytest.FixtureRequest) -> Iterator[StateBed]:
        engine: Engine = request.param
        state = StateBed(engine, *schemas)
        yield state
        state.close()

    return open_state
