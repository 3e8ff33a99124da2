"""The client keys of the state file, in memory, where finding one costs nothing.

Commands change the file behind the gateway's back. So before a request is let in, but at most twice a second,
the file's date is looked at; only if that has moved is the file asked whether keys have changed.
"""

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from dragoman.accounts.caller import Caller, NoKey
from dragoman.hub.errors import ConfigError, DragomanError
from dragoman.storage import client_keys
from dragoman.storage.client_keys import Entry
from dragoman.storage.database import Database

LOGGER = logging.getLogger("dragoman")

#: Seconds for which what is in memory is good without a look.
GOOD_FOR = 0.5
#: Seconds. Two changes of a file within the grain of its date look like one, so a young date proves nothing.
YOUNG = 1.0

#: The date and the size of each file that a change would touch.
Stamp = tuple[tuple[int, int], ...]


class StateUnavailable(DragomanError):
    kind = "overloaded"
    default_status = 503


class Keyring:
    """`clock` tells the date. Without a file there are no keys."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._entries: Mapping[bytes, Entry] = {}
        self._by_id: Mapping[str, Entry] = {}
        self._generation = -1
        self._seen: Stamp = ()
        self._good_until = 0.0
        self._refreshing = asyncio.Lock()

    @property
    def has_any(self) -> bool:
        """Also when all of them are revoked: taking away the last key opens no door."""
        return bool(self._entries)

    @property
    def is_stale(self) -> bool:
        return time.monotonic() >= self._good_until

    async def refresh(self) -> None:
        """See to it that every change of more than a moment ago is known."""
        if self._database.path is None:
            self._good_until = float("inf")
            return
        async with self._refreshing:
            if self.is_stale:
                await self._look(self._database.path)
                self._good_until = time.monotonic() + GOOD_FOR

    def find(self, digests: Iterable[bytes]) -> Caller | None:
        """Whoever one of these keys belongs to. Raises if it is known but counts no more."""
        refused: NoKey | None = None
        for digest in digests:
            entry = self._entries.get(digest)
            if entry is None:
                continue
            refused = self._refused(entry)
            if refused is None:
                return entry.caller
        if refused is not None:
            raise refused
        return None

    async def renewed(self, caller: Caller) -> Caller:
        """The caller on today's terms: a connection may outlive the key it was opened with."""
        if not caller.id.startswith(client_keys.ID_MARK):
            return caller
        if self.is_stale:
            await self.refresh()
        entry = self._by_id.get(caller.id)
        if entry is None:
            raise NoKey(f"the key {caller.name!r} was deleted", hint="ask the gateway's owner for another")
        refused = self._refused(entry)
        if refused is not None:
            raise refused
        return entry.caller

    def _refused(self, entry: Entry) -> NoKey | None:
        name, now = repr(entry.caller.name), self._clock()
        hint = "ask the gateway's owner for another"
        if entry.is_revoked:
            return NoKey(f"the key {name} was revoked", hint=hint)
        if entry.caller.expires and now >= entry.caller.expires:
            date = datetime.fromtimestamp(entry.caller.expires, UTC)
            return NoKey(f"the key {name} expired on {date:%Y-%m-%d at %H:%M} UTC", hint=hint)
        if entry.until and now >= entry.until:
            return NoKey(f"the key {name} was replaced by a new one", hint="use the new one")
        return None

    async def _look(self, path: Path) -> None:
        stamp = _stamp(path)
        if stamp == self._seen:
            return
        # Asking would make the file, and nobody has anything in it yet.
        if stamp:
            await self._read()
        newest = max((date for date, _ in stamp), default=0)
        is_young = time.time() - newest / 1e9 < YOUNG
        self._seen = () if is_young else stamp

    async def _read(self) -> None:
        known = self._generation

        def work(connection: sqlite3.Connection) -> tuple[int, dict[bytes, Entry] | None]:
            generation = client_keys.generation(connection)
            return generation, client_keys.entries(connection) if generation != known else None

        try:
            self._generation, entries = await self._database.run(work)
        except (sqlite3.Error, ConfigError) as error:
            LOGGER.error("the client keys cannot be read: %s", error)
            raise StateUnavailable("the gateway cannot read its client keys; try again") from None
        if entries is not None:
            self._entries = entries
            self._by_id = {entry.caller.id: entry for entry in entries.values() if not entry.until}


def _stamp(path: Path) -> Stamp:
    """The file and its write-ahead log; nothing if there is no file."""
    stamps = []
    for each in (os.fspath(path), f"{path}-wal"):
        try:
            status = os.stat(each)
        except OSError:
            continue
        stamps.append((status.st_mtime_ns, status.st_size))
    return tuple(stamps)
