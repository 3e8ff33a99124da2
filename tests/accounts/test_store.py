"""Reservations and spending on each engine: several processes, midnight, and the death of a process."""

import asyncio
import os
import subprocess
import sys

import pytest

from dragoman.accounts.limits import Amount, LimitRefusal, Limits
from dragoman.accounts.store import (
    Reservation,
    ReservationRequest,
    find_dead_processes,
    read_account,
    release_process,
    renew_process,
    reserve,
    settle,
)
from dragoman.storage.processes import PROCESS_TIMEOUT, build_process_name
from tests.states import StateBed

NOW = 1_794_794_400.0  # 2026-11-16 02:00 UTC
HOUR = 3600.0
ME = "here 1 a"
OTHER = "elsewhere 2 b"


def build_request(
    tokens: int = 10, *, minimum: int = 4, limits: Limits | None = None, key: str = "key_1"
) -> ReservationRequest:
    return ReservationRequest(
        key=key,
        limits=limits or Limits(tokens_per_day=100),
        maximum=Amount(tokens, tokens),
        minimum=Amount(minimum, minimum),
    )


def reserved(state: StateBed, asked: ReservationRequest, now: float = NOW, process: str = ME) -> Reservation:
    state.do(renew_process, process, now)
    outcome = state.do(reserve, process, asked, now)
    assert isinstance(outcome, Reservation)
    return outcome


def release_dead(state: StateBed, now: float) -> None:
    for process in state.do(find_dead_processes, ME, now):
        state.do(release_process, process)


def test_the_used_amount_replaces_the_reservation(state: StateBed) -> None:
    reservation = reserved(state, build_request(60))
    assert state.do(read_account, "key_1", NOW).reserved["day"] == Amount(60, 60)
    state.do(settle, [(reservation, Amount(7, 8))], NOW + 1)
    held = state.do(read_account, "key_1", NOW + 1)
    assert (held.used["day"], held.used["month"]) == (Amount(7, 8), Amount(7, 8))
    assert held.reserved["day"] == held.reserved["month"] == Amount()


def test_keys_do_not_share_a_budget(state: StateBed) -> None:
    reserved(state, build_request(100, key="key_1"))
    reserved(state, build_request(100, key="key_2"))
    assert isinstance(state.do(reserve, ME, build_request(1), NOW), LimitRefusal)


def test_a_refused_request_leaves_no_trace(state: StateBed) -> None:
    limits = Limits(requests_per_minute=5, tokens_per_day=10)
    reserved(state, build_request(10, limits=limits))
    before = state.do(read_account, "key_1", NOW)
    assert isinstance(state.do(reserve, ME, build_request(10, limits=limits), NOW), LimitRefusal)
    assert state.do(read_account, "key_1", NOW) == before


def test_the_requests_of_a_minute_are_counted_for_all_processes(state: StateBed) -> None:
    limits = Limits(requests_per_minute=2)

    async def ask_from_new_process() -> None:
        storage = state.open()
        asked = build_request(limits=limits)
        outcome = await storage.run(lambda transaction: reserve(transaction, ME, asked, NOW))
        assert isinstance(outcome, Reservation)
        await storage.close()

    for _ in range(2):
        asyncio.run(ask_from_new_process())
    refusal = state.do(reserve, ME, build_request(limits=limits), NOW)
    assert isinstance(refusal, LimitRefusal)
    assert refusal.wait == 30
    reserved(state, build_request(limits=limits), NOW + 30)


def test_tokens_of_a_minute_are_given_back_when_they_were_not_used(state: StateBed) -> None:
    limits = Limits(tokens_per_minute=100)
    first = reserved(state, build_request(100, limits=limits))
    assert isinstance(state.do(reserve, ME, build_request(50, limits=limits), NOW), LimitRefusal)
    state.do(settle, [(first, Amount(10, 0))], NOW)
    reserved(state, build_request(90, limits=limits))


def test_a_reply_that_ends_tomorrow_counts_for_today(state: StateBed) -> None:
    late = NOW + 21.9 * HOUR
    reservation = reserved(state, build_request(60), late)
    tomorrow = late + HOUR
    assert state.do(read_account, "key_1", tomorrow).reserved["day"] == Amount()
    assert state.do(read_account, "key_1", tomorrow).reserved["month"] == Amount(60, 60)
    state.do(settle, [(reservation, Amount(60, 60))], tomorrow)
    held = state.do(read_account, "key_1", tomorrow)
    assert (held.used["day"], held.used["month"]) == (Amount(), Amount(60, 60))
    assert state.do(read_account, "key_1", late).used["day"] == Amount(60, 60)


