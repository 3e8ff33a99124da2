"""`ResponseStore`: stored responses in the gateway's database, limited by number, bytes and age.

When `put` has returned, the response outlives the process. A response that is deleted, or that makes room for
newer ones, cannot be retrieved any more. Its items stay as long as a later response continues it.

The table has a row for each response. `parent` is the row of the response that it continues. A row that is
not `visible` stays only while others continue it.
"""

import sqlite3
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from dragoman.config.settings import ResponsesSettings
from dragoman.hub.errors import DragomanError
from dragoman.responses.members import read_items
from dragoman.responses.stored_response import StoredResponse, StoredTurn, build_not_found, build_too_long
from dragoman.storage.database import Database, Schema
from dragoman.telemetry.log import log_error

MEGABYTE = 1024 * 1024
DAY = 86_400.0
#: After so many new rows the limits are checked in any case: other processes write to the file too.
CHECK_INTERVAL = 256
#: Seconds between two removals of expired responses.
SWEEP_INTERVAL = 60.0

# The small columns come first, so that counting rows does not read the large ones.
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

_SELECT_RESPONSE = """
SELECT row.id, row.owner, COALESCE(earlier.id, '') AS previous, row.created, row.status, row.input,
    row.output, row.body, row.events, row.runner, row.seen
FROM responses AS row LEFT JOIN responses AS earlier ON earlier.number = row.parent WHERE row.number = ?
"""
#: The fields of a stored response in the order of `_SELECT_RESPONSE`.
_FIELDS = (
    "id",
    "owner",
    "previous",
    "created",
    "status",
    "input",
    "output",
    "body",
    "events",
    "runner",
    "seen",
)
_UPSERT_RESPONSE = """
INSERT INTO responses
    (id, owner, parent, visible, created, size, status, runner, seen, input, output, body, events)
VALUES (:id, :owner, :parent, 1, :created, :size, :status, :runner, :seen, :input, :output, :body, :events)
ON CONFLICT (id) DO UPDATE SET
    size = excluded.size, status = excluded.status, runner = excluded.runner, seen = excluded.seen,
    output = excluded.output, body = excluded.body, events = excluded.events
RETURNING number
"""
_SELECT_ITEM_OUTPUT = """
SELECT row.output FROM response_items AS item JOIN responses AS row ON row.number = item.response
WHERE item.owner = ? AND item.item = ?
"""
_SUM_CONVERSATION = """
WITH RECURSIVE line (parent, size) AS (
    SELECT parent, size FROM responses WHERE number = ?
    UNION ALL SELECT row.parent, row.size FROM line JOIN responses AS row ON row.number = line.parent
)
SELECT SUM(size) FROM line
"""
_DELETE_UNUSED = """
DELETE FROM responses WHERE number = ? AND NOT visible
    AND NOT EXISTS (SELECT 1 FROM responses AS later WHERE later.parent = responses.number)
RETURNING parent, size
"""

Result = TypeVar("Result")


class StoreTotals(NamedTuple):
    #: The responses that can be retrieved.
    responses: int
    #: The bytes of all rows.
    size: int


class IdentifiedItem(msgspec.Struct):
    """The id of an output item."""

    id: object = ""


_read_item_ids = msgspec.json.Decoder(list[IdentifiedItem]).decode
_read_item_id = msgspec.json.Decoder(IdentifiedItem).decode


