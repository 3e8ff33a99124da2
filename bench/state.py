"""The cost of the state before the first token: reserve and settle, on SQLite and on PostgreSQL.

`python -m bench.state [URL]`: without an address a PostgreSQL is started, as durable as a real one.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from dragoman.accounts.ledger import UsageLedger
from dragoman.accounts.limits import Amount, Limits
from dragoman.accounts.store import ACCOUNTS_SCHEMA, Reservation, ReservationRequest
from dragoman.storage.port import StateStorage
from dragoman.storage.postgres import PostgresOptions, PostgresStorage
from dragoman.storage.sqlite import SqliteStorage
from tests import postgres

COUNT = 400
PARALLEL = 16


def build_request(key: str) -> ReservationRequest:
    limits = Limits(requests_per_minute=10**6, tokens_per_day=10**12, cost_per_month=10**12)
    return ReservationRequest(key=key, limits=limits, maximum=Amount(5000, 900), minimum=Amount(500, 90))


async def measure(name: str, storage: StateStorage) -> None:
    ledger = UsageLedger(storage, storage.clock)
    waits: list[float] = []

    async def exchange(key: str) -> None:
        begun = time.perf_counter()
        reservation = await ledger.reserve(build_request(key))
        waits.append(time.perf_counter() - begun)
        assert isinstance(reservation, Reservation)
        ledger.settle(reservation, Amount(700, 120))

    for _ in range(30):
        await exchange("key_1")
    for label, keys, names in (
        ("one key", 1, COUNT),
        ("16 keys at once", PARALLEL, COUNT),
        ("a busy key", 1, 1),
    ):
        waits.clear()
        used, begun = time.process_time(), time.perf_counter()
        for number in range(0, COUNT, keys):
            await asyncio.gather(*(exchange(f"key_{(number + each) % names}") for each in range(keys)))
            if keys == 1:
                await ledger.flush()
        seconds, used = time.perf_counter() - begun, time.process_time() - used
        ordered = sorted(waits)
        print(
            f"{name:10} {label:16} reserve p50 {statistics.median(ordered) * 1e6:6.0f} us,"
            f" p99 {ordered[int(len(ordered) * 0.99) - 1] * 1e6:6.0f} us;"
            f" with settling {seconds / COUNT * 1e6:6.0f} us, {used / COUNT * 1e6:6.0f} us CPU each"
        )
    await ledger.close()
    await storage.close()


def main() -> None:
    import uvloop

    with tempfile.TemporaryDirectory() as folder:
        uvloop.run(measure("SQLite", SqliteStorage(Path(folder) / "state.db", ACCOUNTS_SCHEMA)))
    if len(sys.argv) > 1:
        uvloop.run(
            measure("PostgreSQL", PostgresStorage(PostgresOptions(url=sys.argv[1]), None, ACCOUNTS_SCHEMA))
        )
        return
    with postgres.run_server(is_durable=True) as server:
        options = PostgresOptions(url=server.url)
        uvloop.run(measure("PostgreSQL", PostgresStorage(options, None, ACCOUNTS_SCHEMA)))


if __name__ == "__main__":
    main()
