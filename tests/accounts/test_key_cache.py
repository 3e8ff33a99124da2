"""Keys are found in memory, and the file is read only after a change."""

import asyncio
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from dragoman.accounts import key_cache
from dragoman.accounts import keys as client_keys
from dragoman.accounts.errors import InvalidKey, StateUnavailable
from dragoman.accounts.key_cache import MAX_AGE, RECENT, ClientKeyCache
from dragoman.accounts.keys import Caller, hash_key
from dragoman.accounts.store import ACCOUNTS_SCHEMA
from dragoman.storage.database import StorageError, connect
from dragoman.storage.sqlite import SqliteStorage
from tests.server.keyholder import KeyHolder


@pytest.fixture
def holder(tmp_path: Path) -> KeyHolder:
    return KeyHolder(tmp_path / "state.db")


async def aged(cache: ClientKeyCache) -> None:
    """Wait until the cache is stale, and refresh it."""
    async with asyncio.timeout(5 * MAX_AGE):
        while not cache.is_stale:
            await asyncio.sleep(0.01)
    await cache.refresh()


def test_a_gateway_without_keys_creates_no_file(tmp_path: Path) -> None:
    async def main() -> None:
        storage = SqliteStorage(tmp_path / "state.db", ACCOUNTS_SCHEMA)
        cache = ClientKeyCache(storage, time.time)
        await cache.refresh()
        assert not cache.has_keys
        assert not (tmp_path / "state.db").exists()
        await storage.close()

    asyncio.run(main())


def test_a_database_in_memory_is_never_read() -> None:
    async def main() -> None:
        storage = SqliteStorage(None, ACCOUNTS_SCHEMA)
        cache = ClientKeyCache(storage, time.time)
        await cache.refresh()
        assert not cache.is_stale
        assert cache.find_caller([hash_key("dgm_x")]) is None
        await storage.close()

    asyncio.run(main())


def test_a_caller_is_renewed_while_its_key_is_valid(holder: KeyHolder) -> None:
    key = holder.create()

    async def main() -> None:
        storage = SqliteStorage(holder.path, ACCOUNTS_SCHEMA)
        cache = ClientKeyCache(storage, time.time)
        await cache.refresh()
        caller = cache.find_caller([hash_key("other"), hash_key(key)])
        assert caller is not None
        assert caller.name == "ci"
        assert await cache.renew_caller(caller) == caller
        holder.do(lambda connection: client_keys.rotate_key(connection, "ci", time.time()))
        await aged(cache)
        # An open connection stays valid after a rotation; a new one needs the new key.
        assert await cache.renew_caller(caller) == caller
        assert cache.find_caller([hash_key(key)]) is None
        holder.do(lambda connection: client_keys.revoke_key(connection, "ci", time.time()))
        await aged(cache)
        with pytest.raises(InvalidKey, match="revoked"):
            await cache.renew_caller(caller)
        holder.do(lambda connection: client_keys.delete_key(connection, "ci"))
        await aged(cache)
        with pytest.raises(InvalidKey, match="deleted"):
            await cache.renew_caller(caller)
        await storage.close()

    asyncio.run(main())


def test_callers_of_the_configuration_are_returned_unchanged(holder: KeyHolder) -> None:
    async def main() -> None:
        storage = SqliteStorage(holder.path, ACCOUNTS_SCHEMA)
        caller = Caller(id="config-1", name="server.keys 1")
        assert await ClientKeyCache(storage, time.time).renew_caller(caller) is caller
        await storage.close()

    asyncio.run(main())


def test_two_changes_within_the_resolution_of_a_modification_time_are_both_seen(holder: KeyHolder) -> None:
    first = holder.create("one")

    async def main() -> None:
        storage = SqliteStorage(holder.path, ACCOUNTS_SCHEMA)
        cache = ClientKeyCache(storage, time.time)
        await cache.refresh()
        assert cache.find_caller([hash_key(first)])
        before = {path: os.stat(path) for path in holder.path.parent.iterdir()}
        second = holder.create("two")
        for path, status in before.items():
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        await aged(cache)
        assert cache.find_caller([hash_key(second)])
        await storage.close()

    asyncio.run(main())


def test_a_file_that_has_not_changed_is_not_read_again(holder: KeyHolder) -> None:
    holder.create()

    async def main() -> None:
        storage = SqliteStorage(holder.path, ACCOUNTS_SCHEMA)
        cache = ClientKeyCache(storage, time.time)
        await cache.refresh()
        an_hour_ago = time.time() - 3600
        for path in holder.path.parent.iterdir():
            os.utime(path, (an_hour_ago, an_hour_ago))
        await aged(cache)
        # Another connection writes, so a read would have to wait.
        writing = connect(holder.path, ACCOUNTS_SCHEMA)
        writing.execute("BEGIN IMMEDIATE")
        async with asyncio.timeout(3.0):
            await aged(cache)
        assert cache.has_keys
        writing.close()
        await storage.close()

    asyncio.run(main())


def test_cached_keys_are_valid_for_less_than_a_second(holder: KeyHolder) -> None:
    holder.create()

    async def main() -> None:
        storage = SqliteStorage(holder.path, ACCOUNTS_SCHEMA)
        cache = ClientKeyCache(storage, time.time)
        assert cache.is_stale
        await cache.refresh()
        assert cache.has_keys
        assert MAX_AGE <= 0.5
        await storage.close()

    asyncio.run(main())


