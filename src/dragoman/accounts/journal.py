"""`UsageJournal`: what exchanges have used and the state does not have yet, for the case of a killed process.

Settlements are written at once and statistics once a second, but the client may have the end of its reply
before. So both are first in the journal of the process. Statistics are in segments: what one transaction
writes. The transaction also stores the ids of its settlements and segments, so that the process which takes
over the journal does not write them again. Ids of what is in no journal any more are deleted.
"""

import asyncio
import itertools
import os
import secrets
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from dragoman.accounts.limits import NO_LIMITS, Amount
from dragoman.accounts.pending import MAX_IDS, PendingWrites, build_settlement_id, delete_ids
from dragoman.accounts.statistics import UsageCounts, UsageKey
from dragoman.accounts.store import Reservation, ReservationRequest
from dragoman.storage.journal import JournalWriter, LockedFile, take_locked
from dragoman.storage.port import Transaction

PATTERN = "usage-*.journal"
#: Bytes from which on a new file is begun, although the first one has entries that are not written.
MAX_SIZE = 1024 * 1024
#: Ids that one statement deletes, at least.
MIN_IDS = 64


class UsageEntry(msgspec.Struct, array_like=True, tag="usage"):
    """The statistics of one exchange, and what it charges to its key without a reservation."""

    segment: str
    key: UsageKey
    counts: UsageCounts | None
    charged: Amount | None


class SettlementEntry(msgspec.Struct, array_like=True, tag="settlement"):
    """A reservation and the amount used. After the end of a process, limits per minute are not corrected."""

    reservation: int
    key: str
    at: float
    minimum: Amount
    used: Amount

    def build_reservation(self) -> Reservation:
        request = ReservationRequest(
            key=self.key, limits=NO_LIMITS, maximum=self.minimum, minimum=self.minimum
        )
        return Reservation(id=self.reservation, request=request, at=self.at)


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(UsageEntry | SettlementEntry)


class JournalFile(msgspec.Struct):
    """A file, with the ids of entries that are not in the state yet, and of those that are."""

    file: LockedFile
    open: set[str]
    written: list[str] = []


class UsageJournal(JournalWriter):
    """The journal of this process, and those that it has taken over. Without a folder, there is none.

    Call order: `take` at the start, the others for each exchange, `confirm` when a batch is in the state,
    `close` last.
    """

    def __init__(self, folder: Path | None) -> None:
        super().__init__(folder or Path(), PATTERN, time.monotonic)
        self._is_used = folder is not None
        self._token = secrets.token_hex(8)
        self._numbers = itertools.count()
        #: The file of this process is the last one, if there is one.
        self._files: list[JournalFile] = []
        #: Ids in the state that nothing refers to.
        self._unused_ids: list[str] = []
        self._deleted = 0

    def has_leftovers(self) -> bool:
        """Whether there are journals to take over. Some of them may belong to processes that run."""
        return self._is_used and any(self._folder.glob(PATTERN))

    async def take(self) -> list[PendingWrites]:
        """What processes that have ended did not write."""
        batches: list[PendingWrites] = []
        for file, found in await asyncio.to_thread(_take_files, self._folder) if self._is_used else ():
            self._files.insert(
                0, JournalFile(file, {number for batch in found for number in batch.list_ids()})
            )
            batches += found
        return batches

    def add_settlement(self, pending: PendingWrites, reservation: Reservation, used: Amount) -> None:
        """Add a settlement to the batch that the next transaction writes, and to the journal."""
        pending.add_settlement(reservation, used)
        request = reservation.request
        entry = SettlementEntry(reservation.id, request.key, reservation.at, request.minimum, used)
        self._append(entry, build_settlement_id(reservation.id))

    def add_exchange(
        self, pending: PendingWrites, key: UsageKey, counts: UsageCounts | None, charged: Amount | None
    ) -> None:
        """Add an exchange to the batch that the next transaction writes, and to the journal."""
        segment = pending.segments[-1] if pending.segments else f"{self._token}-{next(self._numbers)}"
        is_written = self._append(UsageEntry(segment, key, counts, charged), segment)
        pending.add_exchange(key, counts, charged)
        if not is_written:
            pending.is_journaled = False
        elif not pending.segments:
            pending.segments.append(segment)

    def _append(self, entry: UsageEntry | SettlementEntry, number: str) -> bool:
        is_written = self._is_used and self.append_line(_ENCODER.encode(entry) + b"\n")
        if not is_written or self._file is None:
            return False
        if not self._files or self._files[-1].file != self._file:
            self._files.append(JournalFile(self._file, set()))
        self._files[-1].open.add(number)
        if self._size >= MAX_SIZE:
            self._file, self._size = None, 0
        return True

    def confirm(self, batch: PendingWrites, *, is_saved: bool) -> None:
        """The batch is in the state. `is_saved`: an outbox may still have it."""
        ids = batch.list_ids()
        unused = {*ids, batch.id} - {""}
        for each in tuple(self._files):
            written = each.open.intersection(ids)
            each.open -= written
            each.written += written
            unused -= written
            if not each.open:
                self._clear(each)
        if not is_saved:
            self._unused_ids += unused

    def _clear(self, each: JournalFile) -> None:
        """Delete a file whose entries are all written. The file that is in use becomes empty."""
        if each.file == self._file:
            try:
                os.ftruncate(each.file.descriptor, 0)
            except OSError:
                return
            self._size = 0
        else:
            self._files.remove(each)
            each.file.delete()
        self._unused_ids += each.written
        each.written = []

    async def delete_ids(self, transaction: Transaction) -> None:
        """Delete ids that nothing refers to, if they are many. `confirm_deletion` when it is committed."""
        ids = self._unused_ids[:MAX_IDS]
        self._deleted = len(ids) if len(ids) >= MIN_IDS else 0
        if self._deleted:
            await delete_ids(transaction, ids)

    def confirm_deletion(self) -> None:
        del self._unused_ids[: self._deleted]
        self._deleted = 0

    def close(self, left: Iterable[PendingWrites]) -> None:
        """Delete the files, or release them if batches are `left` that the state does not have."""
        has_left = any(left)
        for each in self._files:
            if has_left and each.open:
                each.file.release()
            else:
                each.file.delete()
        self._files = []
        self._file = None


def _take_files(folder: Path) -> list[tuple[LockedFile, list[PendingWrites]]]:
    """The journals of processes that have ended, each with its batches. Empty journals are deleted."""
    taken: list[tuple[LockedFile, list[PendingWrites]]] = []
    for file, data in take_locked(folder, PATTERN):
        settlements = PendingWrites()
        segments: dict[str, PendingWrites] = {}
        for line in data.splitlines():
            # A line is incomplete if the disk was full.
            with suppress(msgspec.MsgspecError):
                entry = _DECODER.decode(line)
                if isinstance(entry, SettlementEntry):
                    settlements.add_settlement(entry.build_reservation(), entry.used)
                else:
                    batch = segments.setdefault(entry.segment, PendingWrites(segments=[entry.segment]))
                    batch.add_exchange(entry.key, entry.counts, entry.charged)
        batches = [batch for batch in (settlements, *segments.values()) if batch]
        if batches:
            taken.append((file, batches))
        else:
            file.delete()
    return taken
