"""Client keys with the real commands and a real gateway, which is killed and started again."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from dragoman.accounts import keys as client_keys
from dragoman.accounts.limits import Amount
from dragoman.accounts.store import Charges, add_charge, charge
from tests.cli.run_command import dragoman
from tests.cli.test_real_agents import AGENTS, BINARIES, CLIENTS, VARIABLES
from tests.e2e.gateway import Gateway
from tests.exchange.sample_replies import CHAT_WHOLE
from tests.server.keyholder import KeyHolder
from tests.upstream.byte_server import ByteServer, Pause, eventually, reply

HELLO = {"model": "any", "max_tokens": 5, "messages": [{"role": "user", "content": "say hello"}]}
WHOLE = reply(CHAT_WHOLE, "200 OK", "content-type: application/json")
#: The usage in `WHOLE`.
USED = 15


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Processes take their time to start where many do."""

    async def bounded() -> None:
        async with asyncio.timeout(120):
            await scenario()

    asyncio.run(bounded())


def config(upstream: ByteServer) -> str:
    return f"""
default = "up"
[providers.up]
dialect = "openai_chat"
base_url = "{upstream.url}"
retries = 0
"""


async def command(folder: Path, *arguments: str) -> Any:
    """`dragoman keys …`, while the test's own upstream goes on serving."""
    done = await asyncio.to_thread(dragoman, folder, *arguments)
    assert done.code == 0, done.err
    return msgspec.json.decode(done.out) if "--json" in arguments else done.out.strip()


async def ask(session: aiohttp.ClientSession, gateway: Gateway, key: str = "", **more: object) -> int:
    headers = {"x-api-key": key} if key else {}
    url = f"{gateway.url}/v1/chat/completions"
    async with session.post(url, json={**HELLO, **more}, headers=headers) as response:
        await response.read()
        return response.status


async def until(asking: Callable[[], Awaitable[int]], status: int) -> None:
    """Ask until the answer has this status; the patience is for busy machines."""
    async with asyncio.timeout(5.0):
        while await asking() != status:
            await asyncio.sleep(0.02)


