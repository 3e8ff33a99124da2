"""The days and months of budgets, by the calendar of UTC: everybody can tell when the next one begins."""

from datetime import UTC, datetime, timedelta
from typing import Literal

Period = Literal["day", "month"]
PERIODS: tuple[Period, ...] = ("day", "month")

HOUR = 3600


def start_of(period: Period, now: float) -> int:
    """When the period that `now` lies in began, in seconds since the epoch."""
    day = _midnight(now)
    return int((day if period == "day" else day.replace(day=1)).timestamp())


def end_of(period: Period, now: float) -> int:
    day = _midnight(now)
    if period == "day":
        return int((day + timedelta(days=1)).timestamp())
    # Every month is over 32 days after its first.
    return int((day.replace(day=1) + timedelta(days=32)).replace(day=1).timestamp())


def hour_of(now: float) -> int:
    return int(now // HOUR) * HOUR


def _midnight(now: float) -> datetime:
    return datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