class ResponseStore:
    """`limits` is called at every use, so that a new configuration applies at once."""

    def __init__(
        self, database: Database, limits: Callable[[], ResponsesSettings], clock: Callable[[], float]
    ) -> None:
        database.add_schema(RESPONSES_SCHEMA)
        self._database = database
        self._limits = limits
        self._clock = clock
        #: Responses and bytes that may come before the limits are checked again. Only the storage thread
        #: uses these.
        self._count_left = 0
        self._bytes_left = 0
        self._swept = 0.0

    async def save(self, response: StoredResponse) -> bool:
        """Store a response, in place of the one with its id.

        False if it, or the conversation that it continues, is too large, or if the conversation is deleted.
        """
        limits, now = self._limits(), self._clock()
        if response.size > limits.max_mb * MEGABYTE:
            return False

        def work(connection: sqlite3.Connection) -> bool:
            number = _insert(connection, response)
            return number is not None and self._enforce_limits(connection, limits, now, number, response.size)

        return await self._run(work)

    async def get(self, response_id: str, owner: str) -> StoredResponse:
        since = self._find_oldest_date()

        def work(connection: sqlite3.Connection) -> StoredResponse:
            return _load(connection, _find(connection, response_id, owner, since))

        return await self._run(work)

    async def delete(self, response_id: str, owner: str) -> None:
        since = self._find_oldest_date()

        def work(connection: sqlite3.Connection) -> None:
            _hide(connection, _find(connection, response_id, owner, since))

        await self._run(work)

    async def load_turns(self, response_id: str, owner: str, limit: int) -> tuple[str, list[StoredTurn]]:
        """The status of a response, and the conversation up to it.

        Raises if the conversation is longer than `limit` bytes.
        """
        since = self._find_oldest_date()

        def work(connection: sqlite3.Connection) -> tuple[str, list[StoredTurn]]:
            number = _find(connection, response_id, owner, since)
            return _load(connection, number).status, _load_turns(connection, number, limit)

        return await self._run(work)

    async def load_items(self, ids: Sequence[str], owner: str) -> list[msgspec.Raw | None]:
        """Output items of stored responses by their ids; None for an unknown id."""
        return await self._run(lambda connection: [_load_item(connection, name, owner) for name in ids])

    async def record_heartbeat(self, runner: str) -> None:
        """Note that the process which makes background responses still runs."""
        now = self._clock()

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE responses SET seen = ? "
                "WHERE visible AND status IN ('queued', 'in_progress') AND runner = ?",
                (now, runner),
            )

        await self._run(work)

    async def count_totals(self) -> StoreTotals:
        return await self._run(_count_totals)

    async def _run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        try:
            return await self._database.run(work)
        except sqlite3.Error as error:
            log_error("the state file does not work", error=str(error))
            raise DragomanError("the gateway's state file does not work") from None

    def _find_oldest_date(self) -> float:
        return self._clock() - self._limits().max_days * DAY

    def _enforce_limits(
        self, connection: sqlite3.Connection, limits: ResponsesSettings, now: float, number: int, size: int
    ) -> bool:
        """Remove what is too old or too much, the oldest first. Called after a row is written.

        False if the written row itself is removed: with its conversation it would take all the room.
        """
        self._count_left -= 1
        self._bytes_left -= size
        if now - self._swept >= SWEEP_INTERVAL:
            self._swept = now
            while expired := _find_oldest(connection, now - limits.max_days * DAY):
                for each in expired:
                    _hide(connection, each)
        if self._count_left > 0 and self._bytes_left > 0:
            return True
        max_bytes = limits.max_mb * MEGABYTE
        count, size = _count_totals(connection)
        is_kept = True
        if count > limits.max_count or size > max_bytes:
            # A little more than necessary is removed, so that not every write has to check.
            room = max_bytes - max_bytes // 64
            is_kept = _sum_conversation(connection, number) <= room
            if not is_kept:
                count, size = count - 1, size - _hide(connection, number)
            max_count = limits.max_count - limits.max_count // 64
            count, size = _remove_oldest(connection, count, size, max_count, room)
        self._count_left = min(CHECK_INTERVAL, limits.max_count - count)
        self._bytes_left = max_bytes - size
        return is_kept


# Each of these functions is a part of a transaction of the store.


def _remove_oldest(
    connection: sqlite3.Connection, count: int, size: int, max_count: int, max_bytes: int
) -> tuple[int, int]:
    """Hide the oldest responses until the rest fits. Returns the new count and size."""
    while (count > max_count or size > max_bytes) and (candidates := _find_oldest(connection)):
        for number in candidates:
            if count <= max_count and size <= max_bytes:
                break
            size -= _hide(connection, number)
            count -= 1
    return count, size