def test_a_key_made_and_revoked_by_the_command_is_noticed_by_a_running_gateway(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ByteServer([WHOLE]) as upstream, aiohttp.ClientSession() as session:
            gateway = Gateway(config(upstream), tmp_path)
            await gateway.start()
            try:
                assert await ask(session, gateway) == 200
                key = await command(tmp_path, "keys", "create", "ci")
                await until(lambda: ask(session, gateway), 401)
                assert await ask(session, gateway, key) == 200
                await command(tmp_path, "keys", "revoke", "ci")
                await until(lambda: ask(session, gateway, key), 401)
            finally:
                assert await gateway.stop() == 0
            printed = await command(tmp_path, "usage", "--json")
            assert {each["key"] for each in printed} == {"(no key)", "ci"}

    run(scenario)


@pytest.mark.rule("R124")
def test_a_budget_survives_a_gateway_that_is_killed(tmp_path: Path) -> None:
    """What was used stays used; what was only set aside is free at once; the rest can be used, no more."""
    never = asyncio.Event()
    budget = 10_000

    async def scenario() -> None:
        async with (
            ByteServer([WHOLE], [WHOLE], [Pause(never)], [Pause(never)], [WHOLE]) as upstream,
            aiohttp.ClientSession() as session,
        ):
            limit = ("--tokens-per-day", str(budget))
            key = await command(tmp_path, "keys", "create", "ci", *limit)
            gateway = Gateway(config(upstream), tmp_path)
            await gateway.start()
            assert [await ask(session, gateway, key) for _ in range(2)] == [200, 200]
            open_asks = [
                asyncio.ensure_future(ask(session, gateway, key, max_tokens=4_800)) for _ in range(2)
            ]
            await eventually(lambda: len(upstream.received) == 4)
            assert await ask(session, gateway, key, max_tokens=4_800) == 429
            await gateway.kill()
            await asyncio.wait(open_asks)
            for each in open_asks:
                assert isinstance(each.exception(), aiohttp.ClientError)
            again = Gateway(config(upstream), tmp_path)
            await again.start()
            try:
                assert await ask(session, again, key, max_tokens=4_800) == 200
                printed = await command(tmp_path, "keys", "show", "ci", "--json")
                assert 3 * USED < printed["used"]["day"]["tokens"] < 3 * USED + 100
                assert printed["reserved"]["day"]["tokens"] == 0
            finally:
                await again.stop()

    run(scenario)


def test_a_budget_holds_for_two_hundred_at_once_also_when_the_gateway_is_killed_among_them(
    tmp_path: Path,
) -> None:
    budget = 40 * USED + 7

    async def scenario() -> None:
        async with (
            ByteServer([WHOLE]) as upstream,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
        ):
            key = await command(tmp_path, "keys", "create", "ci", "--tokens-per-day", str(budget))
            gateway = Gateway(config(upstream), tmp_path)
            await gateway.start()
            asks = [asyncio.ensure_future(ask(session, gateway, key)) for _ in range(200)]
            await eventually(lambda: len(upstream.received) >= 5)
            await gateway.kill()
            await asyncio.gather(*asks, return_exceptions=True)
            again = Gateway(config(upstream), tmp_path)
            await again.start()
            try:
                statuses: list[int] = [200]
                while 200 in statuses:
                    statuses = await asyncio.gather(*(ask(session, again, key) for _ in range(200)))
                    assert set(statuses) <= {200, 429}
                printed = await command(tmp_path, "keys", "show", "ci", "--json")
                assert budget <= printed["used"]["day"]["tokens"] < budget + USED
                assert printed["reserved"]["day"]["tokens"] == 0
            finally:
                await again.stop()

    run(scenario)


def test_usage_is_what_the_upstream_counted_also_when_the_gateway_is_killed_after_a_reply(
    tmp_path: Path,
) -> None:
    """Statistics are written once a second, but a reply whose end a client has seen is counted."""

    async def scenario() -> None:
        async with ByteServer([WHOLE]) as upstream, aiohttp.ClientSession() as session:
            limited = await command(tmp_path, "keys", "create", "limited", "--tokens-per-day", "100000")
            free = await command(tmp_path, "keys", "create", "free")
            for _ in range(3):
                gateway = Gateway(config(upstream), tmp_path)
                await gateway.start()
                asks = (ask(session, gateway, key) for key in (limited, free, free))
                assert await asyncio.gather(*asks) == [200] * 3
                await gateway.kill()
            gateway = Gateway(config(upstream), tmp_path)
            await gateway.start()
            async with session.get(f"{gateway.url}/health") as response:
                assert response.status == 200
            assert await gateway.stop() == 0
            printed = await command(tmp_path, "usage", "--json")
            counts = {each["key"]: each["input"] + each["output"] for each in printed}
            assert counts == {"limited": 3 * USED, "free": 6 * USED}
            for name, count in (("limited", 3), ("free", 6)):
                shown = await command(tmp_path, "keys", "show", name, "--json")
                assert shown["used"]["day"]["tokens"] == count * USED
            assert not list(tmp_path.rglob("usage-*"))

    run(scenario)


# OpenCode takes every 429 for something that passes, and waits until its user ends it.
@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
def test_an_agent_whose_budget_is_used_up_ends_soon_and_reports_it(name: str, tmp_path: Path) -> None:
    """They do not try for minutes what can only work tomorrow."""
    # A gateway of the developer may serve the default port.
    config = '[server]\nport = 0\n[providers.embedded]\n[[routes]]\nmatch = "*"\ntarget = "embedded"\n'
    (tmp_path / "dragoman.toml").write_text(config)
    key = dragoman(tmp_path, "keys", "create", "ci", "--tokens-per-day", "1").out.strip()
    holder = KeyHolder(tmp_path / ".local" / "state" / "dragoman" / "state.db")
    charges: Charges = {}
    made = holder.do(lambda transaction: client_keys.get_key(transaction, "ci"))
    add_charge(charges, made.caller.id, Amount(1, 0), time.time())
    holder.do(lambda transaction: charge(transaction, charges))
    arguments = [part.format(prompt="say marigold") for part in AGENTS[name].arguments]
    path = f"{CLIENTS / 'bin'}:{BINARIES}:/usr/bin:/bin"
    outcome = dragoman(tmp_path, "run", name, *arguments, PATH=path, DRAGOMAN_KEY=key, **VARIABLES)
    output = f"{outcome.out}{outcome.err}".lower()
    assert "used up its budget" in output or "quota exceeded" in output
    assert "marigold" not in outcome.out.replace("say marigold", "")
    counts = holder.usage("key")[("ci",)]
    assert counts.requests == counts.refused <= 8
