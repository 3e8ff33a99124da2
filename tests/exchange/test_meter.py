"""What callers use is set aside, settled and written down, also when clients leave and the file fails."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dragoman.accounts.caller import Limits
from dragoman.accounts.decide import Account, Amount, Refusal
from dragoman.exchange.keyring import StateUnavailable
from dragoman.exchange.meter import Meter
from dragoman.storage.database import Database, connect
from dragoman.storage.spending import Reservation, Wish, account
from dragoman.storage.usage import Counts, report

NOW = 1_794_794_400.0
WISH = Wish(key="key_1", limits=Limits(tokens_per_day=100), most=Amount(60, 0), least=Amount(5, 0))


def scene(path: Path, act: Callable[[Meter], Awaitable[None]]) -> None:
    async def main() -> None:
        database = Database(path)
        meter = Meter(database, lambda: NOW)
        async with asyncio.timeout(20):
            await act(meter)
            await meter.close()
        database.close()

    asyncio.run(main())


def held(path: Path) -> Account:
    connection = connect(path)
    try:
        return account(connection, "key_1", NOW)
    finally:
        connection.close()


def tell(path: Path, *statements: str) -> None:
    connection = connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


async def admitted(meter: Meter) -> Reservation:
    outcome = await meter.admit(WISH)
    assert isinstance(outcome, Reservation)
    return outcome


def test_what_is_settled_is_free_for_the_next_request_at_once(path: Path) -> None:
    async def act(meter: Meter) -> None:
        first = await admitted(meter)
        assert isinstance(await meter.admit(WISH), Refusal)
        meter.settle(first, Amount(10, 0))
        second = await admitted(meter)
        meter.settle(second, Amount(20, 0))

    scene(path, act)
    assert held(path).used["day"] == Amount(30, 0)


def test_a_client_that_leaves_while_it_waits_for_admission_keeps_nothing(path: Path) -> None:
    async def act(meter: Meter) -> None:
        for _ in range(20):
            asking = asyncio.ensure_future(meter.admit(WISH))
            await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait((asking,))
        async with asyncio.timeout(10):
            while isinstance(outcome := await meter.admit(WISH), Refusal):
                await asyncio.sleep(0.01)
        meter.settle(outcome, Amount(1, 0))

    scene(path, act)
    assert held(path).used["day"] == Amount(1, 0)
    assert held(path).reserved["day"] == Amount()


def test_nobody_is_admitted_while_the_file_cannot_be_asked(path: Path) -> None:
    async def act(meter: Meter) -> None:
        await admitted(meter)
        tell(path, "ALTER TABLE reservations RENAME TO gone")
        with pytest.raises(StateUnavailable) as caught:
            await meter.admit(WISH)
        assert (caught.value.status, "state.db" in caught.value.message) == (503, False)
        tell(path, "ALTER TABLE gone RENAME TO reservations")

    scene(path, act)


def test_a_settlement_that_could_not_be_written_is_written_later(path: Path) -> None:
    async def act(meter: Meter) -> None:
        reservation = await admitted(meter)
        tell(path, "ALTER TABLE spending RENAME TO gone")
        meter.settle(reservation, Amount(10, 0))
        meter.count("key_1", "up", "m", Counts(requests=1), settled=True)
        await meter.flush()
        tell(path, "ALTER TABLE gone RENAME TO spending")
        assert held(path).reserved["day"] == Amount(60, 0)
        await meter.flush()
        assert held(path).reserved["day"] == Amount()

    scene(path, act)
    assert held(path).used["day"] == Amount(10, 0)


def test_statistics_are_written_together_and_none_is_lost(path: Path) -> None:
    async def act(meter: Meter) -> None:
        for _ in range(1_000):
            meter.count("key_1", "up", "m", Counts(requests=1, input=2, output=1), settled=False)
        assert not path.exists()

    scene(path, act)
    connection = connect(path)
    told = report(connection, ["key"])
    connection.close()
    assert told == [(("key_1",), Counts(requests=1_000, input=2_000, output=1_000))]
    assert held(path).used["day"] == Amount(3_000, 0)


def test_without_a_file_nothing_is_counted_and_no_thread_is_started() -> None:
    async def main() -> None:
        database = Database()
        meter = Meter(database, lambda: NOW)
        meter.count("", "up", "m", Counts(requests=1), settled=False)
        await meter.close()
        tables = database.run_now(
            lambda connection: connection.execute("SELECT count(*) FROM usage").fetchone()
        )
        assert tables == (0,)
        database.close()

    asyncio.run(main())


def test_a_meter_that_ends_gives_back_what_is_still_set_aside(path: Path) -> None:
    async def act(meter: Meter) -> None:
        await admitted(meter)

    scene(path, act)
    assert held(path).reserved["day"] == Amount()
    assert held(path).used["day"] == Amount(5, 0)
    connection: sqlite3.Connection = connect(path)
    assert connection.execute("SELECT count(*) FROM processes").fetchone() == (0,)
    connection.close()
