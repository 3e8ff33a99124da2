"""May this request go on? What is asked for is set aside first, and settled when the truth is known.

A budget lets a request pass if what was used, what is set aside and what it asks for fit together. A request
that alone is too large for what is left may pass as well, if nothing else is set aside: so a budget can be
used up, and is exceeded by one request at most.
"""

from typing import Literal, NamedTuple

import msgspec

from dragoman.accounts.bucket import Bucket, filled, taken, until_full, wait_for
from dragoman.accounts.caller import Limits
from dragoman.accounts.periods import Period, end_of

#: Of what there can be too little.
Unit = Literal["requests", "tokens", "cost"]

#: Seconds after which to ask again for what others have set aside.
BUSY_WAIT = 2.0


class Amount(NamedTuple):
    tokens: int = 0
    #: In micro-dollars.
    cost: int = 0

    def plus(self, other: "Amount") -> "Amount":
        return Amount(self.tokens + other.tokens, self.cost + other.cost)


NOTHING = Amount()


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a key."""

    requests: Bucket | None = None
    tokens: Bucket | None = None
    #: In the period that is now.
    used: dict[Period, Amount] = {}
    reserved: dict[Period, Amount] = {}


class Room(NamedTuple):
    """What a client may know of its limits per minute."""

    of: Unit
    limit: int
    remaining: int
    #: Seconds until all of it is there again.
    reset: float


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """It may. The buckets are to be remembered, the amount to be set aside."""

    requests: Bucket | None
    tokens: Bucket | None
    rooms: tuple[Room, ...]


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """It may not. `spent`: before the period ends nothing more will go."""

    of: Unit
    period: Literal["minute", "day", "month"]
    limit: int
    spent: bool
    #: Seconds until it makes sense to ask again.
    wait: float
    rooms: tuple[Room, ...] = ()


class Budget(NamedTuple):
    of: Literal["tokens", "cost"]
    period: Period
    limit: int


def budgets(limits: Limits) -> list[Budget]:
    """Those that are set."""
    all_of_them = (
        Budget("tokens", "day", limits.tokens_per_day),
        Budget("tokens", "month", limits.tokens_per_month),
        Budget("cost", "day", limits.cost_per_day),
        Budget("cost", "month", limits.cost_per_month),
    )
    return [budget for budget in all_of_them if budget.limit]


def decide(limits: Limits, account: Account, wanted: Amount, now: float) -> Grant | Refusal:
    """Nothing is taken from anything unless everything allows it."""
    requests, tokens = _buckets(limits, account, now)
    rooms = _rooms(limits, requests, tokens)
    refusal = _refused_by_budget(limits, account, wanted, now) or _refused_by_rate(
        limits, requests, tokens, wanted
    )
    if refusal is not None:
        return msgspec.structs.replace(refusal, rooms=rooms)
    if requests is not None:
        requests = taken(requests, limits.requests_per_minute, 1)
    if tokens is not None:
        tokens = taken(tokens, limits.tokens_per_minute, wanted.tokens)
    return Grant(requests=requests, tokens=tokens, rooms=_rooms(limits, requests, tokens))


def corrected(limits: Limits, tokens: Bucket | None, reserved: int, used: int, now: float) -> Bucket | None:
    """The bucket of tokens, once it is known how many were used instead of how many were set aside."""
    if not limits.tokens_per_minute:
        return None
    bucket = filled(tokens, limits.tokens_per_minute, now)
    return taken(bucket, limits.tokens_per_minute, used - reserved)


def _buckets(limits: Limits, account: Account, now: float) -> tuple[Bucket | None, Bucket | None]:
    per_minute = limits.requests_per_minute, limits.tokens_per_minute
    requests = filled(account.requests, per_minute[0], now) if per_minute[0] else None
    tokens = filled(account.tokens, per_minute[1], now) if per_minute[1] else None
    return requests, tokens


def rooms_now(limits: Limits, account: Account, now: float) -> tuple[Room, ...]:
    """What is left of the limits per minute."""
    return _rooms(limits, *_buckets(limits, account, now))


def _rooms(limits: Limits, requests: Bucket | None, tokens: Bucket | None) -> tuple[Room, ...]:
    of_requests = _room("requests", limits.requests_per_minute, requests)
    return (*of_requests, *_room("tokens", limits.tokens_per_minute, tokens))


def _room(of: Unit, limit: int, bucket: Bucket | None) -> tuple[Room, ...]:
    if bucket is None:
        return ()
    return (Room(of, limit, max(0, int(bucket.level)), until_full(bucket, limit)),)


def _refused_by_budget(limits: Limits, account: Account, wanted: Amount, now: float) -> Refusal | None:
    busy: Refusal | None = None
    for of, period, limit in budgets(limits):
        used = getattr(account.used.get(period, NOTHING), of)
        reserved = getattr(account.reserved.get(period, NOTHING), of)
        if used >= limit:
            return Refusal(of=of, period=period, limit=limit, spent=True, wait=end_of(period, now) - now)
        if reserved and used + reserved + getattr(wanted, of) > limit:
            busy = busy or Refusal(of=of, period=period, limit=limit, spent=False, wait=BUSY_WAIT)
    return busy


def _refused_by_rate(
    limits: Limits, requests: Bucket | None, tokens: Bucket | None, wanted: Amount
) -> Refusal | None:
    """The longer of the waits."""
    waits: list[tuple[float, Unit, int]] = []
    if requests is not None:
        limit = limits.requests_per_minute
        waits.append((wait_for(requests, limit, 1), "requests", limit))
    if tokens is not None:
        limit = limits.tokens_per_minute
        waits.append((wait_for(tokens, limit, wanted.tokens), "tokens", limit))
    wait, of, limit = max(waits, default=(0.0, "requests", 0))
    return Refusal(of=of, period="minute", limit=limit, spent=False, wait=wait) if wait > 0 else None
