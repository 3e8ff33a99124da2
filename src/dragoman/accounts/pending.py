"""Writes that are not yet in the state: settlements, leases, charges and statistics; and their outbox.

A batch of writes has an id. A database in the network may lose the answer to a commit: the batch is then
written again under the same id, and the database ignores what it already has. While the database does not
answer, the batches are also in a file, so that they survive the end of the process.
"""

import os
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from dragoman.accounts.leases import LeaseReturn, return_lease
from dragoman.accounts.limits import NOTHING, Amount
from dragoman.accounts.statistics import UsageCounts, UsageKey, add_usage
from dragoman.accounts.store import Charges, Reservation, add_charge, charge, settle
from dragoman.storage.port import Transaction
from dragoman.storage.processes import is_process_gone

#: Settlements that wait for a state that cannot be written. The oldest are dropped first.
MAX_SETTLEMENTS = 10_000
OUTBOX = "outbox-"
OUTBOXES = f"{OUTBOX}*.msgpack"
#: Ids in one statement.
MAX_IDS = 500


class PendingWrites(msgspec.Struct):
    """Settlements, returned leases, statistics, and charges without a reservation, not yet in the state."""

    #: Set by the first write to a shared state.
    id: str = ""
    #: The segments of the journal with the statistics and the charges, and whether they have all of them.
    segments: list[str] = []
    is_journaled: bool = True
    settlements: list[tuple[Reservation, Amount]] = []
    usage: dict[UsageKey, UsageCounts] = {}
    charges: dict[tuple[str, int], Amount] = {}
    returns: list[LeaseReturn] = []

    def __bool__(self) -> bool:
        return bool(self.affects_limits or self.usage or self.charges)

    @property
    def affects_limits(self) -> bool:
        """Whether there are settlements or returned leases.

        Limits depend on them, so they are written without delay.
        """
        return bool(self.settlements or self.returns)

    def add_settlement(self, reservation: Reservation, used: Amount) -> None:
        self.settlements.append((reservation, used))
        del self.settlements[:-MAX_SETTLEMENTS]

    def add_usage(self, key: UsageKey, counts: UsageCounts) -> None:
        present = self.usage.get(key)
        self.usage[key] = counts if present is None else present.plus(counts)

    def add_charge(self, key: str, hour: int, amount: Amount) -> None:
        self.charges[(key, hour)] = self.charges.get((key, hour), NOTHING).plus(amount)

    def add_exchange(self, key: UsageKey, counts: UsageCounts | None, charged: Amount | None) -> None:
        """Add the statistics of an exchange, and what it charges to its key without a reservation."""
        if charged is not None:
            self.add_charge(key.key, key.hour, charged)
        if counts is not None:
            self.add_usage(key, counts)

    def merge(self, later: "PendingWrites") -> None:
        """Append the writes that became pending after these."""
        for reservation, used in later.settlements:
            self.add_settlement(reservation, used)
        self.returns += later.returns
        self.segments += later.segments
        self.is_journaled = self.is_journaled and later.is_journaled
        for usage_key, counts in later.usage.items():
            self.add_usage(usage_key, counts)
        for (key, hour), amount in later.charges.items():
            self.add_charge(key, hour, amount)

    def take_settlements(self, key: str) -> "PendingWrites":
        """Remove the settlements and the returned leases of one key, as a batch of its own."""
        taken = PendingWrites(
            settlements=[each for each in self.settlements if each[0].request.key == key],
            returns=[each for each in self.returns if each.slice.request.key == key],
        )
        if taken:
            self.settlements = [each for each in self.settlements if each[0].request.key != key]
            self.returns = [each for each in self.returns if each.slice.request.key != key]
        return taken

    def list_keys(self) -> set[str]:
        """The keys whose accounts change."""
        return {
            *(reservation.request.key for reservation, _ in self.settlements),
            *(each.slice.request.key for each in self.returns),
            *(key for key, _ in self.charges),
        }

    def list_ids(self) -> list[str]:
        """The ids under which the settlements and the segments are written."""
        return [*(build_settlement_id(reservation.id) for reservation, _ in self.settlements), *self.segments]

    async def write(self, transaction: Transaction, now: float, *, is_shared: bool = False) -> None:
        """Write everything that the state does not have yet.

        Settlements and segments of a journal have ids of their own. For the rest, a shared state needs the id
        of the batch.
        """
        has_rest = bool(self.returns or ((self.usage or self.charges) and not self.segments))
        if is_shared and has_rest:
            self.id = self.id or secrets.token_hex(12)
        new = await _add_ids(transaction, [*([self.id] if self.id else []), *self.list_ids()], now)
        if not self.id or self.id in new:
            for each in self.returns:
                await return_lease(transaction, each, now)
        settlements = [each for each in self.settlements if build_settlement_id(each[0].id) in new]
        await settle(transaction, settlements, now)
        if new.issuperset(self.segments or [self.id] * bool(self.id)):
            await self._write_usage(transaction)

    async def _write_usage(self, transaction: Transaction) -> None:
        charges: Charges = {}
        for (key, hour), amount in self.charges.items():
            add_charge(charges, key, amount, hour)
        await charge(transaction, charges)
        await add_usage(transaction, self.usage)

    def without_journal(self) -> "PendingWrites":
        """The batch without what its journal has."""
        if not self.segments or not self.is_journaled:
            return self
        return PendingWrites(id=self.id, settlements=self.settlements, returns=self.returns)


