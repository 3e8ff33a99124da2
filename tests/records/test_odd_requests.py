"""Requests that no agent sends: they are recorded and shown, and end neither the recorder nor a command."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.records import turn_writer, turns
from dragoman.records.cache import diagnose_session
from dragoman.records.filters import Condition
from dragoman.records.preview import preview_session, preview_turn
from dragoman.records.reading import RecordNotFound, list_turns, read_part
from dragoman.records.replay import load_session, normalise_request
from dragoman.records.stored_turn import TurnRow
from dragoman.records.taps import MetaTap
from dragoman.records.turn_writer import TurnWriter
from tests.records.recorded_gateway import RecordedGateway, ask

HELLO = {"role": "user", "content": "hello"}


def play(recorded: RecordedGateway, *bodies: bytes) -> None:
    async def run() -> None:
        await asyncio.gather(*[recorded.send(body) for body in bodies])
        await asyncio.to_thread(recorded.recorder.close)

    asyncio.run(run())


def test_one_turn_that_cannot_be_recorded_takes_no_others_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = turns.build_row

    def build_or_raise(tap: MetaTap, *values: Any) -> TurnRow:
        if tap.record.model == "odd":
            raise RuntimeError("odd")
        return build(tap, *values)

    monkeypatch.setattr(turn_writer, "build_row", build_or_raise)
    recorded = RecordedGateway(tmp_path)
    play(recorded, *[ask([HELLO], model=model) for model in ("m", "odd", "m", "m")])
    status = recorded.recorder.status
    assert (status.written, status.lost) == (3, 1)
    assert [turn["number"] for turn in recorded.read(list_turns, Condition("1"))] == [1, 2, 3]


def test_a_request_that_cannot_be_prepared_does_not_end_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(writer: TurnWriter, job: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr(TurnWriter, "_prepare", fail)
    recorded = RecordedGateway(tmp_path)
    play(recorded, ask([HELLO]))
    assert recorded.recorder.status.written == 1


def test_a_body_that_is_no_json_is_shown_and_left_out_of_previews(tmp_path: Path) -> None:
    recorded = RecordedGateway(tmp_path)
    play(recorded, b"\xff no JSON", ask([HELLO]))
    config = recorded.config
    numbers = [each.number for each in recorded.read(preview_session, "session-1", config)]
    assert numbers == [2]
    with pytest.raises(RecordNotFound, match="no request that the rules could change"):
        recorded.read(preview_turn, "session-1", 1, config)
    # The gateway refused it, so nothing went upstream. No setting would change that.
    with pytest.raises(RecordNotFound, match=r"turn 1 has no upstream_request$"):
        recorded.read(read_part, "session-1", 1, "upstream_request")
    assert len(recorded.read(load_session, "session-1")) == 2
    assert [each.number for each in recorded.read(diagnose_session, "session-1")] == [2]


@pytest.mark.parametrize("depth", [400, 900, 5000])
def test_a_body_that_is_nested_deeply_is_no_error(depth: int, tmp_path: Path) -> None:
    body = ask([HELLO])[:-1] + b',"x":' + b"[" * depth + b"]" * depth + b"}"
    assert isinstance(normalise_request(body), dict)
