"""The tables of accounts, and the SQL of reservations and spending.

The limits of a key apply to all processes that share the state. `reserve` checks the limits and stores the
reservation in one transaction. `settle` replaces the reservation by the amount used. If a process dies, the
others delete its reservations and charge the minimum amount of each. All functions expect an open
transaction.
"""

import secrets
from collections.abc import Mapping, Sequence

import msgspec

from dragoman.accounts.limits import (
    NOTHING,
    PERIODS,
    Account,
    Amount,
    Bucket,
    Buckets,
    BudgetUse,
    LimitRefusal,
    Limits,
    Period,
    RateLimitStatus,
    correct_token_bucket,
    decide,
    find_period_start,
)
from dragoman.storage.database import Schema
from dragoman.storage.port import Transaction
from dragoman.storage.processes import PROCESS_TIMEOUT, is_process_gone

ACCOUNTS_SCHEMA = Schema(
    "accounts",
    (
        """
CREATE TABLE IF NOT EXISTS client_keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    prefix TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,
    former BLOB,
    former_until REAL NOT NULL DEFAULT 0,
    models TEXT NOT NULL,
    limits TEXT NOT NULL,
    created REAL NOT NULL,
    expires REAL NOT NULL DEFAULT 0,
    revoked REAL NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS key_generation (number INTEGER NOT NULL);
INSERT INTO key_generation (number) SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM key_generation);
CREATE TABLE IF NOT EXISTS spending (
    key TEXT NOT NULL,
    period TEXT NOT NULL,
    start INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    PRIMARY KEY (key, period, start)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS buckets (
    key TEXT NOT NULL,
    unit TEXT NOT NULL,
    level REAL NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (key, unit)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reservations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL,
    process TEXT NOT NULL,
    at REAL NOT NULL,
    tokens INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    least_tokens INTEGER NOT NULL,
    least_cost INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS reservations_by_key ON reservations (key);
CREATE TABLE IF NOT EXISTS processes (id TEXT PRIMARY KEY, seen REAL NOT NULL);
CREATE TABLE IF NOT EXISTS usage (
    hour INTEGER NOT NULL,
    key TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    requests INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    input INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    output INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    PRIMARY KEY (hour, key, provider, model)
) WITHOUT ROWID
""",
        "ALTER TABLE usage ADD COLUMN unpriced INTEGER NOT NULL DEFAULT 0",
        """
CREATE TABLE sign_in_tokens (
    digest BLOB PRIMARY KEY,
    sign_in TEXT NOT NULL,
    key TEXT NOT NULL,
    kind TEXT NOT NULL,
    expires REAL NOT NULL
) WITHOUT ROWID
""",
        """
CREATE TABLE activity (
    day INTEGER NOT NULL,
    key TEXT NOT NULL,
    session TEXT NOT NULL,
    kind TEXT NOT NULL,
    amount REAL NOT NULL,
    PRIMARY KEY (day, key, session, kind)
) WITHOUT ROWID
""",
        """
ALTER TABLE processes ADD COLUMN address TEXT NOT NULL DEFAULT '';
CREATE TABLE batches (id TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID
""",
        # The table `usage` stays: gateways of the version before may still run, and write to it.
        """
CREATE TABLE agent_usage (
    hour INTEGER NOT NULL,
    key TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    agent TEXT NOT NULL,
    role TEXT NOT NULL,
    requests INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    input INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    output INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    unpriced INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    PRIMARY KEY (hour, key, provider, model, agent, role)
) WITHOUT ROWID;
INSERT INTO agent_usage (hour, key, provider, model, agent, role,
    requests, failures, refused, input, cache_read, cache_write, output, reasoning, unpriced, cost)
SELECT hour, key, provider, model, '', '',
    requests, failures, refused, input, cache_read, cache_write, output, reasoning, unpriced, cost FROM usage;
DELETE FROM usage
""",
    ),
)

