"""Copies a SQLite state into a PostgreSQL state, and compares the two.

A copy that was interrupted continues: rows that are already there are left out.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.storage.port import Row

if TYPE_CHECKING:
    import asyncpg

#: Rows of one transaction.
BATCH = 200
#: Tables that describe the state file itself.
OWN_TABLES = frozenset({"schema_versions", "sqlite_sequence"})


class CopiedTable(NamedTuple):
    """A table, and its rows in both states. `is_equal`: the rows have the same values."""

    name: str
    source: int
    target: int
    is_equal: bool


class TableShape(NamedTuple):
    """The columns of a table, and those of its primary key."""

    name: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]


class RowSum:
    """The number of rows and a sum of their hashes, which does not depend on their order."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0

    def add(self, row: Row) -> None:
        # Both engines return some whole numbers as integers and some as floats.
        values = [float(value) if isinstance(value, int | float) else value for value in row]
        digest = blake2b(repr(values).encode("utf-8", "surrogatepass"), digest_size=16).digest()
        self.count += 1
        self.total = (self.total + int.from_bytes(digest)) % 2**128


def read_shapes(source: sqlite3.Connection, skipped: Collection[str]) -> list[TableShape]:
    """The tables of a state file; a table comes after those that it refers to."""
    names = [row[0] for row in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    references = {
        name: {row[2] for row in source.execute(f"PRAGMA foreign_key_list({name})")} - {name}
        for name in names
        if name not in OWN_TABLES and name not in skipped
    }
    shapes: list[TableShape] = []
    for name in sorted(references, key=lambda name: (bool(references[name]), name)):
        rows = source.execute(f"PRAGMA table_info({name})").fetchall()
        keys = tuple(row[1] for row in sorted(rows, key=lambda row: int(row[5])) if row[5])
        shapes.append(TableShape(name, tuple(row[1] for row in rows), keys))
    return shapes


async def copy_table(
    source: sqlite3.Connection,
    target: "asyncpg.Connection[Any]",
    shape: TableShape,
    report: Callable[[int], None],
) -> CopiedTable:
    """Copy all rows of a table and compare them. `report` gets the number of rows so far."""
    places = ", ".join(f"${number + 1}" for number in range(len(shape.columns)))
    columns = ", ".join(shape.columns)
    insert = f"INSERT INTO {shape.name} ({columns}) VALUES ({places}) ON CONFLICT DO NOTHING"  # noqa: S608 (our tables)
    count = 0
    for batch in _read_batches(source, shape):
        async with target.transaction():
            await target.executemany(insert, batch)
        count += len(batch)
        report(count)
    if len(shape.keys) == 1:
        await _continue_numbers(target, shape)
    return await compare_table(source, target, shape)


async def compare_table(
    source: sqlite3.Connection, target: "asyncpg.Connection[Any]", shape: TableShape
) -> CopiedTable:
    """Read a table on both sides. The result has the sums by which they can be compared."""
    left, right = RowSum(), RowSum()
    for batch in _read_batches(source, shape):
        for row in batch:
            left.add(row)
    async with target.transaction():
        statement = f"SELECT {', '.join(shape.columns)} FROM {shape.name}"  # noqa: S608 (our tables)
        async for row in target.cursor(statement, prefetch=BATCH):
            right.add(row)
    return CopiedTable(
        shape.name, left.count, right.count, (left.count, left.total) == (right.count, right.total)
    )


def _read_batches(source: sqlite3.Connection, shape: TableShape) -> Iterator[Sequence[Row]]:
    columns, order = ", ".join(shape.columns), ", ".join(shape.keys or shape.columns)
    cursor = source.execute(f"SELECT {columns} FROM {shape.name} ORDER BY {order}")  # noqa: S608 (our tables)
    while rows := cursor.fetchmany(BATCH):
        yield rows


async def _continue_numbers(target: "asyncpg.Connection[Any]", shape: TableShape) -> None:
    """Let automatic numbers begin after the copied ones."""
    (column,) = shape.keys
    sequence = await target.fetchval("SELECT pg_get_serial_sequence($1, $2)", shape.name, column)
    if sequence is not None:
        largest = await target.fetchval(f"SELECT MAX({column}) FROM {shape.name}")  # noqa: S608 (our tables)
        if largest is not None and largest < 2**61:
            await target.fetchval("SELECT setval($1::text::regclass, $2)", sequence, largest)
