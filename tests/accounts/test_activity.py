"""What agents report about their work: counted once, by session, and bounded."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.accounts.activity import (
    COUNTERS,
    DAYS_KEPT,
    MAX_AMOUNT,
    MAX_SESSIONS,
    OTHER_SESSIONS,
    ActivityCounts,
    ActivityReader,
    Measurement,
    add_activity,
    read_activity,
)
from tests.states import StateBed

NOW = 1_794_900_000.0
DAY = 86_400


def commits(amount: float, *, is_cumulative: bool = False) -> Measurement:
    return Measurement(
        name="claude_code.commit.count",
        amount=amount,
        attributes={"session.id": "s"},
        is_cumulative=is_cumulative,
        start=7,
    )


def test_every_measurement_has_its_counter() -> None:
    for (name, attribute, value), counter in COUNTERS.items():
        measurement = Measurement(name=name, amount=2, attributes={attribute: value, "session.id": "s"})
        assert ActivityReader().read("k", [measurement]) == {"s": ActivityCounts(**{counter: 2})}


def test_other_measurements_and_impossible_amounts_are_ignored() -> None:
    decision = Measurement(name="claude_code.tool_decision", amount=1, attributes={"decision": "maybe"})
    impossible = [commits(-1), commits(2 * MAX_AMOUNT), commits(float("nan"))]
    cost = Measurement(name="claude_code.cost.usage", amount=1)
    assert ActivityReader().read("k", [cost, decision, *impossible]) == {}


@given(st.lists(st.integers(0, 100), max_size=10))
def test_sums_since_a_start_are_counted_as_changes(changes: list[int]) -> None:
    reader = ActivityReader()
    total, counted = 0, 0.0
    for change in changes:
        total += change
        counts = reader.read("k", [commits(total, is_cumulative=True)])
        counted += counts["s"].commits if counts else 0
    assert counted == total


def test_reports_are_summed_by_day_key_and_session(state: StateBed) -> None:
    for now, session, lines in ((NOW, "a", 3), (NOW + 1, "a", 4), (NOW + DAY, "b", 5)):
        state.do(add_activity, "key_1", {session: ActivityCounts(lines_added=lines, commits=1)}, now)
    by_session = dict(state.do(read_activity, ("key", "session")))
    assert by_session[("key_1", "a")] == ActivityCounts(lines_added=7, commits=2)
    assert dict(state.do(read_activity, ("key",), NOW + DAY)) == {
        ("key_1",): ActivityCounts(lines_added=5, commits=1)
    }
    assert len(state.do(read_activity, ("day",))) == 2


def test_old_days_and_further_sessions_do_not_fill_the_file(state: StateBed) -> None:
    sessions = {f"s{number}": ActivityCounts(commits=1) for number in range(MAX_SESSIONS + 5)}
    state.do(add_activity, "k", sessions, NOW)
    found = dict(state.do(read_activity, ("session",)))
    assert len(found) == MAX_SESSIONS + 1
    assert found[(OTHER_SESSIONS,)].commits == 5
    state.do(add_activity, "k", {"s": ActivityCounts(commits=1)}, NOW + (DAYS_KEPT + 1) * DAY)
    assert len(state.do(read_activity, ("session",))) == 1
