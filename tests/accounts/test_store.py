"""Reservations and spending in a real file: several processes, midnight, and the death of a process."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dragoman.accounts.limits import Amount, LimitRefusal, Limits
from dragoman.accounts.store import (
    ACCOUNTS_SCHEMA,
    Reservation,
    ReservationRequest,
    read_account,
    release_process,
    renew_process,
    reserve,
    settle,
)
from dragoman.storage.database import Database, connect
from dragoman.storage.processes import LEASE, build_process_name

NOW = 1_794_794_400.0  # 2026-11-16 02:00 UTC
HOUR = 3600.0
ME = "here 1 a"
OTHER = "elsewhere 2 b"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = connect(tmp_path / "state.db", ACCOUNTS_SCHEMA)
    yield connection
    connection.close()


def build_request(
    tokens: int = 10, *, minimum: int = 4, limits: Limits | None = None, key: str = "key_1"
) -> ReservationRequest:
    return ReservationRequest(
        key=key,
        limits=limits or Limits(tokens_per_day=100),
        maximum=Amount(tokens, tokens),
        minimum=Amount(minimum, minimum),
    )


def reserved(
    connection: sqlite3.Connection, asked: ReservationRequest, now: float = NOW, process: str = ME
) -> Reservation:
    outcome = reserve(connection, process, asked, now)
    assert isinstance(outcome, Reservation)
    return outcome


def test_the_used_amount_replaces_the_reservation(connection: sqlite3.Connection) -> None:
    reservation = reserved(connection, build_request(60))
    assert read_account(connection, "key_1", NOW).reserved["day"] == Amount(60, 60)
    settle(connection, reservation, Amount(7, 8), NOW + 1)
    held = read_account(connection, "key_1", NOW + 1)
    assert (held.used["day"], held.used["month"]) == (Amount(7, 8), Amount(7, 8))
    assert held.reserved["day"] == held.reserved["month"] == Amount()


def test_keys_do_not_share_a_budget(connection: sqlite3.Connection) -> None:
    reserved(connection, build_request(100, key="key_1"))
    reserved(connection, build_request(100, key="key_2"))
    assert isinstance(reserve(connection, ME, build_request(1), NOW), LimitRefusal)


def test_a_refused_request_leaves_no_trace(connection: sqlite3.Connection) -> None:
    limits = Limits(requests_per_minute=5, tokens_per_day=10)
    reserved(connection, build_request(10, limits=limits))
    before = read_account(connection, "key_1", NOW)
    assert isinstance(reserve(connection, ME, build_request(10, limits=limits), NOW), LimitRefusal)
    assert read_account(connection, "key_1", NOW) == before


def test_the_requests_of_a_minute_are_counted_also_across_restarts(tmp_path: Path) -> None:
    limits = Limits(requests_per_minute=2)
    for _ in range(2):
        connection = connect(tmp_path / "state.db", ACCOUNTS_SCHEMA)
        reserved(connection, build_request(limits=limits))
        connection.close()
    connection = connect(tmp_path / "state.db", ACCOUNTS_SCHEMA)
    refusal = reserve(connection, ME, build_request(limits=limits), NOW)
    assert isinstance(refusal, LimitRefusal)
    assert refusal.wait == 30
    reserved(connection, build_request(limits=limits), NOW + 30)
    connection.close()


def test_tokens_of_a_minute_are_given_back_when_they_were_not_used(connection: sqlite3.Connection) -> None:
    limits = Limits(tokens_per_minute=100)
    first = reserved(connection, build_request(100, limits=limits))
    assert isinstance(reserve(connection, ME, build_request(50, limits=limits), NOW), LimitRefusal)
    settle(connection, first, Amount(10, 0), NOW)
    reserved(connection, build_request(90, limits=limits))


def test_a_reply_that_ends_tomorrow_counts_for_today(connection: sqlite3.Connection) -> None:
    late = NOW + 21.9 * HOUR
    reservation = reserved(connection, build_request(60), late)
    tomorrow = late + HOUR
    assert read_account(connection, "key_1", tomorrow).reserved["day"] == Amount()
    assert read_account(connection, "key_1", tomorrow).reserved["month"] == Amount(60, 60)
    settle(connection, reservation, Amount(60, 60), tomorrow)
    held = read_account(connection, "key_1", tomorrow)
    assert (held.used["day"], held.used["month"]) == (Amount(), Amount(60, 60))
    assert read_account(connection, "key_1", late).used["day"] == Amount(60, 60)


def test_the_reservations_of_a_dead_process_are_released(connection: sqlite3.Connection) -> None:
    reserved(connection, build_request(95, minimum=4), process=OTHER)
    assert isinstance(reserve(connection, ME, build_request(10), NOW + LEASE), LimitRefusal)
    renew_process(connection, OTHER, NOW + LEASE)
    assert isinstance(reserve(connection, ME, build_request(10), NOW + LEASE + 1), LimitRefusal)
    reserved(connection, build_request(10), NOW + 2 * LEASE + 1)
    # The minimum of its open request is charged.
    assert read_account(connection, "key_1", NOW + 2 * LEASE + 1).used["day"] == Amount(4, 4)


def test_a_process_that_slept_is_not_charged_twice(connection: sqlite3.Connection) -> None:
    asleep = reserved(connection, build_request(50, minimum=4), process=OTHER)
    reserved(connection, build_request(10), NOW + LEASE + 1)
    settle(connection, asleep, Amount(30, 30), NOW + LEASE + 2)
    assert read_account(connection, "key_1", NOW).used["day"] == Amount(30, 30)


def test_a_process_that_ends_in_order_releases_its_reservations(connection: sqlite3.Connection) -> None:
    reserved(connection, build_request(95, minimum=4))
    reserved(connection, build_request(5, minimum=1), process=OTHER)
    release_process(connection, ME)
    held = read_account(connection, "key_1", NOW)
    assert (held.used["day"], held.reserved["day"]) == (Amount(4, 4), Amount(5, 5))


def test_a_process_never_considers_itself_dead(connection: sqlite3.Connection) -> None:
    reserved(connection, build_request(50), process=ME)
    reserved(connection, build_request(50), NOW + 10 * LEASE, process=ME)
    assert isinstance(reserve(connection, ME, build_request(1), NOW + 20 * LEASE), LimitRefusal)


DIES = """
import os, signal, sys
from pathlib import Path
from dragoman.accounts.limits import Amount, Limits
from dragoman.accounts.store import ACCOUNTS_SCHEMA, ReservationRequest, reserve
from dragoman.storage.database import Database
from dragoman.storage.processes import build_process_name
limits = Limits(tokens_per_day=100)
request = ReservationRequest(key="key_1", limits=limits, maximum=Amount(99, 0), minimum=Amount(3, 0))
database = Database(Path(sys.argv[1]), ACCOUNTS_SCHEMA)
database.run_now(lambda c: reserve(c, build_process_name(), request, float(sys.argv[2])))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="only there a process id shows whether a process runs")
def test_the_reservations_of_a_killed_process_are_released_at_once(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    ended = subprocess.run([sys.executable, "-c", DIES, str(path), str(NOW)], check=False)
    assert ended.returncode == -9
    connection = connect(path, ACCOUNTS_SCHEMA)
    assert read_account(connection, "key_1", NOW).reserved["day"] == Amount(99, 0)
    reserved(connection, build_request(90), NOW + 0.1)
    assert read_account(connection, "key_1", NOW).used["day"] == Amount(3, 0)
    connection.close()


def test_a_budget_holds_for_processes_that_ask_at_the_same_moment(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    databases = [Database(path, ACCOUNTS_SCHEMA) for _ in range(4)]
    names = [build_process_name() for _ in databases]

    def ask(number: int) -> int:
        database, name = databases[number % 4], names[number % 4]
        outcome = database.run_now(lambda connection: reserve(connection, name, build_request(9), NOW))
        if isinstance(outcome, LimitRefusal):
            return 0
        database.run_now(lambda connection: settle(connection, outcome, Amount(9, 0), NOW))
        return 9

    with ThreadPoolExecutor(16) as pool:
        used = sum(pool.map(ask, range(200)))
    # Eleven fit, and the twelfth may begin when it is alone.
    assert used in (99, 108)
    assert (
        databases[0].run_now(lambda connection: read_account(connection, "key_1", NOW)).used["day"].tokens
        == used
    )
    for database in databases:
        database.close()
