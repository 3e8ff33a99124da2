"""`SqliteStorage`: the state of a gateway in one SQLite file, or in memory."""

import re
import sqlite3
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from dragoman.storage.database import Database, Schema, StorageError
from dragoman.storage.port import Row, Work

Result = TypeVar("Result")

_PLACES = re.compile(r"\$(\d+)")


@lru_cache(maxsize=512)
def adapt_sql(sql: str) -> str:
    """The statement with SQLite's spelling of numbered values: `?1` for `$1`."""
    return _PLACES.sub(r"?\1", sql)


class SqliteTransaction:
    """A transaction that is open on a connection. Its methods return at once, without a suspension."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def fetch(self, sql: str, *values: object) -> Sequence[Row]:
        return self._connection.execute(adapt_sql(sql), values).fetchall()

    async def fetch_one(self, sql: str, *values: object) -> Row | None:
        row: Row | None = self._connection.execute(adapt_sql(sql), values).fetchone()
        return row

    async def execute(self, sql: str, *values: object) -> int:
        return self._connection.execute(adapt_sql(sql), values).rowcount

    async def execute_many(self, sql: str, rows: Collection[Sequence[object]]) -> None:
        self._connection.executemany(adapt_sql(sql), rows)


def complete(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine that never waits to its end, without an event loop."""
    try:
        work.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    work.close()
    raise RuntimeError("the work of a transaction awaited something else than the transaction")


class SqliteStorage:
    """The state in the file at `path`; without a path, in memory until `close`."""

    is_shared = False
    is_available = True

    def __init__(self, path: Path | None = None, *schemas: Schema) -> None:
        self._database = Database(path, *schemas)
        self.path = path
        self.folder = path.parent if path is not None else None

    @property
    def is_lasting(self) -> bool:
        return self.path is not None

    @property
    def has_data(self) -> bool:
        return self.path is not None and self.path.is_file()

    def read_stamp(self) -> tuple[tuple[int, int, int], ...]:
        """The modification time, size and inode of the file and of its write-ahead log."""
        stamps = []
        for each in (str(self.path), f"{self.path}-wal") if self.path else ():
            try:
                status = Path(each).stat()
            except OSError:
                continue
            stamps.append((status.st_mtime_ns, status.st_size, status.st_ino))
        return tuple(stamps)

    def clock(self) -> float:
        return time.time()

    def add_schema(self, schema: Schema) -> None:
        self._database.add_schema(schema)

    async def run(self, work: Work[Result], *, locks: Collection[str] = ()) -> Result:
        """See `StateStorage`. A transaction locks the whole file."""
        try:
            return await self._database.run(_build_job(work))
        except sqlite3.Error as error:
            raise self._map_error(error) from None

    async def read(self, work: Work[Result]) -> Result:
        try:
            return await self._database.read(_build_job(work))
        except sqlite3.Error as error:
            raise self._map_error(error) from None

    def run_now(self, work: Work[Result]) -> Result:
        """Like `run`, for callers without an event loop, such as commands."""
        try:
            return self._database.run_now(_build_job(work))
        except sqlite3.Error as error:
            raise self._map_error(error) from None

    def _map_error(self, error: sqlite3.Error) -> StorageError:
        return StorageError(f"cannot use the state file {self.path}: {error}")

    async def close(self) -> None:
        self.close_now()

    def close_now(self) -> None:
        self._database.close()


def _build_job(work: Work[Result]) -> Callable[[sqlite3.Connection], Result]:
    return lambda connection: complete(work(SqliteTransaction(connection)))
