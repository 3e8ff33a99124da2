"""`dragoman serve --workers`: several real processes on one port behave like one gateway."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.gateway import Gateway
from tests.e2e.test_keys import HELLO, USED, WHOLE, ask, command, config, run
from tests.upstream.byte_server import LAST_CHUNK, Action, ByteServer, Pause, chunk, eventually, stream_head

DELTA = (
    b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
)
END = (
    b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},'
    b'"finish_reason":"stop"}]}'
    b"\n\ndata: [DONE]\n\n"
)


#: Starts the gateway as on a system that does not divide connections among sockets.
SHARED_SOCKET = """
import dragoman.server.workers
dragoman.server.workers.DIVIDES_CONNECTIONS = False
from dragoman.cli.main import main
main()
"""


class Workers(Gateway):
    def __init__(
        self, text: str, folder: Path, count: int = 2, options: tuple[str, ...] = ("-m", "dragoman")
    ) -> None:
        super().__init__(f"{text}\n[server]\nworkers = {count}\n", folder, (sys.executable, *options))

    def admin(self) -> dict[str, str]:
        token = (self.folder / ".local/state/dragoman/admin-token").read_text().strip()
        return {"authorization": f"Bearer {token}"}

    async def status(self, session: aiohttp.ClientSession) -> Any:
        async with session.get(f"{self.url}/admin/status", headers=self.admin()) as response:
            return await response.json()

    async def list_processes(self, session: aiohttp.ClientSession) -> set[int]:
        return {each["process"] for each in (await self.status(session))["gateway"]["workers"]}


def new_session() -> aiohttp.ClientSession:
    """Each request has a connection of its own, so that all workers get some."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True, limit=0))


async def wait_for_workers(gateway: Workers, session: aiohttp.ClientSession, count: int = 2) -> set[int]:
    await eventually((gateway.folder / ".local/state/dragoman/admin-token").exists)
    async with asyncio.timeout(60):
        while len(found := await gateway.list_processes(session)) < count:
            await asyncio.sleep(0.1)
    return found


async def read_stream(gateway: Workers, session: aiohttp.ClientSession) -> bytes:
    url = f"{gateway.url}/v1/chat/completions"
    async with session.post(url, json={**HELLO, "stream": True}) as response:
        return await response.read()


async def wait_for_another(gateway: Workers, session: aiohttp.ClientSession, former: int) -> None:
    async with asyncio.timeout(60):
        while len(now := await gateway.list_processes(session)) < 2 or former in now:
            await asyncio.sleep(0.1)


async def wait_until_closing(gateway: Workers, session: aiohttp.ClientSession, process: int) -> None:
    async with asyncio.timeout(60):
        while True:
            workers = (await gateway.status(session))["gateway"]["workers"]
            if (process, "closing") in [(each["process"], each["state"]) for each in workers]:
                return
            await asyncio.sleep(0.05)


@asynccontextmanager
async def serving(upstream: ByteServer, folder: Path) -> AsyncIterator[tuple[Workers, aiohttp.ClientSession]]:
    """Two workers that run, and a session for requests to them. They must stop without an error."""
    gateway = Workers(config(upstream), folder)
    async with new_session() as session:
        await gateway.start()
        try:
            yield gateway, session
        finally:
            assert await gateway.stop() == 0


def test_workers_share_the_port_the_budget_and_their_numbers(tmp_path: Path) -> None:
    budget = 20 * USED + 7

    async def scenario() -> None:
        async with ByteServer([WHOLE]) as upstream, new_session() as session:
            key = await command(tmp_path, "keys", "create", "ci", "--tokens-per-day", str(budget))
            gateway = Workers(config(upstream), tmp_path)
            await gateway.start()
            try:
                await wait_for_workers(gateway, session)
                statuses: list[int] = [200]
                while 200 in statuses:
                    statuses = await asyncio.gather(*(ask(session, gateway, key) for _ in range(60)))
                    assert set(statuses) <= {200, 429}
                reply = await command(tmp_path, "keys", "show", "ci", "--json")
                assert budget <= reply["used"]["day"]["tokens"] < budget + USED
                (target,) = (await gateway.status(session))["targets"]
                assert target["tries"] == len(upstream.received)
                async with session.get(f"{gateway.url}/metrics", headers=gateway.admin()) as response:
                    families = list(text_string_to_metric_families(await response.text()))
                counted = sum(
                    sample.value
                    for family in families
                    for sample in family.samples
                    if sample.name == "dragoman_open_exchanges"
                )
                assert counted == 0
                names = [family.name for family in families]
                assert len(names) == len(set(names))
            finally:
                assert await gateway.stop() == 0

    run(scenario)


