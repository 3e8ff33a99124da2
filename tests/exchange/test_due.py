"""What could not be written waits with what comes after it, in order and within bounds."""

from dragoman.accounts.caller import Limits
from dragoman.accounts.decide import Amount
from dragoman.exchange.due import MOST_SETTLEMENTS, Due
from dragoman.storage.database import connect
from dragoman.storage.spending import Reservation, Wish, account, reserve
from dragoman.storage.usage import Counts, Place, report

NOW = 1_794_794_400.0
PLACE = Place(int(NOW), "key_1", "up", "m")
WISH = Wish(key="key_1", limits=Limits(tokens_per_day=100), most=Amount(10, 0), least=Amount(1, 0))


def test_what_is_put_back_is_written_with_what_came_since() -> None:
    connection = connect(None)
    made = [reserve(connection, "here 1 a", WISH, NOW) for _ in range(2)]
    first, second = (each for each in made if isinstance(each, Reservation))
    earlier, later = Due(), Due()
    for due, reservation in ((earlier, first), (later, second)):
        due.settle(reservation, Amount(3, 0))
        due.count(PLACE, Counts(requests=1, input=2))
        due.charge("key_2", int(NOW), Amount(5, 1))
    later.count(Place(int(NOW), "", "up", "m"), Counts(requests=7))
    earlier.add(later)
    earlier.write(connection, NOW)
    assert account(connection, "key_1", NOW).used["day"] == Amount(6, 0)
    assert account(connection, "key_1", NOW).reserved["day"] == Amount()
    assert account(connection, "key_2", NOW).used["month"] == Amount(10, 2)
    assert report(connection, ["key"]) == [
        (("",), Counts(requests=7)),
        (("key_1",), Counts(requests=2, input=4)),
    ]
    connection.close()


def test_settlements_for_a_file_that_is_never_there_do_not_fill_the_memory() -> None:
    due = Due()
    reservations = [
        Reservation(id=number, wish=WISH, at=NOW, rooms=()) for number in range(MOST_SETTLEMENTS + 5)
    ]
    for reservation in reservations:
        due.settle(reservation, Amount())
    assert [reservation.id for reservation, _ in due.settlements[:1]] == [5]
    assert len(due.settlements) == MOST_SETTLEMENTS