def build_settlement_id(reservation: int) -> str:
    return f"settled-{reservation}"


async def _add_ids(transaction: Transaction, ids: Sequence[str], now: float) -> set[str]:
    """Store the ids of what is written. Returns those that the state did not have."""
    new: set[str] = set()
    for start in range(0, len(ids), MAX_IDS):
        part = ids[start : start + MAX_IDS]
        places = ", ".join(f"(${number + 2}, $1)" for number in range(len(part)))
        rows = await transaction.fetch(
            f"INSERT INTO batches (id, at) VALUES {places} ON CONFLICT (id) DO NOTHING RETURNING id",  # noqa: S608 (only places)
            now,
            *part,
        )
        new.update(row[0] for row in rows)
    return new


async def delete_ids(transaction: Transaction, ids: Sequence[str]) -> None:
    """Delete ids, at most `MAX_IDS`, of what is neither in an outbox nor in a journal."""
    places = ", ".join(f"${number + 1}" for number in range(len(ids)))
    await transaction.execute(f"DELETE FROM batches WHERE id IN ({places})", *ids)  # noqa: S608 (only places)


class OutboxFile(msgspec.Struct, frozen=True):
    """The content of an outbox: the process that wrote it, and its batches."""

    process: str
    batches: list[PendingWrites]


def save_outbox(folder: Path, process: str, batches: Iterable[PendingWrites]) -> None:
    """Replace the outbox of the process. Without batches, delete it. Errors of the file are ignored."""
    kept = [kept for batch in batches if (kept := batch.without_journal())]
    path = _find_path(folder, process)
    with suppress(OSError):
        if not kept:
            path.unlink(missing_ok=True)
            return
        temporary = path.with_suffix(".new")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.msgpack.encode(OutboxFile(process, kept)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)


def take_outboxes(folder: Path, process: str) -> list[PendingWrites]:
    """The batches of processes of this machine that have ended. They move to the outbox of `process`."""
    batches: list[PendingWrites] = []
    taken: list[Path] = []
    for path in folder.glob(OUTBOXES):
        with suppress(OSError, msgspec.MsgspecError):
            found = msgspec.msgpack.decode(path.read_bytes(), type=OutboxFile)
            if is_process_gone(found.process):
                batches += found.batches
                taken.append(path)
    if taken:
        save_outbox(folder, process, batches)
        for path in taken:
            with suppress(OSError):
                path.unlink()
    return batches


def _find_path(folder: Path, process: str) -> Path:
    return folder / f"{OUTBOX}{sha256(process.encode()).hexdigest()[:16]}.msgpack"
