"""Decides whether a request fits the limits of its key. Pure: the caller passes the account and the date.

Limits per minute are token buckets. A bucket holds the amount of one minute and refills evenly. One request
may be larger than the bucket: it passes when the bucket is full and leaves it below zero, so the next
request waits until that debt is repaid.

Limits per day and per month are budgets. A budget admits a request if the amount used, the amount reserved
and the amount of the request fit together. A request that alone exceeds the rest of a budget also passes if
nothing is reserved. A budget can therefore be used completely, and at most one request exceeds it.

Days and months follow the UTC calendar. All dates are seconds since 1970; costs are in micro-dollars.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

import msgspec

MINUTE = 60.0
HOUR = 3600
#: Seconds to wait when other requests of the same key reserve the rest of a budget.
BUSY_WAIT = 2.0
#: A limit is reported as nearly used from this share on.
NEAR_SHARE = 0.8

Period = Literal["day", "month"]
PERIODS: tuple[Period, ...] = ("day", "month")
#: The unit in which a limit counts.
Unit = Literal["requests", "tokens", "cost"]


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of a key. 0 means no limit."""

    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    tokens_per_day: int = 0
    tokens_per_month: int = 0
    cost_per_day: int = 0
    cost_per_month: int = 0
    #: Of one session of an agent, and of one of its sub-agents (`session_limits`).
    tokens_per_session: int = 0
    cost_per_session: int = 0
    tokens_per_sub_agent: int = 0
    cost_per_sub_agent: int = 0

    @property
    def has_any(self) -> bool:
        """Whether requests must be reserved: there is a limit per minute, day or month."""
        return bool(self.requests_per_minute) or self.counts_tokens

    @property
    def counts_tokens(self) -> bool:
        """Whether the tokens of a request must be estimated before the request is sent."""
        has_budget = self.tokens_per_day or self.tokens_per_month or self.counts_cost
        return bool(self.tokens_per_minute or has_budget)

    @property
    def counts_cost(self) -> bool:
        return bool(self.cost_per_day or self.cost_per_month)

    @property
    def counts_sessions(self) -> bool:
        """Whether there is a limit of a session or of a sub-agent."""
        return bool(
            self.tokens_per_session
            or self.cost_per_session
            or self.tokens_per_sub_agent
            or self.cost_per_sub_agent
        )


NO_LIMITS = Limits()


class Amount(NamedTuple):
    """Tokens and their cost."""

    tokens: int = 0
    cost: int = 0

    def plus(self, other: "Amount") -> "Amount":
        return Amount(self.tokens + other.tokens, self.cost + other.cost)

    def minus(self, other: "Amount") -> "Amount":
        return Amount(self.tokens - other.tokens, self.cost - other.cost)


NOTHING = Amount()


class Bucket(msgspec.Struct, frozen=True):
    """The level of a token bucket at a date. A negative level is a debt."""

    level: float
    at: float


