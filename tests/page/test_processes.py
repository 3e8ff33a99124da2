"""The page of the installed command in a real Chromium: a real Claude Code session, live; doctor; workers."""

import asyncio
import os
import resource
import sqlite3
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.cli.test_real_agents import BINARIES, CLIENTS, VARIABLES
from tests.e2e.gateway import Gateway
from tests.page.browser import Tab, browser
from tests.page.sample_gateway import Model, Say
from tests.page.test_screens import perform, show
from tests.upstream.byte_server import eventually

CONFIG = """\
default = "local/qwen3-coder"
[server]
port = 0
workers = {workers}
[records]
record = "bodies"
[providers.local]
dialect = "openai_chat"
base_url = "{url}/v1"
api_key = "sk-upstream-key-of-the-page"
retries = 0
"""
CARDS = "document.querySelectorAll('.card').length"
ROWS = "[...document.querySelectorAll('a.row')].map((row) => row.getAttribute('href'))"


@asynccontextmanager
async def served(
    folder: Path, workers: int = 1, command: Sequence[str] = (sys.executable, "-m", "dragoman")
) -> AsyncIterator[tuple[Tab, Gateway, Model]]:
    """A tab that shows the page of `dragoman serve`, and the model behind it."""
    async with Model().serve() as model:
        gateway = Gateway(CONFIG.format(url=model.url, workers=workers), folder, command)
        await gateway.start()
        try:
            file = folder / ".local/state/dragoman/admin-token"
            await eventually(file.exists)
            token = file.read_text("utf-8").strip()
            async with browser(folder) as tab:
                await tab.visit(gateway.url)
                await tab.until("document.activeElement.id === 'token'")
                await tab.type(token)
                await tab.press("Enter")
                await tab.until("document.querySelector('now-screen h1')")
                yield tab, gateway, model
                assert [url for url in tab.requested if not url.startswith(gateway.url)] == []
                assert [url for url in tab.requested if token in url] == []
                assert await tab.run("violations") == []
                assert (tab.errors, tab.dialogs) == ([], [])
        finally:
            model.gate.set()
            await gateway.stop()


