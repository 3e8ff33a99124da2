"""`Accounts`: the client keys and the usage ledger of one gateway."""

import logging
import sqlite3
from collections.abc import Callable

from dragoman.accounts.errors import StateUnavailable
from dragoman.accounts.key_cache import ClientKeyCache
from dragoman.accounts.keys import Caller, list_keys
from dragoman.accounts.ledger import UsageLedger
from dragoman.accounts.limits import LimitUse, find_nearly_used_limits
from dragoman.accounts.standing import KeyStanding, read_standing
from dragoman.accounts.store import ACCOUNTS_SCHEMA, read_account
from dragoman.hub.errors import ConfigError
from dragoman.storage.database import Database

LOGGER = logging.getLogger("dragoman")


class Accounts:
    """The client keys and the ledger of one gateway. `clock` returns the date."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        database.add_schema(ACCOUNTS_SCHEMA)
        self.database = database
        self.clock = clock
        self.keys = ClientKeyCache(database, clock)
        self.ledger = UsageLedger(database, clock)

    async def find_nearly_used_limits(self) -> list[tuple[str, LimitUse]]:
        """The limits that are nearly used up, each with the name of its key; for the operator.

        Empty if the file cannot be read: the other parts of a status page are still useful.
        """
        # Without keys there is no file, and reading would create it.
        if not self.keys.has_keys:
            return []
        now = self.clock()

        def work(connection: sqlite3.Connection) -> list[tuple[str, LimitUse]]:
            callers = [key.caller for key in list_keys(connection) if not key.revoked]
            return [
                (caller.name, use)
                for caller in callers
                if caller.limits.has_any
                for use in find_nearly_used_limits(
                    caller.limits, read_account(connection, caller.id, now), now
                )
            ]

        try:
            return await self.database.run(work)
        except (sqlite3.Error, ConfigError) as error:
            LOGGER.error("the usage of the client keys cannot be read: %s", error)
            return []

    async def read_standing(self, caller: Caller) -> KeyStanding:
        """The budgets of the caller's key and what it has spent. Raises if the file cannot be read."""
        now = self.clock()
        try:
            return await self.database.run(
                lambda connection: read_standing(connection, caller.id, caller.limits, now)
            )
        except (sqlite3.Error, ConfigError) as error:
            LOGGER.error("the usage of a client key cannot be read: %s", error)
            raise StateUnavailable("the gateway cannot look up what this key has used; try again") from None

    async def close(self) -> None:
        await self.ledger.close()
