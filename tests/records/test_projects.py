"""The project of a session: the folder that its agent works in."""

import asyncio
from pathlib import Path

from dragoman.records.filters import Condition
from dragoman.records.reading import list_sessions
from tests.records.recorded_gateway import CLAUDE, RecordedGateway, ask

SYSTEM = "You are a coding agent. " * 200 + "\nWorking directory: /srv/parser\n"


def test_sessions_of_one_project_have_it_although_their_requests_begin_alike(tmp_path: Path) -> None:
    recorded = RecordedGateway(tmp_path)

    async def run() -> None:
        for number in range(3):
            body = ask([{"role": "user", "content": f"question {number}"}], system=SYSTEM)
            await recorded.send(body, headers={**CLAUDE, "x-claude-code-session-id": f"session-{number}"})
        await asyncio.to_thread(recorded.recorder.close)

    asyncio.run(run())
    sessions = recorded.read(list_sessions, Condition("1"))
    assert [session["project"] for session in sessions] == ["/srv/parser"] * 3
