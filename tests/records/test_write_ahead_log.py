"""The write-ahead log stays short, also if few turns are very long."""

import asyncio
import os
from pathlib import Path

import pytest

from dragoman.records import turn_writer
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
