"""A bucket lets through a minute's worth and what flows in, in whichever order it is asked."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.accounts.limits import MINUTE, Bucket, refill, seconds_until_available, seconds_until_full, take

NOW = 1_800_000_000.0


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


def test_what_is_larger_than_the_bucket_goes_when_it_is_full_and_is_paid_off_afterwards() -> None:
    full = Bucket(100.0, NOW)
    assert seconds_until_available(full, 100, 5_000) == 0
    debt = take(full, 100, 5_000)
    assert debt.level == -4_900
    assert seconds_until_available(debt, 100, 1) == 4_901 * MINUTE / 100


def test_what_is_given_back_does_not_make_it_overflow() -> None:
    assert take(Bucket(90.0, NOW), 100, -50).level == 100


@given(
    limit=st.integers(1, 1_000),
    asked=st.lists(st.tuples(st.floats(0, 30), st.integers(1, 50)), max_size=80),
)
def test_no_stretch_of_time_sees_more_than_a_bucketful_and_what_flowed_in(
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
def test_after_the_wait_that_was_told_it_may_go(level: float, limit: int, amount: int) -> None:
    bucket = Bucket(min(level, float(limit)), NOW)
    wait = seconds_until_available(bucket, limit, amount)
    assert seconds_until_available(refill(bucket, limit, NOW + wait + 0.001), limit, amount) == 0
