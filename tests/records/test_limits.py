"""The limits of the file are kept without reading the file at every turn."""

import sqlite3
from pathlib import Path

import pytest

from dragoman.records.store import COLUMNS, DELETED_AT_ONCE, RECORDS_SCHEMA, find_expired
from dragoman.storage.database import connect

NOW = 1_800_000_000.0


def open_file(path: Path, turns: int) -> sqlite3.Connection:
    """A file with so many turns, one a second, the last one now."""
    connection = connect(path, RECORDS_SCHEMA)
    names = ", ".join(COLUMNS)
    for number in range(turns):
        row: dict[str, object] = {
            name: "" if kind.startswith("TEXT") else 0 for name, kind in COLUMNS.items()
        }
        row |= {"session": "one", "number": number, "started": NOW - turns + number}
        marks = ", ".join("?" * len(row))
        sql = f"INSERT INTO turns ({names}, details) VALUES ({marks}, x'00')"  # noqa: S608 (own names)
        connection.execute(sql, tuple(row[name] for name in COLUMNS))
    return connection


def count_steps(connection: sqlite3.Connection) -> int:
    """The steps of SQLite's machine that a check takes while no limit is exceeded."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.set_progress_handler(count, 1)
    assert find_expired(connection, max_count=10**6, oldest=0.0, is_too_large=False) == []
    connection.set_progress_handler(None, 0)
    return steps


def test_a_check_costs_the_same_for_a_large_file(tmp_path: Path) -> None:
    small, large = open_file(tmp_path / "small.db", 10), open_file(tmp_path / "large.db", 1000)
    assert count_steps(large) == count_steps(small)
    small.close()
    large.close()


@pytest.mark.parametrize(
    ("max_count", "age", "is_too_large", "left_out"),
    [
        (1000, 10_000, False, 0),
        # One more than the limit: the surplus, and a hundredth of the limit.
        (999, 10_000, False, 1 + 9),
        (1, 10_000, False, DELETED_AT_ONCE),
        (1000, 900, False, 100),
        (1000, 10_000, True, 101),
    ],
)
def test_the_oldest_turns_beyond_a_limit_are_found(
    tmp_path: Path, max_count: int, age: float, is_too_large: bool, left_out: int
) -> None:
    connection = open_file(tmp_path / "records.db", 1000)
    found = find_expired(connection, max_count=max_count, oldest=NOW - age, is_too_large=is_too_large)
    assert found == list(range(1, left_out + 1))
    connection.close()
