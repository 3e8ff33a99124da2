"""Changes client keys in the state file while a gateway runs, as the commands do."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from dragoman.accounts import keys as client_keys
from dragoman.accounts.limits import Account, Limits
from dragoman.accounts.statistics import UsageCounts, UsageGroup, read_usage
from dragoman.accounts.store import ACCOUNTS_SCHEMA, read_account
from dragoman.storage.port import Transaction, Work
from dragoman.storage.postgres import PostgresOptions, run_once
from dragoman.storage.sqlite import SqliteStorage

Result = TypeVar("Result")


class KeyHolder:
    """Uses the file at `path`, or the database at `url`."""

    def __init__(self, path: Path, url: str = "") -> None:
        self.path = path
        self.url = url

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

    def do(self, work: Work[Result]) -> Result:
        if self.url:
            # A test may call this while its event loop runs.
            with ThreadPoolExecutor(1) as thread:
                options = PostgresOptions(url=self.url, timeout=20.0)
                return thread.submit(run_once, options, work, ACCOUNTS_SCHEMA).result()
        storage = SqliteStorage(self.path, ACCOUNTS_SCHEMA)
        try:
            return storage.run_now(work)
        finally:
            storage.close_now()

    def account(self, name: str = "ci") -> Account:
        async def work(transaction: Transaction) -> Account:
            key = await client_keys.get_key(transaction, name)
            return await read_account(transaction, key.caller.id, time.time())

        return self.do(work)

    def used(self, name: str = "ci") -> int:
        """Tokens of today."""
        return self.account(name).used["day"].tokens

    def reserved(self, name: str = "ci") -> int:
        return self.account(name).reserved["day"].tokens

    def usage(self, *by: UsageGroup) -> dict[tuple[str, ...], UsageCounts]:
        return dict(self.do(lambda connection: read_usage(connection, by)))