#: Everything that `decide` needs, in one statement: a database in the network takes its time for each.
_READ_ACCOUNT = """
SELECT 'bucket', unit, level, at, 0, 0 FROM buckets WHERE key = $1
UNION ALL
SELECT 'used', period, 0.0, 0.0, tokens, cost FROM spending
WHERE key = $1 AND ((period = 'day' AND start = $2) OR (period = 'month' AND start = $3))
UNION ALL
SELECT 'reserved', CASE WHEN at >= $4 THEN 'day' ELSE 'month' END, 0.0, 0.0,
    CAST(SUM(tokens) AS BIGINT), CAST(SUM(cost) AS BIGINT)
FROM reservations WHERE key = $1 AND at >= $5 GROUP BY 2
"""
_WRITE_BUCKET = """
INSERT INTO buckets (key, unit, level, at) VALUES ($1, $2, $3, $4)
ON CONFLICT (key, unit) DO UPDATE SET level = excluded.level, at = excluded.at
"""
_RESERVE = """
INSERT INTO reservations (id, key, process, at, tokens, cost, least_tokens, least_cost)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""
_CHARGE = """
INSERT INTO spending (key, period, start, tokens, cost) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (key, period, start)
DO UPDATE SET tokens = spending.tokens + excluded.tokens, cost = spending.cost + excluded.cost
"""


class ReservationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts to reserve for one request of a key with limits.

    `maximum` is reserved before the request. `minimum` is charged if the process ends after sending it.
    """

    key: str
    limits: Limits
    maximum: Amount
    minimum: Amount


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """A stored reservation. `at` is its date, which selects the day and the month that are charged."""

    id: int
    request: ReservationRequest
    at: float
    rate_limits: tuple[RateLimitStatus, ...] = ()
    budgets: tuple[BudgetUse, ...] = ()


def create_reservation_id() -> int:
    """The id is known before the commit. So a reservation can be undone whose commit was not answered."""
    return secrets.randbits(61)


async def reserve(
    transaction: Transaction, process: str, request: ReservationRequest, now: float, reservation_id: int = 0
) -> Reservation | LimitRefusal:
    """Check the limits and store the reservation in the name of the process."""
    decision = decide(request.limits, await read_account(transaction, request.key, now), request.maximum, now)
    if isinstance(decision, LimitRefusal):
        return decision
    if decision.buckets:
        await write_buckets(transaction, {request.key: decision.buckets})
    reservation = Reservation(
        id=reservation_id or create_reservation_id(),
        request=request,
        at=now,
        rate_limits=decision.rate_limits,
        budgets=decision.budgets,
    )
    await write_reservations(transaction, process, [reservation])
    return reservation


async def write_reservations(
    transaction: Transaction, process: str, reservations: Sequence[Reservation]
) -> None:
    """Store reservations in the name of the process."""
    rows = [
        (each.id, each.request.key, process, each.at, *each.request.maximum, *each.request.minimum)
        for each in reservations
    ]
    await transaction.execute_many(_RESERVE, rows)


async def settle(
    transaction: Transaction, settlements: Sequence[tuple[Reservation, Amount]], now: float
) -> set[int]:
    """Replace reservations by the amounts used, in the day and the month of each reservation.

    Returns the ids of those that were still stored.
    """
    if not settlements:
        return set()
    deleted = await _delete_reservations(transaction, [reservation.id for reservation, _ in settlements])
    charges: Charges = {}
    corrections: dict[str, list[tuple[Limits, int, int]]] = {}
    for reservation, used in settlements:
        request = reservation.request
        if reservation.id not in deleted:
            # Another process considered this one dead, perhaps because the machine slept. It charged the
            # minimum.
            minimum = request.minimum
            used = Amount(max(0, used.tokens - minimum.tokens), max(0, used.cost - minimum.cost))
        elif request.limits.tokens_per_minute:
            correction = (request.limits, request.maximum.tokens, used.tokens)
            corrections.setdefault(request.key, []).append(correction)
        add_charge(charges, request.key, used, reservation.at)
    await charge(transaction, charges)
    await _correct_buckets(transaction, corrections, now)
    return deleted


async def _delete_reservations(transaction: Transaction, ids: Sequence[int]) -> set[int]:
    places = ", ".join(f"${number + 1}" for number in range(len(ids)))
    rows = await transaction.fetch(f"DELETE FROM reservations WHERE id IN ({places}) RETURNING id", *ids)  # noqa: S608 (only places)
    return {row[0] for row in rows}


async def _correct_buckets(
    transaction: Transaction, corrections: Mapping[str, Sequence[tuple[Limits, int, int]]], now: float
) -> None:
    """Give back the tokens of the current minute that keys reserved and did not use.

    `corrections`: by key, its limits, the reserved and the used tokens.
    """
    if not corrections:
        return
    places = ", ".join(f"${number + 1}" for number in range(len(corrections)))
    rows = await transaction.fetch(
        f"SELECT key, level, at FROM buckets WHERE unit = 'tokens' AND key IN ({places})",  # noqa: S608 (only places)
        *corrections,
    )
    levels = {key: Bucket(level, at) for key, level, at in rows}
    changed: dict[str, Buckets] = {}
    for key, changes in corrections.items():
        bucket = levels.get(key)
        for limits, reserved, used in changes:
            bucket = correct_token_bucket(limits, bucket, reserved, used, now)
        if bucket is not None:
            changed[key] = {"tokens": bucket}
    await write_buckets(transaction, changed)


