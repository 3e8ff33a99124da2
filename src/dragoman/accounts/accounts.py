"""`Accounts`: the client keys and the usage ledger of one gateway."""

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from dragoman.accounts.activity import ActivityCounts, ActivityReader, Measurement, add_activity
from dragoman.accounts.errors import StateUnavailable
from dragoman.accounts.key_cache import ClientKeyCache
from dragoman.accounts.keys import Caller, list_keys
from dragoman.accounts.ledger import UsageLedger
from dragoman.accounts.limits import LimitUse, find_nearly_used_limits
from dragoman.accounts.sign_ins import TokenGrant, create_sign_in, end_sign_in, renew_sign_in
from dragoman.accounts.standing import KeyStanding, read_standing
from dragoman.accounts.store import ACCOUNTS_SCHEMA, read_account
from dragoman.hub.errors import ConfigError
from dragoman.storage.port import StateStorage, Transaction, Work

LOGGER = logging.getLogger("dragoman")

Result = TypeVar("Result")


class Accounts:
    """The client keys and the ledger of one gateway. `clock` returns the date."""

    def __init__(self, storage: StateStorage, clock: Callable[[], float]) -> None:
        storage.add_schema(ACCOUNTS_SCHEMA)
        self.storage = storage
        self.clock = clock
        self.keys = ClientKeyCache(storage, clock)
        self.ledger = UsageLedger(storage, clock)
        self._activity = ActivityReader()

    async def find_nearly_used_limits(self) -> list[tuple[str, LimitUse]]:
        """The limits that are nearly used up, each with the name of its key; for the operator.

        Empty if the file cannot be read: the other parts of a status page are still useful.
        """
        # Without keys there is no file, and reading would create it.
        if not self.keys.has_keys:
            return []
        now = self.clock()

        async def work(transaction: Transaction) -> list[tuple[str, LimitUse]]:
            callers = [key.caller for key in await list_keys(transaction) if not key.revoked]
            return [
                (caller.name, use)
                for caller in callers
                if caller.limits.has_any
                for use in find_nearly_used_limits(
                    caller.limits, await read_account(transaction, caller.id, now), now
                )
            ]

        try:
            return await self.storage.read(work)
        except ConfigError as error:
            LOGGER.error("the usage of the client keys cannot be read: %s", error)
            return []

    async def read_standing(self, caller: Caller) -> KeyStanding:
        """The budgets of the caller's key and what it has spent. Raises if the file cannot be read."""
        now = self.clock()
        return await self._run(lambda transaction: read_standing(transaction, caller.id, caller.limits, now))

    async def add_activity(self, caller: Caller, measurements: Iterable[Measurement]) -> ActivityCounts:
        """Store what the caller's agent reports about its work. Returns the sum of the new counts."""
        sessions, now = self._activity.read(caller.id, measurements), self.clock()
        if sessions:
            await self._run(lambda transaction: add_activity(transaction, caller.id, sessions, now))
        total = ActivityCounts()
        for counts in sessions.values():
            total = total.plus(counts)
        return total

    async def sign_in(self, key: str, lifetime: float) -> TokenGrant | None:
        """Tokens for the stored key with this id; None if the key is not valid any more."""
        now = self.clock()
        return await self._change_keys(lambda transaction: create_sign_in(transaction, key, now, lifetime))

    async def renew_sign_in(self, token: str, lifetime: float) -> TokenGrant | None:
        """A further access token for a refresh token; None if the token is not valid any more."""
        now = self.clock()
        return await self._change_keys(lambda transaction: renew_sign_in(transaction, token, now, lifetime))

    async def end_sign_in(self, token: str) -> None:
        """Make all tokens of a sign-in invalid."""
        await self._change_keys(lambda transaction: end_sign_in(transaction, token))

    async def _change_keys(self, work: Work[Result]) -> Result:
        """Run work that changes what the keys are. The client may use the change in its next request."""
        result = await self._run(work)
        self.keys.expire()
        return result

    async def _run(self, work: Work[Result]) -> Result:
        try:
            return await self.storage.run(work)
        except ConfigError as error:
            LOGGER.error("the state file cannot be used: %s", error)
            raise StateUnavailable("the gateway cannot use its state file; try again") from None

    async def close(self) -> None:
        self.keys.close()
        await self.ledger.close()
