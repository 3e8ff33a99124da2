"""Client keys of which a limit is nearly used up, looked up in the state file."""

import sqlite3
from typing import TYPE_CHECKING

from dragoman.accounts.near import Near, near_limits
from dragoman.hub.errors import ConfigError
from dragoman.storage import client_keys
from dragoman.storage.spending import account
from dragoman.telemetry.log import LOGGER

if TYPE_CHECKING:
    from dragoman.server.app import App


async def keys_near_limits(app: "App") -> list[tuple[str, Near]]:
    """By the key's name. Whoever has no keys has no file either, and gets none by this."""
    gateway = app.gateway
    if not gateway.keyring.has_any:
        return []
    now = gateway.clock()

    def work(connection: sqlite3.Connection) -> list[tuple[str, Near]]:
        callers = [key.caller for key in client_keys.listed(connection) if not key.revoked]
        return [
            (caller.name, near)
            for caller in callers
            if caller.limits.has_any
            for near in near_limits(caller.limits, account(connection, caller.id, now), now)
        ]

    try:
        return await gateway.database.run(work)
    except (sqlite3.Error, ConfigError) as error:
        # All else can still be told.
        LOGGER.error("what client keys have used cannot be read: %s", error)
        return []
