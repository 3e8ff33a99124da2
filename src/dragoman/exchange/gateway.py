"""What all exchanges share: the configuration, the ways to providers, the health of targets, the heartbeat.

An exchange takes `view` when it begins and keeps to it; everything else here outlives a reload.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import SystemRandom

from dragoman.accounts.usage import Accounts
from dragoman.config.find import find_state_folder
from dragoman.config.model import Config, Provider
from dragoman.exchange.interventions import InterventionCounts
from dragoman.exchange.pulse import Heart
from dragoman.exchange.record import Record
from dragoman.exchange.view import View
from dragoman.routing.health import TargetHealth
from dragoman.storage.database import Database
from dragoman.upstream.port import Upstream
from dragoman.upstream.registry import build_upstream

_dice = SystemRandom()


class Gateway:
    """`upstreams` stand in for those that the configuration describes; `clock` tells the date.

    Without a `database` that has a file, nothing outlives the process.
    """

    def __init__(
        self,
        config: Config,
        *,
        upstreams: Mapping[str, Upstream] | None = None,
        database: Database | None = None,
        clock: Callable[[], float] = time.time,
        dice: Callable[[], float] = _dice.random,
    ) -> None:
        self._stand_ins = dict(upstreams or {})
        self.view = View(config, self._make)
        self.database = database or Database()
        self.clock = clock
        self.dice = dice
        self.accounts = Accounts(self.database, clock)
        self.health = TargetHealth()
        self.heart = Heart()
        #: What governance did to each target's tool calls.
        self.tool_counts = InterventionCounts()
        #: Who is told of every exchange that has ended.
        self.witnesses: list[Callable[[Record], None]] = []
        #: Views of earlier configurations that exchanges still hold on to.
        self._earlier: set[View] = set()
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def config(self) -> Config:
        """The configuration as it is now; an exchange looks at its own view instead."""
        return self.view.config

    def reload(self, config: Config) -> None:
        """Exchanges that begin from now on see the new configuration; those that are open see the old."""
        earlier, self.view = self.view, View(config, self._make, self.view)
        for name, contact in earlier.contacts.items():
            if self.view.contacts.get(name) is not contact:
                self.health.forget_provider(name)
        self._earlier.add(earlier)
        if not earlier.open:
            self._let_go(earlier)

    @contextmanager
    def using(self, view: View) -> Iterator[None]:
        """While an exchange lasts, what its view leads to stays open."""
        view.open += 1
        try:
            yield
        finally:
            view.open -= 1
            if view is not self.view and not view.open:
                self._let_go(view)

    def hide_secrets(self, provider: str, text: str) -> str:
        """The text without the secrets of the provider, if the configuration has it."""
        contact = self.view.contacts.get(provider)
        return contact.secrets.hidden(text) if contact else text

    async def close(self) -> None:
        for view in (*self._earlier, self.view):
            self._let_go(view)
        if self._closing:
            await asyncio.wait(self._closing)
        await self.accounts.close()
        self.database.close()

    def _make(self, provider: Provider) -> Upstream:
        if provider.name in self._stand_ins:
            return self._stand_ins[provider.name]
        return build_upstream(provider, find_state_folder(self.config, os.environ))

    def _let_go(self, view: View) -> None:
        self._earlier.discard(view)
        for contact in view.let_go():
            closing = asyncio.get_running_loop().create_task(contact.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
