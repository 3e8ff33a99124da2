"""A budget is used up and not exceeded by more than one request, in whatever order requests come and end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.accounts.limits import (
    Account,
    Amount,
    Bucket,
    LimitGrant,
    LimitRefusal,
    Limits,
    correct_token_bucket,
    decide,
    list_budgets,
)

NOW = 1_794_794_400.0  # 2026-11-16 02:00 UTC


def account(used: int = 0, reserved: int = 0) -> Account:
    return Account(
        used={"day": Amount(used, used), "month": Amount(used, used)},
        reserved={"day": Amount(reserved, reserved), "month": Amount(reserved, reserved)},
    )


def test_without_limits_everything_goes() -> None:
    granted = decide(Limits(), account(10**12, 10**12), Amount(10**9, 10**9), NOW)
    assert granted == LimitGrant(buckets={}, rate_limits=())


@pytest.mark.parametrize("field", ["tokens_per_day", "tokens_per_month", "cost_per_day", "cost_per_month"])
def test_every_budget_refuses_once_it_is_used_up(field: str) -> None:
    of, _, period = field.partition("_per_")
    refusal = decide(Limits(**{field: 100}), account(used=100), Amount(1, 1), NOW)
    assert isinstance(refusal, LimitRefusal)
    assert (refusal.unit, refusal.period, refusal.limit, refusal.is_spent) == (of, period, 100, True)
    assert refusal.wait == (22 * 3600 if period == "day" else 14 * 86_400 + 22 * 3600)


@pytest.mark.parametrize("field", ["tokens_per_day", "tokens_per_month", "cost_per_day", "cost_per_month"])
def test_every_budget_counts_what_is_set_aside(field: str) -> None:
    limits = Limits(**{field: 100})
    assert isinstance(decide(limits, account(50, 30), Amount(20, 20), NOW), LimitGrant)
    refusal = decide(limits, account(50, 30), Amount(21, 21), NOW)
    assert isinstance(refusal, LimitRefusal)
    assert (refusal.is_spent, refusal.wait) == (False, 2.0)


def test_the_rest_of_a_budget_can_be_used_by_a_request_that_is_alone() -> None:
    limits = Limits(tokens_per_day=100)
    assert isinstance(decide(limits, account(99, 0), Amount(5_000, 0), NOW), LimitGrant)
    assert isinstance(decide(limits, account(99, 1), Amount(5_000, 0), NOW), LimitRefusal)


def test_what_is_used_up_is_told_before_what_is_only_set_aside() -> None:
    limits = Limits(tokens_per_day=10, cost_per_month=5)
    held = Account(
        used={"day": Amount(1, 0), "month": Amount(1, 5)},
        reserved={"day": Amount(9, 0), "month": Amount(9, 0)},
    )
    refusal = decide(limits, held, Amount(5, 0), NOW)
    assert isinstance(refusal, LimitRefusal)
    assert (refusal.unit, refusal.period, refusal.is_spent) == ("cost", "month", True)


def test_limits_per_minute_tell_what_is_left() -> None:
    limits = Limits(requests_per_minute=2, tokens_per_minute=100)
    granted = decide(limits, Account(), Amount(30, 0), NOW)
    assert isinstance(granted, LimitGrant)
    assert [(room.unit, room.limit, room.remaining, room.reset) for room in granted.rate_limits] == [
        ("requests", 2, 1, 30.0),
        ("tokens", 100, 70, 18.0),
    ]


def test_the_longer_wait_of_two_limits_is_told() -> None:
    limits = Limits(requests_per_minute=60, tokens_per_minute=60)
    held = Account(buckets={"requests": Bucket(0.0, NOW), "tokens": Bucket(0.0, NOW)})
    refusal = decide(limits, held, Amount(10, 0), NOW)
    assert isinstance(refusal, LimitRefusal)
    assert (refusal.unit, refusal.period, refusal.wait) == ("tokens", "minute", 10.0)
    assert [room.remaining for room in refusal.rate_limits] == [0, 0]


def test_tokens_that_were_not_used_are_given_back_and_more_than_expected_are_taken() -> None:
    limits = Limits(tokens_per_minute=100)
    assert correct_token_bucket(limits, Bucket(40.0, NOW), reserved=60, used=20, now=NOW) == Bucket(80.0, NOW)
    assert correct_token_bucket(limits, Bucket(40.0, NOW), reserved=60, used=160, now=NOW) == Bucket(
        -60.0, NOW
    )
    assert correct_token_bucket(Limits(), None, reserved=60, used=20, now=NOW) is None


def test_budgets_are_those_that_are_set() -> None:
    assert [
        (each.unit, each.period) for each in list_budgets(Limits(tokens_per_day=1, cost_per_month=2))
    ] == [
        ("tokens", "day"),
        ("cost", "month"),
    ]


@given(
    limit=st.integers(1, 500),
    steps=st.lists(st.tuples(st.booleans(), st.integers(1, 100), st.integers(0, 100)), max_size=100),
)
def test_a_budget_is_exceeded_by_one_request_at_most(limit: int, steps: list[tuple[bool, int, int]]) -> None:
    """Requests begin, setting something aside, and end, having used that or less, in any order."""
    limits = Limits(tokens_per_day=limit)
    open_requests: list[int] = []
    used = largest = 0
    for begins, amount, share in steps:
        if begins:
            reserved = sum(open_requests)
            if isinstance(decide(limits, account(used, reserved), Amount(amount, 0), NOW), LimitGrant):
                open_requests.append(amount)
        elif open_requests:
            ended = open_requests.pop(share % len(open_requests))
            used += ended * share // 100
            largest = max(largest, ended)
        assert used + sum(open_requests) < limit + max([largest, *open_requests])
    assert used < limit + max(largest, 1)
