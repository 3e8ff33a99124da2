"""Leases: a gateway reserves a slice of the limits of a busy key, and admits requests from it by itself.

A slice is stored like the reservation of one large request, so `decide` counts it for all gateways. It never
takes more than the rest of a budget. Its minimum is the whole slice: if the process dies, all of it is
charged. A lease ends after a short time. Then the used amount is charged, each request that is still open
gets a reservation of its own, and the rest is free again.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from dragoman.accounts.limits import (
    NOTHING,
    Account,
    Amount,
    Bucket,
    Buckets,
    BudgetUse,
    Limits,
    Unit,
    build_statuses,
    find_period_end,
    list_budget_uses,
    list_budgets,
    list_rates,
    refill,
    take,
)
from dragoman.accounts.store import (
    Reservation,
    ReservationRequest,
    read_account,
    settle,
    write_buckets,
    write_reservations,
)
from dragoman.storage.port import Transaction

#: A slice is larger than the demand, so that it lasts until the end of the lease.
MARGIN = 1.5

_GIVE_BACK_REQUESTS = """
UPDATE buckets SET level = CASE WHEN level + $2 > $3 THEN $3 ELSE level + $2 END
WHERE key = $1 AND unit = 'requests'
"""


class LeasePolicy(NamedTuple):
    """When a key gets a lease, and how much it leases."""

    #: Reservations of the key per second in one process. Below, a lease saves little, and limits stay exact.
    busy_rate: int = 20
    #: Seconds for which a slice is spent without the state. If the process dies, the slice is lost.
    seconds: float = 2.0
    #: A slice is at most the rest of each limit divided by this number and by the number of gateways.
    parts: int = 8
    #: A slice for fewer requests is not worth a lease. So the end of a budget is used without leases.
    least: int = 4


class LeaseDemand(NamedTuple):
    """What the requests of a key have reserved within a second. `gateways` share the limits."""

    key: str
    limits: Limits
    requests: int
    amount: Amount
    gateways: int
    policy: LeasePolicy = LeasePolicy()


class LeaseReturn(msgspec.Struct, frozen=True, kw_only=True):
    """A lease that has ended: what it used, and its requests that are still open."""

    #: The slice, as it is stored.
    slice: Reservation
    process: str
    used: Amount
    #: Requests per minute of the slice that were not made.
    requests: int
    open: tuple[Reservation, ...]


class KeyLease:
    """A slice that this process spends, until the date `until`. `buckets` and `budgets` are for headers."""

    def __init__(
        self,
        slice_: Reservation,
        requests: int,
        until: float,
        buckets: Buckets,
        budgets: tuple[BudgetUse, ...],
    ) -> None:
        self.slice = slice_
        self.until = until
        self._requests = requests
        self._rest = slice_.request.maximum
        self._used = NOTHING
        self._buckets = buckets
        self._budgets = budgets
        self._open: dict[int, Reservation] = {}
        #: Requests that ended after `end`. They settle when the state has their reservations.
        self.late: list[tuple[Reservation, Amount]] = []
        self._has_ended = False

    @property
    def key(self) -> str:
        return self.slice.request.key

    def admit(self, request: ReservationRequest, number: int, now: float) -> Reservation | None:
        """Take the amount of a request from the slice. None if the state must decide."""
        limits, wanted, rest = request.limits, request.maximum, self._rest
        fits = wanted.tokens <= rest.tokens and wanted.cost <= rest.cost
        has_requests = self._requests > 0 or not limits.requests_per_minute
        if now >= self.until or limits != self.slice.request.limits or not (fits and has_requests):
            return None
        self._requests -= 1
        self._rest = rest.minus(wanted)
        amounts: Mapping[Unit, int] = {"requests": 1, "tokens": wanted.tokens}
        self._buckets = {
            unit: take(refill(self._buckets.get(unit), limit, now), limit, amounts[unit])
            for unit, limit in list_rates(limits)
        }
        reservation = Reservation(
            id=number,
            request=request,
            at=now,
            rate_limits=build_statuses(limits, self._buckets),
            budgets=tuple(
                each._replace(used=each.used + getattr(self._used, each.unit)) for each in self._budgets
            ),
        )
        self._open[number] = reservation
        return reservation

    def settle(self, reservation: Reservation, used: Amount) -> None:
        """End an admitted request: give back what it reserved and count what it used.

        After `end`, the pair is kept in `late`.
        """
        if self._has_ended:
            self.late.append((reservation, used))
            return
        del self._open[reservation.id]
        self._used = self._used.plus(used)
        self._rest = self._rest.plus(reservation.request.maximum.minus(used))

    def end(self, process: str) -> LeaseReturn:
        """Admit nothing more. Returns what the state must write."""
        self._has_ended, self.until = True, 0.0
        has_rate = self.slice.request.limits.requests_per_minute
        return LeaseReturn(
            slice=self.slice,
            process=process,
            used=self._used,
            requests=max(0, self._requests) if has_rate else 0,
            open=tuple(self._open.values()),
        )


def plan_slice(demand: LeaseDemand, account: Account, now: float) -> dict[Unit, int] | None:
    """The amounts of a slice: what the key needs until the lease ends, or less. None if it is too little."""
    needed: dict[Unit, int] = {
        "requests": demand.requests,
        "tokens": demand.amount.tokens,
        "cost": demand.amount.cost,
    }
    amounts = {unit: math.ceil(amount * demand.policy.seconds * MARGIN) for unit, amount in needed.items()}
    parts = demand.policy.parts * max(1, demand.gateways)
    for unit, period, limit in list_budgets(demand.limits):
        held = account.used.get(period, NOTHING).plus(account.reserved.get(period, NOTHING))
        amounts[unit] = min(amounts[unit], (limit - getattr(held, unit)) // parts)
    for unit, limit in list_rates(demand.limits):
        amounts[unit] = min(amounts[unit], int(refill(account.buckets.get(unit), limit, now).level) // parts)
    if any(amounts[unit] * demand.requests < needed[unit] * demand.policy.least for unit in amounts):
        return None
    return amounts


async def take_lease(
    transaction: Transaction, process: str, demand: LeaseDemand, now: float, number: int
) -> KeyLease | None:
    """Reserve a slice under the id `number`. The key must be locked."""
    account = await read_account(transaction, demand.key, now)
    amounts = plan_slice(demand, account, now)
    if amounts is None:
        return None
    amount = Amount(amounts["tokens"], amounts["cost"])
    request = ReservationRequest(key=demand.key, limits=demand.limits, maximum=amount, minimum=amount)
    reservation = Reservation(id=number, request=request, at=now)
    before: Buckets = {
        unit: refill(account.buckets.get(unit), limit, now) for unit, limit in list_rates(demand.limits)
    }
    taken = {unit: Bucket(bucket.level - amounts[unit], now) for unit, bucket in before.items()}
    await write_buckets(transaction, {demand.key: taken})
    await write_reservations(transaction, process, [reservation])
    # A slice belongs to one day: requests of the next day need another.
    until = min(now + demand.policy.seconds, float(find_period_end("day", now)))
    budgets = list_budget_uses(demand.limits, account, now)
    return KeyLease(reservation, amounts["requests"], until, before, budgets)


async def return_lease(transaction: Transaction, lease: LeaseReturn, now: float) -> None:
    """Replace the slice by the amount used, and by reservations of the requests that are still open."""
    request = lease.slice.request
    still_open = NOTHING
    for each in lease.open:
        still_open = still_open.plus(each.request.maximum)
    # Tokens of the minute that open requests have reserved are given back when these requests settle.
    settled = msgspec.structs.replace(
        lease.slice, request=msgspec.structs.replace(request, maximum=request.maximum.minus(still_open))
    )
    if not await settle(transaction, [(settled, lease.used)], now):
        # Another process considered this one dead, and has charged the slice.
        return
    await write_reservations(transaction, lease.process, lease.open)
    if lease.requests:
        limit = float(request.limits.requests_per_minute)
        await transaction.execute(_GIVE_BACK_REQUESTS, request.key, float(lease.requests), limit)
