"""Gateways with one database and wrong clocks, while gateways are killed and the database is away.

A gateway is killed while the upstream holds its reply: exactly between the reservation and the settlement.
"""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp
import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings

from dragoman.accounts.limits import Limits
from tests import postgres
from tests.e2e.fleet import Fleet, RunningFleet, wait_until
from tests.e2e.test_keys import USED

DAY = 86_400.0
#: Seconds by which the clocks of the gateways are wrong: other days and other months.
CLOCKS = (0.0, DAY, -40 * DAY)
BUDGET = 20 * USED + 1


class Scenario:
    """One key with a budget, and what happens to it. `number` distinguishes scenarios of one fleet."""

    numbers = iter(range(10_000))

    def __init__(self, fleet: Fleet, server: postgres.PostgresServer) -> None:
        self.fleet = fleet
        self.server = server
        self.name = f"key{next(self.numbers)}"
        self.key = ""
        self.free = ""
        #: Requests whose reply the upstream holds, by gateway.
        self.held: dict[int, list[asyncio.Task[int]]] = {}
        self.killed = 0

    async def begin(self) -> None:
        self.key = await self.fleet.create_key(self.name, Limits(tokens_per_day=BUDGET))
        self.free = await self.fleet.create_key(f"free{self.name}")

    async def ask(self, numbers: list[int]) -> None:
        """Requests through these gateways at the same time."""
        places = [number % len(self.fleet.gateways) for number in numbers]
        statuses = await asyncio.gather(*(self.fleet.ask(place, self.key, self.name) for place in places))
        assert set(statuses) <= {200, 429}

    async def hold(self, number: int) -> None:
        place = number % len(self.fleet.gateways)
        asking = await self.fleet.hold(place, self.key, self.name)
        if asking is not None:
            self.held.setdefault(place, []).append(asking)

    async def release(self) -> None:
        self.fleet.upstream.release()
        for asking in self.held.values():
            assert await asyncio.gather(*asking) == [200] * len(asking)
        self.held = {}

    async def kill(self, number: int) -> None:
        """Kill a gateway whose requests are reserved, sent and not answered."""
        place = number % len(self.fleet.gateways)
        await self.hold(place)
        await wait_until(self.is_written)
        lost = self.held.pop(place, [])
        await self.fleet.kill(place)
        for result in await asyncio.gather(*lost, return_exceptions=True):
            assert isinstance(result, aiohttp.ClientError)
        self.killed += len(lost)

    async def pause(self) -> None:
        await self.lose_database(self.server.pause, self.server.resume)

    async def lose_database(self, stop: Callable[[], None], start: Callable[[], None]) -> None:
        """Without the database, a key with a budget is refused, and open requests still end."""
        await asyncio.to_thread(stop)
        try:
            for place in range(len(self.fleet.gateways)):
                assert await self.fleet.ask(place, self.key, self.name) == 429
                assert await self.fleet.ask(place, self.free, "free") == 200
            await self.release()
        finally:
            await asyncio.to_thread(start)
        for place in range(len(self.fleet.gateways)):
            await wait_until(lambda place=place: self.fleet.can_check_budget(place, self.key, self.name))  # type: ignore[misc]  # a default in a lambda

    async def is_written(self) -> bool:
        """Whether the state has the usage of all replies, and reservations of the held requests alone."""
        account = await self.fleet.read_account(self.name)
        usage = await self.fleet.count_usage(self.name)
        has_reserved = bool(account.reserved["day"].tokens) == any(self.held.values())
        return has_reserved and usage.input + usage.output == self.answered * USED

    @property
    def answered(self) -> int:
        return self.fleet.upstream.answered.get(self.name, 0)

    async def end(self) -> None:
        await self.release()
        await wait_until(self.is_written)
        run_all_pairs = list(range(len(self.fleet.gateways)))
        before = -1
        while before != self.answered:
            before = self.answered
            for place in run_all_pairs:
                await self.ask([place])
        await wait_until(self.is_written)
        used = (await self.fleet.read_account(self.name)).used["day"].tokens
        # The budget can be used completely, and at most one request exceeds it.
        assert BUDGET <= used < BUDGET + USED
        # The minimum is charged for each request of a gateway that was killed.
        assert self.answered * USED + self.killed <= used <= (self.answered + self.killed) * USED
        if not self.killed:
            assert used == self.answered * USED
        await self.fleet.revoke_everywhere(self.name, self.key)
        assert (await self.fleet.ask(0, self.key, self.name)) == 401


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.PostgresServer]:
    with postgres.run_server() as server:
        yield server


@pytest.fixture(scope="module", params=[2, 3], ids=["two", "three"])
def running(
    request: pytest.FixtureRequest, server: postgres.PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningFleet]:
    url, count = postgres.create_schema(server.url), request.param
    fleet = Fleet(tmp_path_factory.mktemp("fleet"), url, CLOCKS[:count], timeout=1.0)
    running = RunningFleet(fleet)
    yield running
    running.close()


_PLACE = st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.lists(_PLACE, min_size=1, max_size=5)),
        st.tuples(st.just("hold"), _PLACE),
        st.tuples(st.just("release")),
        st.tuples(st.just("kill"), _PLACE),
        st.tuples(st.just("pause")),
    ),
    min_size=2,
    max_size=6,
)


