"""What has to be written to the state file, gathered until somebody writes it."""

import sqlite3

import msgspec

from dragoman.accounts.decide import NOTHING, Amount
from dragoman.accounts.periods import hour_of
from dragoman.storage import usage
from dragoman.storage.spending import Reservation, charge, settle
from dragoman.storage.usage import Counts, Place

#: Different places that are counted within one hour. Clients make up the names of models.
MOST_PLACES = 1000
OTHERS = "(others)"
#: Settlements that wait for a file that cannot be written; beyond that the oldest are given up.
MOST_SETTLEMENTS = 10_000


class Due(msgspec.Struct):
    """Settlements, statistics, and what keys that need no settlement have used, by key and hour."""

    settlements: list[tuple[Reservation, Amount]] = []
    counted: dict[Place, Counts] = {}
    charges: dict[tuple[str, int], Amount] = {}

    def __bool__(self) -> bool:
        return bool(self.settlements or self.counted)

    def settle(self, reservation: Reservation, used: Amount) -> None:
        self.settlements.append((reservation, used))
        del self.settlements[:-MOST_SETTLEMENTS]

    def count(self, place: Place, counts: Counts) -> None:
        held = self.counted.get(place)
        if held is None:
            self.counted[place] = counts
        else:
            held.add(counts)

    def charge(self, key: str, hour: int, amount: Amount) -> None:
        self.charges[(key, hour)] = self.charges.get((key, hour), NOTHING).plus(amount)

    def add(self, later: "Due") -> None:
        """What became due since."""
        for reservation, used in later.settlements:
            self.settle(reservation, used)
        for place, counts in later.counted.items():
            self.count(place, counts)
        for (key, hour), amount in later.charges.items():
            self.charge(key, hour, amount)

    def write(self, connection: sqlite3.Connection, now: float) -> None:
        for reservation, used in self.settlements:
            settle(connection, reservation, used, now)
        for (key, hour), amount in self.charges.items():
            charge(connection, key, amount, hour)
        usage.add(connection, self.counted)


class Places:
    """Keeps the number of places that one hour's counts are filed under within bounds."""

    def __init__(self) -> None:
        self._hour = 0
        self._known: set[Place] = set()

    def place(self, key: str, provider: str, model: str, now: float) -> Place:
        hour = hour_of(now)
        if hour != self._hour:
            self._hour = hour
            self._known.clear()
        place = Place(hour, key, provider, model)
        if place not in self._known:
            if len(self._known) >= MOST_PLACES:
                return Place(hour, key, provider, OTHERS)
            self._known.add(place)
        return place