def test_a_query_sees_the_finished_turns_of_all_workers(tmp_path: Path) -> None:
    """Turns without contents are in the journal of their worker for half a second. Queries do not wait."""

    async def scenario() -> None:
        async with ByteServer([WHOLE]) as upstream, new_session() as session:
            gateway = Workers(config(upstream), tmp_path, count=3)
            await gateway.start()
            try:
                await wait_for_workers(gateway, session, 3)
                url = f"{gateway.url}/admin/records/turns"
                headers = {"user-agent": "claude-cli/2.1.0", "x-claude-code-session-id": "session-1"}
                for number in range(1, 31):
                    async with session.post(
                        f"{gateway.url}/v1/chat/completions", json=HELLO, headers=headers
                    ) as response:
                        assert response.status == 200
                    async with session.get(url, headers=gateway.admin()) as response:
                        turns = (await response.json())["turns"]
                    assert len(turns) == number
                workers = (await gateway.status(session))["gateway"]["workers"]
                assert len(workers) == 3
            finally:
                assert await gateway.stop() == 0

    run(scenario)


def test_a_worker_that_is_killed_is_replaced_and_the_others_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ByteServer([WHOLE]) as upstream, serving(upstream, tmp_path) as (gateway, session):
            before = await wait_for_workers(gateway, session)
            victim = min(before)
            os.kill(victim, signal.SIGKILL)
            await wait_for_another(gateway, session, victim)
            statuses = [await ask(session, gateway) for _ in range(20)]
            assert statuses == [200] * 20

    run(scenario)


def test_a_reload_reaches_all_workers_and_drops_no_stream(tmp_path: Path) -> None:
    finish = asyncio.Event()
    answer: list[Action] = [stream_head(), chunk(DELTA), Pause(finish), chunk(END), LAST_CHUNK]

    async def scenario() -> None:
        async with ByteServer(answer) as upstream, serving(upstream, tmp_path) as (gateway, session):
            await wait_for_workers(gateway, session)

            streams = [asyncio.ensure_future(read_stream(gateway, session)) for _ in range(8)]
            await eventually(lambda: len(upstream.received) == 8)
            path = tmp_path / "dragoman.toml"
            path.write_text(path.read_text() + "ping = 5.0\n")
            async with session.post(f"{gateway.url}/admin/reload", headers=gateway.admin()) as response:
                assert response.status == 200
            finish.set()
            assert all(b"[DONE]" in body for body in await asyncio.gather(*streams))
            async with session.get(f"{gateway.url}/metrics", headers=gateway.admin()) as response:
                text = await response.text()
            assert 'dragoman_reloads_total{outcome="done"} 2' in text

    run(scenario)


def test_workers_are_restarted_one_after_the_other_without_a_dropped_stream(tmp_path: Path) -> None:
    """A worker that is asked to end finishes its streams first, and is replaced."""
    finish = asyncio.Event()
    answer: list[Action] = [stream_head(), chunk(DELTA), Pause(finish), chunk(END), LAST_CHUNK]

    async def scenario() -> None:
        async with ByteServer(answer) as upstream, serving(upstream, tmp_path) as (gateway, session):
            former = await wait_for_workers(gateway, session)
            for process in sorted(former):
                finish.clear()
                received = len(upstream.received)
                streams = [asyncio.ensure_future(read_stream(gateway, session)) for _ in range(12)]
                await eventually(lambda received=received: len(upstream.received) == received + 12)  # type: ignore[misc]  # a default in a lambda
                os.kill(process, signal.SIGTERM)
                await wait_until_closing(gateway, session, process)
                assert not any(each.done() for each in streams)
                finish.set()
                assert all(b"[DONE]" in body for body in await asyncio.gather(*streams))
                await wait_for_another(gateway, session, process)
            assert former.isdisjoint(await gateway.list_processes(session))

    run(scenario)


def test_a_worker_that_is_killed_breaks_only_its_own_streams(tmp_path: Path) -> None:
    finish = asyncio.Event()
    answer: list[Action] = [stream_head(), chunk(DELTA), Pause(finish), chunk(END), LAST_CHUNK]

    async def scenario() -> None:
        async with ByteServer(answer) as upstream, serving(upstream, tmp_path) as (gateway, session):
            victim = min(await wait_for_workers(gateway, session))
            streams = [asyncio.ensure_future(read_stream(gateway, session)) for _ in range(16)]
            await eventually(lambda: len(upstream.received) == 16)
            os.kill(victim, signal.SIGKILL)
            await wait_for_another(gateway, session, victim)
            broken = [each for each in streams if each.done()]
            assert 0 < len(broken) < 16
            assert all(isinstance(each.exception(), aiohttp.ClientError) for each in broken)
            finish.set()
            whole = await asyncio.gather(*(each for each in streams if each not in broken))
            assert all(b"[DONE]" in body for body in whole)
            # The new worker serves: all requests of many connections are answered.
            bodies = await asyncio.gather(*(read_stream(gateway, session) for _ in range(16)))
            assert all(b"[DONE]" in body for body in bodies)

    run(scenario)


