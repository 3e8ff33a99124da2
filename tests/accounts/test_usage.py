"""Usage statistics are added, grouped, compacted and deleted without losing a count."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.accounts import keys as client_keys
from dragoman.accounts.statistics import (
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
from dragoman.accounts.store import ACCOUNTS_SCHEMA
from tests.states import ENGINES, Engine, StateBed

HOUR = 3600
NOW = int(datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp())


def counts(number: int = 1) -> UsageCounts:
    return UsageCounts(**{name: number * place for place, name in enumerate(COUNT_NAMES, 1)})


def test_counts_of_one_usage_key_are_added(state: StateBed) -> None:
    usage_key = UsageKey(NOW, "key_1", "up", "m")
    state.do(add_usage, {usage_key: counts(1)})
    state.do(add_usage, {usage_key: counts(2), UsageKey(NOW, "key_1", "up", "other"): counts(4)})
    assert state.do(read_usage, ["key"]) == [(("key_1",), counts(7))]
    assert state.do(read_usage, ["model"]) == [(("m",), counts(3)), (("other",), counts(4))]


def test_a_report_can_have_several_columns_in_any_order(state: StateBed) -> None:
    state.do(
        add_usage, {UsageKey(NOW, "", "up", "m"): counts(1), UsageKey(NOW - DAY, "", "up", "m"): counts(2)}
    )
    assert state.do(read_usage, ["provider", "day"]) == [
        (("up", "2026-11-15"), counts(2)),
        (("up", "2026-11-16"), counts(1)),
    ]
    assert state.do(read_usage, ["day"], since=NOW) == [(("2026-11-16",), counts(1))]


@pytest.mark.rule("R123")
def test_agents_and_their_roles_are_counted_apart(state: StateBed) -> None:
    key = UsageKey(NOW, "", "up", "m", "claude-code", "lead")
    state.do(add_usage, {key: counts(1), key._replace(role="sub-agent"): counts(2)})
    state.do(add_usage, {key._replace(agent="codex", role="main"): counts(4)})
    assert state.do(read_usage, ["agent"]) == [(("claude-code",), counts(3)), (("codex",), counts(4))]
    assert state.do(read_usage, ["role", "agent"]) == [
        (("lead", "claude-code"), counts(1)),
        (("main", "codex"), counts(4)),
        (("sub-agent", "claude-code"), counts(2)),
    ]


EARLIER_SCHEMA = ACCOUNTS_SCHEMA._replace(migrations=ACCOUNTS_SCHEMA.migrations[:5])
EARLIER_ROW = "INSERT INTO usage VALUES ($1, 'k', 'up', 'm', 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)"


@pytest.mark.parametrize("engine", ENGINES)
def test_usage_from_before_agents_were_counted_stays(engine: Engine) -> None:
    state = StateBed(engine, EARLIER_SCHEMA)
    state.execute(EARLIER_ROW, NOW)
    state.migrate(ACCOUNTS_SCHEMA)
    one = UsageCounts(**dict.fromkeys(COUNT_NAMES, 1))
    assert state.do(read_usage, ["key", "agent"]) == [(("k", ""), one)]
    # A gateway of the earlier version still runs and counts.
    state.execute(EARLIER_ROW, NOW)
    state.do(compact_statistics, NOW)
    two = UsageCounts(**dict.fromkeys(COUNT_NAMES, 2))
    assert state.do(read_usage, ["key"]) == [(("k",), two)]
    assert state.fetch("SELECT hour FROM usage") == []
    state.close()


def test_keys_appear_with_their_names_and_deleted_ones_with_their_ids(state: StateBed) -> None:
    made, _ = state.do(client_keys.create_key, "ci", NOW)
    state.do(add_usage, {UsageKey(NOW, made.caller.id, "up", "m"): counts()})
    assert state.do(read_usage, ["key"]) == [(("ci",), counts())]
    state.do(client_keys.delete_key, "ci")
    assert state.do(read_usage, ["key"]) == [((made.caller.id,), counts())]


def test_old_hours_become_days_and_old_days_are_deleted(state: StateBed) -> None:
    old = (NOW - HOURS_KEPT - 2 * DAY) // DAY * DAY
    ages = [NOW, NOW - HOUR, old + HOUR, old + 2 * HOUR, old, NOW - DAYS_KEPT - DAY]
    state.do(add_usage, {UsageKey(age, "k", "up", "m"): counts() for age in ages})
    state.do(compact_statistics, NOW)
    state.do(compact_statistics, NOW)
    rows = state.fetch("SELECT hour, requests FROM agent_usage ORDER BY hour")
    assert rows == [(old, 3), (NOW - HOUR, 1), (NOW, 1)]


def test_old_budgets_are_deleted(state: StateBed) -> None:
    state.execute("INSERT INTO spending VALUES ('k', 'day', $1, 1, 1)", NOW - 100 * DAY)
    state.execute("INSERT INTO spending VALUES ('k', 'month', $1, 1, 1)", NOW - 20 * DAY)
    state.do(compact_statistics, NOW)
    assert state.fetch("SELECT period FROM spending") == [("month",)]


USAGE_KEYS = st.builds(
    UsageKey,
    st.integers(0, 100 * 24).map(lambda hours: NOW - hours * HOUR),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["up", "down"]),
    st.sampled_from(["m", "n"]),
    st.sampled_from(["", "codex", "claude-code"]),
    st.sampled_from(["main", "lead"]),
)


@given(
    counted=st.dictionaries(USAGE_KEYS, st.integers(0, 1000).map(counts), max_size=30),
    by=st.lists(
        st.sampled_from(["key", "model", "provider", "agent", "role", "day"]),
        min_size=1,
        max_size=4,
        unique=True,
    ),
)
def test_compaction_does_not_change_any_total(
    counted: dict[UsageKey, UsageCounts], by: list[UsageGroup]
) -> None:
    state = StateBed("sqlite", ACCOUNTS_SCHEMA)
    state.do(add_usage, counted)
    before = state.do(read_usage, by)
    state.do(compact_statistics, NOW)
    after = state.do(read_usage, by)
    state.close()
    assert before == after
    for name in COUNT_NAMES:
        assert sum(getattr(each, name) for _, each in before) == sum(
            getattr(each, name) for each in counted.values()
        )
