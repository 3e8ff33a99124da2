"""Amounts are reserved, settled and written, also if a client disconnects or the file fails."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dragoman.accounts.errors import StateUnavailable
from dragoman.accounts.ledger import UsageLedger
from dragoman.accounts.limits import Account, Amount, LimitRefusal, Limits
from dragoman.accounts.statistics import UsageCounts, UsageKey, read_usage
from dragoman.accounts.store import (
    ACCOUNTS_SCHEMA,
    Reservation,
    ReservationRequest,
    read_account,
)
from dragoman.storage.database import connect
from dragoman.storage.sqlite import SqliteStorage

NOW = 1_794_794_400.0
REQUEST = ReservationRequest(
    key="key_1", limits=Limits(tokens_per_day=100), maximum=Amount(60, 0), minimum=Amount(5, 0)
)


def run_with_ledger(path: Path, act: Callable[[UsageLedger], Awaitable[None]]) -> None:
    async def main() -> None:
        storage = SqliteStorage(path, ACCOUNTS_SCHEMA)
        ledger = UsageLedger(storage, lambda: NOW)
        async with asyncio.timeout(20):
            await act(ledger)
            await ledger.close()
        await storage.close()

    asyncio.run(main())


def held(path: Path) -> Account:
    storage = SqliteStorage(path, ACCOUNTS_SCHEMA)
    try:
        return storage.run_now(lambda transaction: read_account(transaction, "key_1", NOW))
    finally:
        storage.close_now()


def execute(path: Path, *statements: str) -> None:
    connection = connect(path, ACCOUNTS_SCHEMA)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


async def admitted(ledger: UsageLedger) -> Reservation:
    outcome = await ledger.reserve(REQUEST)
    assert isinstance(outcome, Reservation)
    return outcome


def test_a_settled_reservation_is_free_for_the_next_request_at_once(path: Path) -> None:
    async def act(ledger: UsageLedger) -> None:
        first = await admitted(ledger)
        assert isinstance(await ledger.reserve(REQUEST), LimitRefusal)
        ledger.settle(first, Amount(10, 0))
        second = await admitted(ledger)
        ledger.settle(second, Amount(20, 0))

    run_with_ledger(path, act)
    assert held(path).used["day"] == Amount(30, 0)


def test_a_client_that_disconnects_during_the_reservation_keeps_nothing(path: Path) -> None:
    async def act(ledger: UsageLedger) -> None:
        for _ in range(20):
            asking = asyncio.ensure_future(ledger.reserve(REQUEST))
            await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait((asking,))
        async with asyncio.timeout(10):
            while isinstance(outcome := await ledger.reserve(REQUEST), LimitRefusal):
                await asyncio.sleep(0.01)
        ledger.settle(outcome, Amount(1, 0))

    run_with_ledger(path, act)
    assert held(path).used["day"] == Amount(1, 0)
    assert held(path).reserved["day"] == Amount()


def test_no_request_is_admitted_while_the_file_cannot_be_read(path: Path) -> None:
    async def act(ledger: UsageLedger) -> None:
        await admitted(ledger)
        execute(path, "ALTER TABLE reservations RENAME TO gone")
        with pytest.raises(StateUnavailable) as caught:
            await ledger.reserve(REQUEST)
        assert (caught.value.status, "state.db" in caught.value.message) == (503, False)
        execute(path, "ALTER TABLE gone RENAME TO reservations")

    run_with_ledger(path, act)


def test_a_settlement_that_could_not_be_written_is_written_later(path: Path) -> None:
    async def act(ledger: UsageLedger) -> None:
        reservation = await admitted(ledger)
        execute(path, "ALTER TABLE spending RENAME TO gone")
        ledger.settle(reservation, Amount(10, 0))
        ledger.add_usage(UsageKey(0, "key_1", "up", "m"), UsageCounts(requests=1), is_settled=True)
        await ledger.flush()
        execute(path, "ALTER TABLE gone RENAME TO spending")
        assert held(path).reserved["day"] == Amount(60, 0)
        await ledger.flush()
        assert held(path).reserved["day"] == Amount()

    run_with_ledger(path, act)
    assert held(path).used["day"] == Amount(10, 0)


def test_statistics_are_written_together_and_none_is_lost(path: Path) -> None:
    async def act(ledger: UsageLedger) -> None:
        for _ in range(1_000):
            ledger.add_usage(
                UsageKey(0, "key_1", "up", "m"), UsageCounts(requests=1, input=2, output=1), is_settled=False
            )
        assert not path.exists()

    run_with_ledger(path, act)
    storage = SqliteStorage(path, ACCOUNTS_SCHEMA)
    rows = storage.run_now(lambda transaction: read_usage(transaction, ["key"]))
    storage.close_now()
    assert rows == [(("key_1",), UsageCounts(requests=1_000, input=2_000, output=1_000))]
    assert held(path).used["day"] == Amount(3_000, 0)


def test_without_a_file_nothing_is_counted_and_no_thread_is_started() -> None:
    async def main() -> None:
        storage = SqliteStorage(None, ACCOUNTS_SCHEMA)
        ledger = UsageLedger(storage, lambda: NOW)
        ledger.add_usage(UsageKey(0, "", "up", "m"), UsageCounts(requests=1), is_settled=False)
        await ledger.close()
        tables = await storage.read(
            lambda transaction: transaction.fetch_one("SELECT count(*) FROM agent_usage")
        )
        assert tables == (0,)
        await storage.close()

    asyncio.run(main())


def test_a_closed_ledger_releases_its_open_reservations(path: Path) -> None:
    async def act(ledger: UsageLedger) -> None:
        await admitted(ledger)

    run_with_ledger(path, act)
    assert held(path).reserved["day"] == Amount()
    assert held(path).used["day"] == Amount(5, 0)
    connection: sqlite3.Connection = connect(path, ACCOUNTS_SCHEMA)
    assert connection.execute("SELECT count(*) FROM processes").fetchone() == (0,)
    connection.close()
