"""Days and months begin where the calendar of UTC says."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from dragoman.accounts.periods import PERIODS, Period, end_of, hour_of, start_of


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_a_day_begins_at_midnight() -> None:
    assert start_of("day", at("2026-11-16T13:00")) == at("2026-11-16")
    assert end_of("day", at("2026-11-16T13:00")) == at("2026-11-17")


def test_a_month_begins_on_its_first_whatever_its_length() -> None:
    assert start_of("month", at("2028-02-29T23:59")) == at("2028-02-01")
    assert end_of("month", at("2028-02-29T23:59")) == at("2028-03-01")
    assert end_of("month", at("2026-12-31T23:59")) == at("2027-01-01")
    assert end_of("month", at("2026-01-01")) == at("2026-02-01")


@given(now=st.floats(0, 4e9), period=st.sampled_from(PERIODS))
def test_every_moment_lies_in_its_period_and_the_next_one_follows_at_once(now: float, period: Period) -> None:
    start, end = start_of(period, now), end_of(period, now)
    assert start <= now < end
    assert start_of(period, end) == end
    assert start_of(period, end - 1) == start
    assert hour_of(now) <= now < hour_of(now) + 3600
