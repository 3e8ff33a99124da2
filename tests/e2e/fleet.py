"""Several real gateways with one database, and an upstream that counts, and holds replies on request."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from aiohttp import web

from dragoman.accounts import keys as client_keys
from dragoman.accounts.limits import NO_LIMITS, Account, Limits
from dragoman.accounts.statistics import UsageCounts, read_usage
from dragoman.accounts.store import ACCOUNTS_SCHEMA, read_account
from dragoman.storage.database import StorageError
from dragoman.storage.port import Work
from dragoman.storage.postgres import PostgresOptions, PostgresStorage
from tests.e2e.gateway import Gateway
from tests.exchange.sample_replies import CHAT_WHOLE

Result = TypeVar("Result")

#: Starts the gateway on a machine whose clock is wrong by the seconds in the first argument. A key is busy
#: from three requests per second on, because a slow machine does not make twenty.
_WRONG_CLOCK = """
import sys, time
seconds, right = float(sys.argv.pop(1)), time.time
time.time = lambda: right() + seconds
from dragoman.accounts.leases import LeasePolicy
LeasePolicy.__new__.__defaults__ = LeasePolicy(busy_rate=3)
from dragoman.cli.main import main
main()
"""
#: Seconds in which a revocation applies everywhere.
REVOCATION = 1.0
SECONDS_TO_RECOVER = 40.0
#: With it, a reply never uses more than its request has reserved.
MAX_TOKENS = 20
#: Marks a request whose reply is held.
HOLD = "hold"


class CountingUpstream:
    """Answers with `CHAT_WHOLE`. Counts the replies that it has sent, by the name in the user's message.

    A request whose message begins with `HOLD` gets its reply when `release` is called.
    """

    def __init__(self) -> None:
        self.answered: dict[str, int] = {}
        #: Requests that wait for `release`.
        self.held: list[str] = []
        self._released = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self) -> None:
        application = web.Application()
        application.router.add_post("/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def release(self) -> None:
        self._released.set()
        self._released = asyncio.Event()

    async def _answer(self, request: web.Request) -> web.Response:
        text: str = (await request.json())["messages"][-1]["content"]
        if text.startswith(HOLD):
            self.held.append(text)
            try:
                await self._released.wait()
            finally:
                self.held.remove(text)
        name = text.rpartition(" ")[2]
        self.answered[name] = self.answered.get(name, 0) + 1
        return web.Response(body=CHAT_WHOLE, content_type="application/json")


class Fleet:
    """Gateways that share the database at `url`. Each has a clock that is wrong by its own seconds.

    Use: `start`, then any of the others, `stop` at the end; all on one event loop.
    """

    def __init__(
        self,
        folder: Path,
        url: str,
        clocks: Sequence[float],
        timeout: float = 20.0,
        *,
        pooler: bool = False,
    ) -> None:
        self._folder = folder
        self._url = url
        self._timeout = timeout
        self._pooler = pooler
        self._clocks = clocks
        self.upstream = CountingUpstream()
        self.gateways: list[Gateway] = []
        self._session: aiohttp.ClientSession | None = None
        options = PostgresOptions(url=url, timeout=20.0, pooler=pooler)
        self._storage = PostgresStorage(options, None, ACCOUNTS_SCHEMA)

    @property
    def session(self) -> aiohttp.ClientSession:
        assert self._session is not None
        return self._session

    async def start(self) -> None:
        await self.upstream.start()
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self.gateways = [self._build_gateway(number) for number in range(len(self._clocks))]
        await asyncio.gather(*(gateway.start() for gateway in self.gateways))

    async def stop(self) -> None:
        self.upstream.release()
        await asyncio.gather(*(gateway.stop() for gateway in self.gateways))
        await self.session.close()
        await self.upstream.stop()
        await self._storage.close()

    def _build_gateway(self, number: int) -> Gateway:
        text = f"""
