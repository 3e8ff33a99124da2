"""`Gateway`: the state that all exchanges share.

An exchange takes `snapshot` when it begins and uses it to its end. Everything else here outlives a reload.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import SystemRandom

from dragoman.accounts.accounts import Accounts
from dragoman.accounts.keys import Caller
from dragoman.accounts.session_limits import SessionBook
from dragoman.config.config import Config
from dragoman.config.find import find_state_folder
from dragoman.config.provider import Provider
from dragoman.exchange.config_snapshot import ConfigSnapshot
from dragoman.exchange.interventions import InterventionCounts
from dragoman.exchange.record import ExchangeRecord
from dragoman.exchange.tap import ExchangeRecorder
from dragoman.exchange.watchdog import WatchdogTimer
from dragoman.gateway_tools.memory import ToolMemory
from dragoman.healing.learned import LearnedFacts
from dragoman.healing.refused_seals import RefusedSeals
from dragoman.peers.calls import SharedCalls
from dragoman.peers.hints import SharedHints
from dragoman.pipeline.remembered import OwnHistories, RememberedHistories
from dragoman.routing.balancing import LoadBalancer
from dragoman.routing.health import TargetHealth
from dragoman.storage.port import StateStorage
from dragoman.storage.sqlite import SqliteStorage
from dragoman.upstream.kinds import build_upstream
from dragoman.upstream.port import Upstream

_random = SystemRandom()

#: Callers whose last provider is known.
MAX_CALLERS = 1000


class Gateway:
    """One gateway. `upstreams` replace those of the configuration, by provider name.

    `clock` gives the date in seconds (default: that of the storage), `random` numbers from 0 to 1. Without a
    `storage`, the state is in memory.
    """

    def __init__(
        self,
        config: Config,
        *,
        upstreams: Mapping[str, Upstream] | None = None,
        storage: StateStorage | None = None,
        clock: Callable[[], float] | None = None,
        random: Callable[[], float] = _random.random,
    ) -> None:
        self._upstreams = dict(upstreams or {})
        self.snapshot = ConfigSnapshot(config, self._build_upstream)
        self.storage = storage or SqliteStorage()
        self.clock = clock or self.storage.clock
        self.random = random
        self.accounts = Accounts(self.storage, self.clock)
        self.calls = SharedCalls(self.storage, self.clock)
        self.health = TargetHealth()
        self.balancer = LoadBalancer()
        self.hints = SharedHints(self.storage, self.clock, self.health, self.balancer)
        self.learned = LearnedFacts(self.storage, self.clock)
        self.refused_seals = RefusedSeals()
        self.tool_memory = ToolMemory(config.tools.memory_mb * 1_000_000)
        self.sessions = SessionBook()
        server = config.server
        self.histories = RememberedHistories(server.history_mb * 1_000_000, checks=server.history_check)
        self.watchdogs = WatchdogTimer()
        #: What governance changed, per target.
        self.intervention_counts = InterventionCounts()
        #: Called with the record of every exchange that has ended: log, metrics, traces.
        self.observers: list[Callable[[ExchangeRecord], None]] = []
        #: Records exchanges; None: nothing is recorded.
        self.recorder: ExchangeRecorder | None = None
        #: The provider that each caller has used last, by the caller's owner.
        self._last_providers: dict[str, str] = {}
        #: Snapshots of earlier configurations that open exchanges still use.
        self._earlier: set[ConfigSnapshot] = set()
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def config(self) -> Config:
        """The current configuration. Exchanges use their own snapshot instead."""
        return self.snapshot.config

    def reload(self, config: Config) -> None:
        """Use a new configuration for exchanges that begin from now on."""
        earlier, self.snapshot = self.snapshot, ConfigSnapshot(config, self._build_upstream, self.snapshot)
        server = config.server
        self.histories.resize(server.history_mb * 1_000_000, checks=server.history_check)
        for name, handle in earlier.handles.items():
            if self.snapshot.handles.get(name) is not handle:
                self.health.forget_provider(name)
        self._earlier.add(earlier)
        if not earlier.open:
            self._release(earlier)

    def find_histories(self, caller: Caller) -> OwnHistories | None:
        """The translated history of a caller's conversations; None if none is kept."""
        return OwnHistories(self.histories, caller.owner) if self.histories.limit else None

    def note_provider(self, caller: Caller, provider: str) -> None:
        """Remember the provider that answers a caller."""
        if len(self._last_providers) >= MAX_CALLERS:
            self._last_providers.clear()
        self._last_providers[caller.owner] = provider

    def expect_request(self, caller: Caller) -> None:
        """A request of this caller is on its way: open a connection to the provider that it used last.

        No provider is contacted before a client has used it.
        """
        handle = self.snapshot.handles.get(self._last_providers.get(caller.owner, ""))
        if handle is not None:
            handle.open_early()

    @contextmanager
    def use(self, snapshot: ConfigSnapshot) -> Iterator[None]:
        """Context manager: keeps the snapshot's upstreams open while an exchange runs."""
        snapshot.open += 1
        try:
            yield
        finally:
            self.leave(snapshot)

    def leave(self, snapshot: ConfigSnapshot) -> None:
        """End the use of a snapshot, whose `open` was increased by one."""
        snapshot.open -= 1
        if snapshot is not self.snapshot and not snapshot.open:
            self._release(snapshot)

    async def close(self) -> None:
        """End everything that the gateway owns, after its last exchange. Waits for pending writes."""
        for snapshot in (*self._earlier, self.snapshot):
            self._release(snapshot)
        if self._closing:
            await asyncio.wait(self._closing)
        await self.calls.close()
        await self.hints.close()
        await self.learned.close()
        await self.accounts.close()
        await self.storage.close()

    def _build_upstream(self, provider: Provider) -> Upstream:
        if provider.name in self._upstreams:
            return self._upstreams[provider.name]
        calls = self.calls if self.calls.is_announced else None
        return build_upstream(provider, find_state_folder(self.config, os.environ), calls)

    def _release(self, snapshot: ConfigSnapshot) -> None:
        self._earlier.discard(snapshot)
        for handle in snapshot.release():
            closing = asyncio.get_running_loop().create_task(handle.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
