"""The file of the records is deleted or replaced while the gateway runs."""

import asyncio
import os
from pathlib import Path

import pytest

from dragoman.config.settings import RecordLevel, RecordSettings
from dragoman.records.filters import Condition
from dragoman.records.reading import list_turns, read_raw
from tests.records.recorded_gateway import RecordedGateway, ask

HELLO = {"role": "user", "content": "A first question."}


@pytest.mark.parametrize("is_moved", [False, True], ids=["deleted", "moved"])
@pytest.mark.parametrize("level", ["meta", "bodies"])
def test_later_turns_are_in_a_new_file(level: RecordLevel, is_moved: bool, tmp_path: Path) -> None:
    recorded = RecordedGateway(tmp_path, settings=RecordSettings(record=level))
    grown = ask([HELLO, {"role": "assistant", "content": "x"}, {"role": "user", "content": "A second one."}])

    async def run() -> None:
        await recorded.send(ask([HELLO]))
        await recorded.recorder.flush()
        for file in tmp_path.glob("records.db*"):
            if is_moved:
                os.replace(file, tmp_path / f"old-{file.name}")
            else:
                file.unlink()
        await recorded.send(grown)
        await asyncio.to_thread(recorded.recorder.close)

    asyncio.run(run())
    assert (recorded.recorder.status.lost, recorded.recorder.status.error) == (0, "")
    (turn,) = recorded.read(list_turns, Condition("1"))
    assert turn["number"] == 1
    expected = grown if level == "bodies" else None
    assert recorded.read(read_raw, turn["id"], "client_request") == expected
