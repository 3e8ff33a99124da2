"""What exchanges have used survives the end of the process, and is counted once, on both engines."""

import asyncio
import os
import time
from collections.abc import Collection
from copy import copy
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings

from dragoman.accounts import journal as journal_module
from dragoman.accounts.journal import PATTERN, UsageJournal
from dragoman.accounts.keys import ID_PREFIX
from dragoman.accounts.ledger import UsageLedger
from dragoman.accounts.limits import Amount, Limits
from dragoman.accounts.pending import PendingWrites
from dragoman.accounts.statistics import UsageCounts, UsageKey, read_usage
from dragoman.accounts.store import ACCOUNTS_SCHEMA, Reservation, ReservationRequest, read_account
from dragoman.hub.errors import DragomanError
from dragoman.storage.database import StorageError
from dragoman.storage.port import StateStorage, Work
from tests.states import ENGINES, Engine, StateBed

KEY = f"{ID_PREFIX}1"
FREE = f"{ID_PREFIX}2"
PACED = f"{ID_PREFIX}3"
REQUEST = ReservationRequest(
    key=KEY, limits=Limits(tokens_per_day=10**9), maximum=Amount(50, 5), minimum=Amount(1, 0)
)
USED = UsageCounts(requests=1, input=7, output=3, cost=2)


class FaultyStorage:
    """A storage whose next transactions fail: before they are committed, or after it without an answer."""

    def __init__(self, storage: StateStorage) -> None:
        self._storage = storage
        self.faults: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._storage, name)

    async def run(self, work: Work[object], *, locks: Collection[str] = ()) -> object:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "refused":
            raise StorageError("refused")
        result = await self._storage.run(work, locks=locks)
        if fault == "unanswered":
            error = StorageError("no answer")
            error.is_uncertain = True
            raise error
        return result


class Process:
    """A gateway that counts exchanges, and that can be killed."""

    def __init__(self, state: StateBed) -> None:
        self.storage = FaultyStorage(state.open())
        storage: Any = self.storage
        self.ledger = UsageLedger(storage, storage.clock)
        self.has_taken = False
        take = self.ledger._journal.take

        async def take_all() -> list[PendingWrites]:
            batches = await take()
            self.has_taken = True
            return batches

        setattr(self.ledger._journal, "take", take_all)  # noqa: B010 (the type has a method)
        self.ledger.recover()
        self.reserved: list[Reservation] = []

    async def reserve(self) -> None:
        try:
            result = await self.ledger.reserve(REQUEST)
        except DragomanError:
            # The state cannot be asked.
            return
        if isinstance(result, Reservation) and result.id:
            self.reserved.append(result)

    def settle(self) -> int:
        """End the requests that are open. Returns their number."""
        count = len(self.reserved)
        for reservation in self.reserved:
            self.ledger.settle(reservation, Amount(10, 2))
            self.ledger.add_usage(UsageKey(0, KEY, "up", "m"), copy(USED), is_settled=True)
        self.reserved = []
        return count

    def charge(self) -> None:
        """End a request that was admitted while the state did not answer."""
        unstored = Reservation(id=0, request=msgspec.structs.replace(REQUEST, key=PACED), at=time.time())
        self.ledger._open += 1
        self.ledger.settle(unstored, Amount(10, 2))

    def count(self) -> None:
        self.ledger.add_usage(UsageKey(0, FREE, "up", "m"), copy(USED), is_settled=False)

    async def kill(self) -> None:
        """End as SIGKILL does: nothing more is written, and the system releases the locks."""
        while self.ledger._has_leftovers is False and self.ledger._write_task and not self.has_taken:
            # A thread takes over journals. It would go on, and keep their locks.
            await asyncio.sleep(0.001)
        for task in (*self.ledger._tasks,):
            task.cancel()
        if self.ledger._tasks:
            await asyncio.wait(tuple(self.ledger._tasks))
        self.ledger._is_closed = True
        if self.ledger._write_timer is not None:
            self.ledger._write_timer.cancel()
        for each in self.ledger._journal._files:
            os.close(each.file.descriptor)
        await self.storage._storage.close()


STEPS = st.lists(
    st.sampled_from(
        ["reserve", "settle", "charge", "count", "flush", "refused", "unanswered", "kill", "wait"]
    ),
    min_size=1,
    max_size=14,
)


