"""The file of the records: its tables, and the SQL that writes, reads and deletes them.

`turns` has one row per exchange with the columns that lists and filters use. `contents` names the blocks of
all contents of a turn; turns of earlier versions have a row of `bodies` for each content instead. `blocks`
has the blocks: compressed, with the number of their uses. A content may be a part of a block: what is new in
a turn is one block, because to write many small ones costs more. A block may be a list of others: the
beginning of a long conversation is one block for all its requests. All functions expect an open transaction.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import structs

from dragoman.records.block_refs import BlockRef, pack_refs, unpack_refs
from dragoman.records.blocks import (
    compress_long,
    count_uses,
    decompress,
    decompress_long,
    expand_lists,
    select_blocks,
)
from dragoman.records.journal import JournalEntry, take_journals
from dragoman.records.stored_turn import Row, TurnRow, build_stored_row
from dragoman.storage.database import Schema, connect

FILE_NAME = "records.db"

#: The columns of a turn that are not contents, and their SQL types.
COLUMNS: Mapping[str, str] = {
    "request": "TEXT NOT NULL",
    "session": "TEXT NOT NULL",
    "number": "INTEGER NOT NULL",
    "sub_agent": "TEXT NOT NULL",
    "agent": "TEXT NOT NULL",
    "version": "TEXT NOT NULL",
    "project": "TEXT NOT NULL",
    "key": "TEXT NOT NULL",
    "started": "REAL NOT NULL",
    "seconds": "REAL NOT NULL",
    "first_token": "REAL NOT NULL",
    "client": "TEXT NOT NULL",
    "upstream": "TEXT NOT NULL",
    "model": "TEXT NOT NULL",
    "route": "TEXT NOT NULL",
    "rule": "TEXT NOT NULL",
    "target": "TEXT NOT NULL",
    "lane": "TEXT NOT NULL",
    "stream": "INTEGER NOT NULL",
    "status": "INTEGER NOT NULL",
    "ending": "TEXT NOT NULL",
    "cause": "TEXT NOT NULL",
    "error": "TEXT NOT NULL",
    "tries": "INTEGER NOT NULL",
    "tools": "INTEGER NOT NULL",
    "losses": "INTEGER NOT NULL",
    "interventions": "INTEGER NOT NULL",
    "input": "INTEGER",
    "cache_read": "INTEGER",
    "cache_write": "INTEGER",
    "output": "INTEGER",
    "reasoning": "INTEGER",
    "cost": "INTEGER",
    "level": "TEXT NOT NULL",
    "saved": "INTEGER",
}
#: Columns that earlier versions do not have. They are added to their files.
_ADDED = ("saved",)
_FIRST_COLUMNS = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items() if name not in _ADDED)
NAMES = tuple(COLUMNS)
#: The columns in the order in which they are written.
_WRITTEN = ("id", "number", "project", "details", *TurnRow.__struct_fields__)

RECORDS_SCHEMA = Schema(
    "records",
    (
        f"""
        CREATE TABLE IF NOT EXISTS turns (
            id INTEGER PRIMARY KEY, {_FIRST_COLUMNS},
            details BLOB NOT NULL
        );
        CREATE UNIQUE INDEX IF NOT EXISTS turns_number ON turns (session, number);
        CREATE INDEX IF NOT EXISTS turns_request ON turns (request);
        CREATE INDEX IF NOT EXISTS turns_started ON turns (started);
        CREATE TABLE IF NOT EXISTS blocks (
            id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, uses INTEGER NOT NULL, data BLOB NOT NULL
        );
        CREATE INDEX IF NOT EXISTS unused_blocks ON blocks (id) WHERE uses <= 0;
        CREATE TABLE IF NOT EXISTS bodies (
            turn INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
            part TEXT NOT NULL, round INTEGER NOT NULL, blocks BLOB NOT NULL, pieces BLOB NOT NULL,
            PRIMARY KEY (turn, part, round)
        ) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS deletions (number INTEGER NOT NULL);
        INSERT INTO deletions VALUES (0)
        """,  # noqa: S608 (own names)
        "ALTER TABLE blocks ADD COLUMN is_list INTEGER NOT NULL DEFAULT 0",
        """
        CREATE TABLE contents (
            turn INTEGER PRIMARY KEY REFERENCES turns (id) ON DELETE CASCADE, bodies BLOB NOT NULL
        )
        """,
        # Details are an array. An earlier version cannot read such a file, and refuses it.
        "",
        "ALTER TABLE turns ADD COLUMN saved INTEGER",
    ),
)

#: The parts of a turn, in the order of time.
PARTS = ("client_request", "upstream_request", "upstream_reply", "client_reply")
#: Turns that one deletion takes: more than one transaction of the recorder adds.
DELETED_AT_ONCE = 300
#: Rows that one statement writes. Each statement takes the interpreter from the event loop for a moment.
MAX_ROWS = 16

#: The time in milliseconds and the length of each piece of a stream.
Pieces = list[tuple[int, int]]
Result = TypeVar("Result")
Item = TypeVar("Item")


class BodyRow(NamedTuple):
    """One content of a turn."""

    part: str
    round: int
    blocks: Sequence[BlockRef]
    pieces: Sequence[tuple[int, int]]


class NewTurn(msgspec.Struct, frozen=True, gc=False):
    """A turn to write, as the next of its session unless it has a number. `details` is JSON.

    `is_grown`: the upstream got the prompt of the turn before and more.
    """

    row: TurnRow
    details: bytes
    project: str
    bodies: Sequence[BodyRow] = ()
    is_grown: bool = False
    number: int = 0


class WrittenTurn(msgspec.Struct, frozen=True, gc=False):
    """A turn that is written, with its number."""

    row: TurnRow
    project: str
    number: int

    def show(self) -> Row:
        """The columns by their names, as they are read from the file."""
        row = structs.asdict(self.row) | {"number": self.number, "project": self.project}
        return {name: row[name] for name in NAMES}


_encode = msgspec.msgpack.Encoder().encode
_PACKED_BODIES = msgspec.msgpack.Decoder(list[tuple[str, int, bytes, Pieces]])


def find_records_file(state_file: Path) -> Path:
    """The file of the records beside the state file: they never share a lock."""
    return state_file.with_name(FILE_NAME)


def connect_records(file: Path) -> sqlite3.Connection:
    """Open the file, and add what a process that was killed left in its journal."""
    connection = connect(file, RECORDS_SCHEMA)
    with suppress(sqlite3.Error):
        for entries in take_journals(file.parent):
            connection.execute("BEGIN IMMEDIATE")
            try:
                for entry in entries:
                    _insert_entry(connection, entry)
            finally:
                # What is in the file now is not added again from the journal, which stays after an error.
                connection.execute("COMMIT")
    return connection


def _insert_entry(connection: sqlite3.Connection, entry: JournalEntry) -> None:
    row = entry.row
    found = connection.execute(
        "SELECT 1 FROM turns WHERE request = ? AND started = ?", (row.request, row.started)
    )
    if found.fetchone() is None:
        project = find_session_project(connection, row.session)
        insert_turns(connection, [NewTurn(row, bytes(entry.details), project)])


def find_session_project(connection: sqlite3.Connection, session: str) -> str:
    """The project of a session; empty if no turn of it names one."""
    sql = "SELECT project FROM turns WHERE session = ? AND project != '' LIMIT 1"
    return str(next(connection.execute(sql, (session,)), ("",))[0])


def open_records(file: Path, work: Callable[[sqlite3.Connection], Result]) -> Result:
    """Run the work in one transaction of the file, with a connection of its own."""
    connection = connect_records(file)
    try:
        connection.execute("BEGIN")
        result = work(connection)
        connection.execute("COMMIT")
        return result
    finally:
        connection.close()


def insert_turn(connection: sqlite3.Connection, row: Row, details: bytes, bodies: Sequence[BodyRow]) -> None:
    """Write one turn whose columns are given by their names. It needs no number."""
    number = row.get("number", 0)
    new = NewTurn(build_stored_row(row), details, row["project"], bodies, number=number)
    insert_turns(connection, [new])


def insert_turns(connection: sqlite3.Connection, turns: Sequence[NewTurn]) -> list[WrittenTurn]:
    """Write turns. Returns them with their numbers."""
    numbers = _read_last_numbers(connection, [turn.row.session for turn in turns])
    (last,) = connection.execute("SELECT COALESCE(MAX(id), 0) FROM turns").fetchone()
    written = []
    values: list[object] = []
    contents: list[object] = []
    for turn_id, turn in enumerate(turns, last + 1):
        session = turn.row.session
        before = numbers[session]
        number = turn.number or before + 1
        numbers[session] = max(number, before)
        written.append(WrittenTurn(turn.row, turn.project, number))
        values += (turn_id, number, turn.project, compress_long(turn.details))
        values += structs.astuple(turn.row)
        if turn.bodies:
            contents += (turn_id, _pack_bodies(turn.bodies))
    _insert_rows(connection, "turns", _WRITTEN, values)
    _insert_rows(connection, "contents", ("turn", "bodies"), contents)
    return written


def _read_last_numbers(connection: sqlite3.Connection, sessions: Iterable[str]) -> dict[str, int]:
    """The number of the last turn of each session; 0 if there is none."""
    numbers = dict.fromkeys(sessions, 0)
    for some in _cut_rows([*numbers], 1):
        marks = ", ".join("?" * len(some))
        sql = f"SELECT session, MAX(number) FROM turns WHERE session IN ({marks}) GROUP BY session"  # noqa: S608 (marks)
        numbers.update(connection.execute(sql, some).fetchall())
    return numbers


def _insert_rows(
    connection: sqlite3.Connection, table: str, names: tuple[str, ...], values: Sequence[object]
) -> None:
    """Write rows, whose values follow each other."""
    for some in _cut_rows(values, len(names)):
        connection.execute(_build_insertion(table, names, len(some) // len(names)), some)


@lru_cache(maxsize=32)
def _build_insertion(table: str, names: tuple[str, ...], rows: int) -> str:
    marks = f"(?{', ?' * (len(names) - 1)})"
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES {', '.join([marks] * rows)}"  # noqa: S608 (own names)


def _cut_rows(values: Sequence[Item], width: int) -> Iterator[Sequence[Item]]:
    """The values of rows in parts, of 1, 2, 4 rows and so on: so few statements are prepared, and kept."""
    start = 0
    while left := (len(values) - start) // width:
        end = start + min(MAX_ROWS, 1 << left.bit_length() - 1) * width
        yield values[start:end]
        start = end


def _pack_bodies(bodies: Sequence[BodyRow]) -> bytes:
    """All contents of a turn as one value."""
    rows = [(part, number, pack_refs(blocks), pieces) for part, number, blocks, pieces in bodies]
    return compress_long(_encode(rows))


def read_size(connection: sqlite3.Connection) -> tuple[int, int]:
    """The number of turns, and the bytes of their contents."""
    turns, details = connection.execute("SELECT COUNT(*), TOTAL(LENGTH(details)) FROM turns").fetchone()
    (blocks,) = connection.execute("SELECT TOTAL(LENGTH(data)) FROM blocks").fetchone()
    (bodies,) = connection.execute("SELECT TOTAL(LENGTH(bodies)) FROM contents").fetchone()
    (earlier,) = connection.execute("SELECT TOTAL(LENGTH(blocks) + LENGTH(pieces)) FROM bodies").fetchone()
    return int(turns), int(details + blocks + bodies + earlier)


def read_bodies(connection: sqlite3.Connection, turn: int) -> list[BodyRow]:
    """The contents of a turn, as lists of blocks."""
    packed = connection.execute("SELECT bodies FROM contents WHERE turn = ?", (turn,)).fetchone()
    if packed is None:
        return _read_earlier_bodies(connection, turn)
    found = _PACKED_BODIES.decode(decompress_long(packed[0]))
    return [BodyRow(part, number, unpack_refs(blob), pieces) for part, number, blob, pieces in sorted(found)]


def _read_earlier_bodies(connection: sqlite3.Connection, turn: int) -> list[BodyRow]:
    """The contents of a turn that an earlier version wrote."""
    rows = connection.execute(
        "SELECT part, round, blocks, pieces FROM bodies WHERE turn = ? ORDER BY part, round", (turn,)
    )
    found = []
    for part, number, blob, pieces in rows:
        times = msgspec.msgpack.decode(decompress(pieces), type=Pieces) if pieces else []
        found.append(BodyRow(part, number, unpack_refs(blob), times))
    return found


def read_content(connection: sqlite3.Connection, body: BodyRow) -> bytes:
    """The bytes of one content."""
    blocks = expand_lists(connection, body.blocks)
    rows = select_blocks(connection, {ref.block for ref in blocks})
    found = {number: decompress(data) for number, data in rows}
    return b"".join([ref.cut(found.get(ref.block, b"")) for ref in blocks])


def delete_turns(connection: sqlite3.Connection, turns: Sequence[int]) -> None:
    """Delete turns with their contents, and the blocks that no other turn uses."""
    for turn in turns:
        for body in read_bodies(connection, turn):
            count_uses(connection, body.blocks, -1)
    connection.executemany("DELETE FROM turns WHERE id = ?", ((turn,) for turn in turns))
    while lists := connection.execute("SELECT id, data FROM blocks WHERE uses <= 0 AND is_list").fetchall():
        for number, data in lists:
            count_uses(connection, unpack_refs(data), -1)
            connection.execute("DELETE FROM blocks WHERE id = ?", (number,))
    connection.execute("DELETE FROM blocks WHERE uses <= 0")
    connection.execute("UPDATE deletions SET number = number + 1")


def read_deletions(connection: sqlite3.Connection) -> int:
    """The number of deletions so far. A writer that remembers blocks must look again if it has changed."""
    return int(connection.execute("SELECT number FROM deletions").fetchone()[0])


def find_expired(
    connection: sqlite3.Connection, *, max_count: int, oldest: float, is_too_large: bool
) -> list[int]:
    """The oldest turns that exceed a limit, at most `DELETED_AT_ONCE`. Reads no other rows.

    `is_too_large`: the contents exceed their limit in bytes.
    """
    (turns,) = connection.execute("SELECT COUNT(*) FROM turns").fetchone()
    # Some more than needed, so that this does not happen after every turn.
    surplus = turns - max_count + max_count // 100 if turns > max_count else 0
    if is_too_large:
        surplus = max(surplus, turns // 10 + 1)
    limit = min(surplus, DELETED_AT_ONCE)
    aged = "SELECT id FROM turns WHERE started < ? ORDER BY started LIMIT ?"
    found = {row[0] for row in connection.execute(aged, (oldest, DELETED_AT_ONCE))}
    found.update(row[0] for row in connection.execute("SELECT id FROM turns ORDER BY id LIMIT ?", (limit,)))
    return sorted(found)
