"""What a key has spent and what is left of its budgets, for its owner. Expects an open transaction."""

import sqlite3
from typing import NamedTuple

from dragoman.accounts.limits import BudgetUse, Limits, find_period_start, list_budget_uses
from dragoman.accounts.store import DAY, read_account

#: The first Monday after 1970-01-01, a Thursday.
_FIRST_MONDAY = 4 * DAY
_WEEK = 7 * DAY

_SPENT = "SELECT coalesce(sum(cost), 0) FROM usage WHERE key = ? AND hour >= ?"


class KeyStanding(NamedTuple):
    """The budgets of a key, and its costs of the current UTC day, week and month in micro-dollars."""

    budgets: tuple[BudgetUse, ...]
    day: int
    week: int
    month: int


def read_standing(connection: sqlite3.Connection, key: str, limits: Limits, now: float) -> KeyStanding:
    """Read the standing of a key. The empty key is that of clients without one."""
    starts = (find_period_start("day", now), find_week_start(now), find_period_start("month", now))
    costs = (int(connection.execute(_SPENT, (key, start)).fetchone()[0]) for start in starts)
    return KeyStanding(list_budget_uses(limits, read_account(connection, key, now), now), *costs)


def find_week_start(now: float) -> int:
    """The last Monday at midnight."""
    return int((now - _FIRST_MONDAY) // _WEEK) * _WEEK + _FIRST_MONDAY
