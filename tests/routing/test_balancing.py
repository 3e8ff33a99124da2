"""The orders of balanced routes, sessions that keep their target, and the targets for special failures."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config.config import Route
from dragoman.config.provider import TargetName
from dragoman.hub.errors import Failure
from dragoman.hub.usage import Usage
from dragoman.routing.balancing import MODEL_REFUSED, LoadBalancer, find_failure_targets

A, B, C = (TargetName("p", name) for name in "abc")
ORDERS = ("listed", "round_robin", "weighted", "least_busy", "fastest", "cheapest")


def route(order: Any, **fields: Any) -> Route:
    return Route(match="m", targets=(A, B, C), order=order, **fields)


def first(balancer: LoadBalancer, balanced: Route, session: int = 0, now: float = 0.0) -> TargetName:
    return balancer.order(balanced, (A, B, C), session=session, now=now, random=lambda: 0.5)[0]


@given(st.sampled_from(ORDERS), st.integers(0, 5), st.floats(0, 1), st.lists(st.sampled_from([A, B, C])))
def test_every_order_keeps_all_targets(
    order: str, session: int, number: float, used: list[TargetName]
) -> None:
    balancer, balanced = LoadBalancer(), route(order, weights=(1, 2, 3))
    for target in used:
        balancer.start_call(target)
        balancer.end_call(target, number)
        balancer.keep_session(balanced, session, target, 0.0)
    ordered = balancer.order(balanced, (A, B, C), session=session, now=1.0, random=lambda: number)
    assert sorted(map(str, ordered)) == sorted(map(str, (A, B, C)))


def test_round_robin_takes_turns() -> None:
    balancer = LoadBalancer()
    assert [first(balancer, route("round_robin")) for _ in range(4)] == [A, B, C, A]


def test_weights_are_the_shares_of_the_first_place() -> None:
    balancer, random = LoadBalancer(), Random(7)  # noqa: S311 (not for a secret)
    balanced = route("weighted", weights=(1, 1, 8))
    firsts = Counter(
        balancer.order(balanced, (A, B, C), session=0, now=0.0, random=random.random)[0] for _ in range(2000)
    )
    assert 1450 < firsts[C] < 1750
    assert 120 < firsts[A] < 290


def test_the_least_busy_and_the_fastest_come_first() -> None:
    balancer = LoadBalancer()
    for target, seconds in ((A, 3.0), (B, 0.5), (C, 2.0)):
        balancer.start_call(target)
        balancer.end_call(target, seconds)
    assert first(balancer, route("fastest")) == B
    balancer.start_call(A)
    balancer.start_call(B)
    assert first(balancer, route("least_busy")) == C


def test_a_session_keeps_its_target_while_its_cache_lasts() -> None:
    balancer, balanced = LoadBalancer(), route("round_robin", sticky=60.0)
    balancer.keep_session(balanced, 9, C, 0.0)
    assert [first(balancer, balanced, 9, 30.0) for _ in range(3)] == [C, C, C]
    assert first(balancer, balanced, 8, 30.0) != C or first(balancer, balanced, 8, 30.0) != C
    assert first(balancer, balanced, 9, 61.0) == B


def test_the_cheapest_counts_the_cache_of_the_session() -> None:
    balancer, balanced = LoadBalancer(), route("cheapest")
    prices = {A: (10, 1), B: (5, 5)}

    def cost(target: TargetName, usage: Usage) -> int | None:
        if target not in prices:
            return None
        fresh, cached = prices[target]
        read = usage.cache_read or 0
        return fresh * ((usage.input or 0) - read) + cached * read

    def order(session: int) -> list[TargetName]:
        return balancer.order(
            balanced, (C, A, B), session=session, now=1.0, random=lambda: 0.5, tokens=1000, cost=cost
        )

    assert order(1) == [B, A, C]
    balancer.keep_session(balanced, 1, A, 0.0)
    assert order(1) == [A, B, C]
    assert order(2) == [B, A, C]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Failure(kind="context_overflow", message=""), (B,)),
        (Failure(kind="invalid_request", message="", code=MODEL_REFUSED), (C,)),
        (Failure(kind="invalid_request", message=""), ()),
    ],
)
def test_special_failures_have_their_targets(failure: Failure, expected: tuple[TargetName, ...]) -> None:
    assert find_failure_targets(failure, route("listed", on_overflow=(B,), on_refusal=(C,))) == expected
