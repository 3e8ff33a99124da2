"""The write-ahead log stays short, also if few turns are very long."""

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from threading import Event

import pytest

from dragoman.records import recorder, turn_writer
from dragoman.records.store import WrittenTurn
from dragoman.records.turn_writer import EndedTurn, Job, TurnWriter
from tests.records.recorded_gateway import RecordedGateway, ask

#: Bytes of the log, and of each request. Random letters do not shrink to less than half.
MAX_LOG, SIZE, COUNT = 200_000, 60_000, 20


def test_long_requests_do_not_make_the_log_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_writer, "MAX_LOG", MAX_LOG)
    recorded = RecordedGateway(tmp_path)
    sizes = []

    async def run() -> None:
        for _ in range(COUNT):
            await recorded.send(ask([{"role": "user", "content": os.urandom(SIZE // 2).hex()}]))
            await recorded.recorder.flush()
            sizes.append((tmp_path / "records.db-wal").stat().st_size)
        await asyncio.to_thread(recorded.recorder.close)

    asyncio.run(run())
    assert recorded.recorder.status.written == COUNT
    assert max(sizes) < 2 * MAX_LOG


def test_the_log_stays_short_while_the_queue_is_never_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_writer, "MAX_LOG", MAX_LOG)
    monkeypatch.setattr(recorder, "BATCH", 1)
    recorded = RecordedGateway(tmp_path)
    all_wait = Event()
    ended, sizes = [], []
    submit, open_file, write = recorded.recorder._submit, TurnWriter.open, TurnWriter.write

    def count_and_submit(job: Job, size: int = 0, *, is_turn: bool = False, is_urgent: bool = False) -> bool:
        is_taken = submit(job, size, is_turn=is_turn, is_urgent=is_urgent)
        ended.extend([job] if isinstance(job, EndedTurn) else [])
        if len(ended) == COUNT:
            all_wait.set()
        return is_taken

    def open_when_all_wait(writer: TurnWriter) -> None:
        all_wait.wait()
        open_file(writer)

    def write_and_measure(writer: TurnWriter, jobs: Iterable[Job]) -> list[WrittenTurn]:
        written = write(writer, jobs)
        sizes.append((tmp_path / "records.db-wal").stat().st_size)
        return written

    monkeypatch.setattr(recorded.recorder, "_submit", count_and_submit)
    monkeypatch.setattr(TurnWriter, "open", open_when_all_wait)
    monkeypatch.setattr(TurnWriter, "write", write_and_measure)

    async def run() -> None:
        messages = [{"role": "user", "content": os.urandom(SIZE // 2).hex()} for _ in range(COUNT)]
        await asyncio.gather(*(recorded.send(ask([message])) for message in messages))
        await asyncio.to_thread(recorded.recorder.close)

    asyncio.run(run())
    assert recorded.recorder.status.written == COUNT
    assert max(sizes) < 2 * MAX_LOG
