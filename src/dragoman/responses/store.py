"""`ResponseStore`: stored responses in the gateway's database, limited by number, bytes and age.

When `put` has returned, the response outlives the process. A response that is deleted, or that makes room for
newer ones, cannot be retrieved any more. Its items stay as long as a later response continues it.

The table has a row for each response. `parent` is the row of the response that it continues. A row that is
not `visible` stays only while others continue it.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import msgspec

from dragoman.config.settings import ResponsesSettings
from dragoman.hub.errors import ConfigError, DragomanError, Failure
from dragoman.responses.members import read_items
from dragoman.responses.stored_response import StoredResponse, StoredTurn, build_not_found, build_too_long
from dragoman.responses.tables import (
    DELETE_UNUSED,
    RESPONSES_SCHEMA,
    SELECT_ITEM_OUTPUT,
    SELECT_RESPONSE,
    SELECT_TURNS,
    SUM_CONVERSATION,
    UPSERT_ITEM,
    UPSERT_RESPONSE,
)
from dragoman.storage.port import StateStorage, Transaction, Work
from dragoman.telemetry.log import log_error

MEGABYTE = 1024 * 1024
DAY = 86_400.0
#: After so many new rows the limits are checked in any case: other processes write to the file too.
CHECK_INTERVAL = 256
#: Seconds between two removals of expired responses.
SWEEP_INTERVAL = 60.0

#: The lock of works that delete. Two of them at once could both keep a row that only the other one needs.
DELETION_LOCK = "responses deletion"

#: The fields of a stored response in the order of `SELECT_RESPONSE`.
_FIELDS = (
    *("id", "owner", "previous", "created", "status", "input"),
    *("output", "body", "events", "runner", "seen"),
)

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
    """Owns the stored responses in the state.

    `limits` returns the current settings. It is called at every use, so that a new configuration applies at
    once. `clock` returns the date.
    """

    def __init__(
        self, storage: StateStorage, limits: Callable[[], ResponsesSettings], clock: Callable[[], float]
    ) -> None:
        storage.add_schema(RESPONSES_SCHEMA)
        self._storage = storage
        self._limits = limits
        self._clock = clock
        #: Responses and bytes that may come before the limits are checked again.
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
        number = await self._run(lambda transaction: _insert(transaction, response))
        if number is None:
            return False
        self._count_left -= 1
        self._bytes_left -= response.size
        is_sweeping = now - self._swept >= SWEEP_INTERVAL
        if not is_sweeping and self._count_left > 0 and self._bytes_left > 0:
            return True
        expiry = now - limits.max_days * DAY if is_sweeping else None
        is_kept, totals = await self._run(
            lambda transaction: _enforce_limits(transaction, limits, expiry, number), locks=(DELETION_LOCK,)
        )
        self._swept = now if is_sweeping else self._swept
        self._count_left = min(CHECK_INTERVAL, limits.max_count - totals.responses)
        self._bytes_left = limits.max_mb * MEGABYTE - totals.size
        return is_kept

    async def get(self, response_id: str, owner: str) -> StoredResponse:
        since = self._find_oldest_date()

        async def work(transaction: Transaction) -> StoredResponse:
            return await _load(transaction, await _find(transaction, response_id, owner, since))

        return await self._read(work)

    async def delete(self, response_id: str, owner: str) -> None:
        since = self._find_oldest_date()

        async def work(transaction: Transaction) -> None:
            await _hide(transaction, await _find(transaction, response_id, owner, since))

        await self._run(work, locks=(DELETION_LOCK,))

    async def load_turns(self, response_id: str, owner: str, limit: int) -> tuple[str, list[StoredTurn]]:
        """The status of a response, and the conversation up to it.

        Raises if the conversation is longer than `limit` bytes.
        """
        since = self._find_oldest_date()

        async def work(transaction: Transaction) -> tuple[str, list[StoredTurn]]:
            number = await _find(transaction, response_id, owner, since)
            turns = await _load_turns(transaction, number, limit)
            return (await _load(transaction, number)).status, turns

        return await self._read(work)

    async def load_items(self, ids: Sequence[str], owner: str) -> list[msgspec.Raw | None]:
        """Output items of stored responses by their ids; None for an unknown id."""

        async def work(transaction: Transaction) -> list[msgspec.Raw | None]:
            return [await _load_item(transaction, name, owner) for name in ids]

        return await self._read(work)

    async def record_heartbeat(self, runner: str) -> None:
        """Note that the process which makes background responses still runs."""
        now = self._clock()

        async def work(transaction: Transaction) -> None:
            await transaction.execute(
                "UPDATE responses SET seen = $1 "
                "WHERE visible = 1 AND status IN ('queued', 'in_progress') AND runner = $2",
                now,
                runner,
            )

        await self._run(work)

    async def request_cancel(self, response_id: str, owner: str) -> None:
        """Ask the process that makes a response to cancel it."""

        async def work(transaction: Transaction) -> None:
            await transaction.execute(
                "UPDATE responses SET cancelled = 1 WHERE id = $1 AND owner = $2", response_id, owner
            )

        await self._run(work)

    async def find_cancelled(self, ids: Sequence[str]) -> list[str]:
        """Those of the responses that another process was asked to cancel."""
        places = ", ".join(f"${number + 1}" for number in range(len(ids)))
        statement = f"SELECT id FROM responses WHERE cancelled = 1 AND id IN ({places})"  # noqa: S608 (only places)

        async def work(transaction: Transaction) -> list[str]:
            return [row[0] for row in await transaction.fetch(statement, *ids)]

        return await self._read(work)

    async def _run(self, work: Work[Result], locks: Collection[str] = ()) -> Result:
        with _reported_errors():
            return await self._storage.run(work, locks=locks)

    async def _read(self, work: Work[Result]) -> Result:
        with _reported_errors():
            return await self._storage.read(work)

    def _find_oldest_date(self) -> float:
        return self._clock() - self._limits().max_days * DAY


#: Clients repeat a request that gets this error.
UNAVAILABLE = Failure(
    kind="overloaded", status=503, message="the gateway's state does not work at the moment; try again"
)


@contextmanager
def _reported_errors() -> Iterator[None]:
    """Log errors of the state, and raise them as one that a client may see."""
    try:
        yield
    except ConfigError as error:
        log_error("the state does not work", error=error.message)
        raise DragomanError(UNAVAILABLE.message, failure=UNAVAILABLE) from None


# Each of these functions is a part of a transaction of the store.


async def _enforce_limits(
    transaction: Transaction, limits: ResponsesSettings, expiry: float | None, number: int
) -> tuple[bool, StoreTotals]:
    """Remove what is older than `expiry`, and what is too much, the oldest first. Called after a write.

    Returns the totals, and False if the written row itself is removed: with its conversation it would take
    all the room.
    """
    while expiry is not None and (expired := await _find_oldest(transaction, expiry)):
        for each in expired:
            await _hide(transaction, each)
    max_bytes = limits.max_mb * MEGABYTE
    totals = await _count_totals(transaction)
    if totals.responses <= limits.max_count and totals.size <= max_bytes:
        return True, totals
    # A little more than necessary is removed, so that not every write has to check.
    room = StoreTotals(limits.max_count - limits.max_count // 64, max_bytes - max_bytes // 64)
    is_kept = (await _sum_conversation(transaction, number))[0] <= room.size
    if not is_kept:
        totals = StoreTotals(totals.responses - 1, totals.size - await _hide(transaction, number))
    return is_kept, await _remove_oldest(transaction, totals, room)


async def _remove_oldest(transaction: Transaction, totals: StoreTotals, room: StoreTotals) -> StoreTotals:
    """Delete the oldest responses for clients until the rest fits. Returns the new totals.

    Items that a later response continues stay in the file until that one is deleted, too.
    """
    count, size = totals
    while (count > room.responses or size > room.size) and (candidates := await _find_oldest(transaction)):
        for number in candidates:
            if count <= room.responses and size <= room.size:
                break
            size -= await _hide(transaction, number)
            count -= 1
    return StoreTotals(count, size)


async def _find(transaction: Transaction, response_id: str, owner: str, since: float) -> int:
    """The row number of a response that can be retrieved. Raises an error of status 404 if there is none."""
    row = await transaction.fetch_one(
        "SELECT number FROM responses WHERE id = $1 AND owner = $2 AND visible = 1 AND created >= $3",
        response_id,
        owner,
        since,
    )
    if row is None:
        raise build_not_found()
    return int(row[0])


async def _load(transaction: Transaction, number: int) -> StoredResponse:
    (row,) = await transaction.fetch(SELECT_RESPONSE, number)
    return StoredResponse(**dict(zip(_FIELDS, row, strict=True)))


async def _load_turns(transaction: Transaction, number: int, limit: int) -> list[StoredTurn]:
    """The conversation up to a response, the first turn first."""
    if (await _sum_conversation(transaction, number))[1] > limit:
        raise build_too_long(limit)
    return [StoredTurn(*row) for row in await transaction.fetch(SELECT_TURNS, number)]


async def _insert(transaction: Transaction, response: StoredResponse) -> int | None:
    """Insert or replace a row. Returns its number, or None if the response that it continues is gone."""
    parent = None
    if response.previous:
        parent = await transaction.fetch_one(
            "SELECT number FROM responses WHERE id = $1 AND owner = $2", response.previous, response.owner
        )
        if parent is None:
            return None
    ((number,),) = await transaction.fetch(
        UPSERT_RESPONSE,
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
    ids = {item.id for item in _read_item_ids(response.output) if isinstance(item.id, str) and item.id}
    await transaction.execute_many(UPSERT_ITEM, [(response.owner, name, number) for name in sorted(ids)])
    return int(number)


async def _sum_conversation(transaction: Transaction, number: int) -> tuple[int, int]:
    """The sizes of a response and of all responses that it continues; and the bytes of their items."""
    ((size, items),) = await transaction.fetch(SUM_CONVERSATION, number)
    return size, items


async def _load_item(transaction: Transaction, item_id: str, owner: str) -> msgspec.Raw | None:
    row = await transaction.fetch_one(SELECT_ITEM_OUTPUT, owner, item_id)
    if row is None:
        return None
    return next((item for item in read_items(row[0]) if _read_item_id(item).id == item_id), None)


async def _hide(transaction: Transaction, number: int) -> int:
    """Make a response impossible to retrieve. Returns the bytes that become free.

    Deletes the row, and the rows before it, as far as no other response continues them.
    """
    ((size, kept),) = await transaction.fetch(
        "SELECT size, size - LENGTH(body) - LENGTH(events) FROM responses WHERE number = $1", number
    )
    await transaction.execute(
        "UPDATE responses SET visible = 0, body = $2, events = $2, size = $3 WHERE number = $1",
        number,
        b"",
        kept,
    )
    await transaction.execute("DELETE FROM response_items WHERE response = $1", number)
    freed = int(size - kept)
    last: int | None = number
    while last is not None:
        row = await transaction.fetch_one(DELETE_UNUSED, last)
        last = row[0] if row else None
        freed += row[1] if row else 0
    return freed


async def _count_totals(transaction: Transaction) -> StoreTotals:
    ((count, size),) = await transaction.fetch(
        "SELECT CAST(COALESCE(SUM(visible), 0) AS BIGINT), CAST(COALESCE(SUM(size), 0) AS BIGINT)"
        " FROM responses"
    )
    return StoreTotals(count, size)


async def _find_oldest(transaction: Transaction, before: float = math.inf) -> list[int]:
    """The oldest responses that can be retrieved, at most 64, from before a date."""
    rows = await transaction.fetch(
        "SELECT number FROM responses WHERE visible = 1 AND created < $1 ORDER BY created, number LIMIT 64",
        before,
    )
    return [row[0] for row in rows]
