"""The one file of the gateway, and the one thread that reads and writes it.

Work runs in the order in which it was asked for, each piece in a transaction of its own. When `run` returns,
what was written survives the death of the process. Other processes, such as the commands, may use the same
file at the same time by `connect`.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from dragoman.hub.errors import ConfigError
from dragoman.storage.migrations import MIGRATIONS

FILE_NAME = "state.db"
#: Milliseconds to wait for another process that is writing.
PATIENCE = 5_000

Result = TypeVar("Result")


def connect(path: Path | None, migrations: Sequence[str] = MIGRATIONS) -> sqlite3.Connection:
    """The file, made private and brought up to date; without a path, a database in memory.

    The connection is in autocommit mode: `BEGIN IMMEDIATE` opens a transaction. It belongs to whoever made
    it, on whichever thread, so that it can be made here and closed there.
    """
    try:
        if path is not None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Made before SQLite sees it: the journals beside it get the same permissions.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection, migrations)
        except (sqlite3.Error, ConfigError):
            connection.close()
            raise
    except (OSError, sqlite3.Error) as error:
        raise ConfigError(
            f"cannot use the state file {path}: {error}", hint="name another folder in server.state"
        ) from None
    return connection


def _prepare(connection: sqlite3.Connection, migrations: Sequence[str]) -> None:
    connection.execute(f"PRAGMA busy_timeout = {PATIENCE}")
    connection.execute("PRAGMA journal_mode = WAL")
    # With a write-ahead log this outlives the process, though perhaps not the machine's power.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")
    if _version(connection) == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    # Another process may have done it while this one waited.
    seen = _version(connection)
    if seen > len(migrations):
        raise ConfigError(
            "the state file was written by a newer dragoman",
            hint="update dragoman, or name another folder in server.state",
        )
    for script in migrations[seen:]:
        for statement in script.split(";"):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(migrations)}")
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


class Database:
    """Opened when it is first used. Without a path it lives in memory and is forgotten at `close`."""

    def __init__(self, path: Path | None = None, migrations: Sequence[str] = MIGRATIONS) -> None:
        self.path = path
        self._migrations = migrations
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="storage")

    async def run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Do the work in one transaction; if it raises, nothing of it has happened."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._do, work)

    def run_now(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """The same for callers that have no loop, such as commands."""
        return self._thread.submit(self._do, work).result()

    def close(self) -> None:
        """What was asked for before is still done."""
        self._thread.submit(self._close)
        self._thread.shutdown(wait=True)

    def _do(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        if self._connection is None:
            self._connection = connect(self.path, self._migrations)
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(connection)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        return result

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
