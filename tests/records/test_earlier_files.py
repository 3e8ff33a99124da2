"""Files of the records that earlier versions wrote."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from dragoman.records.block_refs import pack_refs
from dragoman.records.blocks import compress
from dragoman.records.filters import parse_filter
from dragoman.records.reading import list_turns
from dragoman.records.store import BodyRow, delete_turns, read_bodies, read_content
from tests.records.recorded_gateway import RecordedGateway, ask


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