def test_busy_gateways_read_the_keys_beside_the_requests(holder: KeyHolder) -> None:
    holder.create()

    async def main() -> None:
        storage = SqliteStorage(holder.path, ACCOUNTS_SCHEMA)
        cache = ClientKeyCache(storage, time.time)
        await cache.refresh()
        key = holder.create("second")
        # A request every few milliseconds: none of them finds the keys stale, and the new key is found.
        async with asyncio.timeout(5 * MAX_AGE):
            while cache.find_caller([hash_key(key)]) is None:
                assert not cache.is_stale
                cache.keep_fresh()
                await asyncio.sleep(0.005)
        cache.close()
        await storage.close()

    asyncio.run(main())


def test_a_change_during_a_read_beside_the_requests_is_read_again(
    holder: KeyHolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder.create()

    async def main() -> None:
        storage = SqliteStorage(holder.path, ACCOUNTS_SCHEMA)
        cache = ClientKeyCache(storage, time.time)
        await cache.refresh()
        is_reading, may_end, read = asyncio.Event(), asyncio.Event(), storage.read

        async def read_late(work: Any) -> Any:
            result = await read(work)
            is_reading.set()
            await may_end.wait()
            return result

        monkeypatch.setattr(storage, "read", read_late)
        holder.create("second")
        cache.keep_fresh()
        await is_reading.wait()
        cache.expire()
        may_end.set()
        await asyncio.sleep(0)
        assert cache.is_stale
        cache.close()
        await storage.close()

    asyncio.run(main())


def test_no_request_waits_for_the_usage_that_the_last_one_has_written(
    holder: KeyHolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent makes a request every few seconds. Meanwhile the file changes, but not its keys."""
    key = holder.create()

    async def main() -> None:
        storage = SqliteStorage(holder.path, ACCOUNTS_SCHEMA)
        cache = ClientKeyCache(storage, time.time)
        monkeypatch.setattr(key_cache, "BUSY_SECONDS", 2 * RECENT)
        await cache.refresh()
        cache.keep_fresh()
        await storage.run(lambda transaction: transaction.execute("CREATE TABLE more (number INTEGER)"))
        while cache._reading is not None:
            await asyncio.sleep(0.01)
        await asyncio.sleep(MAX_AGE)
        cache.expire()

        async def refuse(work: Any) -> Any:
            raise AssertionError("the request waits for the file")

        monkeypatch.setattr(storage, "read", refuse)
        await cache.refresh()
        assert not cache.is_stale
        assert cache.find_caller([hash_key(key)]) is not None
        await storage.close()

    asyncio.run(main())


@pytest.mark.rule("S12")
def test_keys_are_read_while_another_process_is_writing(holder: KeyHolder) -> None:
    key = holder.create()

    async def main() -> None:
        storage = SqliteStorage(holder.path, ACCOUNTS_SCHEMA)
        cache = ClientKeyCache(storage, time.time)
        writer = sqlite3.connect(holder.path, isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        await cache.refresh()
        assert cache.find_caller([hash_key(key)]) is not None
        writer.close()
        await storage.close()

    asyncio.run(main())


@pytest.mark.rule("S12")
def test_keys_stay_valid_while_the_file_cannot_be_read_and_changes_are_read_later(
    holder: KeyHolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = holder.create()

    async def fail(work: object) -> object:
        raise StorageError("the state file is locked")

    async def main() -> None:
        storage = SqliteStorage(holder.path, ACCOUNTS_SCHEMA)
        cache = ClientKeyCache(storage, time.time)
        await cache.refresh()
        second = holder.create("second")
        # A change that is not recent is read once.
        for path in holder.path.parent.glob("state.db*"):
            os.utime(path, (1e9, 1e9))
        with monkeypatch.context() as patch:
            patch.setattr(storage, "read", fail)
            await aged(cache)
            assert cache.find_caller([hash_key(first)]) is not None
            assert cache.find_caller([hash_key(second)]) is None
        await aged(cache)
        assert cache.find_caller([hash_key(second)]) is not None
        await storage.close()

    asyncio.run(main())


@pytest.mark.rule("S12")
def test_a_gateway_that_never_read_its_keys_accepts_no_caller(
    holder: KeyHolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder.create()

    async def fail(work: object) -> object:
        raise StorageError("the state file is locked")

    async def main() -> None:
        storage = SqliteStorage(holder.path, ACCOUNTS_SCHEMA)
        monkeypatch.setattr(storage, "read", fail)
        with pytest.raises(StateUnavailable):
            await ClientKeyCache(storage, time.time).refresh()
        await storage.close()

    asyncio.run(main())


@pytest.mark.rule("S12")
def test_keys_of_a_new_file_are_noticed_and_an_empty_one_opens_nothing(holder: KeyHolder) -> None:
    old = holder.create("old")

    async def main() -> None:
        storage = SqliteStorage(holder.path, ACCOUNTS_SCHEMA)
        cache = ClientKeyCache(storage, time.time)
        await cache.refresh()
        for path in holder.path.parent.glob("state.db*"):
            path.unlink()
        await aged(cache)
        assert cache.has_keys
        connect(holder.path, ACCOUNTS_SCHEMA).close()
        await aged(cache)
        assert cache.has_keys
        new = holder.create("new")
        await aged(cache)
        assert cache.find_caller([hash_key(new)]) is not None
        assert cache.find_caller([hash_key(old)]) is None
        holder.do(lambda connection: client_keys.revoke_key(connection, "new", time.time()))
        await aged(cache)
        with pytest.raises(InvalidKey, match="revoked"):
            cache.find_caller([hash_key(new)])
        await storage.close()

    asyncio.run(main())
