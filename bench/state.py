"""The cost of the state before the first token: reserve and settle, on SQLite and on PostgreSQL.

`python -m bench state`. A PostgreSQL is started on this machine, as durable as a real one.
`DRAGOMAN_BENCH_POSTGRES` names another one: the address of an empty database.
"""

import asyncio
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import uvloop

from dragoman.accounts.ledger import UsageLedger
from dragoman.accounts.limits import Amount, Limits
from dragoman.accounts.statistics import UsageCounts, UsageKey
from dragoman.accounts.store import ACCOUNTS_SCHEMA, Reservation, ReservationRequest
from dragoman.storage.port import StateStorage
from dragoman.storage.postgres import PostgresOptions, PostgresStorage
from dragoman.storage.sqlite import SqliteStorage
from tests import postgres

COUNT = 400
PARALLEL = 16
#: Microseconds that PostgreSQL may add to the first token, at p50: one request at a time.
GOAL = 1000
#: The loads: how many requests at once, and of how many keys.
LOADS = {"one key at a time": (1, COUNT), "16 keys at once": (PARALLEL, COUNT), "a busy key": (1, 1)}


class StateCost(NamedTuple):
    """Microseconds: until a request is admitted, and of reservation and settlement together."""

    p50: float
    p99: float
    exchange: float
    cpu: float


def state_report() -> list[str]:
    """The cost of both engines under each load, and whether the goal is met."""
    lines = ["State, microseconds of a key with limits: until the request is admitted; the whole exchange"]
    with tempfile.TemporaryDirectory() as folder:
        costs = {"SQLite": uvloop.run(measure(SqliteStorage(Path(folder) / "state.db", ACCOUNTS_SCHEMA)))}
        costs["PostgreSQL"] = measure_postgres(Path(folder))
    for engine, loads in costs.items():
        for load, cost in loads.items():
            lines.append(
                f"  {engine:<12}{load:<20} p50 {cost.p50:>6.0f}   p99 {cost.p99:>6.0f}"
                f"   exchange {cost.exchange:>6.0f}   CPU {cost.cpu:>6.0f}"
            )
    first = next(iter(LOADS))
    found = costs["PostgreSQL"][first].p50
    verdict = "met" if found <= GOAL else "missed"
    lines.append(
        f"  goal: PostgreSQL adds at most {GOAL} us to the first token (p50): {found:.0f}, {verdict}"
    )
    return lines


def measure_postgres(folder: Path) -> dict[str, StateCost]:
    named = os.environ.get("DRAGOMAN_BENCH_POSTGRES")
    if named:
        return uvloop.run(measure(PostgresStorage(PostgresOptions(url=named), folder, ACCOUNTS_SCHEMA)))
    with postgres.run_server(is_durable=True) as server:
        options = PostgresOptions(url=server.url)
        return uvloop.run(measure(PostgresStorage(options, folder, ACCOUNTS_SCHEMA)))


async def measure(storage: StateStorage) -> dict[str, StateCost]:
    ledger = UsageLedger(storage, storage.clock)
    waits: list[float] = []

    async def exchange(key: str) -> None:
        begun = time.perf_counter()
        reservation = await ledger.reserve(build_request(key))
        waits.append(time.perf_counter() - begun)
        assert isinstance(reservation, Reservation)
        ledger.settle(reservation, Amount(700, 120))
        counts = UsageCounts(requests=1, input=500, output=200, cost=120)
        ledger.add_usage(UsageKey(0, key, "up", "model"), counts, is_settled=True)

    for _ in range(30):
        await exchange("key_1")
    costs: dict[str, StateCost] = {}
    for name, (parallel, keys) in LOADS.items():
        waits.clear()
        used, begun = time.process_time(), time.perf_counter()
        for number in range(0, COUNT, parallel):
            await asyncio.gather(*(exchange(f"key_{(number + each) % keys}") for each in range(parallel)))
            if parallel == 1:
                await ledger.flush()
        seconds, used = time.perf_counter() - begun, time.process_time() - used
        ordered = sorted(waits)
        costs[name] = StateCost(
            median(ordered) * 1e6,
            ordered[int(len(ordered) * 0.99) - 1] * 1e6,
            seconds / COUNT * 1e6,
            used / COUNT * 1e6,
        )
    await ledger.close()
    await storage.close()
    return costs


def build_request(key: str) -> ReservationRequest:
    limits = Limits(requests_per_minute=10**6, tokens_per_day=10**12, cost_per_month=10**12)
    return ReservationRequest(key=key, limits=limits, maximum=Amount(5000, 900), minimum=Amount(500, 90))
