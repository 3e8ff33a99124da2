"""The tables of accounts, and the SQL of reservations, spending and usage statistics.

The limits of a key apply to all processes that share the file. `reserve` checks the limits and stores the
reservation in one transaction. `settle` replaces the reservation by the amount used. If a process dies, the
others delete its reservations and charge the minimum amount of each. All functions expect an open
transaction.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

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
    Unit,
    correct_token_bucket,
    decide,
    find_period_start,
)
from dragoman.storage.database import Schema
from dragoman.storage.processes import LEASE, is_process_gone

DAY = 86_400
#: Seconds for which statistics are kept by hour, then by day, and for which budgets are kept.
HOURS_KEPT = 35 * DAY
DAYS_KEPT = 400 * DAY
SPENDING_KEPT = 70 * DAY

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
    ),
)

_BUCKETS = "SELECT unit, level, at FROM buckets WHERE key = ?"
_USED = """
SELECT period, tokens, cost FROM spending
WHERE key = ?1 AND ((period = 'day' AND start = ?2) OR (period = 'month' AND start = ?3))
"""
_RESERVED = """
SELECT
    total(CASE WHEN at >= ? THEN tokens END), total(CASE WHEN at >= ? THEN cost END),
    total(tokens), total(cost)
FROM reservations WHERE key = ? AND at >= ?
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
    rate_limits: tuple[RateLimitStatus, ...]
    budgets: tuple[BudgetUse, ...] = ()


def reserve(
    connection: sqlite3.Connection, process: str, request: ReservationRequest, now: float
) -> Reservation | LimitRefusal:
    """Check the limits and store the reservation in the name of the process."""
    renew_process(connection, process, now)
    decision = decide(request.limits, read_account(connection, request.key, now), request.maximum, now)
    if isinstance(decision, LimitRefusal):
        return decision
    for unit, bucket in decision.buckets.items():
        _write_bucket(connection, request.key, unit, bucket)
    row = connection.execute(
        "INSERT INTO reservations (key, process, at, tokens, cost, least_tokens, least_cost)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (request.key, process, now, *request.maximum, *request.minimum),
    ).fetchone()
    return Reservation(
        id=row[0], request=request, at=now, rate_limits=decision.rate_limits, budgets=decision.budgets
    )


def settle(connection: sqlite3.Connection, reservation: Reservation, used: Amount, now: float) -> None:
    """Replace the reservation by the amount used, in the day and the month of the reservation."""
    request = reservation.request
    deleted = connection.execute("DELETE FROM reservations WHERE id = ?", (reservation.id,)).rowcount
    if not deleted:
        # Another process considered this one dead, perhaps because the machine slept. It charged the minimum.
        minimum = request.minimum
        rest = Amount(max(0, used.tokens - minimum.tokens), max(0, used.cost - minimum.cost))
        charge(connection, request.key, rest, reservation.at)
        return
    charge(connection, request.key, used, reservation.at)
    bucket = _read_buckets(connection, request.key).get("tokens")
    bucket = correct_token_bucket(request.limits, bucket, request.maximum.tokens, used.tokens, now)
    if bucket is not None:
        _write_bucket(connection, request.key, "tokens", bucket)


def charge(connection: sqlite3.Connection, key: str, amount: Amount, at: float) -> None:
    """Add the amount to the day and the month of the date."""
    connection.executemany(
        "INSERT INTO spending (key, period, start, tokens, cost) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (key, period, start)"
        " DO UPDATE SET tokens = tokens + excluded.tokens, cost = cost + excluded.cost",
        [(key, period, find_period_start(period, at), *amount) for period in PERIODS],
    )


def renew_process(connection: sqlite3.Connection, process: str, now: float) -> None:
    """Mark the process as alive, and release the reservations of dead processes."""
    others = dict(connection.execute("SELECT id, seen FROM processes"))
    seen = others.pop(process, None)
    # Write only every eighth part of the lease: a write costs more than the read above.
    if seen is None or not seen <= now < seen + LEASE / 8:
        connection.execute("INSERT OR REPLACE INTO processes (id, seen) VALUES (?, ?)", (process, now))
    for other, last_seen in others.items():
        if last_seen < now - LEASE or is_process_gone(other):
            release_process(connection, other)


def release_process(connection: sqlite3.Connection, process: str) -> None:
    """Delete the process and its reservations, and charge the minimum amount of each reservation."""
    connection.execute("DELETE FROM processes WHERE id = ?", (process,))
    rows = connection.execute(
        "DELETE FROM reservations WHERE process = ? RETURNING key, at, least_tokens, least_cost", (process,)
    ).fetchall()
    for key, at, tokens, cost in rows:
        charge(connection, key, Amount(tokens, cost), at)


