"""Keys are found in memory, and the file is asked only when it has changed."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from dragoman.accounts.caller import Caller, NoKey
from dragoman.exchange.keyring import GOOD_FOR, Keyring
from dragoman.storage import client_keys
from dragoman.storage.client_keys import digest_of
from dragoman.storage.database import Database, connect
from tests.server.keyholder import KeyHolder


@pytest.fixture
def holder(tmp_path: Path) -> KeyHolder:
    return KeyHolder(tmp_path / "state.db")


async def aged(keyring: Keyring) -> None:
    """Wait until what is in memory is no longer good without a look, and look."""
    async with asyncio.timeout(5 * GOOD_FOR):
        while not keyring.is_stale:
            await asyncio.sleep(0.01)
    await keyring.refresh()


def test_a_gateway_that_nobody_gave_keys_makes_no_file(tmp_path: Path) -> None:
    async def main() -> None:
        database = Database(tmp_path / "state.db")
        keyring = Keyring(database, time.time)
        await keyring.refresh()
        assert not keyring.has_any
        assert not (tmp_path / "state.db").exists()
        database.close()

    asyncio.run(main())


def test_a_database_in_memory_is_never_asked() -> None:
    async def main() -> None:
        database = Database()
        keyring = Keyring(database, time.time)
        await keyring.refresh()
        assert not keyring.is_stale
        assert keyring.find([digest_of("dgm_x")]) is None
        database.close()

    asyncio.run(main())


def test_a_caller_is_known_by_id_as_long_as_its_key_counts(holder: KeyHolder) -> None:
    key = holder.create()

    async def main() -> None:
        database = Database(holder.path)
        keyring = Keyring(database, time.time)
        await keyring.refresh()
        caller = keyring.find([digest_of("other"), digest_of(key)])
        assert caller is not None
        assert caller.name == "ci"
        assert await keyring.renewed(caller) == caller
        holder.do(lambda connection: client_keys.rotate(connection, "ci", time.time()))
        await aged(keyring)
        # The conversation goes on with the key it began with; only a new one needs the new key.
        assert await keyring.renewed(caller) == caller
        assert keyring.find([digest_of(key)]) is None
        holder.do(lambda connection: client_keys.revoke(connection, "ci", time.time()))
        await aged(keyring)
        with pytest.raises(NoKey, match="revoked"):
            await keyring.renewed(caller)
        holder.do(lambda connection: client_keys.delete(connection, "ci"))
        await aged(keyring)
        with pytest.raises(NoKey, match="deleted"):
            await keyring.renewed(caller)
        database.close()

    asyncio.run(main())


def test_callers_of_the_configuration_are_nobodys_business_here(holder: KeyHolder) -> None:
    async def main() -> None:
        database = Database(holder.path)
        caller = Caller(id="config-1", name="server.keys 1")
        assert await Keyring(database, time.time).renewed(caller) is caller
        database.close()

    asyncio.run(main())


def test_two_changes_within_the_grain_of_a_files_date_are_both_seen(holder: KeyHolder) -> None:
    first = holder.create("one")

    async def main() -> None:
        database = Database(holder.path)
        keyring = Keyring(database, time.time)
        await keyring.refresh()
        assert keyring.find([digest_of(first)])
        before = {path: os.stat(path) for path in holder.path.parent.iterdir()}
        second = holder.create("two")
        for path, status in before.items():
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        await aged(keyring)
        assert keyring.find([digest_of(second)])
        database.close()

    asyncio.run(main())


def test_a_file_that_has_not_changed_is_not_read_again(holder: KeyHolder) -> None:
    holder.create()

    async def main() -> None:
        database = Database(holder.path)
        keyring = Keyring(database, time.time)
        await keyring.refresh()
        an_hour_ago = time.time() - 3600
        for path in holder.path.parent.iterdir():
            os.utime(path, (an_hour_ago, an_hour_ago))
        await aged(keyring)
        # Somebody else is writing, so whoever asked now would have to wait.
        writing = connect(holder.path)
        writing.execute("BEGIN IMMEDIATE")
        async with asyncio.timeout(3.0):
            await aged(keyring)
        assert keyring.has_any
        writing.close()
        database.close()

    asyncio.run(main())


def test_what_is_in_memory_is_good_for_less_than_a_second(holder: KeyHolder) -> None:
    holder.create()

    async def main() -> None:
        database = Database(holder.path)
        keyring = Keyring(database, time.time)
        assert keyring.is_stale
        await keyring.refresh()
        assert keyring.has_any
        assert GOOD_FOR <= 0.5
        database.close()

    asyncio.run(main())
