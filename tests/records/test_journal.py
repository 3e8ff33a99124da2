"""The journal: turns that are not in the records yet survive the process, and are taken over once."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.records.filters import parse_filter
from dragoman.records.journal import MAX_SIZE, PATTERN, Journal, JournalEntry, take_journals
from dragoman.records.reading import list_turns, read_turn
from dragoman.records.store import COLUMNS, FILE_NAME, open_records
from dragoman.records.stored_turn import build_stored_row
from dragoman.storage.journal import FAILURE_PAUSE, MAX_SECONDS, PAUSE_FACTOR


def build_entry(number: int, session: str = "s") -> JournalEntry:
    row = build_row(number, session)
    return JournalEntry(build_stored_row(row), msgspec.Raw(msgspec.json.encode(build_details(number))))


def build_row(number: int, session: str = "s") -> dict[str, Any]:
    row: dict[str, Any] = {name: "" if "TEXT" in kind else 0 for name, kind in COLUMNS.items()}
    return row | {"request": f"req_{number}", "session": session, "started": 1.5 * number}


def build_details(number: int) -> dict[str, Any]:
    empty = dict.fromkeys(("losses", "reply_losses", "interventions", "attempts", "calls"), ())
    return {**empty, "usage": {"input": number}}


def list_requests(folder: Path) -> list[str]:
    turns = open_records(folder / FILE_NAME, lambda connection: list_turns(connection, parse_filter("")))
    return sorted(turn["request"] for turn in turns)


def leave_journal(folder: Path, *numbers: int, more: bytes = b"") -> None:
    """The journal of a process that has ended without a last word."""
    journal = Journal(folder, lambda: 1.0)
    for number in numbers:
        assert journal.append(build_entry(number))
    assert journal._file is not None
    os.write(journal._file[0], more)
    os.close(journal._file[0])


def test_the_turns_of_a_process_that_is_gone_are_added_once(tmp_path: Path) -> None:
    leave_journal(tmp_path, 1, 2)
    assert list_requests(tmp_path) == ["req_1", "req_2"]
    assert list(tmp_path.glob(PATTERN)) == []
    leave_journal(tmp_path, 2, 3)
    assert list_requests(tmp_path) == ["req_1", "req_2", "req_3"]
    turn = open_records(tmp_path / FILE_NAME, lambda connection: read_turn(connection, "s", 3))
    assert turn["usage"] == {"input": 3}


def test_the_journal_of_an_earlier_version_is_taken_over(tmp_path: Path) -> None:
    """Its rows had the names of the columns."""
    line = msgspec.json.encode({"row": build_row(2), "details": build_details(2)})
    leave_journal(tmp_path, 1, more=line + b"\n")
    assert list_requests(tmp_path) == ["req_1", "req_2"]
    turn = open_records(tmp_path / FILE_NAME, lambda connection: read_turn(connection, "s", 2))
    assert (turn["started"], turn["usage"]) == (3.0, {"input": 2})


def test_a_turn_that_was_cut_while_it_was_written_is_left_out(tmp_path: Path) -> None:
    leave_journal(tmp_path, 1, more=b'{"row":{"request":"req_2"')
    assert list_requests(tmp_path) == ["req_1"]


def test_the_journal_of_a_living_process_is_not_taken(tmp_path: Path) -> None:
    journal = Journal(tmp_path, lambda: 1.0)
    assert journal.append(build_entry(1))
    assert list(take_journals(tmp_path)) == []
    assert list_requests(tmp_path) == []
    journal.close()
    assert list(tmp_path.iterdir()) != []
    assert list(tmp_path.glob(PATTERN)) == []


def test_a_long_journal_is_replaced_and_deleted_one_step_later(tmp_path: Path) -> None:
    journal = Journal(tmp_path, lambda: 1.0)
    sizes = []
    for number in range(4000):
        assert journal.append(build_entry(number))
        journal.replace_if_long()
        sizes.append(sum(file.stat().st_size for file in tmp_path.glob(PATTERN)))
    assert max(sizes) < 3 * MAX_SIZE
    assert len(list(tmp_path.glob(PATTERN))) == 2
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_or_is_slow_stops_the_journal_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    journal = Journal(tmp_path / "none", lambda: now[0])
    assert not journal.append(build_entry(1))
    (tmp_path / "none").mkdir()
    assert not journal.append(build_entry(1))
    now[0] += FAILURE_PAUSE
    assert journal.append(build_entry(1))
    write = os.write

    def write_slowly(descriptor: int, data: bytes) -> int:
        now[0] += 2 * MAX_SECONDS
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", write_slowly)
    assert journal.append(build_entry(2))
    pause = 2 * MAX_SECONDS * PAUSE_FACTOR
    now[0] += pause - 0.01
    assert not journal.append(build_entry(3))
    now[0] += 0.02
    assert journal.append(build_entry(3))


def test_after_a_line_that_was_cut_the_next_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    journal = Journal(tmp_path, lambda: now[0])
    assert journal.append(build_entry(1))
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:20]))
    assert not journal.append(build_entry(2))
    monkeypatch.undo()
    now[0] += FAILURE_PAUSE
    assert journal.append(build_entry(3))
    assert journal._file is not None
    os.close(journal._file[0])
    assert list_requests(tmp_path) == ["req_1", "req_3"]
