"""What a key has spent and what is left of its budgets, for its owner. Expects an open transaction."""

from typing import NamedTuple

from dragoman.accounts.limits import BudgetUse, Limits, find_period_start, list_budget_uses
from dragoman.accounts.statistics import DAY
from dragoman.accounts.store import read_account
from dragoman.storage.port import Transaction

#: The first Monday after 1970-01-01, a Thursday.
_FIRST_MONDAY = 4 * DAY
_WEEK = 7 * DAY

_SPENT = "SELECT CAST(coalesce(sum(cost), 0) AS BIGINT) FROM agent_usage WHERE key = $1 AND hour >= $2"


class KeyStanding(NamedTuple):
    """The budgets of a key, and its costs of the current UTC day, week and month in micro-dollars."""

    budgets: tuple[BudgetUse, ...]
    day: int
    week: int
    month: int


async def read_standing(transaction: Transaction, key: str, limits: Limits, now: float) -> KeyStanding:
    """Read the standing of a key. The empty key is that of clients without one."""
    starts = (find_period_start("day", now), find_week_start(now), find_period_start("month", now))
    costs = [(await transaction.fetch(_SPENT, key, start))[0][0] for start in starts]
    account = await read_account(transaction, key, now)
    return KeyStanding(list_budget_uses(limits, account, now), *costs)


def find_week_start(now: float) -> int:
    """The last Monday at midnight."""
    return int((now - _FIRST_MONDAY) // _WEEK) * _WEEK + _FIRST_MONDAY
