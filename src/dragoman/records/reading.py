"""Reads the file of the records: sessions, turns, contents and sums over time.

All functions expect an open transaction. They return values that are sent as JSON; `docs/records.md`
describes them.
"""

import sqlite3
from collections.abc import Iterator, Mapping

import msgspec

from dragoman.hub.errors import DragomanError, Failure
from dragoman.hub.loss import Loss
from dragoman.pipeline.plan import RequestMetadata
from dragoman.records.blocks import decompress_long
from dragoman.records.filters import Condition
from dragoman.records.losses import group_losses
from dragoman.records.store import NAMES, BodyRow, read_bodies, read_content
from dragoman.records.stored_turn import Row, decode_details, decode_losses
from dragoman.records.stream_events import decode, list_events

#: The largest integer of SQLite.
MAX_INTEGER = 2**63 - 1
#: The largest number of rows of one answer.
MAX_ROWS = 1000

_SUMS = """
COUNT(*) AS turns, COUNT(DISTINCT NULLIF(sub_agent, '')) AS sub_agents,
SUM(input) AS input, SUM(cache_read) AS cache_read, SUM(cache_write) AS cache_write, SUM(output) AS output,
SUM(cost) AS cost, SUM(saved) AS saved, SUM(cost IS NULL) AS unpriced,
SUM(tools) AS tools, SUM(losses) AS losses, SUM(interventions) AS interventions,
SUM(ending IN ('failed', 'truncated')) AS failed, SUM(tries > 1) AS retried
"""
#: What sums can be grouped by, and its SQL.
GROUPS: Mapping[str, str] = {
    "model": "model",
    "target": "target",
    "agent": "agent",
    "key": "key",
    "project": "project",
    "session": "session",
    "route": "route",
    "ending": "ending",
}


class RecordNotFound(DragomanError):
    """The file has no such session, turn or content."""

    def __init__(self, message: str) -> None:
        failure = Failure(kind="not_found", status=404, message=message, code="record_not_found")
        super().__init__(message, failure=failure, hint="`dragoman records list` lists the sessions")


class PartNotFound(RecordNotFound):
    """A turn has no such content."""

    def __init__(self, turn: Row, part: str) -> None:
        message = f"turn {turn['number']} has no {part}"
        if turn["level"] != "bodies":
            message += ': set `record = "bodies"` to record contents'
        super().__init__(message)


def list_sessions(
    connection: sqlite3.Connection, condition: Condition, *, limit: int = 100, before: float = 0.0
) -> list[Row]:
    """The sessions with a turn for which the condition holds, the latest first, older than `before`."""
    query = f"""
        SELECT session, MAX(agent) AS agent, MAX(version) AS version, MAX(project) AS project,
            MAX(key) AS key, JSON_GROUP_ARRAY(DISTINCT model) AS models,
            JSON_GROUP_ARRAY(DISTINCT target) AS targets,
            MIN(started) AS started, MAX(started + seconds) AS updated,
            SUM(level = 'bodies') AS stored, {_SUMS}
        FROM turns WHERE session IN (SELECT session FROM turns WHERE {condition.sql})
        GROUP BY session HAVING (? = 0 OR updated < ?) ORDER BY updated DESC LIMIT ?
    """  # noqa: S608 (own conditions with parameters)
    rows = _select(connection, query, (*condition.values, before, before, max(0, min(limit, MAX_ROWS))))
    return [_split_lists(row) for row in rows]


def read_session(connection: sqlite3.Connection, session: str) -> Row:
    """One session without its turns, with its losses in groups. A unique beginning of its id is enough."""
    session = find_session_id(connection, session)
    found = list_sessions(connection, Condition("session = ?", (session,)))[0]
    groups = group_losses(_iterate_losses(connection, session)) if found["losses"] else []
    return {**found, "loss_groups": msgspec.to_builtins(groups)}


def _iterate_losses(connection: sqlite3.Connection, session: str) -> Iterator[tuple[int, list[Loss]]]:
    """The numbers of the turns that have losses, with the losses."""
    query = "SELECT number, details FROM turns WHERE session = ? AND losses > 0"
    for number, details in connection.execute(query, (session,)):
        yield number, decode_losses(decompress_long(details))


def find_session_id(connection: sqlite3.Connection, session: str) -> str:
    """The id of a session, given by itself or by a unique beginning; `last` is the latest session."""
    if session == "last":
        # An imported session has later ids than those that are going on.
        latest = "SELECT session FROM turns ORDER BY ROUND(started + seconds, 3) DESC, id DESC LIMIT 1"
        rows = connection.execute(latest).fetchall()
    else:
        rows = connection.execute("SELECT 1 FROM turns WHERE session = ? LIMIT 1", (session,)).fetchall()
        if rows:
            return session
        pattern = session.replace("!", "!!").replace("%", "!%").replace("_", "!_") + "%"
        rows = connection.execute(
            "SELECT DISTINCT session FROM turns WHERE session LIKE ? ESCAPE '!' LIMIT 2", (pattern,)
        ).fetchall()
    if len(rows) != 1:
        raise RecordNotFound(
            f"several sessions begin with {session!r}" if rows else f"no session {session!r} is recorded"
        )
    return str(rows[0][0])


