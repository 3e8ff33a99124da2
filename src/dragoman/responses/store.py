"""Keeps responses in the gateway's database, within bounds: so many, so many bytes, for so long.

When `put` has returned, the response outlives the process. A response that is deleted, or gives way to newer
ones, cannot be asked for any more; what it said stays as long as a later response continues it.
"""

import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from dragoman.config.model import ResponsesSettings
from dragoman.hub.errors import DragomanError
from dragoman.responses import rows
from dragoman.responses.stored import Kept, Stored, not_found
from dragoman.storage.database import Database
from dragoman.telemetry.log import log_error

MEGABYTE = 1024 * 1024
DAY = 86_400.0
#: After so many new rows the bounds are looked at even if there seems to be room: others may write, too.
LOOK_EVERY = 256
#: Seconds between two looks for what has expired.
SWEEP_EVERY = 60.0

Result = TypeVar("Result")


class ResponseStore:
    """`bounds` are asked for at every use, so that a new configuration holds at once."""

    def __init__(
        self, database: Database, bounds: Callable[[], ResponsesSettings], clock: Callable[[], float]
    ) -> None:
        database.add_schema(rows.RESPONSES_SCHEMA)
        self._database = database
        self._bounds = bounds
        self._clock = clock
        #: How many responses and bytes may come before somebody must look again. The storage thread's.
        self._count_left = 0
        self._bytes_left = 0
        self._swept = 0.0

    async def put(self, response: Stored) -> bool:
        """Keep it, in place of what was kept under its id. False: it or its past is too large, or gone."""
        bounds, now = self._bounds(), self._clock()
        if response.size > bounds.max_mb * MEGABYTE:
            return False

        def work(connection: sqlite3.Connection) -> bool:
            number = rows.put(connection, response)
            return number is not None and self._keep_within(connection, bounds, now, number, response.size)

        return await self._run(work)

    async def get(self, response_id: str, owner: str) -> Stored:
        since = self._since()
        return await self._run(
            lambda connection: rows.load(connection, _found(connection, response_id, owner, since))
        )

    async def delete(self, response_id: str, owner: str) -> None:
        since = self._since()

        def work(connection: sqlite3.Connection) -> None:
            rows.hide(connection, _found(connection, response_id, owner, since))

        await self._run(work)

    async def turns(self, response_id: str, owner: str, limit: int) -> tuple[str, list[Kept]]:
        """The status of a response, and the conversation up to it, of at most so many bytes."""
        since = self._since()

        def work(connection: sqlite3.Connection) -> tuple[str, list[Kept]]:
            number = _found(connection, response_id, owner, since)
            return rows.load(connection, number).status, rows.turns(connection, number, limit)

        return await self._run(work)

    async def items(self, names: Sequence[str], owner: str) -> list[msgspec.Raw | None]:
        """Items that stored responses have given out, by their ids."""
        return await self._run(lambda connection: [rows.item(connection, name, owner) for name in names])

    async def touch(self, runner: str) -> None:
        """The runner lives."""
        now = self._clock()
        await self._run(lambda connection: rows.touch(connection, runner, now))

    async def totals(self) -> rows.Totals:
        return await self._run(rows.totals)

    async def _run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        try:
            return await self._database.run(work)
        except sqlite3.Error as error:
            log_error("the state file does not work", error=str(error))
            raise DragomanError("the gateway's state file does not work") from None

    def _since(self) -> float:
        return self._clock() - self._bounds().max_days * DAY

    def _keep_within(
        self, connection: sqlite3.Connection, bounds: ResponsesSettings, now: float, number: int, size: int
    ) -> bool:
        """After a write: what is too old or too much goes, the oldest first.

        False if that is what was written: with all that it continues it would leave no room for others.
        """
        self._count_left -= 1
        self._bytes_left -= size
        if now - self._swept >= SWEEP_EVERY:
            self._swept = now
            while expired := rows.oldest(connection, now - bounds.max_days * DAY):
                for each in expired:
                    rows.hide(connection, each)
        if self._count_left > 0 and self._bytes_left > 0:
            return True
        most = bounds.max_mb * MEGABYTE
        count, size = rows.totals(connection)
        is_kept = True
        if count > bounds.max_count or size > most:
            # A little more than necessary, so that not every write has to look.
            room = most - most // 64
            is_kept = rows.weight(connection, number) <= room
            if not is_kept:
                count, size = count - 1, size - rows.hide(connection, number)
            count, size = _make_room(connection, count, size, bounds.max_count - bounds.max_count // 64, room)
        self._count_left = min(LOOK_EVERY, bounds.max_count - count)
        self._bytes_left = most - size
        return is_kept


def _make_room(
    connection: sqlite3.Connection, count: int, size: int, most: int, most_bytes: int
) -> tuple[int, int]:
    """The oldest go until the rest fits; what is left of both numbers."""
    while (count > most or size > most_bytes) and (candidates := rows.oldest(connection)):
        for number in candidates:
            if count <= most and size <= most_bytes:
                break
            size -= rows.hide(connection, number)
            count -= 1
    return count, size


def _found(connection: sqlite3.Connection, response_id: str, owner: str, since: float) -> int:
    number = rows.find(connection, response_id, owner, since)
    if number is None:
        raise not_found()
    return number
