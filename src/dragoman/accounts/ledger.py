"""Reserves amounts before requests, settles them afterwards, and writes usage statistics.

Only a caller with limits waits for the state, and only before its request is sent. All other writes are
collected and written together: settlements at once, because limits depend on them, and statistics after a
short delay. A reservation also writes the settlements of its key that are pending. A busy key of a shared
state has a lease (`leases`), from which requests are admitted without waiting.
"""

import asyncio
import itertools
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from dragoman.accounts.errors import StateUnavailable, UncertainWrite
from dragoman.accounts.journal import UsageJournal
from dragoman.accounts.keys import ID_PREFIX
from dragoman.accounts.lease_book import LeaseBook
from dragoman.accounts.leases import KeyLease, LeasePolicy, take_lease
from dragoman.accounts.limits import NOTHING, Amount, LimitRefusal, find_hour_start
from dragoman.accounts.outage import OutageLimits
from dragoman.accounts.pending import OUTBOXES, PendingWrites, save_outbox, take_outboxes
from dragoman.accounts.statistics import UsageCounts, UsageKey, UsageKeyBound, compact_statistics
from dragoman.accounts.store import (
    Reservation,
    ReservationRequest,
    count_processes,
    create_reservation_id,
    find_dead_processes,
    find_reserved_keys,
    release_process,
    renew_process,
    reserve,
)
from dragoman.hub.errors import ConfigError
from dragoman.storage.database import StorageError
from dragoman.storage.port import StateStorage, Transaction, Work
from dragoman.storage.processes import PROCESS_TIMEOUT, build_process_name

LOGGER = logging.getLogger("dragoman")

#: Seconds for which statistics are collected, and after which a failed write is repeated.
WRITE_DELAY = 1.0
#: Seconds between two renewals of this process while reservations are open.
RENEW_EVERY = PROCESS_TIMEOUT / 4
#: Seconds between two runs of `compact_statistics`.
COMPACT_EVERY = 3600.0

Result = TypeVar("Result")


