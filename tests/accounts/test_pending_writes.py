"""Failed writes stay pending, in order and bounded."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.accounts.limits import Amount, Limits
from dragoman.accounts.pending import MAX_SETTLEMENTS, PendingWrites, save_outbox, take_outboxes
from dragoman.accounts.statistics import UsageCounts, UsageKey, read_usage
from dragoman.accounts.store import (
    ACCOUNTS_SCHEMA,
    Reservation,
    ReservationRequest,
    read_account,
    reserve,
)
from dragoman.storage.processes import build_process_name
from tests.states import ENGINES, Engine, StateBed

NOW = 1_794_794_400.0
USAGE_KEY = UsageKey(int(NOW), "key_1", "up", "m")
REQUEST = ReservationRequest(
    key="key_1", limits=Limits(tokens_per_day=100), maximum=Amount(10, 0), minimum=Amount(1, 0)
)


@pytest.mark.parametrize("engine", ENGINES)
def test_failed_writes_are_merged_with_later_ones(engine: Engine) -> None:
    state = StateBed(engine, ACCOUNTS_SCHEMA)
    made = [state.do(reserve, "here 1 a", REQUEST, NOW) for _ in range(2)]
    first, second = (each for each in made if isinstance(each, Reservation))
    earlier, later = PendingWrites(), PendingWrites()
    for pending, reservation in ((earlier, first), (later, second)):
        pending.add_settlement(reservation, Amount(3, 0))
        pending.add_usage(USAGE_KEY, UsageCounts(requests=1, input=2))
        pending.add_charge("key_2", int(NOW), Amount(5, 1))
    later.add_usage(UsageKey(int(NOW), "", "up", "m"), UsageCounts(requests=7))
    earlier.merge(later)
    state.do(earlier.write, NOW)
    assert state.do(read_account, "key_1", NOW).used["day"] == Amount(6, 0)
    assert state.do(read_account, "key_1", NOW).reserved["day"] == Amount()
    assert state.do(read_account, "key_2", NOW).used["month"] == Amount(10, 2)
    assert state.do(read_usage, ["key"]) == [
        (("",), UsageCounts(requests=7)),
        (("key_1",), UsageCounts(requests=2, input=4)),
    ]
    state.close()


def test_the_number_of_pending_settlements_is_bounded() -> None:
    pending = PendingWrites()
    reservations = [
        Reservation(id=number, request=REQUEST, at=NOW, rate_limits=())
        for number in range(MAX_SETTLEMENTS + 5)
    ]
    for reservation in reservations:
        pending.add_settlement(reservation, Amount())
    assert [reservation.id for reservation, _ in pending.settlements[:1]] == [5]
    assert len(pending.settlements) == MAX_SETTLEMENTS


@pytest.mark.parametrize("engine", ENGINES)
def test_a_batch_whose_commit_was_not_answered_is_written_once(engine: Engine) -> None:
    state = StateBed(engine, ACCOUNTS_SCHEMA)
    made = state.do(reserve, "here 1 a", REQUEST, NOW)
    assert isinstance(made, Reservation)
    batch = PendingWrites()
    batch.add_settlement(made, Amount(7, 0))
    batch.add_usage(USAGE_KEY, UsageCounts(requests=1, input=2))
    batch.add_charge("key_2", int(NOW), Amount(5, 1))
    for _ in range(3):
        state.do(batch.write, NOW, is_shared=True)
    assert state.do(read_account, "key_1", NOW).used["day"] == Amount(7, 0)
    assert state.do(read_account, "key_2", NOW).used["day"] == Amount(5, 1)
    assert state.do(read_usage, ["key"]) == [(("key_1",), UsageCounts(requests=1, input=2))]
    state.close()


def test_the_outbox_of_a_process_that_has_ended_is_taken_over(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead, alive, new = f"{socket.gethostname()} {ended.pid} a", build_process_name(), build_process_name()
    batch = PendingWrites(
        charges={("key_1", int(NOW)): Amount(5, 1)}, usage={USAGE_KEY: UsageCounts(input=2)}
    )
    save_outbox(tmp_path, dead, [batch, PendingWrites()])
    save_outbox(tmp_path, alive, [PendingWrites(charges={("key_2", int(NOW)): Amount(1, 1)})])
    assert take_outboxes(tmp_path, new) == [batch]
    # It is now the outbox of the new process, and no process takes it twice.
    assert take_outboxes(tmp_path, alive) == []
    assert len(list(tmp_path.iterdir())) == 2
    save_outbox(tmp_path, new, [])
    assert len(list(tmp_path.iterdir())) == 1
