"""Opens the state file, applies migrations, and runs work on one thread, one transaction at a time.

Work runs in the order of the calls. When `run` returns, the written data survives the end of the process.
Other processes, such as the commands, may use the same file at the same time.
"""

import asyncio
import errno
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock
from types import NoneType
from typing import NamedTuple, TypeVar

from dragoman.hub.errors import ConfigError

FILE_NAME = "state.db"
#: Milliseconds to wait for another process that is writing: at each transaction, and when the file is opened.
#: Opening waits longer, because several processes may migrate the file one after the other.
BUSY_TIMEOUT = 5_000
OPEN_TIMEOUT = 30_000
#: `user_version` of a file that counts the migrations of each schema in the table `schema_versions`.
FILE_FORMAT = 3

#: Held while a file is created, so that no thread connects to it before the descriptor is closed.
_CREATING = Lock()

Result = TypeVar("Result")


# These change no value. Without them the module looks for one in three ways each time: 3,000 instructions.
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(NoneType, {None: None}.get)


class StorageError(ConfigError):
    """The state cannot be read or written at the moment. `is_uncertain`: it was perhaps written."""

    is_uncertain = False


class Schema(NamedTuple):
    """The tables of one package, as migration scripts. Only append: a released script never changes.

    The first script uses IF NOT EXISTS: files of earlier formats have these tables already.
    """

    name: str
    migrations: tuple[str, ...]


def connect(path: Path | None, *schemas: Schema) -> sqlite3.Connection:
    """Open the file, make it private and apply the migrations. Without a path: a database in memory.

    The connection is in autocommit mode: `BEGIN IMMEDIATE` opens a transaction. The caller may use and close
    it on any thread, but on one at a time.
    """
    try:
        if path is not None:
            make_private_folder(path.parent)
            _create_private(path)
        connection = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
        try:
            connection.execute(f"PRAGMA busy_timeout = {OPEN_TIMEOUT}")
            connection.execute("PRAGMA journal_mode = WAL")
            # With a write-ahead log, NORMAL survives the end of the process, but perhaps not a power failure.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            migrate(connection, schemas)
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT}")
        except (sqlite3.Error, ConfigError):
            connection.close()
            raise
    except (OSError, sqlite3.Error) as error:
        hint = "name another folder in server.state"
        # The others of SQLite, such as a full disk, are subclasses.
        if type(error) is sqlite3.DatabaseError:
            hint = "the file is damaged: restore a copy, or move it away, and a new one is made"
        raise StorageError(f"cannot use the state file {path}: {error}", hint=hint) from None
    return connection


def identify_file(path: Path | None) -> tuple[int, int]:
    """Device and inode of the file; zeros if there is none. They change if it is deleted or replaced."""
    try:
        status = os.stat(path) if path is not None else None
    except OSError:
        status = None
    return (status.st_dev, status.st_ino) if status is not None else (0, 0)


