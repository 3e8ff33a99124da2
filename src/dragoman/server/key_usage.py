"""`/api/oauth/usage`: what the client's own key has spent, in the form that Claude Code's `/usage` reads."""

import math
from datetime import UTC, datetime

from dragoman.accounts.limits import BudgetUse, find_deciding_budget
from dragoman.accounts.standing import KeyStanding
from dragoman.dialects.interfaces import Json

_MICRO_PER_CENT = 10_000
_GROUPS = {"day": "daily", "month": "monthly"}


def build_usage_body(standing: KeyStanding) -> Json:
    """The budgets with their used percentage, and dollars: those of a budget of money, or the costs so far.

    Claude Code shows dollars only with the budget that `is_active` marks.
    """
    money = find_deciding_budget(budget for budget in standing.budgets if budget.unit == "cost")
    shown = money or find_deciding_budget(standing.budgets)
    return {
        "extra_usage": {"is_enabled": True, "currency": "USD", **_write_dollars(money, standing)},
        "limits": [_write_budget(budget, is_active=budget is shown) for budget in standing.budgets],
    }


def _write_dollars(budget: BudgetUse | None, standing: KeyStanding) -> Json:
    """In cents. Without a limit, Claude Code shows the costs of the day, the week and the month."""
    if budget is not None:
        return {
            "monthly_limit": _write_cents(budget.limit),
            "used_credits": _write_cents(budget.used),
            "utilization": _find_percent(budget),
        }
    return {
        "monthly_limit": None,
        "used_credits": _write_cents(standing.month),
        "utilization": None,
        "daily": _write_period(standing.day),
        "weekly": _write_period(standing.week),
    }


def _write_period(micro: int) -> Json:
    return {"limit": None, "used_credits": _write_cents(micro), "utilization": None}


def _write_budget(budget: BudgetUse, *, is_active: bool) -> Json:
    reset = datetime.fromtimestamp(budget.reset, UTC)
    return {
        "kind": "spend" if budget.unit == "cost" else budget.unit,
        "group": _GROUPS[budget.period],
        "percent": _find_percent(budget),
        "resets_at": f"{reset:%Y-%m-%dT%H:%M:%S}.000Z",
        "severity": "normal" if budget.share < 1 else "critical",
        "is_active": is_active,
    }


def _find_percent(budget: BudgetUse) -> int:
    return math.floor(100 * budget.share)


def _write_cents(micro: int) -> float:
    cents = round(micro / _MICRO_PER_CENT, 2)
    return int(cents) if cents.is_integer() else cents
