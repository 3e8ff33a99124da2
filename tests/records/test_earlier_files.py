"""Files of the records that earlier versions wrote."""

import asyncio
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from dragoman.records.block_refs import pack_refs
from dragoman.records.blocks import compress
from dragoman.records.filters import parse_filter
from dragoman.records.reading import list_sessions, list_turns
from dragoman.records.store import (
    COLUMNS,
    FILE_NAME,
    RECORDS_SCHEMA,
    BodyRow,
    delete_turns,
    insert_turn,
    open_records,
    read_bodies,
    read_content,
)
from dragoman.records.stored_turn import build_stored_row
from dragoman.storage.database import connect
from tests.records.recorded_gateway import RecordedGateway, ask


def test_turns_of_earlier_versions_have_no_known_saving(tmp_path: Path) -> None:
    """Their files lack the column, and their journals the value."""
    columns = {name: "" if "TEXT" in kind else 0 for name, kind in COLUMNS.items() if name != "saved"}
    file = tmp_path / FILE_NAME
    connection = connect(file, RECORDS_SCHEMA._replace(migrations=RECORDS_SCHEMA.migrations[:4]))
    values = {**columns, "id": 1, "session": "s", "number": 1, "cost": 5, "details": b""}
    sql = f"INSERT INTO turns ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"  # noqa: S608 (own names)
    connection.execute(sql, (*values.values(),))
    connection.close()
    row = msgspec.to_builtins(build_stored_row({**columns, "session": "s", "request": "later", "cost": 7}))
    (tmp_path / "records-1.journal").write_bytes(msgspec.json.encode([row[:-1], {}]) + b"\n")

    turns = open_records(file, partial(list_turns, condition=parse_filter("")))
    assert [(turn["cost"], turn["saved"]) for turn in turns] == [(5, None), (7, None)]

    def add(connection: sqlite3.Connection) -> None:
        insert_turn(connection, {**columns, "session": "s", "saved": 3}, b"{}", ())

    open_records(file, add)
    (session,) = open_records(file, partial(list_sessions, condition=parse_filter("saved>0")))
    assert (session["turns"], session["saved"]) == (3, 3)


def test_contents_of_earlier_versions_are_read_and_deleted(tmp_path: Path) -> None:
    """They had a row per content, and its times were always compressed."""
    recorded = RecordedGateway(tmp_path)

    async def run() -> None:
        for words in ("one", "two"):
            await recorded.send(ask([{"role": "user", "content": words}]))
        await asyncio.to_thread(recorded.recorder.close)

    asyncio.run(run())
    turns = [turn["id"] for turn in recorded.read(list_turns, parse_filter(""))]

    def read(connection: sqlite3.Connection) -> list[list[tuple[BodyRow, bytes]]]:
        return [
            [(body, read_content(connection, body)) for body in read_bodies(connection, each)]
            for each in turns
        ]

    def write_as_before(connection: sqlite3.Connection) -> None:
        rows = [
            (
                turn,
                part,
                number,
                pack_refs(blocks),
                compress(msgspec.msgpack.encode(pieces)) if pieces else b"",
            )
            for turn in turns
            for part, number, blocks, pieces in read_bodies(connection, turn)
        ]
        connection.executemany("INSERT INTO bodies VALUES (?, ?, ?, ?, ?)", rows)
        connection.execute("DELETE FROM contents")

    def delete(connection: sqlite3.Connection) -> tuple[Any, ...]:
        delete_turns(connection, turns)
        return tuple(connection.execute("SELECT COUNT(*) FROM blocks").fetchone())

    expected = recorded.read(read)
    assert all(expected)
    recorded.read(write_as_before)
    assert recorded.read(read) == expected
    assert recorded.read(delete) == (0,)