def make_private_folder(folder: Path) -> None:
    """Create the state folder, or close an existing one to other users. Raises if that is not possible.

    Another user who can write into the folder can plant an admin token or a state file.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.name != "posix":
        return
    status = folder.stat()
    user = os.geteuid()
    if user and status.st_uid not in (0, user):
        raise PermissionError(errno.EPERM, f"{folder} belongs to another user")
    if status.st_mode & 0o077:
        try:
            folder.chmod(0o700)
        except PermissionError:
            if status.st_mode & 0o022:
                raise PermissionError(errno.EPERM, f"other users can write into {folder}") from None


def make_private(file: int | str) -> None:
    """Make a file, given by its descriptor or path, readable and writable by its owner only.

    Does nothing if another user owns it.
    """
    if os.name == "posix" and os.stat(file).st_mode & 0o077:
        with suppress(PermissionError):
            os.chmod(file, 0o600)


def _create_private(path: Path) -> None:
    """Create the file before SQLite does: SQLite gives its journals the same permissions.

    A file that exists is never opened here. POSIX releases all locks of a process on a file when the process
    closes any descriptor of it. Another connection of this process would lose its locks, and another process
    would then delete the write-ahead log that the connection still uses.
    """
    # A link may lead to a file that does not exist yet.
    file = os.path.realpath(path)
    with _CREATING:
        try:
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            make_private(file)


def migrate(connection: sqlite3.Connection, schemas: Sequence[Schema]) -> None:
    """Apply the migrations that the file does not have yet. Raises if a newer version wrote the file."""
    if not find_outdated(connection, schemas):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if _read_file_format(connection) < FILE_FORMAT:
            connection.execute(
                "CREATE TABLE schema_versions (name TEXT PRIMARY KEY, version INTEGER NOT NULL)"
            )
            connection.execute(f"PRAGMA user_version = {FILE_FORMAT}")
        # Look again: another process may have migrated the file while this one waited for the lock.
        for schema, version in find_outdated(connection, schemas):
            for script in schema.migrations[version:]:
                for statement in script.split(";"):
                    connection.execute(statement)
            connection.execute(
                "INSERT OR REPLACE INTO schema_versions (name, version) VALUES (?, ?)",
                (schema.name, len(schema.migrations)),
            )
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def find_outdated(connection: sqlite3.Connection, schemas: Sequence[Schema]) -> list[tuple[Schema, int]]:
    """The schemas with missing migrations, each with the number already applied."""
    file_format = _read_file_format(connection)
    versions: dict[str, int] = {}
    if file_format == FILE_FORMAT:
        versions = dict(connection.execute("SELECT name, version FROM schema_versions"))
    counted = [(schema, versions.get(schema.name, 0)) for schema in schemas]
    if file_format > FILE_FORMAT or any(version > len(schema.migrations) for schema, version in counted):
        raise ConfigError(
            "the state file was written by a newer dragoman",
            hint="update dragoman, or name another folder in server.state",
        )
    return [(schema, version) for schema, version in counted if version < len(schema.migrations)]


def _read_file_format(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


class Database:
    """Opens the file at the first use. Without a path the data is in memory and lost at `close`."""

    def __init__(self, path: Path | None = None, *schemas: Schema) -> None:
        self.path = path
        self._schemas = list(schemas)
        #: How many of the schemas the connection has. Only the storage thread uses it.
        self._migrated = 0
        self._connection: sqlite3.Connection | None = None
        self._file = (0, 0)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="storage")

    def add_schema(self, schema: Schema) -> None:
        """Create the tables of the schema before the next work runs. Adding it again has no effect."""
        if schema not in self._schemas:
            self._schemas.append(schema)

    async def run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run the work in one transaction. If it raises, the transaction is rolled back."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run_work, work)

    async def read(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run work that writes nothing. It does not wait for another process that is writing."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run_work, work, "BEGIN")

    def run_now(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Like `run`, for callers without an event loop, such as commands."""
        return self._thread.submit(self._run_work, work).result()

    def close(self) -> None:
        """Finish the work that was submitted before, then close the file."""
        self._thread.submit(self._close_connection)
        self._thread.shutdown(wait=True)

    def _run_work(
        self, work: Callable[[sqlite3.Connection], Result], begin: str = "BEGIN IMMEDIATE"
    ) -> Result:
        connection = self._open_connection()
        connection.execute(begin)
        try:
            result = work(connection)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        return result

    def _open_connection(self) -> sqlite3.Connection:
        count = len(self._schemas)
        if self._connection is not None and self._file != identify_file(self.path):
            # The file was deleted or replaced. The old connection would use data that no command sees.
            self._close_connection()
        if self._connection is None:
            self._connection = connect(self.path, *self._schemas[:count])
            self._file = identify_file(self.path)
        elif self._migrated < count:
            migrate(self._connection, self._schemas[:count])
        self._migrated = count
        return self._connection

    def _close_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
