"""The stored client keys, in memory.

Commands and other gateways change the keys while the gateway runs. Before a request is admitted, but at most
twice a second, the gateway looks for changes: at the modification times of the state file, and if they have
changed or there is no file, at the generation number of the keys.

No request should wait for that: a task looks beside the requests, and some seconds longer, because the usage
of the last request changes the file once more. After a pause a request finds the file unchanged. A state in
the network has no modification time, so there the task does not stop.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

from dragoman.accounts.errors import InvalidKey, StateUnavailable
from dragoman.accounts.keys import ID_PREFIX, Caller, ClientKeyEntry, read_entries, read_generation
from dragoman.hub.errors import ConfigError
from dragoman.storage.database import StorageError
from dragoman.storage.port import StateStorage, Transaction

LOGGER = logging.getLogger("dragoman")

#: Seconds for which the cached keys are valid without a look at the file.
MAX_AGE = 0.5
#: Seconds after the last use for which a task looks for changes.
BUSY_SECONDS = 5.0
#: Seconds. Two changes within the resolution of a file's modification time look like one, so a recent time
#: does not prove that the file is unchanged.
RECENT = 1.0

#: The modification time, the size and the number of each file that a change touches.
FileStamp = tuple[tuple[int, int, int], ...]


class ClientKeyCache:
    """Finds callers by the hash of their key. Without a state file there are no keys.

    `clock` returns the date in Unix seconds. Call `refresh` if `is_stale`, then `keep_fresh`, then
    `find_caller`; and `close` at the end.
    """

    def __init__(self, storage: StateStorage, clock: Callable[[], float]) -> None:
        self._storage = storage
        self._clock = clock
        self._entries: Mapping[bytes, ClientKeyEntry] = {}
        self._by_id: Mapping[str, ClientKeyEntry] = {}
        self._generation = -1
        #: Also True if all keys are revoked: revoking the last key must not open the gateway.
        self.has_keys = False
        self._stamp: FileStamp = ()
        self._file = 0
        self._valid_until = 0.0
        self._refreshing = asyncio.Lock()
        #: The task that reads the keys before they are stale.
        self._reading: asyncio.Task[None] | None = None
        self._used_at = 0.0
        #: How often `expire` was called.
        self._expired = 0

    @property
    def is_stale(self) -> bool:
        return time.monotonic() >= self._valid_until

    def expire(self) -> None:
        """Look at the file again before the next use: this process has changed the keys."""
        self._valid_until = 0.0
        self._expired += 1

    def keep_fresh(self) -> None:
        """A request uses the keys: look for changes beside the requests from now on, for a time."""
        self._used_at = time.monotonic()
        if self._reading is None and self._storage.is_lasting:
            self._reading = asyncio.get_running_loop().create_task(self._read_early())

    def close(self) -> None:
        """Stop looking for changes."""
        if self._reading is not None:
            self._reading.cancel()

    async def _read_early(self) -> None:
        """Read the keys whenever half of their age is over. A read may take as long as the other half."""
        try:
            while self._storage.is_shared or time.monotonic() < self._used_at + BUSY_SECONDS:
                await asyncio.sleep(max(0.0, self._valid_until - MAX_AGE / 2 - time.monotonic()))
                async with self._refreshing:
                    await self._read()
        except StateUnavailable:
            # It is logged. The request that finds the keys stale reports it, and starts this again.
            pass
        finally:
            self._reading = None

    async def refresh(self) -> None:
        """Read the keys if the file has changed and the cache is stale."""
        if not self._storage.is_lasting:
            self._valid_until = float("inf")
            return
        async with self._refreshing:
            if self.is_stale:
                await self._read()

    async def _read(self) -> None:
        # A change during a slow read is not in its result: the age counts from its beginning.
        begun, expired = time.monotonic(), self._expired
        await self._read_if_changed()
        # A change of our own during the read may not be in its result either.
        if expired == self._expired:
            self._valid_until = begun + MAX_AGE

    def find_caller(self, digests: Iterable[bytes]) -> Caller | None:
        """The caller of the first valid key. Raises if all known keys among them are invalid."""
        error: InvalidKey | None = None
        for digest in digests:
            entry = self._entries.get(digest)
            if entry is None:
                continue
            error = self._check_entry(entry)
            if error is None:
                return entry.caller
        if error is not None:
            raise error
        return None

    async def renew_caller(self, caller: Caller) -> Caller:
        """The caller with the current limits. Raises if the key became invalid since the connection began."""
        if not caller.id.startswith(ID_PREFIX):
            return caller
        if self.is_stale:
            await self.refresh()
        entry = self._by_id.get(caller.id)
        if entry is None:
            raise InvalidKey(
                f"the key {caller.name!r} was deleted", hint="ask the gateway's owner for another"
            )
        error = self._check_entry(entry)
        if error is not None:
            raise error
        return entry.caller

    def _check_entry(self, entry: ClientKeyEntry) -> InvalidKey | None:
        name, now = repr(entry.caller.name), self._clock()
        hint = "ask the gateway's owner for another"
        if entry.is_revoked:
            return InvalidKey(f"the key {name} was revoked", hint=hint)
        if entry.caller.expires and now >= entry.caller.expires:
            date = datetime.fromtimestamp(entry.caller.expires, UTC)
            return InvalidKey(f"the key {name} expired on {date:%Y-%m-%d at %H:%M} UTC", hint=hint)
        if entry.is_sign_in and now >= entry.until:
            return InvalidKey(f"the sign-in with the key {name} has expired", hint="sign in again: /login")
        if entry.until and now >= entry.until:
            return InvalidKey(f"the key {name} was replaced by a new one", hint="use the new one")
        return None

    async def _read_if_changed(self) -> None:
        stamp = self._storage.read_stamp()
        if stamp is None:
            await self._read_keys(is_replaced=False)
            return
        if stamp == self._stamp:
            return
        # Without a file there are no keys; reading would create the file.
        if stamp:
            is_replaced = stamp[0][2] != self._file
            if is_replaced:
                # Another file has generations of its own.
                self._generation = -1
            if not await self._read_keys(is_replaced=is_replaced):
                # The file is read at the next refresh.
                return
            self._file = stamp[0][2]
        newest = max((date for date, _, _ in stamp), default=0)
        is_recent = time.time() - newest / 1e9 < RECENT
        self._stamp = () if is_recent else stamp

    async def _read_keys(self, *, is_replaced: bool) -> bool:
        """Read the keys. False if they cannot be read now and the last ones stay valid."""
        cached = self._generation

        async def work(transaction: Transaction) -> tuple[int, dict[bytes, ClientKeyEntry] | None]:
            generation = await read_generation(transaction)
            return generation, await read_entries(transaction) if generation != cached else None

        try:
            self._generation, entries = await self._storage.read(work)
        except ConfigError as error:
            LOGGER.error("the client keys cannot be read: %s", error)
            if self._generation >= 0 and isinstance(error, StorageError):
                # A locked file or a restarted database is readable again soon. Until then the keys that
                # were read last are valid.
                return False
            raise StateUnavailable("the gateway cannot read its client keys; try again") from None
        if is_replaced and self._entries and not entries:
            # Without keys the gateway would accept every caller.
            LOGGER.error("the new state file has no client keys; the old ones stay valid until a restart")
        elif entries is not None:
            self._entries, self.has_keys = entries, bool(entries)
            self._by_id = {entry.caller.id: entry for entry in entries.values() if not entry.until}
        return True
