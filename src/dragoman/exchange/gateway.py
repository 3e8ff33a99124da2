"""What all exchanges share: the configuration, the upstreams, the health of targets and the heartbeat."""

import time
from collections.abc import Callable, Mapping
from random import SystemRandom

from dragoman.config.model import Config
from dragoman.exchange.pulse import Heart
from dragoman.exchange.secrets import Secrets
from dragoman.routing.health import Health
from dragoman.storage.database import Database
from dragoman.upstream.embedded import EmbeddedUpstream
from dragoman.upstream.http import HttpUpstream
from dragoman.upstream.port import Upstream

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
        self.config = config
        self.database = database or Database()
        self.clock = clock
        self.dice = dice
        self.health = Health()
        self.heart = Heart()
        self.keys = {name: len(provider.keys) for name, provider in config.providers.items()}
        self._upstreams: dict[str, Upstream] = dict(upstreams or {})
        self._secrets: dict[str, Secrets] = {}

    def upstream(self, name: str) -> Upstream:
        """The provider's upstream, made when it is first needed."""
        found = self._upstreams.get(name)
        if found is None:
            provider = self.config.providers[name]
            found = EmbeddedUpstream() if provider.dialect == "embedded" else HttpUpstream(provider)
            self._upstreams[name] = found
        return found

    def secrets(self, name: str) -> Secrets:
        found = self._secrets.get(name)
        if found is None:
            found = self._secrets[name] = Secrets(self.config.providers[name])
        return found

    async def close(self) -> None:
        for upstream in self._upstreams.values():
            await upstream.close()
        self.database.close()