@pytest.mark.rule("R86")
def test_a_real_claude_code_session_appears_live(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.txt").write_text("marigold and heliotrope\n", "utf-8")

    async def work() -> None:
        async with served(tmp_path) as (tab, gateway, model):
            model.says = [
                Say("I read the notes.", ("Bash", ('{"command": "cat no', 'tes.txt > copy.txt"}'))),
                Say("The copy is made."),
            ]
            model.gate.clear()
            agent = await asyncio.create_subprocess_exec(
                *(str(BINARIES / "claude"), "-p", "Copy the notes.", "--dangerously-skip-permissions"),
                cwd=project,
                env={
                    "PATH": f"{CLIENTS / 'bin'}:{BINARIES}:{os.environ['PATH']}",
                    "HOME": str(tmp_path),
                    "ANTHROPIC_BASE_URL": gateway.url,
                    "ANTHROPIC_API_KEY": "any",
                    **VARIABLES,
                },
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            # The model has begun its first reply and waits: the page shows the open exchange.
            await tab.until("document.querySelector('.card')?.innerText.includes('claude-code')", 40)
            await tab.until("document.querySelector('.card')?.innerText.includes('local/qwen3-coder')")
            assert await tab.run(ROWS) == []
            model.gate.set()
            await tab.until(f"{ROWS}.length >= 2", 40)
            assert agent.stdout is not None
            printed = (await agent.stdout.read()).decode()
            assert await agent.wait() == 0, printed
            assert "The copy is made." in printed
            assert (project / "copy.txt").read_text("utf-8") == "marigold and heliotrope\n"
            await tab.until(f"{CARDS} === 0")

            session = (await tab.run(ROWS))[0].split("/")[2]
            await show(tab, "#/sessions", str(project)[:40])
            await show(tab, f"#/session/{session}", "Turns, the latest first")
            assert str(project) in await tab.run("document.querySelector('main').innerText")
            await show(tab, f"#/turn/{session}/1", "Reply: upstream → client")
            await tab.until("document.querySelector('main').innerText.includes('content_block_delta')")
            for text in ("cat notes.txt > copy.txt", "Copy the notes.", "x-anthropic-billing-header"):
                await tab.until(f"document.querySelector('main').innerText.includes({text!r})")

    perform(work)


def test_the_checks_of_doctor_are_shown(tmp_path: Path) -> None:
    async def work() -> None:
        async with served(tmp_path) as (tab, gateway, _):
            await show(tab, "#/doctor", "dragoman.toml")
            rows = await tab.run("[...document.querySelectorAll('tbody tr')].map((row) => row.innerText)")
            checks = {row.split("\t")[1].strip(): row.split("\t")[0].strip() for row in rows}
            assert checks["configuration"] == "works"
            assert any("local" in name for name in checks)
            assert await tab.find_barriers() == []
            url = f"{gateway.url}/admin/doctor"
            token = (tmp_path / ".local/state/dragoman/admin-token").read_text("utf-8").strip()
            async with (
                aiohttp.ClientSession() as session,
                session.get(url, headers={"authorization": f"Bearer {token}"}) as response,
            ):
                assert len((await response.json())["findings"]) == len(rows)

    perform(work)


#: Bytes that one file may have. A write beyond them fails as on a full disk, without the rights of root.
SMALL_DISK = 300_000
START_ON_SMALL_DISK = f"""
import resource, runpy, sys
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, ({SMALL_DISK}, hard))
sys.argv[0] = "dragoman"
runpy.run_module("dragoman", run_name="__main__")
"""


@pytest.mark.rule("R86")
def test_a_full_disk_stops_no_stream_is_reported_and_recovers(tmp_path: Path) -> None:
    async def work() -> None:
        command = (sys.executable, "-c", START_ON_SMALL_DISK)
        async with served(tmp_path, command=command) as (tab, gateway, _), aiohttp.ClientSession() as session:
            number = 0

            async def ask() -> None:
                """A turn with 20 KB that do not shrink, and its whole reply."""
                nonlocal number
                number += 1
                text = f"{number} {os.urandom(10_000).hex()}"
                body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}
                async with session.post(f"{gateway.url}/v1/chat/completions", json=body) as response:
                    assert (response.status, b"[DONE]" in await response.read()) == (200, True)

            async def read_status() -> Any:
                return await tab.run("import('/page/api.js').then(({ get }) => get('/status'))")

            status = (await read_status())["records"]
            while status["lost"] < 6 or not status["error"]:
                await ask()
                assert number < 300
                status = (await read_status())["records"]
            assert status["written"] > 3
            text = "exchanges were not recorded: " + status["error"]
            await tab.press("2", "1")
            await show(tab, "#/now", text)
            await show(tab, "#/doctor", text)

            process = gateway.process_id
            resource.prlimit(process, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            written = status["written"]
            for _ in range(3):
                await ask()
            status = (await read_status())["records"]
            assert (status["written"], status["error"]) == (written + 3, "")
            file = tmp_path / ".local/state/dragoman/records.db"
            with closing(sqlite3.connect(file)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                assert connection.execute("SELECT COUNT(*) FROM turns").fetchone() == (written + 3,)

    perform(work)


def test_the_live_view_shows_the_exchanges_of_all_workers(tmp_path: Path) -> None:
    count = 10

    async def work() -> None:
        async with served(tmp_path, workers=2) as (tab, gateway, model):
            model.gate.clear()
            connector = aiohttp.TCPConnector(force_close=True, limit=0)
            async with aiohttp.ClientSession(connector=connector) as session:

                async def ask(number: int) -> int:
                    body = {"model": "m", "max_tokens": 9, "stream": True}
                    body["messages"] = [{"role": "user", "content": "hello"}]
                    headers = {
                        "x-claude-code-session-id": f"session-{number}",
                        "user-agent": "claude-cli/2.1.0",
                    }
                    async with session.post(
                        f"{gateway.url}/v1/messages", json=body, headers=headers
                    ) as response:
                        await response.read()
                        return response.status

                asking = [asyncio.ensure_future(ask(number)) for number in range(count)]
                await tab.until(f"{CARDS} === {count}", 30)
                model.gate.set()
                assert await asyncio.gather(*asking) == [200] * count
            await tab.until(f"{CARDS} === 0", 30)
            await tab.until(f"{ROWS}.length === {count}", 30)
            expected = sorted(f"#/turn/session-{number}/1" for number in range(count))
            assert sorted(await tab.run(ROWS)) == expected
            report = await tab.run("import('/page/api.js').then(({ get }) => get('/status'))")
            assert len(report["gateway"]["workers"]) == 2
            assert report["records"]["written"] == count

    perform(work)