class UsageLedger:
    """Owns the open reservations of this process and the pending writes. `clock` returns the date.

    Without a lasting state no statistics are kept. Each successful `reserve` needs exactly one `settle`.
    `policy` is for the leases of busy keys, which only a shared state has.
    """

    def __init__(
        self, storage: StateStorage, clock: Callable[[], float], policy: LeasePolicy | None = None
    ) -> None:
        self._storage = storage
        self._clock = clock
        self.process = build_process_name()
        #: The ids of reservations. Rows with increasing numbers are cheaper to insert.
        self._ids = itertools.count(create_reservation_id())
        self._pending = PendingWrites()
        #: Batches whose commit was not answered. They keep their content and their id.
        self._uncertain: list[PendingWrites] = []
        self._has_outbox = False
        self._journal = UsageJournal(storage.folder if storage.is_lasting else None)
        self._has_leftovers = True
        self._usage_keys = UsageKeyBound()
        #: Number of reservations that are not settled.
        self._open = 0
        self._is_registered = False
        #: Gateways that share the state, as last seen.
        self._gateways = 1
        self._outage = OutageLimits(random.random)
        self._leases = LeaseBook(self.process, lambda: next(self._ids), policy or LeasePolicy())
        self._compacted_at = 0.0
        self._logged_at = -WRITE_DELAY
        self._has_written = False
        self._is_closed = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._renewal: asyncio.Task[None] | None = None
        self._write_task: asyncio.Task[None] | None = None
        self._written_keys: set[str] = set()
        self._write_timer: asyncio.TimerHandle | None = None

    def recover(self) -> None:
        """Write what processes that were killed have left. Called when the gateway starts."""
        folder = self._storage.folder
        if self._journal.has_leftovers() or (folder is not None and any(folder.glob(OUTBOXES))):
            self._write_after(0)

    async def reserve(self, request: ReservationRequest) -> Reservation | LimitRefusal:
        """Reserve the maximum amount of a request, or return the limit that refuses it."""
        leased = self._leases.admit(request, self._clock()) if self._storage.is_shared else None
        if leased is not None:
            self._open += 1
            return leased
        task = self._start(self._reserve(request))
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
        if self._leases.settle(reservation, used):
            return
        if reservation.id:
            self._journal.add_settlement(self._pending, reservation, used)
        else:
            # The state did not answer when the request was admitted.
            charged_key = UsageKey(find_hour_start(reservation.at), reservation.request.key, "", "")
            self._journal.add_exchange(self._pending, charged_key, None, used)
        self._write_after(0)

    def add_usage(self, key: UsageKey, counts: UsageCounts, *, is_settled: bool) -> None:
        """Add an exchange to the statistics of this hour. The hour of `key` is ignored.

        `is_settled`: `settle` has charged the key already.
        """
        if not self._storage.is_lasting:
            return
        is_charged = not is_settled and key.key.startswith(ID_PREFIX)
        charged = Amount(counts.input + counts.output, counts.cost) if is_charged else None
        usage_key = self._usage_keys.apply(key, find_hour_start(self._clock()))
        self._journal.add_exchange(self._pending, usage_key, counts, charged)
        self._write_after(WRITE_DELAY)

    async def flush(self) -> None:
        """Write everything pending. Tries once: a state that cannot be written stays pending."""
        if self._write_task is not None:
            await asyncio.wait((self._write_task,))
        if self._pending or self._uncertain:
            self._write_after(0)
        while self._write_task is not None:
            await asyncio.wait((self._write_task,))

    async def close(self) -> None:
        """Write everything pending, and release the reservations that are still open."""
        if self._renewal is not None:
            self._renewal.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))
        for lease in self._leases.list_active():
            self._return_lease(lease)
        await self.flush()
        self._is_closed = True
        if self._write_timer is not None:
            self._write_timer.cancel()
        if self._has_written:
            await self._try_release(self.process)
        self._journal.close([*self._uncertain, self._pending])

    async def _reserve(self, request: ReservationRequest) -> Reservation | LimitRefusal:
        if self._write_task is not None and request.key in self._written_keys:
            # The settlement of an earlier request of this key is on its way.
            await asyncio.wait((self._write_task,))
        try:
            result = await self._try_reserve(request)
            is_busy = isinstance(result, LimitRefusal) and not result.is_spent and result.period != "minute"
            # Perhaps a process that has died holds the rest of the budget.
            if is_busy and await self._release_dead_processes():
                result = await self._try_reserve(request)
        except StateUnavailable:
            if not self._storage.is_shared:
                raise
            return self._outage.reserve(request, self._clock(), self._gateways)
        self._outage.forget(request.key)
        return result

    async def _try_reserve(self, request: ReservationRequest) -> Reservation | LimitRefusal:
        now, process, number, lease_id = self._clock(), self.process, next(self._ids), next(self._ids)
        key, shared = request.key, self._storage.is_shared
        demand = self._leases.find_demand(key, request.limits, self._gateways) if shared else None

        async def work(transaction: Transaction) -> tuple[Reservation | LimitRefusal, KeyLease | None]:
            if not self._is_registered:
                self._gateways = await self._renew_and_count(transaction)
            result = await reserve(transaction, process, request, now, number)
            if demand is None or isinstance(result, LimitRefusal):
                return result, None
            return result, await take_lease(transaction, process, demand, now, lease_id)

        batch = self._pending.take_settlements(key) if shared else self._take_pending()
        lease: KeyLease | None = None
        try:
            result, lease = await self._transact(work, batch, {key})
        except UncertainWrite:
            # The reservation and the slice may be stored. Settling them with nothing deletes them.
            for unknown in (number, lease_id) if demand is not None else (number,):
                self._pending.add_settlement(Reservation(id=unknown, request=request, at=now), NOTHING)
            self._write_after(WRITE_DELAY)
            raise
        finally:
            if demand is not None:
                self._use_lease(key, lease)
        self._is_registered = True
        return result

    def _use_lease(self, key: str, lease: KeyLease | None) -> None:
        former = self._leases.open_lease(key, lease)
        if former is not None:
            self._return_lease(former)
        if lease is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(max(0.0, lease.until - self._clock()), self._return_lease, lease)

    def _return_lease(self, lease: KeyLease) -> None:
        returned = self._leases.end_lease(lease)
        if returned is not None:
            self._pending.returns.append(returned)
            self._write_after(0)

    async def _release_dead_processes(self) -> bool:
        """Release the reservations of processes that have died. Returns whether there were any."""
        process, now = self.process, self._clock()
        try:
            dead = await self._storage.read(
                lambda transaction: find_dead_processes(transaction, process, now)
            )
        except ConfigError:
            return False
        for other, keys in dead.items():
            await self._try_release(other, keys)
        return bool(dead)

    async def _try_release(self, process: str, keys: list[str] | None = None) -> None:
        """Release the reservations of a process. Their keys are locked."""
        locks = {process, *(keys or ())}
        try:
            if keys is None:
                locks |= set(
                    await self._storage.read(lambda transaction: find_reserved_keys(transaction, process))
                )
            await self._storage.run(lambda transaction: release_process(transaction, process), locks=locks)
        except ConfigError as error:
            LOGGER.error("the reservations of a process cannot be released: %s", error)

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
        is_written = await self._write_batches()
        self._write_task = None
        self._written_keys = set()
        if self._pending or self._uncertain:
            self._write_after(0 if is_written and self._pending.affects_limits else WRITE_DELAY)

    async def _write_batches(self) -> bool:
        """Write the uncertain batches and the pending one. If that fails, they are also kept in a file."""
        folder = self._storage.folder
        if self._has_leftovers and folder is not None:
            self._has_leftovers = False
            outboxes = await asyncio.to_thread(take_outboxes, folder, self.process)
            self._uncertain += outboxes
            self._has_outbox = bool(outboxes)
            self._uncertain += await self._journal.take()
        try:
            while self._uncertain:
                await self._transact(_do_nothing, self._uncertain[0])
                del self._uncertain[0]
            batch = self._take_pending()
            self._written_keys = batch.list_keys() if self._storage.is_shared else set()
            await self._transact(self._compact_if_due, batch)
            self._journal.confirm_deletion()
        except StateUnavailable:
            await self._save_outbox()
            return False
        if self._has_outbox:
            await self._save_outbox()
        return True

    async def _save_outbox(self) -> None:
        if self._storage.is_shared and self._storage.folder is not None:
            batches = [*self._uncertain, self._pending, PendingWrites(settlements=self._leases.list_late())]
            self._has_outbox = any(batches)
            await asyncio.to_thread(save_outbox, self._storage.folder, self.process, batches)

    def _take_pending(self) -> PendingWrites:
        pending, self._pending = self._pending, PendingWrites()
        return pending

    async def _compact_if_due(self, transaction: Transaction) -> None:
        now = self._clock()
        if now - self._compacted_at >= COMPACT_EVERY:
            await compact_statistics(transaction, now)
            self._compacted_at = now
        await self._journal.delete_ids(transaction)

    async def _renew_process(self) -> None:
        """Mark this process as alive: in a shared state always, else while reservations are open."""
        while self._open or self._storage.is_shared:
            await asyncio.sleep(RENEW_EVERY)
            try:
                self._gateways = await self._storage.run(self._renew_and_count)
                if self._storage.is_shared:
                    await self._release_dead_processes()
            except ConfigError as error:
                self._log_failure(error)
        self._renewal, self._is_registered = None, False

    async def _renew_and_count(self, transaction: Transaction) -> int:
        now = self._clock()
        await renew_process(transaction, self.process, now)
        return await count_processes(transaction, now)

    async def _transact(
        self, work: Work[Result], batch: PendingWrites, keys: frozenset[str] | set[str] = frozenset()
    ) -> Result:
        """Write the batch and run the work in one transaction. If it fails, the batch stays pending."""
        now, is_shared = self._clock(), self._storage.is_shared

        async def write_and_work(transaction: Transaction) -> Result:
            if batch:
                await batch.write(transaction, now, is_shared=is_shared)
            return await work(transaction)

        try:
            result = await self._storage.run(
                write_and_work, locks=batch.list_keys() | keys if batch else keys
            )
        except ConfigError as error:
            is_uncertain = isinstance(error, StorageError) and error.is_uncertain
            self._return_batch(batch, is_uncertain=is_uncertain)
            self._log_failure(error)
            kind = UncertainWrite if is_uncertain else StateUnavailable
            raise kind("the gateway cannot look up what this key has used; try again") from None
        self._has_written = True
        self._journal.confirm(batch, is_saved=self._has_outbox)
        for reservation, used in self._leases.confirm(batch.returns):
            self._pending.add_settlement(reservation, used)
            self._write_after(0)
        return result

    def _log_failure(self, error: ConfigError) -> None:
        """Log at most one line per second: during an outage every request fails to write."""
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= WRITE_DELAY:
            self._logged_at = now
            LOGGER.error("the state cannot be written: %s", error)

    def _return_batch(self, batch: PendingWrites, *, is_uncertain: bool) -> None:
        """Put a batch that failed back before the pending writes.

        With `is_uncertain` it may have been written: it is kept by itself and merged with nothing.
        """
        if any(batch is each for each in self._uncertain):
            return
        if is_uncertain and batch:
            self._uncertain.append(batch)
            return
        batch.merge(self._pending)
        self._pending = batch

    def _start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _do_nothing(transaction: Transaction) -> None:
    """The work of a transaction that only writes a batch."""
