"""Usage statistics are added, grouped, compacted and deleted without losing a count."""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.accounts import keys as client_keys
from dragoman.accounts.store import (
    ACCOUNTS_SCHEMA,
    COUNT_NAMES,
    DAY,
    DAYS_KEPT,
    HOURS_KEPT,
    UsageCounts,
    UsageGroup,
    UsageKey,
    add_usage,
    compact_statistics,
    read_usage,
)
from dragoman.storage.database import connect

HOUR = 3600
NOW = int(datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp())


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = connect(None, ACCOUNTS_SCHEMA)
    yield connection
    connection.close()


def counts(number: int = 1) -> UsageCounts:
    return UsageCounts(**{name: number * place for place, name in enumerate(COUNT_NAMES, 1)})


def test_counts_of_one_usage_key_are_added(connection: sqlite3.Connection) -> None:
    usage_key = UsageKey(NOW, "key_1", "up", "m")
    add_usage(connection, {usage_key: counts(1)})
    add_usage(connection, {usage_key: counts(2), UsageKey(NOW, "key_1", "up", "other"): counts(4)})
    assert read_usage(connection, ["key"]) == [(("key_1",), counts(7))]
    assert read_usage(connection, ["model"]) == [(("m",), counts(3)), (("other",), counts(4))]


def test_a_report_can_have_several_columns_in_any_order(connection: sqlite3.Connection) -> None:
    add_usage(
        connection, {UsageKey(NOW, "", "up", "m"): counts(1), UsageKey(NOW - DAY, "", "up", "m"): counts(2)}
    )
    assert read_usage(connection, ["provider", "day"]) == [
        (("up", "2026-11-15"), counts(2)),
        (("up", "2026-11-16"), counts(1)),
    ]
    assert read_usage(connection, ["day"], since=NOW) == [(("2026-11-16",), counts(1))]


def test_keys_appear_with_their_names_and_deleted_ones_with_their_ids(connection: sqlite3.Connection) -> None:
    made, _ = client_keys.create_key(connection, "ci", NOW)
    add_usage(connection, {UsageKey(NOW, made.caller.id, "up", "m"): counts()})
    assert read_usage(connection, ["key"]) == [(("ci",), counts())]
    client_keys.delete_key(connection, "ci")
    assert read_usage(connection, ["key"]) == [((made.caller.id,), counts())]


def test_old_hours_become_days_and_old_days_are_deleted(connection: sqlite3.Connection) -> None:
    old = (NOW - HOURS_KEPT - 2 * DAY) // DAY * DAY
    ages = [NOW, NOW - HOUR, old + HOUR, old + 2 * HOUR, old, NOW - DAYS_KEPT - DAY]
    add_usage(connection, {UsageKey(age, "k", "up", "m"): counts() for age in ages})
    compact_statistics(connection, NOW)
    compact_statistics(connection, NOW)
    rows = connection.execute("SELECT hour, requests FROM usage ORDER BY hour").fetchall()
    assert rows == [(old, 3), (NOW - HOUR, 1), (NOW, 1)]


def test_old_budgets_are_deleted(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO spending VALUES ('k', 'day', ?, 1, 1)", (NOW - 100 * DAY,))
    connection.execute("INSERT INTO spending VALUES ('k', 'month', ?, 1, 1)", (NOW - 20 * DAY,))
    compact_statistics(connection, NOW)
    assert connection.execute("SELECT period FROM spending").fetchall() == [("month",)]


USAGE_KEYS = st.builds(
    UsageKey,
    st.integers(0, 100 * 24).map(lambda hours: NOW - hours * HOUR),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["up", "down"]),
    st.sampled_from(["m", "n"]),
)


@given(
    counted=st.dictionaries(USAGE_KEYS, st.integers(0, 1000).map(counts), max_size=30),
    by=st.lists(st.sampled_from(["key", "model", "provider", "day"]), min_size=1, max_size=4, unique=True),
)
def test_compaction_does_not_change_any_total(
    counted: dict[UsageKey, UsageCounts], by: list[UsageGroup]
) -> None:
    connection = connect(None, ACCOUNTS_SCHEMA)
    add_usage(connection, counted)
    before = read_usage(connection, by)
    compact_statistics(connection, NOW)
    after = read_usage(connection, by)
    connection.close()
    assert before == after
    for name in COUNT_NAMES:
        assert sum(getattr(each, name) for _, each in before) == sum(
            getattr(each, name) for each in counted.values()
        )
