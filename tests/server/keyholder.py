"""Changes client keys in the state file while a gateway runs, as the commands do."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dragoman.accounts import keys as client_keys
from dragoman.accounts.limits import Account, Limits
from dragoman.accounts.store import ACCOUNTS_SCHEMA, UsageCounts, UsageGroup, read_account, read_usage
from dragoman.storage.database import connect

Result = TypeVar("Result")


class KeyHolder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def create(
        self, name: str = "ci", *, models: tuple[str, ...] = (), expires: float = 0.0, **limits: int
    ) -> str:
        """A new key; gives the text that clients show."""
        terms = Limits(**limits)
        _, key = self.do(
            lambda connection: client_keys.create_key(
                connection, name, time.time(), models=models, limits=terms, expires=expires
            )
        )
        return key

    def do(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        connection = connect(self.path, ACCOUNTS_SCHEMA)
        try:
            connection.execute("BEGIN IMMEDIATE")
            result = work(connection)
            connection.execute("COMMIT")
            return result
        finally:
            connection.close()

    def account(self, name: str = "ci") -> Account:
        return self.do(
            lambda connection: read_account(
                connection, client_keys.get_key(connection, name).caller.id, time.time()
            )
        )

    def used(self, name: str = "ci") -> int:
        """Tokens of today."""
        return self.account(name).used["day"].tokens

    def reserved(self, name: str = "ci") -> int:
        return self.account(name).reserved["day"].tokens

    def usage(self, *by: UsageGroup) -> dict[tuple[str, ...], UsageCounts]:
        return dict(self.do(lambda connection: read_usage(connection, by)))