Buckets = dict[Unit, Bucket]


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The stored state of one key. `used` and `reserved` are those of the current day and month."""

    buckets: Buckets = {}
    used: dict[Period, Amount] = {}
    reserved: dict[Period, Amount] = {}


class RateLimitStatus(NamedTuple):
    """The state of one limit per minute, for the response headers."""

    unit: Unit
    limit: int
    remaining: int
    #: Seconds until the whole limit is available again.
    reset: float


class LimitGrant(msgspec.Struct, frozen=True, kw_only=True):
    """The request fits the limits. The caller stores the buckets and reserves the amount."""

    buckets: Buckets
    rate_limits: tuple[RateLimitStatus, ...]
    budgets: tuple["BudgetUse", ...] = ()


class LimitRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """The request does not fit a limit. `is_spent`: the budget is used up until its period ends."""

    unit: Unit
    period: Literal["minute", "day", "month"]
    limit: int
    is_spent: bool
    #: Seconds until a new request can succeed.
    wait: float
    rate_limits: tuple[RateLimitStatus, ...] = ()
    budgets: tuple["BudgetUse", ...] = ()


class Budget(NamedTuple):
    """A limit per day or per month."""

    unit: Unit
    period: Period
    limit: int


class BudgetUse(NamedTuple):
    """A budget and the amount of it that ended requests have used. `reset` is the start of the next one."""

    unit: Unit
    period: Period
    limit: int
    used: int
    reset: int

    @property
    def share(self) -> float:
        return self.used / self.limit

    @property
    def is_spent(self) -> bool:
        return self.used >= self.limit


class LimitUse(msgspec.Struct, frozen=True, kw_only=True):
    """A limit and the amount of it that is used or reserved."""

    unit: Unit
    period: Literal["minute", "day", "month"]
    limit: int
    used: int

    @property
    def share(self) -> float:
        return self.used / self.limit


def decide(limits: Limits, account: Account, wanted: Amount, now: float) -> LimitGrant | LimitRefusal:
    """Decide whether a request of the `wanted` amount may be sent. A refused request takes nothing."""
    rates = list_rates(limits)
    buckets = {unit: refill(account.buckets.get(unit), limit, now) for unit, limit in rates}
    refusal = _check_budgets(limits, account, wanted, now) or _check_rates(limits, buckets, wanted)
    budgets = list_budget_uses(limits, account, now)
    if refusal is not None:
        statuses = build_statuses(limits, buckets)
        return msgspec.structs.replace(refusal, rate_limits=statuses, budgets=budgets)
    for unit, limit in rates:
        buckets[unit] = take(buckets[unit], limit, _amount_in(unit, wanted))
    return LimitGrant(buckets=buckets, rate_limits=build_statuses(limits, buckets), budgets=budgets)


def decide_locally(
    limits: Limits, buckets: Buckets, wanted: Amount, now: float, gateways: int
) -> LimitGrant | LimitRefusal:
    """Decide by the limits per minute alone, for one of several gateways that cannot ask each other."""
    share = Limits(
        requests_per_minute=-(-limits.requests_per_minute // max(1, gateways)),
        tokens_per_minute=-(-limits.tokens_per_minute // max(1, gateways)),
    )
    return decide(share, Account(buckets=buckets), wanted, now)


def correct_token_bucket(
    limits: Limits, tokens: Bucket | None, reserved: int, used: int, now: float
) -> Bucket | None:
    """Replace the reserved tokens by the used tokens, after the request has ended."""
    if not limits.tokens_per_minute:
        return None
    bucket = refill(tokens, limits.tokens_per_minute, now)
    return take(bucket, limits.tokens_per_minute, used - reserved)


def list_rates(limits: Limits) -> list[tuple[Unit, int]]:
    """The limits per minute that are set."""
    rates: tuple[tuple[Unit, int], ...] = (
        ("requests", limits.requests_per_minute),
        ("tokens", limits.tokens_per_minute),
    )
    return [rate for rate in rates if rate[1]]


def list_budgets(limits: Limits) -> list[Budget]:
    """The limits per day and per month that are set."""
    budgets = (
        Budget("tokens", "day", limits.tokens_per_day),
        Budget("tokens", "month", limits.tokens_per_month),
        Budget("cost", "day", limits.cost_per_day),
        Budget("cost", "month", limits.cost_per_month),
    )
    return [budget for budget in budgets if budget.limit]


def list_session_limits(limits: Limits) -> list[tuple[Unit, str, int]]:
    """The limits of a session and of a sub-agent that are set: unit, scope and amount."""
    found: tuple[tuple[Unit, str, int], ...] = (
        ("tokens", "session", limits.tokens_per_session),
        ("cost", "session", limits.cost_per_session),
        ("tokens", "sub-agent", limits.tokens_per_sub_agent),
        ("cost", "sub-agent", limits.cost_per_sub_agent),
    )
    return [limit for limit in found if limit[2]]


def list_budget_uses(limits: Limits, account: Account, now: float) -> tuple[BudgetUse, ...]:
    """The budgets of a key with their use. Amounts that open requests reserve are not part of it."""
    return tuple(
        BudgetUse(*budget, getattr(account.used.get(budget.period, NOTHING), budget.unit), end)
        for budget in list_budgets(limits)
        for end in [find_period_end(budget.period, now)]
    )


def find_deciding_budget(budgets: Iterable[BudgetUse]) -> BudgetUse | None:
    """The budget in the error for the client: the spent one that resets last, or else the fullest one."""
    return max(
        budgets, key=lambda each: (each.is_spent, each.reset if each.is_spent else each.share), default=None
    )


def find_nearly_used_limits(limits: Limits, account: Account, now: float) -> list[LimitUse]:
    """The limits of a key whose used share is at least `NEAR_SHARE`."""
    uses: list[LimitUse] = []
    for unit, period, limit in list_budgets(limits):
        amount = account.used.get(period, NOTHING).plus(account.reserved.get(period, NOTHING))
        uses.append(LimitUse(unit=unit, period=period, limit=limit, used=getattr(amount, unit)))
    for unit, limit in list_rates(limits):
        used = limit - max(0, int(refill(account.buckets.get(unit), limit, now).level))
        uses.append(LimitUse(unit=unit, period="minute", limit=limit, used=used))
    return [use for use in uses if use.share >= NEAR_SHARE]


def refill(bucket: Bucket | None, limit: int, now: float) -> Bucket:
    """The bucket at `now`. A missing bucket is full. A clock that was set back adds nothing."""
    if bucket is None:
        return Bucket(float(limit), now)
    level = bucket.level + max(0.0, now - bucket.at) * limit / MINUTE
    return Bucket(min(level, float(limit)), now)


def take(bucket: Bucket, limit: int, amount: int) -> Bucket:
    """The bucket without the amount. A negative amount is given back."""
    return Bucket(min(bucket.level - amount, float(limit)), bucket.at)


def seconds_until_available(bucket: Bucket, limit: int, amount: int) -> float:
    missing = min(amount, limit) - bucket.level
    return max(0.0, missing * MINUTE / limit)


def seconds_until_full(bucket: Bucket, limit: int) -> float:
    return max(0.0, (limit - bucket.level) * MINUTE / limit)


def find_period_start(period: Period, now: float) -> int:
    day = _find_midnight(now)
    return int((day if period == "day" else day.replace(day=1)).timestamp())


def find_period_end(period: Period, now: float) -> int:
    day = _find_midnight(now)
    if period == "day":
        return int((day + timedelta(days=1)).timestamp())
    # 32 days after the first of any month lie in the next month.
    return int((day.replace(day=1) + timedelta(days=32)).replace(day=1).timestamp())


def find_hour_start(now: float) -> int:
    return int(now // HOUR) * HOUR


def _find_midnight(now: float) -> datetime:
    return datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _amount_in(unit: Unit, wanted: Amount) -> int:
    return 1 if unit == "requests" else int(getattr(wanted, unit))


def build_statuses(limits: Limits, buckets: Buckets) -> tuple[RateLimitStatus, ...]:
    """The state of the limits per minute that are set."""
    return tuple(
        RateLimitStatus(
            unit, limit, max(0, int(buckets[unit].level)), seconds_until_full(buckets[unit], limit)
        )
        for unit, limit in list_rates(limits)
    )


def _check_budgets(limits: Limits, account: Account, wanted: Amount, now: float) -> LimitRefusal | None:
    """The used-up budget that resets last, or else the first whose rest other requests reserve."""
    busy: LimitRefusal | None = None
    spent: LimitRefusal | None = None
    for unit, period, limit in list_budgets(limits):
        used = getattr(account.used.get(period, NOTHING), unit)
        reserved = getattr(account.reserved.get(period, NOTHING), unit)
        if used >= limit:
            wait = find_period_end(period, now) - now
            if spent is None or wait > spent.wait:
                spent = LimitRefusal(unit=unit, period=period, limit=limit, is_spent=True, wait=wait)
        elif reserved and used + reserved + getattr(wanted, unit) > limit:
            busy = busy or LimitRefusal(unit=unit, period=period, limit=limit, is_spent=False, wait=BUSY_WAIT)
    return spent or busy


def _check_rates(limits: Limits, buckets: Buckets, wanted: Amount) -> LimitRefusal | None:
    """The limit per minute with the longest wait, if any."""
    waits = [
        (seconds_until_available(buckets[unit], limit, _amount_in(unit, wanted)), unit, limit)
        for unit, limit in list_rates(limits)
    ]
    wait, unit, limit = max(waits, default=(0.0, "requests", 0))
    if wait <= 0:
        return None
    return LimitRefusal(unit=unit, period="minute", limit=limit, is_spent=False, wait=wait)
