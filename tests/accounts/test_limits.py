"""Decisions about limits: budgets, limits per minute, periods, and limits that are nearly used up."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.accounts.limits import (
    MINUTE,
    PERIODS,
    Account,
    Amount,
    Bucket,
    LimitGrant,
    LimitRefusal,
    Limits,
    Period,
    correct_token_bucket,
    decide,
    find_hour_start,
    find_nearly_used_limits,
    find_period_end,
    find_period_start,
    list_budgets,
    refill,
    seconds_until_available,
    seconds_until_full,
    take,
)

NOW = 1_794_794_400.0  # 2026-11-16 02:00 UTC


def account(used: int = 0, reserved: int = 0) -> Account:
    return Account(
        used={"day": Amount(used, used), "month": Amount(used, used)},
        reserved={"day": Amount(reserved, reserved), "month": Amount(reserved, reserved)},
    )


def test_without_limits_every_request_passes() -> None:
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
def test_every_budget_counts_reservations(field: str) -> None:
    limits = Limits(**{field: 100})
    assert isinstance(decide(limits, account(50, 30), Amount(20, 20), NOW), LimitGrant)
    refusal = decide(limits, account(50, 30), Amount(21, 21), NOW)
    assert isinstance(refusal, LimitRefusal)
    assert (refusal.is_spent, refusal.wait) == (False, 2.0)


def test_a_single_request_may_exceed_the_rest_of_a_budget() -> None:
    limits = Limits(tokens_per_day=100)
    assert isinstance(decide(limits, account(99, 0), Amount(5_000, 0), NOW), LimitGrant)
    assert isinstance(decide(limits, account(99, 1), Amount(5_000, 0), NOW), LimitRefusal)


def test_a_used_budget_is_reported_before_a_reserved_one() -> None:
    limits = Limits(tokens_per_day=10, cost_per_month=5)
    held = Account(
        used={"day": Amount(1, 0), "month": Amount(1, 5)},
        reserved={"day": Amount(9, 0), "month": Amount(9, 0)},
    )
    refusal = decide(limits, held, Amount(5, 0), NOW)
    assert isinstance(refusal, LimitRefusal)
    assert (refusal.unit, refusal.period, refusal.is_spent) == ("cost", "month", True)


def test_the_status_of_limits_per_minute() -> None:
    limits = Limits(requests_per_minute=2, tokens_per_minute=100)
    granted = decide(limits, Account(), Amount(30, 0), NOW)
    assert isinstance(granted, LimitGrant)
    assert [
        (status.unit, status.limit, status.remaining, status.reset) for status in granted.rate_limits
    ] == [
        ("requests", 2, 1, 30.0),
        ("tokens", 100, 70, 18.0),
    ]


def test_the_longer_wait_of_two_limits_is_reported() -> None:
    limits = Limits(requests_per_minute=60, tokens_per_minute=60)
    held = Account(buckets={"requests": Bucket(0.0, NOW), "tokens": Bucket(0.0, NOW)})
    refusal = decide(limits, held, Amount(10, 0), NOW)
    assert isinstance(refusal, LimitRefusal)
    assert (refusal.unit, refusal.period, refusal.wait) == ("tokens", "minute", 10.0)
    assert [status.remaining for status in refusal.rate_limits] == [0, 0]


def test_the_token_bucket_is_corrected_by_the_used_tokens() -> None:
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


def test_a_budget_is_nearly_used_from_80_percent_on_including_reservations() -> None:
    limits = Limits(tokens_per_day=100, tokens_per_month=1000, cost_per_month=50)
    account = Account(used={"day": Amount(60, 0), "month": Amount(700, 60)}, reserved={"day": Amount(20, 0)})
    found = find_nearly_used_limits(limits, account, NOW)
    assert [(near.unit, near.period, near.used, near.share) for near in found] == [
        ("tokens", "day", 80, 0.8),
        ("cost", "month", 60, 1.2),
    ]


def test_a_limit_per_minute_is_nearly_used_until_it_refills() -> None:
    limits = Limits(requests_per_minute=60, tokens_per_minute=1000)
    account = Account(buckets={"requests": Bucket(6.0, NOW), "tokens": Bucket(900.0, NOW)})
    (near,) = find_nearly_used_limits(limits, account, NOW)
    assert (near.unit, near.period, near.limit, near.used) == ("requests", "minute", 60, 54)
    assert find_nearly_used_limits(limits, account, NOW + 30) == []


def test_a_key_without_limits_or_without_usage_is_not_near_a_limit() -> None:
    assert find_nearly_used_limits(Limits(), Account(used={"day": Amount(10**9, 10**9)}), NOW) == []
    assert find_nearly_used_limits(Limits(requests_per_minute=5, cost_per_day=5), Account(), NOW) == []


def test_a_bucket_that_was_never_used_is_full() -> None:
    assert refill(None, 60, NOW) == Bucket(60.0, NOW)


def test_a_bucket_fills_up_evenly_and_not_beyond_its_limit() -> None:
    empty = Bucket(0.0, NOW)
    assert refill(empty, 60, NOW + 10).level == 10
    assert refill(empty, 60, NOW + 600).level == 60


def test_a_clock_that_was_set_back_adds_nothing_and_takes_nothing() -> None:
    assert refill(Bucket(5.0, NOW), 60, NOW - 3600) == Bucket(5.0, NOW - 3600)


def test_the_wait_is_for_what_is_missing() -> None:
    assert seconds_until_available(Bucket(0.5, NOW), 60, 1) == 0.5
    assert seconds_until_available(Bucket(1.0, NOW), 60, 1) == 0
    assert seconds_until_full(Bucket(30.0, NOW), 60) == 30


def test_a_request_larger_than_the_bucket_passes_when_it_is_full_and_leaves_a_debt() -> None:
    full = Bucket(100.0, NOW)
    assert seconds_until_available(full, 100, 5_000) == 0
    debt = take(full, 100, 5_000)
    assert debt.level == -4_900
    assert seconds_until_available(debt, 100, 1) == 4_901 * MINUTE / 100


def test_tokens_given_back_do_not_exceed_the_limit() -> None:
    assert take(Bucket(90.0, NOW), 100, -50).level == 100


@given(
    limit=st.integers(1, 1_000),
    asked=st.lists(st.tuples(st.floats(0, 30), st.integers(1, 50)), max_size=80),
)
def test_no_interval_grants_more_than_one_bucket_and_the_refill(
    limit: int, asked: list[tuple[float, int]]
) -> None:
    bucket, now = None, NOW
    granted: list[tuple[float, int]] = []
    for pause, amount in asked:
        amount = min(amount, limit)
        now += pause
        held = refill(bucket, limit, now)
        if seconds_until_available(held, limit, amount) == 0:
            bucket = take(held, limit, amount)
            granted.append((now, amount))
    for start, (since, _) in enumerate(granted):
        total = 0
        for at, amount in granted[start:]:
            total += amount
            assert total <= limit + (at - since) * limit / MINUTE + 1e-3


@given(level=st.floats(-1_000, 100), limit=st.integers(1, 1_000), amount=st.integers(1, 1_000))
def test_a_request_passes_after_the_reported_wait(level: float, limit: int, amount: int) -> None:
    bucket = Bucket(min(level, float(limit)), NOW)
    wait = seconds_until_available(bucket, limit, amount)
    assert seconds_until_available(refill(bucket, limit, NOW + wait + 0.001), limit, amount) == 0


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_a_day_begins_at_midnight() -> None:
    assert find_period_start("day", at("2026-11-16T13:00")) == at("2026-11-16")
    assert find_period_end("day", at("2026-11-16T13:00")) == at("2026-11-17")


def test_a_month_begins_on_its_first_day() -> None:
    assert find_period_start("month", at("2028-02-29T23:59")) == at("2028-02-01")
    assert find_period_end("month", at("2028-02-29T23:59")) == at("2028-03-01")
    assert find_period_end("month", at("2026-12-31T23:59")) == at("2027-01-01")
    assert find_period_end("month", at("2026-01-01")) == at("2026-02-01")


@given(now=st.floats(0, 4e9), period=st.sampled_from(PERIODS))
def test_periods_follow_each_other_without_gaps(now: float, period: Period) -> None:
    start, end = find_period_start(period, now), find_period_end(period, now)
    assert start <= now < end
    assert find_period_start(period, end) == end
    assert find_period_start(period, end - 1) == start
    assert find_hour_start(now) <= now < find_hour_start(now) + 3600
