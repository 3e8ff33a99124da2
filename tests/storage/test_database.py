"""One file and one thread: order, transactions, durability, permissions, migrations."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from dragoman.hub.errors import ConfigError
from dragoman.storage.database import Database, Schema, connect

TABLE = "CREATE TABLE IF NOT EXISTS notes (number INTEGER PRIMARY KEY, text TEXT NOT NULL)"
COLUMN = "ALTER TABLE notes ADD COLUMN seen INTEGER DEFAULT 0; CREATE INDEX by_text ON notes (text)"
NOTES = Schema("notes", (TABLE,))
MORE = Schema("notes", (TABLE, COLUMN))
OTHERS = Schema("others", ("CREATE TABLE others (number INTEGER)",))
WRITES_AND_DIES = """
import os, signal, sys
from pathlib import Path
from dragoman.storage.database import Database, Schema
database = Database(Path(sys.argv[1]), Schema("notes", tuple(sys.argv[2:])))
database.run_now(lambda connection: connection.execute("INSERT INTO notes (text) VALUES ('kept')"))
os.kill(os.getpid(), signal.SIGKILL)
"""


READS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT text FROM notes ORDER BY number").fetchall())
connection.close()
"""


def add(connection: sqlite3.Connection, text: str) -> None:
    connection.execute("INSERT INTO notes (text) VALUES (?)", (text,))


def texts(connection: sqlite3.Connection) -> list[str]:
    return [text for (text,) in connection.execute("SELECT text FROM notes ORDER BY number")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "state.db"


def test_work_runs_in_the_order_of_the_calls(path: Path) -> None:
    database = Database(path, NOTES)
    wanted = [str(number) for number in range(200)]

    async def write() -> None:
        await asyncio.gather(*(database.run(partial(add, text=text)) for text in wanted))

    asyncio.run(write())
    assert database.run_now(texts) == wanted
    database.close()


def test_work_that_raises_leaves_nothing_behind(path: Path) -> None:
    database = Database(path, NOTES)

    def fails(connection: sqlite3.Connection) -> None:
        add(connection, "half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        database.run_now(fails)
    database.run_now(lambda connection: add(connection, "whole"))
    assert database.run_now(texts) == ["whole"]
    database.close()


def test_written_data_survives_a_killed_process(path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", WRITES_AND_DIES, str(path), TABLE], check=False)
    assert ended.returncode == -9
    connection = connect(path, NOTES)
    assert texts(connection) == ["kept"]
    connection.close()


def test_two_processes_may_share_the_file(path: Path) -> None:
    one, other = Database(path, NOTES), Database(path, NOTES)
    one.run_now(lambda connection: add(connection, "a"))
    other.run_now(lambda connection: add(connection, "b"))
    assert one.run_now(texts) == other.run_now(texts) == ["a", "b"]
    one.close()
    other.close()


def test_an_older_file_is_brought_up_to_date_and_keeps_its_rows(path: Path) -> None:
    older = connect(path, NOTES)
    add(older, "old")
    older.close()
    newer = connect(path, MORE)
    assert newer.execute("SELECT text, seen FROM notes").fetchall() == [("old", 0)]
    newer.close()


def test_a_newer_file_is_refused_with_a_hint(path: Path) -> None:
    connect(path, MORE).close()
    with pytest.raises(ConfigError, match="newer dragoman"):
        connect(path, NOTES)


def test_only_the_owner_may_read_it(path: Path) -> None:
    connection = connect(path, NOTES)
    add(connection, "secret")
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    connection.close()


def test_a_second_connection_of_the_process_keeps_the_locks_of_the_first(path: Path) -> None:
    """Otherwise the next command deletes the write-ahead log in use, and what is written later is lost."""
    first = connect(path, NOTES)
    add(first, "a")
    connect(path, NOTES).close()
    for text, expected in (("b", "[('a',)]"), ("", "[('a',), ('b',)]")):
        command = (sys.executable, "-c", READS, str(path))
        read = subprocess.run(command, capture_output=True, text=True, check=True)
        assert read.stdout.strip() == expected
        if text:
            add(first, text)
    again = connect(path, NOTES)
    assert texts(again) == texts(first) == ["a", "b"]
    again.close()
    first.close()


def test_a_link_may_lead_to_a_file_that_does_not_exist_yet(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(tmp_path / "elsewhere.db")
    connection = connect(path, NOTES)
    add(connection, "a")
    assert stat.S_IMODE((tmp_path / "elsewhere.db").stat().st_mode) == 0o600
    connection.close()


def test_a_file_that_is_no_database_is_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(ConfigError, match=r"state\.db") as raised:
        connect(path, NOTES)
    assert "move it away" in raised.value.hint


def test_without_a_path_it_lives_in_memory_until_closed() -> None:
    database = Database(None, NOTES)
    database.run_now(lambda connection: add(connection, "a"))
    assert database.run_now(texts) == ["a"]
    database.close()


def test_a_schema_can_be_added_after_the_file_was_opened(path: Path) -> None:
    database = Database(path, NOTES)
    database.run_now(lambda connection: add(connection, "a"))
    database.add_schema(OTHERS)
    database.add_schema(OTHERS)
    database.run_now(lambda connection: connection.execute("INSERT INTO others VALUES (1)"))
    assert database.run_now(texts) == ["a"]
    database.close()


def test_schemas_of_one_file_have_versions_of_their_own(path: Path) -> None:
    connect(path, NOTES).close()
    connect(path, OTHERS).close()
    newer = connect(path, MORE, OTHERS)
    rows = newer.execute("SELECT name, version FROM schema_versions ORDER BY name").fetchall()
    assert rows == [("notes", 2), ("others", 1)]
    newer.close()


def test_a_file_of_the_format_without_schema_versions_keeps_its_rows(path: Path) -> None:
    path.parent.mkdir()
    earlier = sqlite3.connect(path, isolation_level=None)
    earlier.execute(TABLE)
    earlier.execute("INSERT INTO notes (text) VALUES ('old')")
    earlier.execute("PRAGMA user_version = 2")
    earlier.close()
    database = Database(path, NOTES)
    assert database.run_now(texts) == ["old"]
    database.close()


def test_a_file_of_a_later_format_is_refused(path: Path) -> None:
    path.parent.mkdir()
    later = sqlite3.connect(path, isolation_level=None)
    later.execute("PRAGMA user_version = 4")
    later.close()
    with pytest.raises(ConfigError, match="newer dragoman"):
        connect(path, NOTES)


@pytest.mark.rule("S9")
def test_a_folder_and_a_file_that_others_can_use_are_closed_to_them(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o777)
    path = folder / "state.db"
    path.touch()
    path.chmod(0o666)
    connect(path).close()
    assert (folder.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)


@pytest.mark.rule("S9")
def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, 4321, 4321)
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    with pytest.raises(ConfigError, match="belongs to another user"):
        connect(folder / "state.db")


@pytest.mark.rule("S12")
def test_a_file_that_was_deleted_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    database = Database(path)
    database.run_now(lambda connection: connection.execute("CREATE TABLE old (x)"))
    path.unlink()
    database.run_now(lambda connection: connection.execute("CREATE TABLE new (x)"))
    database.close()
    with closing(sqlite3.connect(path)) as connection:
        assert [name for (name,) in connection.execute("SELECT name FROM sqlite_master")] == ["new"]
