"""What was used, by hour, key, provider and model; by day once it is old, and forgotten in the end."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

DAY = 86_400
#: Seconds after which hours are summed up to days, and after which days are forgotten.
HOURS_KEPT = 35 * DAY
DAYS_KEPT = 400 * DAY
#: What of budgets can no longer matter.
SPENDING_KEPT = 70 * DAY


class Place(NamedTuple):
    """What a count is filed under."""

    hour: int
    key: str
    provider: str
    model: str


class Counts(msgspec.Struct, kw_only=True):
    """Costs are in micro-dollars. `refused`: a limit of the gateway's own stopped it."""

    requests: int = 0
    failures: int = 0
    refused: int = 0
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    cost: int = 0

    def add(self, other: "Counts") -> None:
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


COUNTS = Counts.__struct_fields__

By = Literal["key", "model", "provider", "day"]
GROUPS: tuple[By, ...] = ("day", "key", "provider", "model")

_ADD = """
INSERT INTO usage (
    hour, key, provider, model,
    requests, failures, refused, input, cache_read, cache_write, output, reasoning, cost
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (hour, key, provider, model) DO UPDATE SET
    requests = requests + excluded.requests,
    failures = failures + excluded.failures,
    refused = refused + excluded.refused,
    input = input + excluded.input,
    cache_read = cache_read + excluded.cache_read,
    cache_write = cache_write + excluded.cache_write,
    output = output + excluded.output,
    reasoning = reasoning + excluded.reasoning,
    cost = cost + excluded.cost
"""
#: A key that was deleted is told by its id.
_REPORT = """
SELECT
    strftime('%Y-%m-%d', hour, 'unixepoch'),
    coalesce((SELECT name FROM client_keys WHERE id = usage.key), usage.key),
    provider, model,
    sum(requests), sum(failures), sum(refused), sum(input), sum(cache_read), sum(cache_write),
    sum(output), sum(reasoning), sum(cost)
FROM usage WHERE hour >= ? GROUP BY 1, 2, 3, 4
"""
_DAYS_OF_OLD_HOURS = """
SELECT
    hour / 86400 * 86400, key, provider, model,
    sum(requests), sum(failures), sum(refused), sum(input), sum(cache_read), sum(cache_write),
    sum(output), sum(reasoning), sum(cost)
FROM usage WHERE hour < ? AND hour % 86400 <> 0 GROUP BY 1, 2, 3, 4
"""


def add(connection: sqlite3.Connection, counted: Mapping[Place, Counts]) -> None:
    rows = [(*place, *msgspec.structs.astuple(counts)) for place, counts in counted.items()]
    connection.executemany(_ADD, rows)


def report(
    connection: sqlite3.Connection, by: Sequence[By], since: float = 0.0
) -> list[tuple[tuple[str, ...], Counts]]:
    """Sums by these, in order; what was used before `since` is left out."""
    sums: dict[tuple[str, ...], Counts] = {}
    for row in connection.execute(_REPORT, (since,)):
        names = dict(zip(GROUPS, row, strict=False))
        group = tuple(names[each] for each in by)
        sums.setdefault(group, Counts()).add(_counts(row[len(GROUPS) :]))
    return sorted(sums.items(), key=lambda item: item[0])


def tidy(connection: sqlite3.Connection, now: float) -> None:
    """Keep the tables from growing for ever."""
    old = int(now - HOURS_KEPT) // DAY * DAY
    rows = connection.execute(_DAYS_OF_OLD_HOURS, (old,)).fetchall()
    connection.execute("DELETE FROM usage WHERE hour < ? AND hour % 86400 <> 0", (old,))
    add(connection, {Place(*row[:4]): _counts(row[4:]) for row in rows})
    connection.execute("DELETE FROM usage WHERE hour < ?", (now - DAYS_KEPT,))
    connection.execute("DELETE FROM spending WHERE start < ?", (now - SPENDING_KEPT,))


def _counts(numbers: Iterable[int]) -> Counts:
    return Counts(**dict(zip(COUNTS, numbers, strict=True)))
