"""Days and months begin where the calendar of UTC says."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from dragoman.accounts.limits import PERIODS, Period, find_hour_start, find_period_end, find_period_start


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_a_day_begins_at_midnight() -> None:
    assert find_period_start("day", at("2026-11-16T13:00")) == at("2026-11-16")
    assert find_period_end("day", at("2026-11-16T13:00")) == at("2026-11-17")


def test_a_month_begins_on_its_first_whatever_its_length() -> None:
    assert find_period_start("month", at("2028-02-29T23:59")) == at("2028-02-01")
    assert find_period_end("month", at("2028-02-29T23:59")) == at("2028-03-01")
    assert find_period_end("month", at("2026-12-31T23:59")) == at("2027-01-01")
    assert find_period_end("month", at("2026-01-01")) == at("2026-02-01")


@given(now=st.floats(0, 4e9), period=st.sampled_from(PERIODS))
def test_every_moment_lies_in_its_period_and_the_next_one_follows_at_once(now: float, period: Period) -> None:
    start, end = find_period_start(period, now), find_period_end(period, now)
    assert start <= now < end
    assert find_period_start(period, end) == end
    assert find_period_start(period, end - 1) == start
    assert find_hour_start(now) <= now < find_hour_start(now) + 3600
