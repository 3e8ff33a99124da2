"""Failed writes stay pending, in order and bounded."""

from dragoman.accounts.ledger import MAX_SETTLEMENTS, PendingWrites
from dragoman.accounts.limits import Amount, Limits
from dragoman.accounts.store import (
    ACCOUNTS_SCHEMA,
    Reservation,
    ReservationRequest,
    UsageCounts,
    UsageKey,
    read_account,
    read_usage,
    reserve,
)
from dragoman.storage.database import connect

NOW = 1_794_794_400.0
USAGE_KEY = UsageKey(int(NOW), "key_1", "up", "m")
REQUEST = ReservationRequest(
    key="key_1", limits=Limits(tokens_per_day=100), maximum=Amount(10, 0), minimum=Amount(1, 0)
)


def test_failed_writes_are_merged_with_later_ones() -> None:
    connection = connect(None, ACCOUNTS_SCHEMA)
    made = [reserve(connection, "here 1 a", REQUEST, NOW) for _ in range(2)]
    first, second = (each for each in made if isinstance(each, Reservation))
    earlier, later = PendingWrites(), PendingWrites()
    for pending, reservation in ((earlier, first), (later, second)):
        pending.add_settlement(reservation, Amount(3, 0))
        pending.add_usage(USAGE_KEY, UsageCounts(requests=1, input=2))
        pending.add_charge("key_2", int(NOW), Amount(5, 1))
    later.add_usage(UsageKey(int(NOW), "", "up", "m"), UsageCounts(requests=7))
    earlier.merge(later)
    earlier.write(connection, NOW)
    assert read_account(connection, "key_1", NOW).used["day"] == Amount(6, 0)
    assert read_account(connection, "key_1", NOW).reserved["day"] == Amount()
    assert read_account(connection, "key_2", NOW).used["month"] == Amount(10, 2)
    assert read_usage(connection, ["key"]) == [
        (("",), UsageCounts(requests=7)),
        (("key_1",), UsageCounts(requests=2, input=4)),
    ]
    connection.close()


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