def _find(connection: sqlite3.Connection, response_id: str, owner: str, since: float) -> int:
    """The row number of a response that can be retrieved. Raises an error of status 404 if there is none."""
    row = connection.execute(
        "SELECT number FROM responses WHERE id = ? AND owner = ? AND visible AND created >= ?",
        (response_id, owner, since),
    ).fetchone()
    if row is None:
        raise build_not_found()
    return int(row[0])


def _load(connection: sqlite3.Connection, number: int) -> StoredResponse:
    row = connection.execute(_SELECT_RESPONSE, (number,)).fetchone()
    return StoredResponse(**dict(zip(_FIELDS, row, strict=True)))


def _load_turns(connection: sqlite3.Connection, number: int, limit: int) -> list[StoredTurn]:
    """The conversation up to a response, the first turn first."""
    turns: list[StoredTurn] = []
    size = 0
    earlier: int | None = number
    while earlier is not None:
        turn_input, output, response_id, earlier = connection.execute(
            "SELECT input, output, id, parent FROM responses WHERE number = ?", (earlier,)
        ).fetchone()
        size += len(turn_input) + len(output)
        if size > limit:
            raise build_too_long(limit)
        turns.append(StoredTurn(turn_input, output, response_id))
    turns.reverse()
    return turns


def _insert(connection: sqlite3.Connection, response: StoredResponse) -> int | None:
    """Insert or replace a row. Returns its number, or None if the response that it continues is gone."""
    parent = None
    if response.previous:
        parent = connection.execute(
            "SELECT number FROM responses WHERE id = ? AND owner = ?", (response.previous, response.owner)
        ).fetchone()
        if parent is None:
            return None
    values = msgspec.structs.asdict(response) | {"size": response.size, "parent": parent and parent[0]}
    (number,) = connection.execute(_UPSERT_RESPONSE, values).fetchone()
    ids = [item.id for item in _read_item_ids(response.output) if isinstance(item.id, str) and item.id]
    connection.executemany(
        "INSERT OR REPLACE INTO response_items (owner, item, response) VALUES (?, ?, ?)",
        [(response.owner, name, number) for name in ids],
    )
    return int(number)


def _sum_conversation(connection: sqlite3.Connection, number: int) -> int:
    """The bytes of a response and of all responses that it continues."""
    (size,) = connection.execute(_SUM_CONVERSATION, (number,)).fetchone()
    return int(size)


def _load_item(connection: sqlite3.Connection, item_id: str, owner: str) -> msgspec.Raw | None:
    row = connection.execute(_SELECT_ITEM_OUTPUT, (owner, item_id)).fetchone()
    if row is None:
        return None
    return next((item for item in read_items(row[0]) if _read_item_id(item).id == item_id), None)


def _hide(connection: sqlite3.Connection, number: int) -> int:
    """Make a response impossible to retrieve. Returns the bytes that become free.

    Deletes the row, and the rows before it, as far as no other response continues them.
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
        row = connection.execute(_DELETE_UNUSED, (last,)).fetchone()
        last = row[0] if row else None
        freed += row[1] if row else 0
    return freed


def _count_totals(connection: sqlite3.Connection) -> StoreTotals:
    count, size = connection.execute(
        "SELECT COALESCE(SUM(visible), 0), COALESCE(SUM(size), 0) FROM responses"
    ).fetchone()
    return StoreTotals(count, size)


def _find_oldest(connection: sqlite3.Connection, before: float | None = None) -> list[int]:
    """The oldest responses that can be retrieved, at most 64; with `before` only those from before a date."""
    return [
        number
        for (number,) in connection.execute(
            "SELECT number FROM responses WHERE visible AND (?1 IS NULL OR created < ?1) "
            "ORDER BY created, number LIMIT 64",
            (before,),
        )
    ]
