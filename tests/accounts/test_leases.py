"""Busy keys spend slices of their limits without the state, and no order of events exceeds a budget."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings

from dragoman.accounts.leases import KeyLease, LeaseDemand, LeasePolicy, plan_slice
from dragoman.accounts.ledger import UsageLedger
from dragoman.accounts.limits import (
    Account,
    Amount,
    Bucket,
    LimitRefusal,
    Limits,
    Unit,
    find_period_start,
    list_budgets,
    list_rates,
)
from dragoman.accounts.store import (
    ACCOUNTS_SCHEMA,
    Reservation,
    ReservationRequest,
    find_reserved_keys,
    read_account,
    release_process,
)
from dragoman.storage.port import StateStorage, Work
from tests.states import StateBed

KEY = "key_1"
NOW = 1_794_794_400.0
#: Leases from the first requests on, which end quickly, or not by themselves.
EAGER = LeasePolicy(busy_rate=2, seconds=0.1)
LASTING = LeasePolicy(busy_rate=2, seconds=60.0)
NEVER = LeasePolicy(busy_rate=10**9)


@pytest.fixture(scope="module")
def shared() -> Iterator[StateBed]:
    bed = StateBed("postgres", ACCOUNTS_SCHEMA)
    yield bed
    bed.close()


def build_request(limits: Limits, tokens: int, cost: int = 0, key: str = KEY) -> ReservationRequest:
    least = Amount(tokens // 3, cost // 3)
    return ReservationRequest(key=key, limits=limits, maximum=Amount(tokens, cost), minimum=least)


@given(
    tokens=st.integers(0, 5_000),
    reserved=st.integers(0, 5_000),
    cost=st.integers(0, 9_000),
    level=st.floats(-100, 600),
    requests=st.integers(1, 50),
    each=st.integers(1, 200),
    gateways=st.integers(0, 5),
)
def test_a_slice_fits_into_the_part_of_a_gateway(
    tokens: int, reserved: int, cost: int, level: float, requests: int, each: int, gateways: int
) -> None:
    limits = Limits(tokens_per_day=5_000, cost_per_month=9_000, requests_per_minute=600)
    account = Account(
        buckets={"requests": Bucket(level, NOW)},
        used={"day": Amount(tokens, 0), "month": Amount(tokens, cost)},
        reserved={"day": Amount(reserved, 0), "month": Amount(reserved, 0)},
    )
    demand = LeaseDemand(KEY, limits, requests, Amount(requests * each, requests), gateways)
    amounts = plan_slice(demand, account, NOW)
    if amounts is None:
        return
    parts = demand.policy.parts * max(1, gateways)
    assert amounts["tokens"] * parts <= 5_000 - tokens - reserved
    assert amounts["cost"] * parts <= 9_000 - cost
    assert amounts["requests"] * parts <= level
    # It is worth a lease.
    assert amounts["requests"] >= demand.policy.least
    assert amounts["tokens"] >= demand.policy.least * each


@given(st.lists(st.tuples(st.integers(0, 60), st.booleans(), st.integers(0, 100)), max_size=40))
def test_a_lease_never_admits_more_than_its_slice(steps: list[tuple[int, bool, int]]) -> None:
    limits = Limits(tokens_per_day=10_000, requests_per_minute=600)
    slice_ = Reservation(id=1, request=build_request(limits, 300), at=NOW)
    lease = KeyLease(slice_, 10, NOW + 2, {"requests": Bucket(600.0, NOW)}, ())
    opened: list[Reservation] = []
    used = admitted = 0
    for number, (tokens, ends, share) in enumerate(steps):
        if ends and opened:
            reservation = opened.pop()
            amount = reservation.request.maximum.tokens * share // 100
            lease.settle(reservation, Amount(amount, 0))
            used += amount
            continue
        found = lease.admit(build_request(limits, tokens), number, NOW)
        if found is not None:
            admitted += 1
            opened.append(found)
            assert found.rate_limits[0].remaining == 600 - admitted
        assert used + sum(each.request.maximum.tokens for each in opened) <= 300
        assert admitted <= 10
    assert lease.admit(build_request(limits, 0), 1_000, NOW + 2) is None
    other = Limits(tokens_per_day=9_999, requests_per_minute=600)
    assert lease.admit(build_request(other, 0), 1_001, NOW) is None
    returned = lease.end("process")
    assert (returned.used.tokens, returned.requests, len(returned.open)) == (used, 10 - admitted, len(opened))
    assert lease.admit(build_request(limits, 0), 1_002, NOW) is None


class CountedStorage:
    """A storage that counts its transactions."""

    def __init__(self, storage: StateStorage) -> None:
        self._storage = storage
        self.transactions = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._storage, name)

    async def run(self, work: Work[object], *, locks: tuple[str, ...] = ()) -> object:
        self.transactions += 1
        return await self._storage.run(work, locks=locks)


class Gateways:
    """Three ledgers with one database, and the requests of one key. A request uses at most its maximum."""

    numbers = iter(range(10_000))

    def __init__(self, shared: StateBed, limits: Limits, policy: LeasePolicy = EAGER, count: int = 3) -> None:
        self.limits = limits
        self.key = f"key_{next(self.numbers)}"
        self.storages = [CountedStorage(shared.open()) for _ in range(count)]
        self._policy = policy
        self.ledgers = [self._build(place) for place in range(count)]
        self.open: list[list[Reservation]] = [[] for _ in range(count)]
        self.used = Amount()
        self.largest = 0
        self.killed = 0

    def _build(self, place: int) -> UsageLedger:
        return UsageLedger(self.storages[place], self.storages[place].clock, self._policy)  # type: ignore[arg-type]  # it has what a ledger uses of a storage

    async def begin(self, place: int, tokens: int, cost: int = 0) -> bool:
        request = build_request(self.limits, tokens, cost, self.key)
        result = await self.ledgers[place].reserve(request)
        if isinstance(result, LimitRefusal):
            return False
        self.largest = max(self.largest, tokens)
        self.open[place].append(result)
        return True

    async def burst(self, place: int, tokens: int, count: int) -> None:
        await asyncio.gather(*(self.begin(place, tokens) for _ in range(count)))

    async def end(self, place: int, share: int) -> None:
        if self.open[place]:
            reservation = self.open[place].pop(share % len(self.open[place]))
            most, least = reservation.request.maximum, reservation.request.minimum
            used = Amount(least.tokens + (most.tokens - least.tokens) * share // 100, most.cost)
            self.ledgers[place].settle(reservation, used)
            self.used = self.used.plus(used)

    async def wait(self, place: int) -> None:
        """Until leases have ended."""
        await asyncio.sleep(EAGER.seconds * 1.5)
        await self.ledgers[place].flush()

    async def kill(self, place: int) -> None:
        """The process ends without a word, and another one notices it."""
        ledger, storage = self.ledgers[place], self.storages[place]
        await ledger.flush()
        ledger._is_closed = True
        for task in tuple(ledger._tasks):
            task.cancel()
        keys = await storage._storage.read(lambda each: find_reserved_keys(each, ledger.process))
        await storage._storage.run(lambda each: release_process(each, ledger.process), locks=keys)
        for reservation in self.open[place]:
            self.used = self.used.plus(reservation.request.minimum)
        self.open[place] = []
        self.killed += 1
        self.ledgers[place] = self._build(place)

    def check(self) -> None:
        still_open = sum(each.request.maximum.tokens for held in self.open for each in held)
        limit = self.limits.tokens_per_day
        assert self.used.tokens + still_open < limit + max(1, self.largest)

    async def read(self) -> Account:
        storage = self.storages[0]._storage
        return await storage.read(lambda each: read_account(each, self.key, storage.clock()))

    async def close(self) -> None:
        for place, ledger in enumerate(self.ledgers):
            while self.open[place]:
                await self.end(place, 50)
            await ledger.close()


def run(act: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await act()

    asyncio.run(bounded())


_PLACE, _TOKENS = st.integers(0, 2), st.integers(1, 120)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), _PLACE, _TOKENS),
        st.tuples(st.just("burst"), _PLACE, st.integers(1, 40), st.integers(3, 25)),
        st.tuples(st.just("end"), _PLACE, st.integers(0, 100)),
        st.tuples(st.just("end"), _PLACE, st.integers(0, 100)),
        st.tuples(st.just("wait"), _PLACE),
        st.tuples(st.just("kill"), _PLACE),
    ),
    min_size=5,
    max_size=25,
)

#: One gateway dies with an active lease, and one with a lease that has ended before its requests.
KILLS = [
    *[("burst", 0, 5, 20)] * 2,
    ("kill", 0),
    *[("burst", 1, 5, 25)] * 2,
    ("wait", 1),
    ("end", 1, 50),
    ("burst", 1, 40, 25),
    ("kill", 1),
    ("burst", 2, 120, 25),
]


@pytest.mark.rule("R124")
@given(steps=STEPS, policy=st.sampled_from([EAGER, LASTING]))
@example(steps=[("burst", place % 3, 5, 25) for place in range(12)], policy=LASTING)
@example(steps=KILLS, policy=EAGER)
@example(steps=KILLS, policy=LASTING)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_order_of_leases_and_kills_exceeds_a_budget_or_loses_usage(
    shared: StateBed, steps: list[tuple[str, int]], policy: LeasePolicy
) -> None:
    async def act() -> None:
        gateways = Gateways(shared, Limits(tokens_per_day=2_000), policy)
        for name, *arguments in steps:
            await getattr(gateways, name)(*arguments)
            gateways.check()
        await gateways.close()
        account = await gateways.read()
        assert account.reserved["day"] == Amount()
        # A slice that was lost with its process is charged whole.
        used = account.used["day"].tokens
        assert used == gateways.used.tokens or (gateways.killed and used > gateways.used.tokens)
        assert used < 2_000 + max(1, gateways.largest)
        for storage in gateways.storages:
            await storage._storage.close()

    run(act)


def test_a_busy_key_needs_few_transactions(shared: StateBed) -> None:
    limits = Limits(
        tokens_per_day=10**9, cost_per_month=10**9, requests_per_minute=10**6, tokens_per_minute=10**8
    )

    async def act() -> None:
        counts: list[int] = []
        for policy in (LeasePolicy(), NEVER):
            gateways = Gateways(shared, limits, policy, count=1)
            for _ in range(400):
                assert await gateways.begin(0, 30, 10)
                await gateways.end(0, 50)
            await gateways.close()
            counts.append(gateways.storages[0].transactions)
            account = await gateways.read()
            assert account.used["day"] == gateways.used
            assert account.reserved["day"] == Amount()
            # What a slice took from the limits per minute and did not use is given back.
            spending: dict[Unit, int] = {"requests": 400, "tokens": gateways.used.tokens}
            for unit, spent in spending.items():
                limit = dict(list_rates(limits))[unit]
                assert account.buckets[unit].level >= limit - spent
            await gateways.storages[0]._storage.close()
        # The key is busy from its twentieth request on.
        assert counts[0] < 100 < 400 <= counts[1]

    run(act)


def test_requests_that_outlive_their_lease_have_reservations_of_their_own(shared: StateBed) -> None:
    """If the process then dies, their minimum is charged, and not the slice."""

    async def act() -> None:
        gateways = Gateways(shared, Limits(tokens_per_day=100_000), LASTING, count=1)
        await gateways.burst(0, 30, 5)
        await gateways.burst(0, 30, 10)
        assert (await gateways.read()).reserved["day"].tokens > 15 * 30
        ledger = gateways.ledgers[0]
        for lease in ledger._leases.list_active():
            ledger._return_lease(lease)
        # A request that ends before the return is written is not lost.
        await gateways.end(0, 100)
        await ledger.flush()
        assert (await gateways.read()).reserved["day"].tokens == 14 * 30
        await gateways.end(0, 100)
        await ledger.flush()
        assert (await gateways.read()).reserved["day"].tokens == 13 * 30
        await gateways.kill(0)
        account = await gateways.read()
        assert (account.used["day"], account.reserved["day"]) == (Amount(2 * 30 + 13 * 10, 0), Amount())
        for storage in gateways.storages:
            await storage._storage.close()

    run(act)


def test_a_request_of_the_next_day_needs_another_lease() -> None:
    midnight = find_period_start("day", NOW) + 86_400.0
    limits = Limits(tokens_per_day=100)
    assert list_budgets(limits)
    lease = KeyLease(
        Reservation(id=1, request=build_request(limits, 90), at=midnight - 1), 9, midnight, {}, ()
    )
    assert lease.admit(build_request(limits, 1), 2, midnight - 0.5) is not None
    assert lease.admit(build_request(limits, 1), 3, midnight) is None
