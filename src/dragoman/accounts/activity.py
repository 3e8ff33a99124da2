"""What agents did outside of the wire: lines, commits, edits, tool decisions. Agents report it as telemetry.

Reports are claims of clients. They change no budget. The functions with a transaction expect an
open one.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Literal

import msgspec

from dragoman.accounts.limits import find_period_start
from dragoman.accounts.statistics import DAY, Counts, format_day
from dragoman.storage.port import Transaction

#: Days for which reports are kept.
DAYS_KEPT = 90
#: Sessions of one key and day. Further ones are counted together.
MAX_SESSIONS = 1000
OTHER_SESSIONS = "(others)"
#: Characters of a session's id, and the largest amount of one report.
MAX_NAME = 200
MAX_AMOUNT = 1e9
#: Series of agents that report sums since their start, instead of changes.
MAX_SERIES = 10_000

ActivityGroup = Literal["day", "key", "session"]
_GROUPS: tuple[ActivityGroup, ...] = ("day", "key", "session")
#: A deleted key appears with its id.
_READ = """
SELECT
    day / 86400,
    coalesce((SELECT name FROM client_keys WHERE id = activity.key), activity.key),
    session, kind, amount
FROM activity WHERE day >= $1
"""


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One number that an agent reports, or one event with the amount 1."""

    name: str
    amount: float
    attributes: Mapping[str, str] = {}
    #: The amount is the sum since `start`, not the change since the last report.
    is_cumulative: bool = False
    start: int = 0


class ActivityCounts(Counts):
    """What an agent reported for one key, session and day: a sum for each counter of `COUNTERS`."""

    sessions: float = 0
    lines_added: float = 0
    lines_removed: float = 0
    commits: float = 0
    pull_requests: float = 0
    edits_accepted: float = 0
    edits_rejected: float = 0
    tools_accepted: float = 0
    tools_rejected: float = 0
    active_seconds: float = 0


ACTIVITY_NAMES = ActivityCounts.__struct_fields__

#: The counter of each measurement: its name, and the attribute and value that it must have, if any.
COUNTERS: dict[tuple[str, str, str], str] = {
    ("claude_code.session.count", "", ""): "sessions",
    ("claude_code.lines_of_code.count", "type", "added"): "lines_added",
    ("claude_code.lines_of_code.count", "type", "removed"): "lines_removed",
    ("claude_code.commit.count", "", ""): "commits",
    ("claude_code.pull_request.count", "", ""): "pull_requests",
    ("claude_code.code_edit_tool.decision", "decision", "accept"): "edits_accepted",
    ("claude_code.code_edit_tool.decision", "decision", "reject"): "edits_rejected",
    ("claude_code.tool_decision", "decision", "accept"): "tools_accepted",
    ("claude_code.tool_decision", "decision", "reject"): "tools_rejected",
    ("claude_code.active_time.total", "", ""): "active_seconds",
}
_SELECTORS = {name: attribute for name, attribute, _ in COUNTERS}


class ActivityReader:
    """Turns measurements into counts by session. Remembers the last sums of agents that report sums."""

    def __init__(self) -> None:
        self._last: dict[tuple[object, ...], float] = {}

    def read(self, key: str, measurements: Iterable[Measurement]) -> dict[str, ActivityCounts]:
        """Sum the measurements of one report by session id. `COUNTERS` lists those that count."""
        counts: dict[str, ActivityCounts] = {}
        for each in measurements:
            selector = _SELECTORS.get(each.name)
            if selector is None:
                continue
            counter = COUNTERS.get((each.name, selector, each.attributes.get(selector, "")))
            amount = self._find_change(key, each)
            if counter is not None and 0 < amount <= MAX_AMOUNT:
                session = counts.setdefault(
                    each.attributes.get("session.id", "")[:MAX_NAME], ActivityCounts()
                )
                setattr(session, counter, getattr(session, counter) + amount)
        return counts

    def _find_change(self, key: str, measurement: Measurement) -> float:
        if not measurement.is_cumulative:
            return measurement.amount
        series = (key, measurement.name, measurement.start, tuple(sorted(measurement.attributes.items())))
        before = self._last.pop(series, 0.0)
        if len(self._last) >= MAX_SERIES:
            del self._last[next(iter(self._last))]
        self._last[series] = measurement.amount
        return measurement.amount - before


async def add_activity(
    transaction: Transaction, key: str, sessions: Mapping[str, ActivityCounts], now: float
) -> None:
    """Add the counts of a key's sessions to the current day, and delete old days."""
    day = find_period_start("day", now)
    rows = await transaction.fetch(
        "SELECT DISTINCT session FROM activity WHERE day = $1 AND key = $2", day, key
    )
    known = {row[0] for row in rows}
    for session, counts in sorted(sessions.items(), key=itemgetter(0)):
        is_other = session not in known and len(known) >= MAX_SESSIONS
        name = OTHER_SESSIONS if is_other else session
        known.add(name)
        amounts = msgspec.structs.asdict(counts)
        await transaction.execute_many(
            "INSERT INTO activity (day, key, session, kind, amount) VALUES ($1, $2, $3, $4, $5)"
            " ON CONFLICT (day, key, session, kind)"
            " DO UPDATE SET amount = activity.amount + excluded.amount",
            [(day, key, name, kind, amount) for kind, amount in sorted(amounts.items()) if amount],
        )
    await transaction.execute("DELETE FROM activity WHERE day < $1", day - DAYS_KEPT * DAY)


async def read_activity(
    transaction: Transaction, by: Sequence[ActivityGroup], since: float = 0.0
) -> list[tuple[tuple[str, ...], ActivityCounts]]:
    """Sums from the day of the date `since` on, for each combination of the groups, sorted."""
    sums: dict[tuple[str, ...], ActivityCounts] = {}
    for number, *labels, kind, amount in await transaction.fetch(_READ, int(since - since % DAY)):
        names = dict(zip(_GROUPS, (format_day(number), *labels), strict=True))
        counts = sums.setdefault(tuple(names[each] for each in by), ActivityCounts())
        if kind in ACTIVITY_NAMES:
            setattr(counts, kind, getattr(counts, kind) + amount)
    return sorted(sums.items(), key=lambda item: item[0])
