"""Two and three real gateways with one PostgreSQL: they behave like one, also when a part of it dies."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from tests import postgres
from tests.cli.run_command import dragoman
from tests.e2e.fleet import wait_until
from tests.e2e.gateway import Gateway
from tests.e2e.test_keys import HELLO, USED, WHOLE, ask, run, until
from tests.upstream.byte_server import ByteServer, Pause, eventually, reply

RESPONSE = {"model": "any", "input": "say hello"}


@pytest.fixture
def url() -> Iterator[str]:
    url = postgres.create_schema()
    yield url
    postgres.drop_schema(url)


def config(upstream: ByteServer, url: str, timeout: float = 20.0) -> str:
    return f"""
default = "up"
[state]
url = "{url}"
timeout = {timeout}
[providers.up]
dialect = "openai_chat"
base_url = "{upstream.url}"
retries = 0
"""


@asynccontextmanager
async def started(folder: Path, text: str, count: int) -> AsyncIterator[list[Gateway]]:
    gateways = [Gateway(text, folder / f"gateway{number}") for number in range(count)]
    await asyncio.gather(*(gateway.start() for gateway in gateways))
    try:
        yield gateways
    finally:
        await asyncio.gather(*(gateway.stop() for gateway in gateways))


async def command(folder: Path, *arguments: str) -> Any:
    """A command in the folder of the first gateway."""
    done = await asyncio.to_thread(dragoman, folder / "gateway0", *arguments)
    assert done.code == 0, done.err
    return msgspec.json.decode(done.out) if "--json" in arguments else done.out.strip()


async def fetch(
    session: aiohttp.ClientSession, method: str, url: str, body: object = None, key: str = ""
) -> tuple[int, Any]:
    headers = {"x-api-key": key} if key else {}
    async with session.request(method, url, json=body, headers=headers) as response:
        return response.status, await response.json()


def test_a_budget_holds_for_three_gateways_also_when_one_is_killed(tmp_path: Path, url: str) -> None:
    budget = 40 * USED + 7

    async def scenario() -> None:
        async with (
            ByteServer([WHOLE]) as upstream,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
            started(tmp_path, config(upstream, url), 3) as gateways,
        ):
            key = await command(tmp_path, "keys", "create", "ci", "--tokens-per-day", str(budget))
            asks = [asyncio.ensure_future(ask(session, gateways[n % 3], key)) for n in range(150)]
            await eventually(lambda: len(upstream.received) >= 5)
            await gateways[0].kill()
            await asyncio.gather(*asks, return_exceptions=True)
            statuses: list[int] = [200]
            while 200 in statuses:
                statuses = await asyncio.gather(*(ask(session, gateways[1 + n % 2], key) for n in range(60)))
                assert set(statuses) <= {200, 429}
            reply = await command(tmp_path, "keys", "show", "ci", "--json")
            assert budget <= reply["used"]["day"]["tokens"] < budget + USED
            assert reply["reserved"]["day"]["tokens"] == 0
            # The upstream has answered no more than the budget and one request.
            assert len(upstream.received) <= budget // USED + 1 + 5

    run(scenario)


def test_keys_are_known_and_revoked_everywhere_within_a_second(tmp_path: Path, url: str) -> None:
    """A request that begins a second after the command has ended meets the new keys."""

    async def scenario() -> None:
        async with (
            ByteServer([WHOLE]) as upstream,
            aiohttp.ClientSession() as session,
            started(tmp_path, config(upstream, url), 2) as gateways,
        ):
            loop = asyncio.get_running_loop()

            async def wait_for(gateway: Gateway, key: str, status: int, since: float) -> None:
                while True:
                    begun = loop.time()
                    if await ask(session, gateway, key) == status:
                        return
                    assert begun - since < 1.0
                    await asyncio.sleep(0.02)

            async def wait_for_all(key: str, status: int, since: float) -> None:
                await asyncio.gather(*(wait_for(gateway, key, status, since) for gateway in gateways))

            assert [await ask(session, gateway) for gateway in gateways] == [200, 200]
            key = await command(tmp_path, "keys", "create", "ci")
            created = loop.time()
            await asyncio.gather(wait_for_all("", 401, created), wait_for_all(key, 200, created))
            await command(tmp_path, "keys", "revoke", "ci")
            await wait_for_all(key, 401, loop.time())

    run(scenario)


def test_a_response_of_one_gateway_is_continued_read_and_deleted_by_another(tmp_path: Path, url: str) -> None:
    async def scenario() -> None:
        async with (
            ByteServer([WHOLE]) as upstream,
            aiohttp.ClientSession() as session,
            started(tmp_path, config(upstream, url), 2) as (first, second),
        ):
            status, stored = await fetch(session, "POST", f"{first.url}/v1/responses", RESPONSE)
            assert (status, stored["store"]) == (200, True)
            more = {**RESPONSE, "input": "and now", "previous_response_id": stored["id"]}
            status, continued = await fetch(session, "POST", f"{second.url}/v1/responses", more)
            assert status == 200
            messages = msgspec.json.decode(upstream.received[-1].body)["messages"]
            assert [each["role"] for each in messages] == ["user", "assistant", "user"]
            path = f"/v1/responses/{continued['id']}"
            assert (await fetch(session, "GET", first.url + path))[1]["id"] == continued["id"]
            assert (await fetch(session, "DELETE", first.url + path))[0] == 200
            assert (await fetch(session, "GET", second.url + path))[0] == 404

    run(scenario)


def test_a_background_run_is_polled_through_another_gateway_and_fails_with_its_own(
    tmp_path: Path, url: str
) -> None:
    finish, never = asyncio.Event(), asyncio.Event()

    async def scenario() -> None:
        async with (
            ByteServer([Pause(finish), WHOLE], [Pause(never)]) as upstream,
            aiohttp.ClientSession() as session,
            started(tmp_path, config(upstream, url), 2) as (first, second),
        ):

            async def begin() -> str:
                body = {**RESPONSE, "background": True}
                status, begun = await fetch(session, "POST", f"{first.url}/v1/responses", body)
                assert status == 200
                return f"{second.url}/v1/responses/{begun['id']}"

            async def poll(place: str) -> str:
                return str((await fetch(session, "GET", place))[1]["status"])

            async def wait_for(place: str, status: str) -> None:
                async with asyncio.timeout(60):
                    while await poll(place) != status:
                        await asyncio.sleep(0.05)

            ending = await begin()
            assert await poll(ending) in ("queued", "in_progress")
            finish.set()
            await wait_for(ending, "completed")
            dying = await begin()
            await eventually(lambda: len(upstream.received) == 2)
            assert await poll(dying) in ("queued", "in_progress")
            await first.kill()
            await wait_for(dying, "failed")

    run(scenario)


@pytest.mark.parametrize("method", ["POST", "DELETE"], ids=["cancelled", "deleted"])
def test_a_background_run_is_ended_through_another_gateway(tmp_path: Path, url: str, method: str) -> None:
    never = asyncio.Event()

    async def scenario() -> None:
        async with (
            ByteServer([Pause(never)]) as upstream,
            aiohttp.ClientSession() as session,
            started(tmp_path, config(upstream, url), 2) as (first, second),
        ):
            body = {**RESPONSE, "background": True}
            _, begun = await fetch(session, "POST", f"{first.url}/v1/responses", body)
            await eventually(lambda: len(upstream.received) == 1)
            path = f"/v1/responses/{begun['id']}"
            place = path if method == "DELETE" else f"{path}/cancel"
            status, ended = await fetch(session, method, second.url + place)
            assert status == 200
            for gateway in (first, second):
                status, found = await fetch(session, "GET", gateway.url + path)
                if method == "DELETE":
                    assert (status, ended["deleted"]) == (404, True)
                else:
                    assert (found["status"], ended["status"]) == ("cancelled", "cancelled")

    run(scenario)


def test_an_outage_refuses_only_budgets_and_loses_nothing(tmp_path: Path) -> None:
    """The database is paused, resumed, stopped and started; then a gateway ends during an outage."""
    with postgres.run_server() as server:

        async def scenario() -> None:
            async with (
                ByteServer([WHOLE]) as upstream,
                aiohttp.ClientSession() as session,
                started(tmp_path, config(upstream, server.url, timeout=1.0), 2) as (first, second),
            ):
                free = await command(tmp_path, "keys", "create", "free")
                limited = await command(tmp_path, "keys", "create", "limited", "--tokens-per-day", "100000")
                paced = await command(tmp_path, "keys", "create", "paced", "--rpm", "4")
                gateways = (first, second)
                for gateway in gateways:
                    await until(lambda gateway=gateway: ask(session, gateway, limited), 200)  # type: ignore[misc]  # a default in a lambda
                    assert await ask(session, gateway, free) == 200

                for stop, start in ((server.pause, server.resume), (server.stop, server.start)):
                    await asyncio.to_thread(stop)
                    for gateway in gateways:
                        status, refused = await refusal(session, gateway, limited)
                        assert status == 429
                        assert refused["error"]["type"] == "rate_limit_error"
                        assert [await ask(session, gateway, free) for _ in range(3)] == [200] * 3
                    await asyncio.to_thread(start)
                    for gateway in gateways:
                        await until_answered(session, gateway, limited)
                assert await ask(session, first, paced) == 200
                await asyncio.to_thread(server.pause)
                statuses = [await ask(session, first, paced) for _ in range(6)]
                # Of four requests per minute each of two gateways may admit two.
                assert statuses.count(200) <= 4
                assert await ask(session, first, free) == 200
                # Its usage is in the journal, and the next gateway writes it.
                journals = tmp_path.glob("gateway0/**/usage-*.journal")
                assert any(journal.stat().st_size for journal in journals)
                await first.stop()
                await asyncio.to_thread(server.resume)
                async with started(tmp_path, config(upstream, server.url, timeout=1.0), 1) as (again,):
                    await until_answered(session, again, free)
                answered = len(upstream.received)

                async def count() -> int:
                    reply = await command(tmp_path, "usage", "--json")
                    return sum(each["requests"] - each["refused"] for each in reply)

                async with asyncio.timeout(30):
                    while await count() != answered:
                        await asyncio.sleep(0.3)

        run(scenario)


async def refusal(session: aiohttp.ClientSession, gateway: Gateway, key: str) -> tuple[int, Any]:
    return await fetch(session, "POST", f"{gateway.url}/v1/messages", HELLO, key)


async def until_answered(session: aiohttp.ClientSession, gateway: Gateway, key: str) -> None:
    async with asyncio.timeout(30):
        while await ask(session, gateway, key) != 200:
            await asyncio.sleep(0.1)


#: What happens next: a gateway is asked, or one is killed and started again.
STEPS = st.lists(
    st.one_of(st.tuples(st.just("ask"), st.integers(0, 1)), st.tuples(st.just("kill"), st.integers(0, 1))),
    min_size=4,
    max_size=10,
)


@given(steps=STEPS)
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_order_of_requests_and_kills_exceeds_a_budget(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    budget = 4 * USED + 1
    url, folder = postgres.create_schema(), tmp_path_factory.mktemp("steps")

    async def scenario() -> None:
        async with (
            ByteServer([WHOLE]) as upstream,
            aiohttp.ClientSession() as session,
            started(folder, text := config(upstream, url), 2) as gateways,
        ):
            key = await command(folder, "keys", "create", "ci", "--tokens-per-day", str(budget))
            for step, number in steps:
                asking = [asyncio.ensure_future(ask(session, gateways[number], key)) for _ in range(4)]
                if step == "kill":
                    await asyncio.sleep(0.01)
                    await gateways[number].kill()
                    gateways[number] = Gateway(text, folder / f"gateway{number}")
                    await gateways[number].start()
                await asyncio.gather(*asking, return_exceptions=True)
            reply = await command(folder, "keys", "show", "ci", "--json")
            assert reply["used"]["day"]["tokens"] < budget + USED

    run(scenario)
    postgres.drop_schema(url)


def test_gateways_warn_each_other_of_a_target_and_give_a_session_the_same_key(
    tmp_path: Path, url: str
) -> None:
    broken = reply(b"{}", "500 Internal Server Error", "retry-after: 100")

    async def scenario() -> None:
        async with (
            ByteServer([broken]) as failing,
            ByteServer([WHOLE]) as upstream,
            aiohttp.ClientSession() as session,
        ):
            text = f"""
