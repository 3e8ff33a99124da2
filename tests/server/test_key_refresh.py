"""The client keys are read beside the requests: no request of a busy gateway waits for the state."""

import asyncio
import time
from collections.abc import MutableMapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.accounts import key_cache
from dragoman.accounts.key_cache import BUSY_SECONDS, MAX_AGE
from dragoman.exchange.gateway import Gateway
from dragoman.server.app import App
from dragoman.storage.port import Work
from dragoman.storage.sqlite import SqliteStorage
from tests.exchange.clock import run
from tests.server.keyholder import KeyHolder
from tests.server.running import config_for

#: Seconds between two requests.
STEP = 0.05


class RemoteStorage(SqliteStorage):
    """A state in the network: its changes cannot be seen from outside, and a read takes some time."""

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__(path)
        self._seconds = seconds

    def read_stamp(self) -> Any:
        return None

    async def read(self, work: Work[Any]) -> Any:
        found = await super().read(work)
        await asyncio.sleep(self._seconds)
        return found


async def list_models(app: App, key: str) -> tuple[int, float]:
    """The status of a request that needs a key and no provider, and the seconds that it took."""
    status = 0

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    headers = [(b"host", b"127.0.0.1"), (b"x-api-key", key.encode())]
    scope = {"type": "http", "method": "GET", "path": "/v1/models", "query_string": b"", "headers": headers}
    loop = asyncio.get_running_loop()
    began = loop.time()
    await app(scope, receive, send)
    return status, loop.time() - began


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.1, 0.15, 0.2, 0.24])
def test_no_request_of_a_busy_gateway_waits_for_its_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """A request every 50 ms for several times the age of the keys, and another key in the middle."""
    holder = KeyHolder(tmp_path / "state.db")
    first = holder.create("first")

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(key_cache, "time", SimpleNamespace(monotonic=loop.time, time=time.time))
        app = App(Gateway(config_for(), storage=RemoteStorage(tmp_path / "state.db", seconds)))
        # Only the first request must wait: before it, nothing is known about the keys.
        status, waited = await list_models(app, first)
        assert status == 200
        assert waited == pytest.approx(seconds)
        for _ in range(20):
            assert await list_models(app, first) == (200, 0.0)
            await asyncio.sleep(STEP)
        second = holder.create("second")
        created = loop.time()
        while (answer := await list_models(app, second))[0] == 401:
            assert loop.time() <= created + MAX_AGE
            assert answer[1] == 0.0
            await asyncio.sleep(STEP)
        assert answer == (200, 0.0)
        await app.gateway.close()

    run(scenario())


def test_an_idle_gateway_reads_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = KeyHolder(tmp_path / "state.db")
    key = holder.create()

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(key_cache, "time", SimpleNamespace(monotonic=loop.time, time=time.time))
        storage = RemoteStorage(tmp_path / "state.db", 0.0)
        app = App(Gateway(config_for(), storage=storage))
        await list_models(app, key)
        await asyncio.sleep(2 * BUSY_SECONDS)

        async def refuse(work: Work[Any]) -> Any:
            raise AssertionError("nothing uses the keys")

        with monkeypatch.context() as patch:
            patch.setattr(storage, "read", refuse)
            await asyncio.sleep(10 * BUSY_SECONDS)
        assert await list_models(app, key) == (200, 0.0)
        await app.gateway.close()

    run(scenario())
