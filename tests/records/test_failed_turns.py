"""Turns that failed: what a provider quotes in its error is masked in the columns and details of a turn."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from dragoman.config.settings import RecordLevel, RecordSettings
from dragoman.records.reading import read_turn
from tests.exchange.fakes import Script
from tests.records.recorded_gateway import RecordedGateway, ask

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE9EY"
MESSAGE = f"invalid text near 'AWS_SECRET_ACCESS_KEY={SECRET}' in messages[0]"


@pytest.mark.rule("R132")
@pytest.mark.parametrize("level", ["meta", "bodies"])
def test_a_secret_in_an_error_is_masked(level: RecordLevel, tmp_path: Path) -> None:
    error = {"error": {"message": MESSAGE, "type": "invalid_request_error"}}
    script = Script(
        pieces=(msgspec.json.encode(error),), status=400, headers={"content-type": "application/json"}
    )
    recorded = RecordedGateway(tmp_path, script, settings=RecordSettings(record=level))

    async def run() -> None:
        await recorded.send(ask([{"role": "user", "content": "hello"}]))
        await asyncio.to_thread(recorded.recorder.close)

    asyncio.run(run())
    turn = recorded.read(read_turn, "last", 1)
    assert "invalid text near 'AWS_SECRET_ACCESS_KEY=[redacted]" in turn["error"]
    (attempt,) = turn["attempts"]
    assert "invalid text near" in attempt["failure"]["message"]
    assert SECRET not in str(turn)
