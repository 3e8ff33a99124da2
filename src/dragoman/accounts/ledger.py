"""Reserves amounts before requests, settles them afterwards, and writes usage statistics.

Only a caller with limits waits for the file, and only before its request is sent. All other writes are
collected and written together: settlements at once, because limits depend on them, and statistics after a
short delay. Each transaction also writes everything that is pending.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from dragoman.accounts.errors import StateUnavailable
from dragoman.accounts.keys import ID_PREFIX
from dragoman.accounts.limits import NOTHING, Amount, LimitRefusal, find_hour_start
from dragoman.accounts.store import (
    Reservation,
    ReservationRequest,
    UsageCounts,
    UsageKey,
    add_usage,
    charge,
    compact_statistics,
    release_process,
    renew_process,
    reserve,
    settle,
)
from dragoman.hub.errors import ConfigError
from dragoman.storage.database import Database
from dragoman.storage.processes import LEASE, build_process_name

LOGGER = logging.getLogger("dragoman")

#: Seconds for which statistics are collected, and after which a failed write is repeated.
WRITE_DELAY = 1.0
#: Seconds between two renewals of this process while reservations are open.
RENEW_EVERY = LEASE / 4
#: Seconds between two runs of `compact_statistics`.
COMPACT_EVERY = 3600.0
#: Different usage keys within one hour. It is bounded because clients choose the model names.
MAX_USAGE_KEYS = 1000
OTHER_MODELS = "(others)"
#: Settlements that wait for a file that cannot be written. The oldest are dropped first.
MAX_SETTLEMENTS = 10_000

Result = TypeVar("Result")


class PendingWrites(msgspec.Struct):
    """Settlements, statistics, and charges without a reservation, that are not yet in the file."""

    settlements: list[tuple[Reservation, Amount]] = []
    usage: dict[UsageKey, UsageCounts] = {}
    charges: dict[tuple[str, int], Amount] = {}

    def __bool__(self) -> bool:
        return bool(self.settlements or self.usage)

    def add_settlement(self, reservation: Reservation, used: Amount) -> None:
        self.settlements.append((reservation, used))
        del self.settlements[:-MAX_SETTLEMENTS]

    def add_usage(self, key: UsageKey, counts: UsageCounts) -> None:
        present = self.usage.get(key)
        if present is None:
            self.usage[key] = counts
        else:
            present.add(counts)

    def add_charge(self, key: str, hour: int, amount: Amount) -> None:
        self.charges[(key, hour)] = self.charges.get((key, hour), NOTHING).plus(amount)

    def merge(self, later: "PendingWrites") -> None:
        """Append the writes that became pending after these."""
        for reservation, used in later.settlements:
            self.add_settlement(reservation, used)
        for usage_key, counts in later.usage.items():
            self.add_usage(usage_key, counts)
        for (key, hour), amount in later.charges.items():
            self.add_charge(key, hour, amount)

    def write(self, connection: sqlite3.Connection, now: float) -> None:
        for reservation, used in self.settlements:
            settle(connection, reservation, used, now)
        for (key, hour), amount in self.charges.items():
            charge(connection, key, amount, hour)
        add_usage(connection, self.usage)


class UsageLedger:
    """Owns the open reservations of this process and the pending writes. `clock` returns the date.

    Without a file no statistics are kept. Each successful `reserve` needs exactly one `settle`.
    """

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._process = build_process_name()
        self._keeps_statistics = database.path is not None
        self._pending = PendingWrites()
        self._hour = 0
        self._usage_keys: set[UsageKey] = set()
        #: Number of reservations that are not settled.
        self._open = 0
        self._compacted_at = 0.0
        self._has_written = False
        self._is_closed = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._renewal: asyncio.Task[None] | None = None
        self._write_task: asyncio.Task[None] | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    async def reserve(self, request: ReservationRequest) -> Reservation | LimitRefusal:
        """Reserve the maximum amount of a request, or return the limit that refuses it."""
        now, process = self._clock(), self._process
        task = self._start(self._transact(lambda connection: reserve(connection, process, request, now)))
        try:
            result = await asyncio.shield(task)
        except asyncio.CancelledError:
            # The client has disconnected, but the transaction will complete.
            task.add_done_callback(self._undo_reservation)
            raise
        if isinstance(result, Reservation):
            self._open += 1
            if self._renewal is None:
                self._renewal = self._start(self._renew_process())
        return result

    def settle(self, reservation: Reservation, used: Amount) -> None:
        """Replace the reservation by the amount used. Returns before it is written."""
        self._open -= 1
        self._pending.add_settlement(reservation, used)
        self._write_after(0)

    def add_usage(
        self, key: str, provider: str, model: str, counts: UsageCounts, *, is_settled: bool
    ) -> None:
        """Add an exchange to the statistics. `is_settled`: `settle` has charged the key already."""
        if not self._keeps_statistics:
            return
        usage_key = self._bound_usage_key(key, provider, model)
        if not is_settled and key.startswith(ID_PREFIX):
            amount = Amount(counts.input + counts.output, counts.cost)
            self._pending.add_charge(key, usage_key.hour, amount)
        self._pending.add_usage(usage_key, counts)
        self._write_after(WRITE_DELAY)

    async def flush(self) -> None:
        """Write everything pending. Tries once: a file that cannot be written stays pending."""
        if self._write_task is not None:
            await asyncio.wait((self._write_task,))
        if self._pending:
            self._write_after(0)
        if self._write_task is not None:
            await asyncio.wait((self._write_task,))

    async def close(self) -> None:
        """Write everything pending, and release the reservations that are still open."""
        if self._renewal is not None:
            self._renewal.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))
        await self.flush()
        self._is_closed = True
        if self._write_timer is not None:
            self._write_timer.cancel()
        if self._has_written:
            process = self._process
            await self._try_transact(lambda connection: release_process(connection, process))

    def _bound_usage_key(self, key: str, provider: str, model: str) -> UsageKey:
        """The usage key of this hour. Beyond `MAX_USAGE_KEYS`, new models are counted together."""
        hour = find_hour_start(self._clock())
        if hour != self._hour:
            self._hour = hour
            self._usage_keys.clear()
        usage_key = UsageKey(hour, key, provider, model)
        if usage_key not in self._usage_keys:
            if len(self._usage_keys) >= MAX_USAGE_KEYS:
                return UsageKey(hour, key, provider, OTHER_MODELS)
            self._usage_keys.add(usage_key)
        return usage_key

    def _undo_reservation(self, task: asyncio.Task[Reservation | LimitRefusal]) -> None:
        """Settle a reservation whose client disconnected before the request was sent."""
        if task.cancelled() or task.exception() is not None:
            return
        result = task.result()
        if isinstance(result, Reservation):
            self._open += 1
            self.settle(result, NOTHING)

    def _write_after(self, delay: float) -> None:
        """Schedule a write. If one is running, it schedules the next one itself."""
        if self._is_closed or self._write_task is not None:
            return
        if delay:
            if self._write_timer is None:
                loop = asyncio.get_running_loop()
                self._write_timer = loop.call_later(delay, self._write_after, 0)
            return
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        self._write_task = self._start(self._write_pending())

    async def _write_pending(self) -> None:
        is_written = await self._try_transact(self._compact_if_due)
        self._write_task = None
        if self._pending:
            self._write_after(0 if is_written and self._pending.settlements else WRITE_DELAY)

    def _compact_if_due(self, connection: sqlite3.Connection) -> None:
        now = self._clock()
        if now - self._compacted_at >= COMPACT_EVERY:
            compact_statistics(connection, now)
            self._compacted_at = now

    async def _renew_process(self) -> None:
        """While reservations are open, mark this process as alive."""
        process = self._process
        while self._open:
            await asyncio.sleep(RENEW_EVERY)
            await self._try_transact(lambda connection: renew_process(connection, process, self._clock()))
        self._renewal = None

    async def _try_transact(self, work: Callable[[sqlite3.Connection], None]) -> bool:
        try:
            await self._transact(work)
        except StateUnavailable:
            return False
        return True

    async def _transact(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run the pending writes and the work in one transaction. If it fails, they stay pending."""
        pending, self._pending = self._pending, PendingWrites()
        now = self._clock()

        def write_and_work(connection: sqlite3.Connection) -> Result:
            pending.write(connection, now)
            return work(connection)

        try:
            result = await self._database.run(write_and_work)
        except (sqlite3.Error, ConfigError) as error:
            pending.merge(self._pending)
            self._pending = pending
            LOGGER.error("the state file cannot be written: %s", error)
            raise StateUnavailable("the gateway cannot look up what this key has used; try again") from None
        self._has_written = True
        return result

    def _start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