def read_account(connection: sqlite3.Connection, key: str, now: float) -> Account:
    """The stored state of a key. `now` selects the current day and month."""
    day, month = find_period_start("day", now), find_period_start("month", now)
    used: dict[Period, Amount] = dict.fromkeys(PERIODS, NOTHING)
    for period, tokens, cost in connection.execute(_USED, (key, day, month)):
        used[period] = Amount(tokens, cost)
    *today, tokens, cost = map(int, connection.execute(_RESERVED, (day, day, key, month)).fetchone())
    return Account(
        buckets=_read_buckets(connection, key),
        used=used,
        reserved={"day": Amount(*today), "month": Amount(tokens, cost)},
    )


def _read_buckets(connection: sqlite3.Connection, key: str) -> Buckets:
    return {unit: Bucket(level, at) for unit, level, at in connection.execute(_BUCKETS, (key,))}


def _write_bucket(connection: sqlite3.Connection, key: str, unit: Unit, bucket: Bucket) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO buckets (key, unit, level, at) VALUES (?, ?, ?, ?)",
        (key, unit, bucket.level, bucket.at),
    )


class UsageKey(NamedTuple):
    """The row of the statistics that a count belongs to."""

    hour: int
    key: str
    provider: str
    model: str


class UsageCounts(msgspec.Struct, kw_only=True):
    """One row of the statistics. `refused` counts requests that a limit of the gateway refused.

    `unpriced` counts requests of models without a known price: their cost is not part of `cost`.
    """

    requests: int = 0
    failures: int = 0
    refused: int = 0
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    unpriced: int = 0
    cost: int = 0

    def add(self, other: "UsageCounts") -> None:
        for name in COUNT_NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))


COUNT_NAMES = UsageCounts.__struct_fields__

UsageGroup = Literal["key", "model", "provider", "day"]
_GROUPS: tuple[UsageGroup, ...] = ("day", "key", "provider", "model")


_ADD_USAGE = """
INSERT INTO usage (
    hour, key, provider, model,
    requests, failures, refused, input, cache_read, cache_write, output, reasoning, unpriced, cost
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (hour, key, provider, model) DO UPDATE SET
    requests = requests + excluded.requests,
    failures = failures + excluded.failures,
    refused = refused + excluded.refused,
    input = input + excluded.input,
    cache_read = cache_read + excluded.cache_read,
    cache_write = cache_write + excluded.cache_write,
    output = output + excluded.output,
    reasoning = reasoning + excluded.reasoning,
    unpriced = unpriced + excluded.unpriced,
    cost = cost + excluded.cost
"""
#: A deleted key appears with its id.
_READ_USAGE = """
SELECT
    strftime('%Y-%m-%d', hour, 'unixepoch'),
    coalesce((SELECT name FROM client_keys WHERE id = usage.key), usage.key),
    provider, model,
    sum(requests), sum(failures), sum(refused), sum(input), sum(cache_read), sum(cache_write),
    sum(output), sum(reasoning), sum(unpriced), sum(cost)
FROM usage WHERE hour >= ? GROUP BY 1, 2, 3, 4
"""
_READ_OLD_HOURS = """
SELECT
    hour / 86400 * 86400, key, provider, model,
    sum(requests), sum(failures), sum(refused), sum(input), sum(cache_read), sum(cache_write),
    sum(output), sum(reasoning), sum(unpriced), sum(cost)
FROM usage WHERE hour < ? AND hour % 86400 <> 0 GROUP BY 1, 2, 3, 4
"""


def add_usage(connection: sqlite3.Connection, usage: Mapping[UsageKey, UsageCounts]) -> None:
    """Add the counts to the statistics."""
    rows = [(*key, *msgspec.structs.astuple(counts)) for key, counts in usage.items()]
    connection.executemany(_ADD_USAGE, rows)


def read_usage(
    connection: sqlite3.Connection, by: Sequence[UsageGroup], since: float = 0.0
) -> list[tuple[tuple[str, ...], UsageCounts]]:
    """Sums of the statistics from the date `since` on, for each combination of the groups, sorted."""
    sums: dict[tuple[str, ...], UsageCounts] = {}
    for row in connection.execute(_READ_USAGE, (since,)):
        names = dict(zip(_GROUPS, row, strict=False))
        group = tuple(names[each] for each in by)
        sums.setdefault(group, UsageCounts()).add(_build_counts(row[len(_GROUPS) :]))
    return sorted(sums.items(), key=lambda item: item[0])


def compact_statistics(connection: sqlite3.Connection, now: float) -> None:
    """Sum up old hours to days, and delete old days and old spending. Bounds the size of the tables."""
    old = int(now - HOURS_KEPT) // DAY * DAY
    rows = connection.execute(_READ_OLD_HOURS, (old,)).fetchall()
    connection.execute("DELETE FROM usage WHERE hour < ? AND hour % 86400 <> 0", (old,))
    add_usage(connection, {UsageKey(*row[:4]): _build_counts(row[4:]) for row in rows})
    connection.execute("DELETE FROM usage WHERE hour < ?", (now - DAYS_KEPT,))
    connection.execute("DELETE FROM spending WHERE start < ?", (now - SPENDING_KEPT,))


def _build_counts(numbers: Iterable[int]) -> UsageCounts:
    return UsageCounts(**dict(zip(COUNT_NAMES, numbers, strict=True)))