default = "up"
[state]
url = "{self._url}"
timeout = {self._timeout}
pooler = {str(self._pooler).lower()}
[providers.up]
dialect = "openai_chat"
base_url = "{self.upstream.url}"
retries = 0
"""
        command = (sys.executable, "-c", _WRONG_CLOCK, str(self._clocks[number]))
        return Gateway(text, self._folder / f"gateway{number}", command)

    async def kill(self, number: int) -> None:
        """Kill a gateway and start another one in its place."""
        await self.gateways[number].kill()
        self.gateways[number] = self._build_gateway(number)
        await self.gateways[number].start()
        await wait_until(lambda: self._is_ready(self.gateways[number]))

    async def _is_ready(self, gateway: Gateway) -> bool:
        async with self.session.get(f"{gateway.url}/health/ready") as response:
            return response.status == 200

    async def create_key(self, name: str, limits: Limits = NO_LIMITS, expires_in: float = 0.0) -> str:
        """A key that all gateways know."""
        now = self._storage.clock()
        expires = now + expires_in if expires_in else 0.0
        _, key = await self.run(
            lambda transaction: client_keys.create_key(transaction, name, now, limits=limits, expires=expires)
        )
        for gateway in self.gateways:
            await wait_until(lambda gateway=gateway: self._has_access(gateway, key))  # type: ignore[misc]  # a default in a lambda
        return key

    async def revoke_everywhere(self, name: str, key: str) -> None:
        """Revoke the key. A gateway that admits it in a request that begins a second later has failed."""
        now = self._storage.clock()
        await self.run(lambda transaction: client_keys.revoke_key(transaction, name, now))
        loop = asyncio.get_running_loop()
        revoked = loop.time()

        async def check(gateway: Gateway) -> None:
            while True:
                begun = loop.time()
                if not await self._has_access(gateway, key):
                    return
                assert begun - revoked < REVOCATION
                await asyncio.sleep(0.02)

        await asyncio.gather(*map(check, self.gateways))

    async def _has_access(self, gateway: Gateway, key: str) -> bool:
        headers = {"x-api-key": key}
        async with self.session.get(f"{gateway.url}/v1/models", headers=headers) as response:
            assert response.status in (200, 401)
            return response.status == 200

    async def ask(self, number: int, key: str, text: str) -> int:
        """The status of a request through a gateway. The upstream counts it under the last word of `text`."""
        return (await self._ask(number, key, text))[0]

    async def can_check_budget(self, number: int, key: str, text: str) -> bool:
        """Send a request. False if the gateway refused it because it does not reach the database."""
        return b"cannot check the budget" not in (await self._ask(number, key, text))[1]

    async def _ask(self, number: int, key: str, text: str) -> tuple[int, bytes]:
        body = {"model": "any", "max_tokens": MAX_TOKENS, "messages": [{"role": "user", "content": text}]}
        url, headers = f"{self.gateways[number].url}/v1/chat/completions", {"x-api-key": key}
        async with self.session.post(url, json=body, headers=headers) as response:
            return response.status, await response.read()

    async def hold(self, number: int, key: str, name: str) -> "asyncio.Task[int] | None":
        """A request that the upstream has received and does not answer. None if a limit refused it."""
        before = len(self.upstream.held)
        asking = asyncio.ensure_future(self.ask(number, key, f"{HOLD} {name}"))
        while len(self.upstream.held) == before and not asking.done():
            await asyncio.sleep(0.005)
        if asking.done():
            assert asking.result() == 429
            return None
        return asking

    async def run(self, work: Work[Result]) -> Result:
        return await self._storage.run(work)

    async def read_account(self, name: str) -> Account:
        now = self._storage.clock()
        key = await self._storage.read(lambda transaction: client_keys.get_key(transaction, name))
        return await self._storage.read(lambda transaction: read_account(transaction, key.caller.id, now))

    async def count_usage(self, name: str) -> UsageCounts:
        """The statistics of a key."""
        rows = await self._storage.read(lambda transaction: read_usage(transaction, ["key"]))
        return next((counts for (found,), counts in rows if found == name), UsageCounts())


async def wait_until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Ask again until it holds. The database may be away meanwhile."""
    async with asyncio.timeout(SECONDS_TO_RECOVER):
        while True:
            try:
                if await holds():
                    return
            except StorageError:
                pass
            await asyncio.sleep(0.05)


class RunningFleet:
    """A fleet and the event loop on which it runs, for tests whose steps are not coroutines."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._runner = asyncio.Runner()
        self.run(fleet.start())

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        async def bounded() -> Result:
            async with asyncio.timeout(150):
                return await work

        return self._runner.run(bounded())

    def close(self) -> None:
        self.run(self.fleet.stop())
        self._runner.close()
