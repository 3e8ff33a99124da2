"""Everything that runs beside a test: the scripted upstream, the gateways, and the loop they live on.

One environment serves a whole test process. Gateways are started when first needed and kept.
"""

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from tests.e2e.clients.client import CLIENT_KEY
from tests.e2e.gateway import Gateway
from tests.e2e.upstream.server import UPSTREAM_KEY, Upstream

T = TypeVar("T")
SECONDS_FOR_ANYTHING = 120.0

CONFIG = """\
[server]
ping = 5.0

[providers.first]
dialect = "{dialect}"
base_url = "{url}"
api_key = "{key}"
retries = 1

[[routes]]
match = "*"
target = "first/{model}"
"""


#: The user's own file, which the gateway only reads.
NOT_WRITTEN = ("dragoman.toml",)


def leaks(folder: Path) -> list[str]:
    """The files below it in which a secret is to be read."""
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in NOT_WRITTEN
        for data in (path.read_bytes(),)
        if any(secret.encode() in data for secret in (UPSTREAM_KEY, CLIENT_KEY))
    ]


class Environment:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="environment", daemon=True)
        self._gateways: dict[str, Gateway] = {}
        self.upstream = Upstream()

    def open(self) -> None:
        self._thread.start()
        self.run(self.upstream.start())

    def close(self) -> None:
        """End everything. Whatever the gateways wrote in the meantime holds none of the secrets they knew."""
        for gateway in self._gateways.values():
            self.run(gateway.stop())
        self.run(self.upstream.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        assert leaks(self._folder) == []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something on the loop of the environment, and wait for it, but not for ever."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS_FOR_ANYTHING)

    def wait(self, seconds: float) -> None:
        """Let the loop run for a moment."""
        self.run(asyncio.sleep(seconds))

    def gateway(self, name: str, config: str) -> Gateway:
        """The gateway of that name, started with this configuration if it does not run yet."""
        found = self._gateways.get(name)
        if found is None:
            found = self.run(self._start(config, self._folder / f"gateway-{name}"))
            self._gateways[name] = found
        return found

    def restart(self, name: str, config: str) -> Gateway:
        """Kill the gateway of that name, and start it again where it was."""
        self.run(self._gateways.pop(name).kill())
        return self.gateway(name, config)

    async def _start(self, config: str, folder: Path) -> Gateway:
        gateway = Gateway(config, folder)
        await gateway.start()
        return gateway

    def gateway_to(self, dialect: str, *, keeps_model: bool = False) -> Gateway:
        """A gateway whose every model name leads to the scripted upstream in one dialect.

        If it keeps the model's name, a client of the same dialect has its bytes forwarded.
        """
        name = f"{dialect}-{'same' if keeps_model else 'renamed'}"
        return self.gateway(name, self.config_to(dialect, "*" if keeps_model else "mock-large"))

    def config_to(self, dialect: str, model: str = "mock-large") -> str:
        """The configuration of a gateway whose every model leads to the scripted upstream."""
        url = self.upstream.base_url(dialect)
        return CONFIG.format(dialect=dialect, url=url, key=UPSTREAM_KEY, model=model)
