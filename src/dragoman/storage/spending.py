"""What each key has used and set aside, in the file: so that a limit holds for all processes that share it.

An amount is set aside before a request goes out, in the same transaction that looks whether it may; and is
replaced by the truth when the request has ended. What a process had set aside when it died is let go once
the process has not been seen for a while; what its requests cost at least is charged then.
"""

import sqlite3

import msgspec

from dragoman.accounts.bucket import Bucket
from dragoman.accounts.caller import Limits
from dragoman.accounts.decide import NOTHING, Account, Amount, Grant, Refusal, Room, corrected, decide
from dragoman.accounts.periods import PERIODS, Period, start_of
from dragoman.storage.processes import forget, see

_BUCKETS = "SELECT unit, level, at FROM buckets WHERE key = ?"
_USED = """
SELECT period, tokens, cost FROM spending
WHERE key = ?1 AND ((period = 'day' AND start = ?2) OR (period = 'month' AND start = ?3))
"""
_SET_ASIDE = """
SELECT
    total(CASE WHEN at >= ? THEN tokens END), total(CASE WHEN at >= ? THEN cost END),
    total(tokens), total(cost)
FROM reservations WHERE key = ? AND at >= ?
"""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a request is expected to use at most, and what it uses at least once it was sent."""

    key: str
    limits: Limits
    most: Amount
    least: Amount


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    wish: Wish
    at: float
    rooms: tuple[Room, ...]


def reserve(connection: sqlite3.Connection, process: str, wish: Wish, now: float) -> Reservation | Refusal:
    keep_alive(connection, process, now)
    outcome = decide(wish.limits, account(connection, wish.key, now), wish.most, now)
    if isinstance(outcome, Refusal):
        return outcome
    return _reserved(connection, process, wish, outcome, now)


def _reserved(
    connection: sqlite3.Connection, process: str, wish: Wish, grant: Grant, now: float
) -> Reservation:
    _keep_bucket(connection, wish.key, "requests", grant.requests)
    _keep_bucket(connection, wish.key, "tokens", grant.tokens)
    row = connection.execute(
        "INSERT INTO reservations (key, process, at, tokens, cost, least_tokens, least_cost)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (wish.key, process, now, *wish.most, *wish.least),
    ).fetchone()
    return Reservation(id=row[0], wish=wish, at=now, rooms=grant.rooms)


def settle(connection: sqlite3.Connection, reservation: Reservation, used: Amount, now: float) -> None:
    """Replace what was set aside by what was used, in the period in which it was asked for."""
    wish = reservation.wish
    gone = connection.execute("DELETE FROM reservations WHERE id = ?", (reservation.id,)).rowcount == 0
    if gone:
        # Another process took this one for dead, perhaps because the machine slept, and charged this much.
        rest = Amount(max(0, used.tokens - wish.least.tokens), max(0, used.cost - wish.least.cost))
        charge(connection, wish.key, rest, reservation.at)
        return
    charge(connection, wish.key, used, reservation.at)
    buckets = {unit: Bucket(level, at) for unit, level, at in connection.execute(_BUCKETS, (wish.key,))}
    bucket = corrected(wish.limits, buckets.get("tokens"), wish.most.tokens, used.tokens, now)
    _keep_bucket(connection, wish.key, "tokens", bucket)


def charge(connection: sqlite3.Connection, key: str, amount: Amount, at: float) -> None:
    """Add to what the key has used in the day and the month of this date."""
    connection.executemany(
        "INSERT INTO spending (key, period, start, tokens, cost) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (key, period, start)"
        " DO UPDATE SET tokens = tokens + excluded.tokens, cost = cost + excluded.cost",
        [(key, period, start_of(period, at), *amount) for period in PERIODS],
    )


def keep_alive(connection: sqlite3.Connection, process: str, now: float) -> None:
    """Say that the process lives, and let go of what others left behind when they died."""
    for dead in see(connection, process, now):
        leave(connection, dead)


def leave(connection: sqlite3.Connection, process: str) -> None:
    """The process is gone: what it had set aside is let go, and what that cost at least is charged."""
    forget(connection, process)
    left_behind = connection.execute(
        "DELETE FROM reservations WHERE process = ? RETURNING key, at, least_tokens, least_cost", (process,)
    ).fetchall()
    for key, at, tokens, cost in left_behind:
        charge(connection, key, Amount(tokens, cost), at)


def account(connection: sqlite3.Connection, key: str, now: float) -> Account:
    """All that is remembered of a key, as it stands now."""
    buckets = {unit: Bucket(level, at) for unit, level, at in connection.execute(_BUCKETS, (key,))}
    day, month = start_of("day", now), start_of("month", now)
    used: dict[Period, Amount] = dict.fromkeys(PERIODS, NOTHING)
    for period, tokens, cost in connection.execute(_USED, (key, day, month)):
        used[period] = Amount(tokens, cost)
    *today, tokens, cost = map(int, connection.execute(_SET_ASIDE, (day, day, key, month)).fetchone())
    return Account(
        requests=buckets.get("requests"),
        tokens=buckets.get("tokens"),
        used=used,
        reserved={"day": Amount(*today), "month": Amount(tokens, cost)},
    )


def _keep_bucket(connection: sqlite3.Connection, key: str, unit: str, bucket: Bucket | None) -> None:
    if bucket is not None:
        connection.execute(
            "INSERT OR REPLACE INTO buckets (key, unit, level, at) VALUES (?, ?, ?, ?)",
            (key, unit, bucket.level, bucket.at),
        )
