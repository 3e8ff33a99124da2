"""The statements behind the store. Each function does its part of somebody else's transaction."""

import sqlite3
from typing import NamedTuple

import msgspec

from dragoman.responses.stored import Kept, Stored, items_of, too_long
from dragoman.storage.database import Schema

#: `parent` is the response that a response continues. A row that is not `visible` stays only while others
#: continue it. The small columns come first, so that counting rows does not read the large ones.
RESPONSES_SCHEMA = Schema(
    "responses",
    (
        """
CREATE TABLE IF NOT EXISTS responses (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    parent INTEGER REFERENCES responses (number),
    visible INTEGER NOT NULL,
    created REAL NOT NULL,
    size INTEGER NOT NULL,
    status TEXT NOT NULL,
    runner TEXT NOT NULL,
    seen REAL NOT NULL,
    input BLOB NOT NULL,
    output BLOB NOT NULL,
    body BLOB NOT NULL,
    events BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS responses_by_parent ON responses (parent) WHERE parent IS NOT NULL;
CREATE INDEX IF NOT EXISTS responses_by_age ON responses (visible, created, size);
CREATE TABLE IF NOT EXISTS response_items (
    owner TEXT NOT NULL,
    item TEXT NOT NULL,
    response INTEGER NOT NULL REFERENCES responses (number) ON DELETE CASCADE,
    PRIMARY KEY (owner, item)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS response_items_by_response ON response_items (response)
""",
    ),
)

_STORED = """
SELECT row.id, row.owner, earlier.id, row.created, row.status, row.input, row.output, row.body, row.events,
    row.runner, row.seen
FROM responses AS row LEFT JOIN responses AS earlier ON earlier.number = row.parent WHERE row.number = ?
"""
_PUT = """
INSERT INTO responses
    (id, owner, parent, visible, created, size, status, runner, seen, input, output, body, events)
VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
    size = excluded.size, status = excluded.status, runner = excluded.runner, seen = excluded.seen,
    output = excluded.output, body = excluded.body, events = excluded.events
RETURNING number
"""
_ITEM = """
SELECT row.output FROM response_items AS item JOIN responses AS row ON row.number = item.response
WHERE item.owner = ? AND item.item = ?
"""
_WEIGHT = """
WITH RECURSIVE line (parent, size) AS (
    SELECT parent, size FROM responses WHERE number = ?
    UNION ALL SELECT row.parent, row.size FROM line JOIN responses AS row ON row.number = line.parent
)
SELECT SUM(size) FROM line
"""


class Totals(NamedTuple):
    #: Of those that can be asked for.
    responses: int
    #: Of all rows.
    size: int


class Named(msgspec.Struct):
    """What an item of an output is called."""

    id: object = ""


_names = msgspec.json.Decoder(list[Named]).decode
_name = msgspec.json.Decoder(Named).decode


def find(connection: sqlite3.Connection, response_id: str, owner: str, since: float) -> int | None:
    """The number of a response that can be asked for."""
    row = connection.execute(
        "SELECT number FROM responses WHERE id = ? AND owner = ? AND visible AND created >= ?",
        (response_id, owner, since),
    ).fetchone()
    return None if row is None else int(row[0])


def load(connection: sqlite3.Connection, number: int) -> Stored:
    row = connection.execute(_STORED, (number,)).fetchone()
    return Stored(
        id=row[0],
        owner=row[1],
        previous=row[2] or "",
        created=row[3],
        status=row[4],
        input=row[5],
        output=row[6],
        body=row[7],
        events=row[8],
        runner=row[9],
        seen=row[10],
    )


def turns(connection: sqlite3.Connection, number: int, limit: int) -> list[Kept]:
    """The conversation up to a response, the first turn first."""
    found: list[Kept] = []
    size = 0
    earlier: int | None = number
    while earlier is not None:
        turn_input, output, name, earlier = connection.execute(
            "SELECT input, output, id, parent FROM responses WHERE number = ?", (earlier,)
        ).fetchone()
        size += len(turn_input) + len(output)
        if size > limit:
            raise too_long(limit)
        found.append(Kept(turn_input, output, name))
    found.reverse()
    return found


def put(connection: sqlite3.Connection, response: Stored) -> int | None:
    """Insert or replace; gives its number, or None if what it continues is gone."""
    parent = None
    if response.previous:
        parent = connection.execute(
            "SELECT number FROM responses WHERE id = ? AND owner = ?", (response.previous, response.owner)
        ).fetchone()
        if parent is None:
            return None
    values = (
        response.id,
        response.owner,
        parent and parent[0],
        response.created,
        response.size,
        response.status,
        response.runner,
        response.seen,
        response.input,
        response.output,
        response.body,
        response.events,
    )
    (number,) = connection.execute(_PUT, values).fetchone()
    names = [item.id for item in _names(response.output) if isinstance(item.id, str) and item.id]
    connection.executemany(
        "INSERT OR REPLACE INTO response_items (owner, item, response) VALUES (?, ?, ?)",
        [(response.owner, name, number) for name in names],
    )
    return int(number)


def weight(connection: sqlite3.Connection, number: int) -> int:
    """The bytes of a response and of all that it continues: what must be kept if it is."""
    (size,) = connection.execute(_WEIGHT, (number,)).fetchone()
    return int(size)


def item(connection: sqlite3.Connection, name: str, owner: str) -> msgspec.Raw | None:
    """An item of some stored output."""
    row = connection.execute(_ITEM, (owner, name)).fetchone()
    if row is None:
        return None
    return next((each for each in items_of(row[0]) if _name(each).id == name), None)


def hide(connection: sqlite3.Connection, number: int) -> int:
    """Nobody can ask for it any more; gives the bytes that this makes free.

    Rows that nobody needs are gone, this one and those before it.
    """
    (size, kept) = connection.execute(
        "SELECT size, size - LENGTH(body) - LENGTH(events) FROM responses WHERE number = ?", (number,)
    ).fetchone()
    connection.execute(
        "UPDATE responses SET visible = 0, body = x'', events = x'', size = ? WHERE number = ?",
        (kept, number),
    )
    connection.execute("DELETE FROM response_items WHERE response = ?", (number,))
    freed = int(size - kept)
    last: int | None = number
    while last is not None:
        row = connection.execute(
            "DELETE FROM responses WHERE number = ? AND NOT visible AND NOT EXISTS "
            "(SELECT 1 FROM responses AS later WHERE later.parent = responses.number) RETURNING parent, size",
            (last,),
        ).fetchone()
        last = row[0] if row else None
        freed += row[1] if row else 0
    return freed


def touch(connection: sqlite3.Connection, runner: str, now: float) -> None:
    connection.execute(
        "UPDATE responses SET seen = ? WHERE visible AND status IN ('queued', 'in_progress') AND runner = ?",
        (now, runner),
    )


def totals(connection: sqlite3.Connection) -> Totals:
    count, size = connection.execute(
        "SELECT COALESCE(SUM(visible), 0), COALESCE(SUM(size), 0) FROM responses"
    ).fetchone()
    return Totals(count, size)


def oldest(connection: sqlite3.Connection, before: float | None = None) -> list[int]:
    """The oldest responses that can be asked for, some at a time; or those from before a date."""
    return [
        number
        for (number,) in connection.execute(
            "SELECT number FROM responses WHERE visible AND (?1 IS NULL OR created < ?1) "
            "ORDER BY created, number LIMIT 64",
            (before,),
        )
    ]
