"""The port of the state: what a package that stores something may ask of a database.

A package writes its SQL once. It uses what SQLite and PostgreSQL have in common, with `$1`, `$2` for the
values. Work is an `async` function of a `Transaction`. It may await nothing else: SQLite runs it on a thread
without an event loop. PostgreSQL may run it again after a conflict, so it changes nothing but the database.
"""

from collections.abc import Callable, Collection, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dragoman.storage.database import Schema

Result = TypeVar("Result")
#: The values of a row, in the order of the columns.
Row = Sequence[Any]


class Transaction(Protocol):
    """An open transaction."""

    async def fetch(self, sql: str, *values: object) -> Sequence[Row]:
        """All rows of a statement."""
        ...

    async def fetch_one(self, sql: str, *values: object) -> Row | None:
        """The first row of a statement, if there is one."""
        ...

    async def execute(self, sql: str, *values: object) -> int:
        """Run a statement. Returns the number of rows that it changed."""
        ...

    async def execute_many(self, sql: str, rows: Collection[Sequence[object]]) -> None:
        """Run a statement once for each row of values."""
        ...


Work = Callable[[Transaction], Coroutine[Any, Any, Result]]


class StateStorage(Protocol):
    """The state of one gateway. `folder` is for its own files; without one, nothing outlives the process."""

    folder: Path | None
    #: Gateways on other machines use the same state, and a commit may fail without a known result.
    is_shared: bool

    @property
    def is_lasting(self) -> bool:
        """Whether the state outlives the process."""
        ...

    @property
    def is_available(self) -> bool:
        """Whether the last work found the database."""
        ...

    @property
    def has_data(self) -> bool:
        """Whether a read can find something. Reading a file that does not exist would create it."""
        ...

    def read_stamp(self) -> tuple[tuple[int, int, int], ...] | None:
        """Another value means that the state may have changed. None if that is unknown."""
        ...

    def clock(self) -> float:
        """The date in Unix seconds, by the clock that all gateways with this state use."""
        ...

    def add_schema(self, schema: Schema) -> None:
        """Create the tables of the schema before the next work runs. Adding it again has no effect."""
        ...

    async def run(self, work: Work[Result], *, locks: Collection[str] = ()) -> Result:
        """Run the work in one transaction. If it raises, the transaction is rolled back.

        Works with a common lock never run at the same time. Raises `StorageError`.
        """
        ...

    async def read(self, work: Work[Result]) -> Result:
        """Run work that writes nothing, on one consistent state."""
        ...

    async def close(self) -> None: ...
