"""The owner's side of client keys: changes the state file behind the gateway's back, as the commands do."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dragoman.accounts.caller import Limits
from dragoman.accounts.decide import Account
from dragoman.storage import client_keys
from dragoman.storage.database import connect
from dragoman.storage.spending import account
from dragoman.storage.usage import By, Counts, report

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
            lambda connection: client_keys.create(
                connection, name, time.time(), models=models, limits=terms, expires=expires
            )
        )
        return key

    def do(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        connection = connect(self.path)
        try:
            connection.execute("BEGIN IMMEDIATE")
            result = work(connection)
            connection.execute("COMMIT")
            return result
        finally:
            connection.close()

    def account(self, name: str = "ci") -> Account:
        return self.do(
            lambda connection: account(connection, client_keys.known(connection, name).caller.id, time.time())
        )

    def used(self, name: str = "ci") -> int:
        """Tokens of today."""
        return self.account(name).used["day"].tokens

    def reserved(self, name: str = "ci") -> int:
        return self.account(name).reserved["day"].tokens

    def usage(self, *by: By) -> dict[tuple[str, ...], Counts]:
        return dict(self.do(lambda connection: report(connection, by)))