def test_the_reservations_of_a_dead_process_are_released(state: StateBed) -> None:
    reserved(state, build_request(95, minimum=4), process=OTHER)
    release_dead(state, NOW + PROCESS_TIMEOUT)
    assert isinstance(state.do(reserve, ME, build_request(10), NOW + PROCESS_TIMEOUT), LimitRefusal)
    state.do(renew_process, OTHER, NOW + PROCESS_TIMEOUT)
    release_dead(state, NOW + PROCESS_TIMEOUT + 1)
    assert isinstance(state.do(reserve, ME, build_request(10), NOW + PROCESS_TIMEOUT + 1), LimitRefusal)
    release_dead(state, NOW + 2 * PROCESS_TIMEOUT + 1)
    reserved(state, build_request(10), NOW + 2 * PROCESS_TIMEOUT + 1)
    # The minimum of its open request is charged.
    assert state.do(read_account, "key_1", NOW + 2 * PROCESS_TIMEOUT + 1).used["day"] == Amount(4, 4)


def test_a_process_that_slept_is_not_charged_twice(state: StateBed) -> None:
    asleep = reserved(state, build_request(50, minimum=4), process=OTHER)
    release_dead(state, NOW + PROCESS_TIMEOUT + 1)
    state.do(settle, [(asleep, Amount(30, 30))], NOW + PROCESS_TIMEOUT + 2)
    assert state.do(read_account, "key_1", NOW).used["day"] == Amount(30, 30)


def test_a_process_that_ends_in_order_releases_its_reservations(state: StateBed) -> None:
    reserved(state, build_request(95, minimum=4))
    reserved(state, build_request(5, minimum=1), process=OTHER)
    state.do(release_process, ME)
    held = state.do(read_account, "key_1", NOW)
    assert (held.used["day"], held.reserved["day"]) == (Amount(4, 4), Amount(5, 5))


def test_a_process_never_considers_itself_dead(state: StateBed) -> None:
    reserved(state, build_request(50), process=ME)
    release_dead(state, NOW + 10 * PROCESS_TIMEOUT)
    reserved(state, build_request(50), NOW + 10 * PROCESS_TIMEOUT, process=ME)
    assert isinstance(state.do(reserve, ME, build_request(1), NOW + 20 * PROCESS_TIMEOUT), LimitRefusal)


def test_a_reservation_without_a_process_is_released(state: StateBed) -> None:
    """Another process considered this one dead just before it made the reservation, and then it died."""
    assert isinstance(state.do(reserve, OTHER, build_request(95, minimum=4), NOW), Reservation)
    release_dead(state, NOW + 1)
    held = state.do(read_account, "key_1", NOW)
    assert (held.used["day"], held.reserved["day"]) == (Amount(4, 4), Amount())


DIES = """
import asyncio, os, signal, sys
from pathlib import Path
from dragoman.accounts.limits import Amount, Limits
from dragoman.accounts.store import ACCOUNTS_SCHEMA, ReservationRequest, renew_process, reserve
from dragoman.storage.postgres import PostgresOptions, PostgresStorage
from dragoman.storage.processes import build_process_name
from dragoman.storage.sqlite import SqliteStorage
limits = Limits(tokens_per_day=100)
request = ReservationRequest(key="key_1", limits=limits, maximum=Amount(99, 0), minimum=Amount(3, 0))
path, url, now = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
storage = PostgresStorage(PostgresOptions(url=url), None, ACCOUNTS_SCHEMA) if url else \
    SqliteStorage(path, ACCOUNTS_SCHEMA)
name = build_process_name()
async def work(transaction):
    await renew_process(transaction, name, now)
    return await reserve(transaction, name, request, now)
asyncio.run(storage.run(work))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="only there a process id shows whether a process runs")
def test_the_reservations_of_a_killed_process_are_released_at_once(state: StateBed) -> None:
    arguments = (sys.executable, "-c", DIES, str(state.path), state.url, str(NOW))
    assert subprocess.run(arguments, check=False).returncode == -9
    assert state.do(read_account, "key_1", NOW).reserved["day"] == Amount(99, 0)
    release_dead(state, NOW + 0.1)
    reserved(state, build_request(90), NOW + 0.1)
    assert state.do(read_account, "key_1", NOW).used["day"] == Amount(3, 0)


def test_a_budget_holds_for_processes_that_ask_at_the_same_moment(state: StateBed) -> None:
    async def main() -> int:
        storages = [state.open() for _ in range(4)]
        names = [build_process_name() for _ in storages]

        async def ask(number: int) -> int:
            storage, name, asked = storages[number % 4], names[number % 4], build_request(9)
            outcome = await storage.run(
                lambda transaction: reserve(transaction, name, asked, NOW), locks=("key_1",)
            )
            if isinstance(outcome, LimitRefusal):
                return 0
            await storage.run(
                lambda transaction: settle(transaction, [(outcome, Amount(9, 0))], NOW), locks=("key_1",)
            )
            return 9

        used = sum(await asyncio.gather(*map(ask, range(200))))
        for storage in storages:
            await storage.close()
        return used

    used = asyncio.run(main())
    # Eleven fit, and the twelfth may begin when it is alone.
    assert used in (99, 108)
    assert state.do(read_account, "key_1", NOW).used["day"].tokens == used