@pytest.mark.rule("R124")
@pytest.mark.parametrize("engine", ENGINES)
@given(steps=STEPS)
@example(steps=["count", "unanswered", "flush", "kill", "count", "kill"])
@example(steps=["reserve", "settle", "unanswered", "flush", "kill"])
@example(steps=["reserve", "settle", "kill", "reserve", "settle", "refused", "flush", "count", "kill"])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_all_usage_is_counted_once_in_any_order_of_faults_and_kills(engine: Engine, steps: list[str]) -> None:
    state = StateBed(engine, ACCOUNTS_SCHEMA)
    settled, counted = 0, 0

    async def act() -> None:
        nonlocal settled, counted
        process = Process(state)
        for step in steps:
            match step:
                case "reserve":
                    await process.reserve()
                case "settle":
                    settled += process.settle()
                case "count":
                    process.count()
                    counted += 1
                case "charge":
                    process.charge()
                case "flush":
                    await process.ledger.flush()
                case "wait":
                    await asyncio.sleep(0)
                case "kill":
                    await process.kill()
                    process = Process(state)
                case fault:
                    process.storage.faults.append(fault)
        settled += process.settle()
        process.storage.faults = []
        await process.ledger.flush()
        await process.ledger.close()
        await process.storage._storage.close()

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await act()

    asyncio.run(bounded())
    try:
        rows = dict(state.do(read_usage, ["key"]))
        assert rows.get((KEY,), UsageCounts()).requests == settled
        assert rows.get((FREE,), UsageCounts()).requests == counted
        now = time.time()
        assert state.do(read_account, FREE, now).used["day"] == Amount(10 * counted, 2 * counted)
        charged = steps.count("charge")
        assert state.do(read_account, PACED, now).used["day"] == Amount(10 * charged, 2 * charged)
        account = state.do(read_account, KEY, now)
        # A request that was open when its process was killed is charged with its minimum, sooner or later.
        assert settled * 10 <= account.used["day"].tokens <= settled * 10 + steps.count("reserve")
        assert list(state.folder.glob(PATTERN)) == []
    finally:
        state.close()


def fill(journal: UsageJournal, count: int = 1) -> PendingWrites:
    batch = PendingWrites()
    for _ in range(count):
        journal.add_exchange(batch, UsageKey(0, FREE, "up", "m"), copy(USED), None)
    return batch


def test_the_file_is_emptied_and_a_long_one_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = UsageJournal(tmp_path)

    def list_sizes() -> list[int]:
        return sorted(path.stat().st_size for path in tmp_path.glob(PATTERN))

    journal.confirm(fill(journal, 3), is_saved=False)
    assert list_sizes() == [0]
    earlier = fill(journal)
    journal.confirm(fill(journal), is_saved=False)
    assert list_sizes() > [0]
    monkeypatch.setattr(journal_module, "MAX_SIZE", 1000)
    later = fill(journal, 20)
    assert len(list_sizes()) > 2
    journal.confirm(later, is_saved=False)
    assert len(list_sizes()) <= 2
    journal.confirm(earlier, is_saved=False)
    assert sum(list_sizes()) < 1000
    journal.close([])
    assert list_sizes() == []


def test_a_journal_stays_if_its_usage_is_not_written(tmp_path: Path) -> None:
    async def main() -> None:
        journal = UsageJournal(tmp_path)
        batch = fill(journal, 2)
        assert await UsageJournal(tmp_path).take() == []
        journal.close([batch])
        (taken,) = await UsageJournal(tmp_path).take()
        assert taken.usage == batch.usage

    asyncio.run(main())


@pytest.mark.parametrize("engine", ENGINES)
def test_the_ids_of_written_usage_are_deleted(engine: Engine) -> None:
    state = StateBed(engine, ACCOUNTS_SCHEMA)

    async def main() -> None:
        process = Process(state)
        for _ in range(150):
            await process.reserve()
            process.settle()
            await process.ledger.flush()
        await process.ledger.close()
        await process.storage._storage.close()

    asyncio.run(main())
    assert len(state.fetch("SELECT id FROM batches")) < 2 * journal_module.MIN_IDS + 10
    state.close()


def test_without_a_journal_usage_is_counted_as_before(tmp_path: Path) -> None:
    journal = UsageJournal(tmp_path / "none")
    batch = fill(journal)
    assert (batch.segments, batch.is_journaled) == ([], False)
    assert batch.without_journal() is batch
