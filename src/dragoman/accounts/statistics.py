"""Usage by hour, key, provider, model, agent and role: the values and the SQL. The tables are in `store`."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import add, itemgetter
from typing import Literal, NamedTuple, Self

import msgspec

from dragoman.storage.port import Row, Transaction

DAY = 86_400
#: Seconds for which statistics are kept by hour, then by day, and for which budgets are kept.
HOURS_KEPT = 35 * DAY
DAYS_KEPT = 400 * DAY
SPENDING_KEPT = 70 * DAY
#: Seconds for which the ids of written batches are kept. An outbox may wait this long for its gateway.
BATCHES_KEPT = 35 * DAY
#: Different usage keys within one hour.
MAX_USAGE_KEYS = 1000
OTHER_MODELS = "(others)"


class UsageKey(NamedTuple):
    """The row of the statistics that a count belongs to."""

    hour: int
    key: str
    provider: str
    model: str
    #: The coding agent; empty for usage from before agents were counted.
    agent: str = ""
    #: A role of the configuration, or `main` or `sub-agent`.
    role: str = ""


class UsageKeyBound:
    """Bounds the usage keys within one hour, because clients choose the model names."""

    def __init__(self) -> None:
        self._hour = 0
        #: The usage keys of this hour, by those that `apply` gets.
        self._keys: dict[UsageKey, UsageKey] = {}

    def apply(self, key: UsageKey, hour: int) -> UsageKey:
        """The usage key of the hour. Beyond `MAX_USAGE_KEYS`, new models are counted together."""
        if hour != self._hour:
            self._hour = hour
            self._keys.clear()
        usage_key = self._keys.get(key)
        if usage_key is None:
            usage_key = key._replace(hour=hour)
            if len(self._keys) >= MAX_USAGE_KEYS:
                return usage_key._replace(model=OTHER_MODELS)
            self._keys[key] = usage_key
        return usage_key


class Counts(msgspec.Struct):
    """Counters of one row of the statistics. Subclasses have the counters as their fields."""

    def plus(self, other: Self) -> Self:
        """The sums of both."""
        return type(self)(*map(add, msgspec.structs.astuple(self), msgspec.structs.astuple(other)))


class UsageCounts(Counts):
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


COUNT_NAMES = UsageCounts.__struct_fields__

UsageGroup = Literal["key", "model", "provider", "agent", "role", "day"]
_GROUPS: tuple[UsageGroup, ...] = ("day", "key", "provider", "model", "agent", "role")

_KEY_NAMES = UsageKey._fields
_PLACES = ", ".join(str(number + 1) for number in range(len(_KEY_NAMES)))
_ADD_USAGE = f"""
INSERT INTO agent_usage ({", ".join((*_KEY_NAMES, *COUNT_NAMES))})
VALUES ({", ".join(f"${number + 1}" for number in range(len(_KEY_NAMES) + len(COUNT_NAMES)))})
ON CONFLICT ({", ".join(_KEY_NAMES)}) DO UPDATE SET
    {", ".join(f"{name} = agent_usage.{name} + excluded.{name}" for name in COUNT_NAMES)}
"""  # noqa: S608 (names of columns)
_SUMS = ", ".join(f"CAST(SUM({name}) AS BIGINT)" for name in COUNT_NAMES)
#: A deleted key appears with its id.
_READ_USAGE = f"""
SELECT
    hour / 86400, coalesce((SELECT name FROM client_keys WHERE id = agent_usage.key), agent_usage.key),
    provider, model, agent, role, {_SUMS}
FROM agent_usage WHERE hour >= $1 GROUP BY {_PLACES}
"""  # noqa: S608 (names of columns)
_READ_OLD_HOURS = f"""
SELECT hour / 86400 * 86400, key, provider, model, agent, role, {_SUMS}
FROM agent_usage WHERE hour < $1 AND hour % 86400 <> 0 GROUP BY {_PLACES}
"""  # noqa: S608 (names of columns)
#: Takes what gateways of an earlier version have counted.
_TAKE_EARLIER = f"DELETE FROM usage RETURNING hour, key, provider, model, '', '', {', '.join(COUNT_NAMES)}"  # noqa: S608 (names of columns)


async def add_usage(transaction: Transaction, usage: Mapping[UsageKey, UsageCounts]) -> None:
    """Add the counts to the statistics."""
    rows = [
        (*key, *msgspec.structs.astuple(counts)) for key, counts in sorted(usage.items(), key=itemgetter(0))
    ]
    await transaction.execute_many(_ADD_USAGE, rows)


async def read_usage(
    transaction: Transaction, by: Sequence[UsageGroup], since: float = 0.0
) -> list[tuple[tuple[str, ...], UsageCounts]]:
    """Sums of the statistics from the date `since` on, for each combination of the groups, sorted."""
    sums: dict[tuple[str, ...], UsageCounts] = {}
    for row in await transaction.fetch(_READ_USAGE, math.ceil(since)):
        names = dict(zip(_GROUPS, (format_day(row[0]), *row[1:]), strict=False))
        group = tuple(names[each] for each in by)
        sums[group] = sums.get(group, UsageCounts()).plus(_build_counts(row[len(_GROUPS) :]))
    return sorted(sums.items(), key=lambda item: item[0])


def format_day(number: int) -> str:
    return f"{datetime.fromtimestamp(number * DAY, UTC):%Y-%m-%d}"


async def compact_statistics(transaction: Transaction, now: float) -> None:
    """Sum up old hours to days, and delete old days and old spending. Bounds the size of the tables."""
    old = int(now - HOURS_KEPT) // DAY * DAY
    await _add_rows(transaction, await transaction.fetch(_TAKE_EARLIER))
    rows = await transaction.fetch(_READ_OLD_HOURS, old)
    await transaction.execute("DELETE FROM agent_usage WHERE hour < $1 AND hour % 86400 <> 0", old)
    await _add_rows(transaction, rows)
    await transaction.execute("DELETE FROM agent_usage WHERE hour < $1", int(now - DAYS_KEPT))
    await transaction.execute("DELETE FROM spending WHERE start < $1", int(now - SPENDING_KEPT))
    await transaction.execute("DELETE FROM batches WHERE at < $1", now - BATCHES_KEPT)


async def _add_rows(transaction: Transaction, rows: Iterable[Row]) -> None:
    size = len(_KEY_NAMES)
    await add_usage(transaction, {UsageKey(*row[:size]): _build_counts(row[size:]) for row in rows})


def _build_counts(numbers: Iterable[int]) -> UsageCounts:
    return UsageCounts(*numbers)