#: Amounts by key, period and start of the period.
Charges = dict[tuple[str, Period, int], Amount]


def add_charge(charges: Charges, key: str, amount: Amount, at: float) -> None:
    """Add the amount to the day and the month of the date."""
    for period in PERIODS:
        place = (key, period, find_period_start(period, at))
        charges[place] = charges.get(place, NOTHING).plus(amount)


async def charge(transaction: Transaction, charges: Charges) -> None:
    """Store the amounts. Rows change in the same order everywhere, so transactions never wait in a circle."""
    rows = [(*place, *amount) for place, amount in sorted(charges.items())]
    await transaction.execute_many(_CHARGE, rows)


async def renew_process(transaction: Transaction, process: str, now: float) -> None:
    """Mark the process as alive."""
    await transaction.execute(
        "INSERT INTO processes (id, seen) VALUES ($1, $2)"
        " ON CONFLICT (id) DO UPDATE SET seen = excluded.seen",
        process,
        now,
    )


async def find_dead_processes(transaction: Transaction, process: str, now: float) -> dict[str, list[str]]:
    """The keys with reservations of dead processes, by process. The own process is never dead."""
    rows = await transaction.fetch(
        "SELECT DISTINCT reservations.process, reservations.key, coalesce(processes.seen, 0.0)"
        " FROM reservations LEFT JOIN processes ON processes.id = reservations.process"
        " WHERE reservations.process <> $1",
        process,
    )
    dead: dict[str, list[str]] = {}
    for other, key, seen in rows:
        if seen < now - PROCESS_TIMEOUT or is_process_gone(other):
            dead.setdefault(other, []).append(key)
    return dead


async def find_reserved_keys(transaction: Transaction, process: str) -> list[str]:
    """The keys with reservations of a process."""
    rows = await transaction.fetch("SELECT DISTINCT key FROM reservations WHERE process = $1", process)
    return [row[0] for row in rows]


async def count_processes(transaction: Transaction, now: float) -> int:
    """The processes that are alive."""
    row = await transaction.fetch_one(
        "SELECT COUNT(*) FROM processes WHERE seen >= $1", now - PROCESS_TIMEOUT
    )
    return int(row[0]) if row else 0


async def release_process(transaction: Transaction, process: str) -> None:
    """Delete the process and its reservations, and charge the minimum amount of each reservation."""
    await transaction.execute("DELETE FROM processes WHERE id = $1", process)
    rows = await transaction.fetch(
        "DELETE FROM reservations WHERE process = $1 RETURNING key, at, least_tokens, least_cost", process
    )
    charges: Charges = {}
    for key, at, tokens, cost in rows:
        add_charge(charges, key, Amount(tokens, cost), at)
    await charge(transaction, charges)


async def read_account(transaction: Transaction, key: str, now: float) -> Account:
    """The stored state of a key. `now` selects the current day and month."""
    day, month = find_period_start("day", now), find_period_start("month", now)
    buckets: Buckets = {}
    used: dict[Period, Amount] = dict.fromkeys(PERIODS, NOTHING)
    #: The month without the day; then all of it.
    reserved: dict[Period, Amount] = dict.fromkeys(PERIODS, NOTHING)
    rows = await transaction.fetch(_READ_ACCOUNT, key, day, month, float(day), float(month))
    for kind, name, level, at, tokens, cost in rows:
        if kind == "bucket":
            buckets[name] = Bucket(level, at)
        else:
            (used if kind == "used" else reserved)[name] = Amount(tokens, cost)
    reserved["month"] = reserved["month"].plus(reserved["day"])
    return Account(buckets=buckets, used=used, reserved=reserved)


async def write_buckets(transaction: Transaction, buckets: Mapping[str, Buckets]) -> None:
    """Store the buckets of some keys."""
    rows = [
        (key, unit, bucket.level, bucket.at)
        for key, units in sorted(buckets.items())
        for unit, bucket in sorted(units.items())
    ]
    await transaction.execute_many(_WRITE_BUCKET, rows)