def list_turns(
    connection: sqlite3.Connection,
    condition: Condition,
    *,
    limit: int = MAX_ROWS,
    after: int = 0,
    is_descending: bool = False,
) -> list[Row]:
    """The turns for which the condition holds, in the order of their ends. `after` is the `id` of a turn."""
    order, sign = ("DESC", "<") if is_descending else ("ASC", ">")
    query = f"""
        SELECT id, {", ".join(NAMES)} FROM turns WHERE {condition.sql} AND (? = 0 OR id {sign} ?)
        ORDER BY id {order} LIMIT ?
    """  # noqa: S608 (own names and conditions with parameters)
    return _select(connection, query, (*condition.values, after, after, max(0, min(limit, MAX_ROWS))))


def iterate_turns(connection: sqlite3.Connection, condition: Condition) -> Iterator[Row]:
    """All turns for which the condition holds, in the order of their ends."""
    after = 0
    while rows := list_turns(connection, condition, after=after):
        after = rows[-1]["id"]
        yield from rows


def read_turn(connection: sqlite3.Connection, session: str, number: int) -> Row:
    """One turn with its details and the list of its contents."""
    session = find_session_id(connection, session)
    rows = []
    if abs(number) <= MAX_INTEGER:
        rows = _select(connection, "SELECT * FROM turns WHERE session = ? AND number = ?", (session, number))
    if not rows:
        raise RecordNotFound(f"session {session!r} has no turn {number}")
    row = rows[0]
    details = decode_details(decompress_long(row.pop("details")))
    return {
        **row,
        **details,
        "losses": row["losses"],
        "interventions": row["interventions"],
        "loss_list": [*details["losses"], *details["reply_losses"]],
        "intervention_list": details["interventions"],
        "parts": [
            {"part": body.part, "round": body.round, "pieces": len(body.pieces)}
            for body in read_bodies(connection, row["id"])
        ],
    }


def build_metadata(turn: Row, headers: Mapping[str, str] | None = None) -> RequestMetadata:
    """The metadata of the client's request of a turn. `headers` are added to the recorded ones.

    Turns of older versions have no entry.
    """
    recorded = {name.lower(): str(value) for name, value in turn["request_headers"].items()}
    return RequestMetadata(
        dialect=turn["client"],
        headers=recorded | dict(headers or {}),
        model=turn["model"],
        stream=bool(turn["stream"]),
        entry=turn.get("entry", ""),
    )


def find_body(connection: sqlite3.Connection, turn: int, part: str, number: int = -1) -> BodyRow | None:
    """One content of a turn, given by its id; the last one of its kind if `number` is negative."""
    bodies = [body for body in read_bodies(connection, turn) if body.part == part]
    if number < 0:
        return bodies[-1] if bodies else None
    return next((body for body in bodies if body.round == number), None)


def read_part(connection: sqlite3.Connection, session: str, number: int, part: str, round_: int = -1) -> Row:
    """One content of a turn: its text, and its JSON or its events with times."""
    turn = read_turn(connection, session, number)
    body = find_body(connection, turn["id"], part, round_)
    if body is None:
        raise PartNotFound(turn, part)
    content = read_content(connection, body)
    answer: Row = {"part": part, "round": body.round, "size": len(content)}
    if body.pieces:
        events = list_events(content, body.pieces)
        return {**answer, "events": [msgspec.to_builtins(event) for event in events]}
    return {**answer, "json": decode(content)}


def read_raw(connection: sqlite3.Connection, turn: int, part: str, number: int = -1) -> bytes | None:
    """The bytes of one content of a turn, given by its id; None if it is not recorded."""
    body = find_body(connection, turn, part, number)
    return read_content(connection, body) if body is not None else None


def sum_turns(
    connection: sqlite3.Connection, condition: Condition, *, by: str = "", step: float = 0.0
) -> list[Row]:
    """Sums over turns, grouped by a column, by spans of `step` seconds, or both.

    The latencies are means and largest values.
    """
    columns = []
    if step > 0:
        columns.append(f"CAST(started / {float(step)} AS INTEGER) * {float(step)} AS at")
    if by:
        columns.append(f"{GROUPS[by]} AS name")
    names = [column.rpartition(" ")[2] for column in columns]
    group = f"GROUP BY {', '.join(names)} ORDER BY {', '.join(names)}" if names else ""
    query = f"""
        SELECT {"".join(f"{column}, " for column in columns)} {_SUMS},
            AVG(NULLIF(first_token, 0)) AS first_token, MAX(first_token) AS slowest_first_token,
            AVG(seconds) AS seconds, MAX(seconds) AS slowest
        FROM turns WHERE {condition.sql} {group} LIMIT 10000
    """  # noqa: S608 (own names and conditions with parameters)
    return _select(connection, query, condition.values)


def _select(connection: sqlite3.Connection, query: str, values: tuple[object, ...]) -> list[Row]:
    cursor = connection.execute(query, values)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _split_lists(row: Row) -> Row:
    """The names of the lists. A turn that no target answered has an empty one."""
    lists = {
        name: [each for each in msgspec.json.decode(row[name]) if each] for name in ("models", "targets")
    }
    return {**row, **lists}
