"""How many changes of tool calls a turn has: what lists, filters and the page count."""

import asyncio
from pathlib import Path

from dragoman.records.filters import parse_filter
from dragoman.records.reading import list_turns, read_turn
from dragoman.records.store import open_records
from tests.page.sample_gateway import Agent, Say, run_sample_gateway

SAYS = [
    Say("I look.", ("Bash", ('{"command": "py', 'test -q"}'))),
    Say("I repair.", ("Bash", ("{command: 'ls',}",))),
    Say("I start again.", ("Bash", ('{"command": "git reset --hard HEAD~3"}',))),
]


def test_a_call_that_was_only_held_is_no_change(tmp_path: Path) -> None:
    async def run() -> Path:
        async with run_sample_gateway(tmp_path) as (gateway, model):
            model.says = [*SAYS]
            agent = Agent(gateway, "held")
            for text in ("Go on.", "And then?", "Again."):
                assert await agent.say(text) == 200
            assert gateway.app.recorder is not None
            return gateway.app.recorder.file

    file = asyncio.run(run())

    def read(text: str) -> list[tuple[int, int]]:
        rows = open_records(file, lambda connection: list_turns(connection, parse_filter(text)))
        return [(row["number"], row["interventions"]) for row in rows]

    assert read("") == [(1, 0), (2, 1), (3, 1)]
    assert read("changed") == [(2, 1), (3, 1)]
    first = open_records(file, lambda connection: read_turn(connection, "held", 1))
    assert [each["kind"] for each in first["intervention_list"]] == ["hold"]
