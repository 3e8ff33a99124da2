"""SIGKILL at any moment: the records have every exchange whose end a client has seen."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path
from secrets import randbelow
from typing import Any

import aiohttp
import msgspec
import pytest

from dragoman.records.filters import parse_filter
from dragoman.records.journal import PATTERN
from dragoman.records.reading import list_turns, read_raw
from dragoman.records.store import find_records_file, open_records

LISTENS = re.compile(rb"listens on (http://\S+)")
CONFIG = """\
default = "model/embedded"
[server]
port = 0
state = "{state}"
[records]
record = "{level}"
[providers.model]
dialect = "embedded"
"""
#: Clients at the same time. Two of them send a header with their session.
CLIENTS = 4


class Seen(msgspec.Struct):
    """A response that a client has read to its end."""

    request: str
    sent: bytes
    got: bytes


async def start(folder: Path, level: str) -> tuple[asyncio.subprocess.Process, str]:
    file = folder / "dragoman.toml"
    file.write_text(CONFIG.format(state=folder / "state", level=level), "utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dragoman", "serve", "--config", str(file)),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    async for line in process.stderr:
        if found := LISTENS.search(line):
            return process, found[1].decode()
    raise AssertionError("the gateway ended before it served")


async def ask(session: aiohttp.ClientSession, url: str, number: int, text: str) -> Seen:
    body = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": text}]}
    sent = msgspec.json.encode({**body, "stream": number % 4 != 3})
    headers = {"content-type": "application/json", "user-agent": "claude-cli/2.1.0"}
    if number % 2:
        headers["x-claude-code-session-id"] = f"session-{number}"
    async with session.post(f"{url}/v1/messages", data=sent, headers=headers) as response:
        got = await response.read()
        return Seen(response.headers["request-id"], sent, got)


async def run_until_killed(folder: Path, level: str, count: int, delay: float) -> list[Seen]:
    """Requests of several clients. The gateway is killed some time after the given number of responses."""
    process, url = await start(folder, level)
    seen: list[Seen] = []

    async def talk(session: aiohttp.ClientSession, number: int) -> None:
        try:
            for turn in range(1000):
                seen.append(await ask(session, url, number, f"client {number}, turn {turn}"))
                if len(seen) == count and not delay:
                    process.send_signal(signal.SIGKILL)
        except (aiohttp.ClientError, ConnectionError):
            return

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60)) as session:
        talks = [asyncio.ensure_future(talk(session, number)) for number in range(CLIENTS)]
        if delay:
            while len(seen) < count:
                await asyncio.sleep(0.005)
            await asyncio.sleep(delay)
            process.send_signal(signal.SIGKILL)
        await process.wait()
        await asyncio.gather(*talks)
    return seen


@pytest.mark.rule("R86", "R132")
@pytest.mark.parametrize("level", ["meta", "bodies"])
@pytest.mark.parametrize("moment", ["after a response", "between"])
def test_no_finished_exchange_is_lost(level: str, moment: str, tmp_path: Path) -> None:
    count, delay = 1 + randbelow(40), (1 + randbelow(300)) / 1000 if moment == "between" else 0.0
    seen = asyncio.run(run_until_killed(tmp_path, level, count, delay))
    file = find_records_file(tmp_path / "state" / "state.db")
    assert len(seen) >= count

    def read(connection: Any) -> dict[str, tuple[dict[str, Any], bytes | None, bytes | None]]:
        turns = list_turns(connection, parse_filter(""), limit=100_000)
        return {
            turn["request"]: (
                turn,
                read_raw(connection, turn["id"], "client_request"),
                read_raw(connection, turn["id"], "client_reply"),
            )
            for turn in turns
        }

    found = open_records(file, read)
    assert {each.request for each in seen} - found.keys() == set()
    for each in seen:
        turn, sent, got = found[each.request]
        assert (turn["ending"], turn["status"], turn["level"]) == ("finished", 200, level)
        assert turn["output"] > 0
        if level == "bodies":
            assert (sent, got) == (each.sent, each.got)
    # What the killed process left is taken over once.
    assert list(file.parent.glob(PATTERN)) == []
    assert open_records(file, read).keys() == found.keys()
