"""Keeps count of what callers use: sets aside before, settles after, and writes it all down.

Only a caller with limits waits for the file, and only before its request goes out. Everything else is
gathered here and written together: what somebody's limits depend on at once, mere statistics a moment later.
Whatever is due is written by the next transaction, whoever needs it.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from dragoman.accounts.decide import NOTHING, Amount, Refusal
from dragoman.exchange.due import Due, Places
from dragoman.exchange.keyring import StateUnavailable
from dragoman.hub.errors import ConfigError
from dragoman.storage.client_keys import ID_MARK
from dragoman.storage.database import Database
from dragoman.storage.processes import LEASE, own_name
from dragoman.storage.spending import Reservation, Wish, keep_alive, leave, reserve
from dragoman.storage.usage import Counts, tidy

LOGGER = logging.getLogger("dragoman")

#: Seconds for which statistics are gathered, and after which a file that could not be written is tried again.
GATHERED = 1.0
#: Seconds between two signs of life while something is set aside.
BEAT = LEASE / 4
#: Seconds between two rounds of tidying up.
TIDY_EVERY = 3600.0

Result = TypeVar("Result")


class Meter:
    """`clock` tells the date. Without a file no statistics are kept."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._process = own_name()
        self._keeps_statistics = database.path is not None
        self._due = Due()
        self._places = Places()
        #: Reservations that have not been settled.
        self._open = 0
        self._tidied_at = 0.0
        self._has_written = False
        self._is_closed = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._beating: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None

    async def admit(self, wish: Wish) -> Reservation | Refusal:
        """Set aside what the request may use, or say which limit forbids it."""
        now, process = self._clock(), self._process
        task = self._start(self._transact(lambda connection: reserve(connection, process, wish, now)))
        try:
            outcome = await asyncio.shield(task)
        except asyncio.CancelledError:
            # The client left meanwhile, but what is being set aside will be set aside.
            task.add_done_callback(self._give_back)
            raise
        if isinstance(outcome, Reservation):
            self._opened()
        return outcome

    def settle(self, reservation: Reservation, used: Amount) -> None:
        """The request has ended."""
        self._open -= 1
        self._due.settle(reservation, used)
        self._write_soon(0)

    def count(self, key: str, provider: str, model: str, counts: Counts, *, settled: bool) -> None:
        """Statistics. `settled`: a settlement told what the key has used, so it is not told again."""
        if not self._keeps_statistics:
            return
        place = self._places.place(key, provider, model, self._clock())
        if not settled and key.startswith(ID_MARK):
            self._due.charge(key, place.hour, Amount(counts.input + counts.output, counts.cost))
        self._due.count(place, counts)
        self._write_soon(GATHERED)

    async def flush(self) -> None:
        """Write what is due now; a file that cannot be written is not waited for."""
        if self._writing is not None:
            await asyncio.wait((self._writing,))
        if self._due:
            self._write_soon(0)
        if self._writing is not None:
            await asyncio.wait((self._writing,))

    async def close(self) -> None:
        """Write what is due; whatever is still set aside is let go."""
        if self._beating is not None:
            self._beating.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))
        await self.flush()
        self._is_closed = True
        if self._later is not None:
            self._later.cancel()
        if self._has_written:
            process = self._process
            await self._tried(lambda connection: leave(connection, process))

    def _opened(self) -> None:
        self._open += 1
        if self._beating is None:
            self._beating = self._start(self._beat())

    def _give_back(self, task: asyncio.Task[Reservation | Refusal]) -> None:
        """Nobody is there any more who would use it."""
        if task.cancelled() or task.exception() is not None:
            return
        outcome = task.result()
        if isinstance(outcome, Reservation):
            self._open += 1
            self.settle(outcome, NOTHING)

    def _write_soon(self, delay: float) -> None:
        """Now, unless it is being done; what comes meanwhile is written afterwards."""
        if self._is_closed or self._writing is not None:
            return
        if delay:
            if self._later is None:
                self._later = asyncio.get_running_loop().call_later(delay, self._write_soon, 0)
            return
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._writing = self._start(self._write())

    async def _write(self) -> None:
        is_written = await self._tried(self._tidied)
        self._writing = None
        if self._due:
            self._write_soon(0 if is_written and self._due.settlements else GATHERED)

    def _tidied(self, connection: sqlite3.Connection) -> None:
        now = self._clock()
        if now - self._tidied_at >= TIDY_EVERY:
            tidy(connection, now)
            self._tidied_at = now

    async def _beat(self) -> None:
        """While something is set aside, say that whoever did so is alive."""
        process = self._process
        while self._open:
            await asyncio.sleep(BEAT)
            await self._tried(lambda connection: keep_alive(connection, process, self._clock()))
        self._beating = None

    async def _tried(self, work: Callable[[sqlite3.Connection], None]) -> bool:
        try:
            await self._transact(work)
        except StateUnavailable:
            return False
        return True

    async def _transact(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """What is due, and the work, in one transaction. If it fails, what was due still is."""
        due, self._due = self._due, Due()
        now = self._clock()

        def do(connection: sqlite3.Connection) -> Result:
            due.write(connection, now)
            return work(connection)

        try:
            result = await self._database.run(do)
        except (sqlite3.Error, ConfigError) as error:
            due.add(self._due)
            self._due = due
            LOGGER.error("the state file cannot be written: %s", error)
            raise StateUnavailable("the gateway cannot look up what this key has used; try again") from None
        self._has_written = True
        return result

    def _start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
