"""Which limits of a key are nearly used up: for the operator, before the key's owner notices."""

from typing import Literal

import msgspec

from dragoman.accounts.caller import Limits
from dragoman.accounts.decide import NOTHING, Account, Unit, budgets, rooms_now
from dragoman.accounts.periods import Period

#: The share of a limit from which on it is nearly used up.
NEAR = 0.8


class Near(msgspec.Struct, frozen=True, kw_only=True):
    """A limit and how much of it is used or set aside. Costs are in micro-dollars."""

    of: Unit
    period: Literal["minute", "day", "month"]
    limit: int
    used: int

    @property
    def share(self) -> float:
        return self.used / self.limit


def near_limits(limits: Limits, account: Account, now: float) -> list[Near]:
    """Those of a key's limits that are nearly or wholly used up."""
    found = [_budget(account, budget.of, budget.period, budget.limit) for budget in budgets(limits)]
    found += [
        Near(of=room.of, period="minute", limit=room.limit, used=room.limit - room.remaining)
        for room in rooms_now(limits, account, now)
    ]
    return [near for near in found if near.share >= NEAR]


def _budget(account: Account, of: Literal["tokens", "cost"], period: Period, limit: int) -> Near:
    amount = account.used.get(period, NOTHING).plus(account.reserved.get(period, NOTHING))
    return Near(of=of, period=period, limit=limit, used=getattr(amount, of))
