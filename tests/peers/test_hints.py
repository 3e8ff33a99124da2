"""Gateways report cooldowns and speeds of targets to each other, on both engines."""

import asyncio
from collections.abc import Awaitable, Callable

from dragoman.config.config import Route
from dragoman.config.provider import TargetName
from dragoman.hub.errors import Failure
from dragoman.peers.hints import MAX_HINTS, SharedHints
from dragoman.peers.store import PEERS_SCHEMA
from dragoman.routing.balancing import LoadBalancer
from dragoman.routing.health import TargetHealth, TargetKey
from dragoman.storage.port import StateStorage
from tests.states import StateBed, build_state_fixture

state = build_state_fixture(PEERS_SCHEMA)

A, B = TargetName("a", "model"), TargetName("b", "model")
BROKEN = Failure(kind="server", message="", status=500)


class Side:
    """One gateway: what it knows of the targets, and its hints."""

    def __init__(self, storage: StateStorage) -> None:
        self.storage = storage
        self.health, self.balancer = TargetHealth(), LoadBalancer()
        self.hints = SharedHints(storage, storage.clock, self.health, self.balancer)

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def cools(self, target: TargetName) -> bool:
        return self.health.is_cooling(TargetKey(target, 0), self.now)

    def find_fastest(self) -> TargetName:
        route = Route(match="m", targets=(A, B), order="fastest")
        return self.balancer.order(route, (A, B), session=0, now=self.now, random=lambda: 0.5)[0]


def meet(state: StateBed, act: Callable[[Side, Side], Awaitable[None]]) -> None:
    async def main() -> None:
        sides = Side(state.open()), Side(state.open())
        async with asyncio.timeout(30):
            await act(*sides)
        for side in sides:
            await side.storage.close()

    asyncio.run(main())


def test_a_target_that_cools_down_at_one_gateway_is_tried_last_at_the_other(state: StateBed) -> None:
    async def act(first: Side, second: Side) -> None:
        first.health.record_failure(TargetKey(A, 0), BROKEN, first.now)
        await first.hints.exchange()
        await second.hints.exchange()
        assert (second.cools(A), second.cools(B)) == (True, False)
        assert second.health.order_targets([A, B], {}, 0, second.now) == [(B, 0), (A, 0)]
        # A hint is not passed on.
        assert second.health.list_cooldowns(second.now) == {}
        first.health.record_success(TargetKey(A, 0))
        await first.hints.exchange()
        await second.hints.exchange()
        assert not second.cools(A)

    meet(state, act)


def test_a_success_counts_more_than_an_earlier_hint_and_less_than_a_later_one(state: StateBed) -> None:
    async def act(first: Side, second: Side) -> None:
        first.health.record_failure(TargetKey(A, 0), BROKEN, first.now)
        await first.hints.exchange()
        await second.hints.exchange()
        second.health.record_success(TargetKey(A, 0))
        assert not second.cools(A)
        await second.hints.exchange()
        assert not second.cools(A)
        first.health.record_failure(TargetKey(A, 0), BROKEN, first.now)
        await first.hints.exchange()
        await second.hints.exchange()
        assert second.cools(A)

    meet(state, act)


def test_a_speed_counts_until_the_gateway_knows_by_itself(state: StateBed) -> None:
    async def act(first: Side, second: Side) -> None:
        for target, seconds in ((A, 3.0), (B, 1.0)):
            first.balancer.start_call(target)
            first.balancer.end_call(target, seconds)
        assert second.find_fastest() == A
        await first.hints.exchange()
        await second.hints.exchange()
        assert second.find_fastest() == B
        for target, seconds in ((A, 0.5), (B, 4.0)):
            second.balancer.start_call(target)
            second.balancer.end_call(target, seconds)
        assert second.find_fastest() == A

    meet(state, act)


def test_hints_end_with_their_gateway_and_their_number_is_bounded(state: StateBed) -> None:
    async def act(first: Side, second: Side) -> None:
        for number in range(2 * MAX_HINTS):
            first.health.record_failure(TargetKey(TargetName("a", f"m{number}"), 0), BROKEN, first.now)
        first.hints.start()
        await first.hints.exchange()
        await second.hints.exchange()
        known = [TargetName("a", f"m{number}") for number in range(2 * MAX_HINTS)]
        assert sum(second.cools(target) for target in known) == MAX_HINTS
        await first.hints.close()
        await second.hints.exchange()
        assert not any(second.cools(target) for target in known)

    meet(state, act)
    assert state.fetch("SELECT COUNT(*) FROM hints") == [(0,)]
