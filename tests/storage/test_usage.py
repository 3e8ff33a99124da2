"""What was used is summed up, rolled up and forgotten, and no number gets lost on the way."""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.storage import client_keys
from dragoman.storage.database import connect
from dragoman.storage.usage import COUNTS, DAY, DAYS_KEPT, HOURS_KEPT, By, Counts, Place, add, report, tidy

HOUR = 3600
NOW = int(datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp())


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = connect(None)
    yield connection
    connection.close()


def counts(number: int = 1) -> Counts:
    return Counts(**{name: number * place for place, name in enumerate(COUNTS, 1)})


def test_counts_of_one_place_are_added_up(connection: sqlite3.Connection) -> None:
    place = Place(NOW, "key_1", "up", "m")
    add(connection, {place: counts(1)})
    add(connection, {place: counts(2), Place(NOW, "key_1", "up", "other"): counts(4)})
    assert report(connection, ["key"]) == [(("key_1",), counts(7))]
    assert report(connection, ["model"]) == [(("m",), counts(3)), (("other",), counts(4))]


def test_a_report_can_have_several_columns_in_any_order(connection: sqlite3.Connection) -> None:
    add(connection, {Place(NOW, "", "up", "m"): counts(1), Place(NOW - DAY, "", "up", "m"): counts(2)})
    assert report(connection, ["provider", "day"]) == [
        (("up", "2026-11-15"), counts(2)),
        (("up", "2026-11-16"), counts(1)),
    ]
    assert report(connection, ["day"], since=NOW) == [(("2026-11-16",), counts(1))]


def test_keys_are_told_by_their_names_and_deleted_ones_by_their_ids(connection: sqlite3.Connection) -> None:
    made, _ = client_keys.create(connection, "ci", NOW)
    add(connection, {Place(NOW, made.caller.id, "up", "m"): counts()})
    assert report(connection, ["key"]) == [(("ci",), counts())]
    client_keys.delete(connection, "ci")
    assert report(connection, ["key"]) == [((made.caller.id,), counts())]


def test_old_hours_become_days_and_old_days_go(connection: sqlite3.Connection) -> None:
    old = (NOW - HOURS_KEPT - 2 * DAY) // DAY * DAY
    ages = [NOW, NOW - HOUR, old + HOUR, old + 2 * HOUR, old, NOW - DAYS_KEPT - DAY]
    add(connection, {Place(age, "k", "up", "m"): counts() for age in ages})
    tidy(connection, NOW)
    tidy(connection, NOW)
    rows = connection.execute("SELECT hour, requests FROM usage ORDER BY hour").fetchall()
    assert rows == [(old, 3), (NOW - HOUR, 1), (NOW, 1)]


def test_budgets_of_long_ago_go(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO spending VALUES ('k', 'day', ?, 1, 1)", (NOW - 100 * DAY,))
    connection.execute("INSERT INTO spending VALUES ('k', 'month', ?, 1, 1)", (NOW - 20 * DAY,))
    tidy(connection, NOW)
    assert connection.execute("SELECT period FROM spending").fetchall() == [("month",)]


PLACES = st.builds(
    Place,
    st.integers(0, 100 * 24).map(lambda hours: NOW - hours * HOUR),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["up", "down"]),
    st.sampled_from(["m", "n"]),
)


@given(
    counted=st.dictionaries(PLACES, st.integers(0, 1000).map(counts), max_size=30),
    by=st.lists(st.sampled_from(["key", "model", "provider", "day"]), min_size=1, max_size=4, unique=True),
)
def test_every_report_of_the_same_has_the_same_total_before_and_after_tidying(
    counted: dict[Place, Counts], by: list[By]
) -> None:
    connection = connect(None)
    add(connection, counted)
    before = report(connection, by)
    tidy(connection, NOW)
    after = report(connection, by)
    connection.close()
    assert before == after
    for name in COUNTS:
        assert sum(getattr(each, name) for _, each in before) == sum(
            getattr(each, name) for each in counted.values()
        )
