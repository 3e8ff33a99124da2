"""The stored form of a turn: arrays, whose order must not change."""

import sqlite3
from pathlib import Path

import msgspec
import pytest

from dragoman.hub.usage import Usage
from dragoman.records.reading import read_turn
from dragoman.records.store import COLUMNS, RECORDS_SCHEMA, NewTurn, insert_turns
from dragoman.records.stored_turn import (
    COUNTS,
    StoredAttempt,
    StoredCall,
    TurnDetails,
    TurnRow,
    build_stored_row,
    encode_details,
    list_counts,
)
from dragoman.storage.database import connect

DETAILS = TurnDetails(
    attempts=[StoredAttempt("up/m", 0.123456789, 2.0, {"kind": "overloaded"}, cools=True)],
    calls=[StoredCall("up/m", "openai_chat", 0.00004, 200, {"x-request-id": "r"}, is_cut=False)],
    losses=[],
    reply_losses=[],
    interventions=[{"kind": "repair"}],
    usage=list_counts(Usage(input=7, output=0, cache_write_long=3)),
    entry="/claude",
    request_headers=msgspec.Raw(b'{"user-agent":"a"}'),
    reply_headers={},
    transport="",
    upstream_request="up_1",
    upstream_session="",
    has_alternatives=True,
)


def build_row() -> TurnRow:
    """A row with another value in each column."""
    return build_stored_row(
        {
            name: f"the {name}" if "TEXT" in kind else number
            for number, (name, kind) in enumerate(COLUMNS.items())
        }
    )


def open_file(folder: Path) -> sqlite3.Connection:
    return connect(folder / "records.db", RECORDS_SCHEMA)


def test_every_column_and_every_count_is_stored() -> None:
    assert sorted((*TurnRow.__struct_fields__, "number", "project")) == sorted(COLUMNS)
    assert sorted(COUNTS) == sorted(Usage.__struct_fields__)


def test_a_row_is_read_as_it_was_written(tmp_path: Path) -> None:
    connection = open_file(tmp_path)
    (written,) = insert_turns(connection, [NewTurn(build_row(), encode_details(DETAILS), "the project")])
    turn = read_turn(connection, "the session", 1)
    columns = {name: turn[name] for name in COLUMNS}
    assert columns == written.show()
    expected = {name: f"the {name}" for name, kind in COLUMNS.items() if "TEXT" in kind}
    assert columns.items() >= expected.items()
    connection.close()


def test_details_are_shown_with_names(tmp_path: Path) -> None:
    connection = open_file(tmp_path)
    insert_turns(connection, [NewTurn(build_row(), encode_details(DETAILS), "")])
    turn = read_turn(connection, "the session", 1)
    assert turn["attempts"] == [
        {"target": "up/m", "began": 0.1235, "ended": 2.0, "failure": {"kind": "overloaded"}, "cools": True}
    ]
    assert turn["calls"] == [
        {
            "target": "up/m",
            "dialect": "openai_chat",
            "sent": 0.0,
            "status": 200,
            "headers": {"x-request-id": "r"},
            "is_cut": False,
        }
    ]
    assert turn["usage"] == {"input": 7, "cache_write_long": 3}
    assert turn["request_headers"] == {"user-agent": "a"}
    assert turn["intervention_list"] == [{"kind": "repair"}]
    assert (turn["entry"], turn["upstream_request"], turn["has_alternatives"]) == ("/claude", "up_1", True)
    connection.close()


@pytest.mark.parametrize("value", [None, b"", b"bytes"])
def test_values_that_sqlite_need_not_adapt_are_stored_unchanged(tmp_path: Path, value: bytes | None) -> None:
    connection = open_file(tmp_path)
    assert connection.execute("SELECT ?, TYPEOF(?1)", (value,)).fetchone() == (
        value,
        "null" if value is None else "blob",
    )
    connection.close()