def test_workers_with_one_socket_serve_and_replace_each_other(tmp_path: Path) -> None:
    """As on macOS, whose sockets of one port do not share connections."""
    finish = asyncio.Event()
    answer: list[Action] = [stream_head(), chunk(DELTA), Pause(finish), chunk(END), LAST_CHUNK]

    async def scenario() -> None:
        async with ByteServer(answer) as upstream, new_session() as session:
            gateway = Workers(config(upstream), tmp_path, options=("-c", SHARED_SOCKET))
            await gateway.start()
            try:
                former = await wait_for_workers(gateway, session)
                for process in sorted(former):
                    finish.clear()
                    received = len(upstream.received)
                    streams = [asyncio.ensure_future(read_stream(gateway, session)) for _ in range(20)]
                    await eventually(lambda received=received: len(upstream.received) == received + 20)  # type: ignore[misc]  # a default in a lambda
                    os.kill(process, signal.SIGTERM)
                    await wait_until_closing(gateway, session, process)
                    finish.set()
                    assert all(b"[DONE]" in body for body in await asyncio.gather(*streams))
                    await wait_for_another(gateway, session, process)
                victim = min(await gateway.list_processes(session))
                os.kill(victim, signal.SIGKILL)
                await wait_for_another(gateway, session, victim)
                bodies = await asyncio.gather(*(read_stream(gateway, session) for _ in range(20)))
                assert all(b"[DONE]" in body for body in bodies)
            finally:
                assert await gateway.stop() == 0

    run(scenario)


def list_files(process: int) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def list_children(process: int) -> dict[int, str]:
    """The state of each child of a process: `Z` for one that has ended and was not collected."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == process:
                found[int(entry.parent.name)] = state
    return found


def test_reloads_and_a_killed_worker_among_many_streams_drop_no_stream_of_another_worker(
    tmp_path: Path,
) -> None:
    """And neither processes that have ended nor open files are left."""
    finish = asyncio.Event()
    answer: list[Action] = [stream_head(), chunk(DELTA), Pause(finish), chunk(END), LAST_CHUNK]
    count = 50

    async def scenario() -> None:
        async with ByteServer(answer) as upstream, new_session() as session:
            gateway = Workers(config(upstream), tmp_path)
            await gateway.start()
            supervisor = gateway.process_id
            path = tmp_path / "dragoman.toml"
            text = path.read_text()

            async def count_reloads() -> int:
                async with session.get(f"{gateway.url}/metrics", headers=gateway.admin()) as response:
                    families = text_string_to_metric_families(await response.text())
                samples = [sample for family in families for sample in family.samples]
                return sum(
                    int(sample.value)
                    for sample in samples
                    if sample.name == "dragoman_reloads_total" and sample.labels["outcome"] == "done"
                )

            async def run_round(number: int) -> None:
                finish.clear()
                before = len(upstream.received)
                victim = min(await gateway.list_processes(session))
                streams = [asyncio.ensure_future(read_stream(gateway, session)) for _ in range(count)]
                await eventually(lambda: len(upstream.received) == before + count)
                (others,) = await gateway.list_processes(session) - {victim}
                reloads = await count_reloads()
                path.write_text(f"{text}ping = {5.0 + number}\n")
                os.kill(supervisor, signal.SIGHUP)
                async with asyncio.timeout(60):
                    while await count_reloads() < reloads + 2:
                        await asyncio.sleep(0.05)
                assert not any(each.done() for each in streams)
                open_streams = (await gateway.status(session))["exchanges"]["open"]
                assert open_streams == count
                os.kill(victim, signal.SIGKILL)
                await wait_for_another(gateway, session, victim)
                await eventually(lambda: any(each.done() for each in streams))
                broken = sum(each.done() for each in streams)
                left = (await gateway.status(session))["exchanges"]["open"]
                assert (0 < broken < count, left) == (True, count - broken)
                finish.set()
                bodies = await asyncio.gather(*streams, return_exceptions=True)
                whole = [body for body in bodies if isinstance(body, bytes) and b"[DONE]" in body]
                assert len(whole) == count - broken
                assert others in await gateway.list_processes(session)

            try:
                await wait_for_workers(gateway, session)
                await run_round(0)
                files = list_files(supervisor)
                for number in (1, 2):
                    await run_round(number)
                assert list_files(supervisor) == files
                children = list_children(supervisor)
                assert len(children) == 2
                assert "Z" not in children.values()
                # After their streams, the workers keep no more files than idle connections need.
                processes = await gateway.list_processes(session)
                await eventually(lambda: max(map(list_files, processes)) < 2 * count)
            finally:
                assert await gateway.stop() == 0
            assert not list_children(supervisor)

    run(scenario)


def test_workers_end_with_their_supervisor(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ByteServer([WHOLE]) as upstream, new_session() as session:
            gateway = Workers(config(upstream), tmp_path)
            await gateway.start()
            processes = await wait_for_workers(gateway, session)
            await gateway.kill()
            await eventually(lambda: not any(Path(f"/proc/{each}/cmdline").exists() for each in processes))

    run(scenario)


def test_a_port_that_is_in_use_is_an_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ByteServer([WHOLE]) as upstream:
            text = f"{config(upstream)}\n[server]\nworkers = 2\nport = {upstream.port}\n"
            (tmp_path / "dragoman.toml").write_text(text)
            started = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "dragoman", "serve"),
                cwd=tmp_path,
                env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
                stderr=asyncio.subprocess.PIPE,
            )
            _, error = await started.communicate()
            assert started.returncode == 2
            assert b"cannot listen on" in error

    run(scenario)