default = "up"
[state]
url = "{url}"
timeout = 20.0
[providers.bad]
dialect = "openai_chat"
base_url = "{failing.url}"
retries = 0
[providers.up]
dialect = "openai_chat"
base_url = "{upstream.url}"
api_key = ["key-1", "key-2", "key-3", "key-4", "key-5"]
[[routes]]
match = "pool"
target = ["bad/m", "up/m"]
"""
            async with started(tmp_path, text, 2) as (first, second):

                async def is_warned() -> bool:
                    token = (second.folder / ".local/state/dragoman/admin-token").read_text().strip()
                    headers = {"authorization": f"Bearer {token}"}
                    async with session.get(f"{second.url}/admin/status", headers=headers) as response:
                        rows = (await response.json())["targets"]
                    reasons = [each["reason"] for row in rows for each in row["cooldowns"]]
                    return reasons == ["fails at another gateway"]

                assert await ask(session, first, model="pool") == 200
                assert len(failing.received) == 1
                # The other gateway learns of the cooldown within seconds, and then does not try the target.
                await wait_until(is_warned)
                assert await ask(session, second, model="pool") == 200
                assert len(failing.received) == 1
                for number in range(4):
                    talk = [{"role": "user", "content": f"conversation {number}"}]
                    for gateway in (first, second):
                        assert await ask(session, gateway, messages=talk) == 200
                    used = [received.headers["authorization"] for received in upstream.received[-2:]]
                    assert used[0] == used[1]
                assert len({received.headers["authorization"] for received in upstream.received}) > 1

    run(scenario)