@pytest.mark.rule("R124")
@given(steps=STEPS)
@example(steps=[("ask", [0, 1, 2]), ("hold", 1), ("kill", 0), ("pause",), ("hold", 2), ("kill", 2)])
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_order_of_faults_exceeds_a_budget_or_loses_usage(
    running: RunningFleet, server: postgres.PostgresServer, steps: list[tuple[object, ...]]
) -> None:
    async def act() -> None:
        scenario = Scenario(running.fleet, server)
        await scenario.begin()
        for name, *arguments in steps:
            await getattr(scenario, str(name))(*arguments)
        await scenario.end()

    running.run(act())


def test_a_gateway_that_is_killed_after_its_last_reply_loses_no_usage(running: RunningFleet) -> None:
    """Statistics are written once a second. The next process writes what the killed one did not."""

    async def act() -> None:
        fleet = running.fleet
        number = len(fleet.gateways)
        names = (f"kept{number}", f"open{number}")
        limited = await fleet.create_key(names[0], Limits(tokens_per_day=10**6))
        free = await fleet.create_key(names[1])
        for _ in range(2):
            asks = [
                fleet.ask(1, key, name)
                for key, name in zip((limited, free), names, strict=True)
                for _ in "ab"
            ]
            assert await asyncio.gather(*asks) == [200] * 4
            await fleet.kill(1)

        async def is_counted() -> bool:
            for name in names:
                answered = fleet.upstream.answered[name]
                usage = await fleet.count_usage(name)
                used = (await fleet.read_account(name)).used["day"].tokens
                if usage.requests != answered or usage.input + usage.output != answered * USED:
                    return False
                if used < answered * USED:
                    return False
            return True

        await wait_until(is_counted)

    running.run(act())


def test_a_failover_to_the_standby_exceeds_no_budget_and_loses_no_usage(tmp_path: Path) -> None:
    with postgres.run_pair() as (primary, standby):
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        url = f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"
        running = RunningFleet(Fleet(tmp_path, url, CLOCKS[:2], timeout=1.0))

        async def act() -> None:
            scenario = Scenario(running.fleet, primary)
            await scenario.begin()
            await scenario.ask([0, 1, 0, 1])
            await scenario.hold(0)
            await scenario.hold(1)
            await scenario.lose_database(primary.stop, standby.promote)
            await scenario.kill(1)
            await scenario.end()

        try:
            running.run(act())
        finally:
            running.close()


def test_the_clock_of_the_database_decides_limits_per_minute_and_ends_of_keys(
    running: RunningFleet, server: postgres.PostgresServer
) -> None:
    """By the clocks of the other gateways, the minute would be over, and the key would have ended."""

    async def act() -> None:
        fleet = running.fleet
        run_all_pairs = range(len(fleet.gateways))
        key = await fleet.create_key(name := f"paced{len(fleet.gateways)}", Limits(requests_per_minute=4))
        statuses = [await fleet.ask(place, key, name) for _ in range(6) for place in run_all_pairs]
        # A minute may end meanwhile on a machine that is very slow; a clock of a day would admit all.
        assert statuses[:4] == [200] * 4
        assert 429 in statuses
        ending = await fleet.create_key(f"ending{len(fleet.gateways)}", expires_in=3_600.0)
        assert [await fleet.ask(place, ending, "ending") for place in run_all_pairs] == [200] * len(
            run_all_pairs
        )

    running.run(act())


def test_a_busy_key_spends_slices_of_its_budget_and_no_more(running: RunningFleet) -> None:
    """A gateway is killed while it has a slice. The slice is charged, so the budget holds."""

    async def act() -> None:
        fleet = running.fleet
        name, budget = f"busy{len(fleet.gateways)}", 400 * USED
        key = await fleet.create_key(name, Limits(tokens_per_day=budget))

        async def spend(place: int) -> None:
            refused = 0
            while refused < 3:
                try:
                    refused = 0 if await fleet.ask(place, key, name) == 200 else refused + 1
                except aiohttp.ClientError:
                    return

        async def find_slices() -> list[int]:
            """The amounts of reservations that are larger than one request."""
            rows = await fleet.run(
                lambda each: each.fetch("SELECT tokens FROM reservations WHERE tokens > 100")
            )
            return [row[0] for row in rows]

        spending = [
            asyncio.ensure_future(spend(place)) for place in range(len(fleet.gateways)) for _ in range(10)
        ]
        async with asyncio.timeout(60):
            while not await find_slices():
                await asyncio.sleep(0.01)
        await fleet.kill(1)
        await asyncio.gather(*spending)

        async def is_spent() -> bool:
            statuses = [await fleet.ask(place, key, name) for place in range(len(fleet.gateways))]
            account = await fleet.read_account(name)
            return 200 not in statuses and not account.reserved["day"].tokens

        await wait_until(is_spent)
        used = (await fleet.read_account(name)).used["day"].tokens
        assert budget <= used < budget + USED
        # Of the ten requests that were open at the killed gateway, at least the minimum is charged.
        assert fleet.upstream.answered[name] * USED <= used + 10 * USED

    running.run(act())
