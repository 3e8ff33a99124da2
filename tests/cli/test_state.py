"""`dragoman state`: the commands on a file and on a real PostgreSQL."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from dragoman.accounts.statistics import UsageCounts, UsageKey, add_usage
from dragoman.accounts.store import renew_process
from dragoman.peers.store import PEERS_SCHEMA, Hint, find_secret, write_hints
from dragoman.responses.tables import RESPONSES_SCHEMA
from dragoman.storage.postgres import PostgresTransaction
from dragoman.storage.processes import build_process_name
from dragoman.storage.sqlite import SqliteStorage
from tests import postgres
from tests.cli.run_command import dragoman, environment
from tests.server.keyholder import KeyHolder

CONFIG = '[state]\nurl = "env:STATE_URL"\n'


@pytest.fixture
def url() -> Iterator[str]:
    url = postgres.create_schema()
    yield url
    postgres.drop_schema(url)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dragoman.toml").write_text(CONFIG)
    (tmp_path / ".local/state/dragoman").mkdir(parents=True)
    return tmp_path


def fill(path: Path) -> None:
    """A state file with keys, usage and a conversation."""
    holder = KeyHolder(path)
    holder.create("one", tokens_per_day=1000)
    holder.create("two")
    now = int(time.time())
    counted = {
        UsageKey(now - number * 3600, "key_1", "up", f"m{number}"): UsageCounts(requests=number)
        for number in range(450)
    }
    holder.do(lambda transaction: add_usage(transaction, counted))
    storage = SqliteStorage(path, RESPONSES_SCHEMA)
    insert = (
        "INSERT INTO responses (number, id, owner, parent, visible, created, size, status, runner, seen,"
        " input, output, body, events)"
        " VALUES ($1, $2, '', $3, 1, 1.0, 9, 'completed', '', 0.0, $4, $4, $4, $4)"
    )
    rows = [(number, f"resp_{number}", number - 1 if number > 1 else None, b"[]") for number in range(1, 300)]
    storage.run_now(lambda transaction: transaction.execute_many(insert, rows))
    storage.close_now()


def test_a_file_is_copied_completely_and_only_once(folder: Path, url: str) -> None:
    path = folder / ".local/state/dragoman/state.db"
    fill(path)
    for _ in range(2):
        done = dragoman(folder, "state", "copy", STATE_URL=url)
        assert done.code == 0, done.err
        lines = [line.split() for line in done.out.splitlines()[1:]]
        assert {line[0]: line[1:] for line in lines}["agent_usage"] == ["450", "450", "equal"]
        assert {line[0]: line[1:] for line in lines}["responses"] == ["299", "299", "equal"]
        assert all(line[-1] == "equal" for line in lines)
    listed = dragoman(folder, "keys", "list", STATE_URL=url).out
    assert "one" in listed
    assert "1,000 tokens/day" in listed
    # New rows get new numbers.
    holder = KeyHolder(path, url)
    row = holder.do(
        lambda transaction: transaction.fetch_one(
            "INSERT INTO responses (id, owner, visible, created, size, status, runner, seen, input, output,"
            " body, events) VALUES ('new', '', 1, 1.0, 9, 'completed', '', 0.0, $1, $1, $1, $1)"
            " RETURNING number",
            b"",
        )
    )
    assert row is not None
    assert row[0] == 300


def test_a_copy_that_was_interrupted_continues(folder: Path, url: str) -> None:
    path = folder / ".local/state/dragoman/state.db"
    fill(path)
    assert dragoman(folder, "state", "copy", STATE_URL=url).code == 0
    holder = KeyHolder(path, url)
    holder.do(lambda transaction: transaction.execute("DELETE FROM agent_usage WHERE requests > 100"))
    holder.do(lambda transaction: transaction.execute("DELETE FROM responses WHERE number > 100"))
    done = dragoman(folder, "state", "copy", STATE_URL=url)
    assert done.code == 0, done.err
    assert "differs" not in done.out


def test_a_copy_that_is_killed_in_the_middle_continues(folder: Path, url: str) -> None:
    path = folder / ".local/state/dragoman/state.db"
    fill(path)
    hours = {UsageKey(number * 3600, "key_1", "up", "m"): UsageCounts(requests=1) for number in range(2_000)}
    KeyHolder(path).do(lambda transaction: add_usage(transaction, hours))
    assert dragoman(folder, "state", "migrate", STATE_URL=url).code == 0

    async def kill_in_the_middle() -> int:
        """The copy waits for a row in the middle, which another transaction has written and not committed."""
        other = await asyncpg.connect(url)
        watcher = await asyncpg.connect(url)
        waiting = other.transaction()
        await waiting.start()
        row = {UsageKey(1_000 * 3600, "key_1", "up", "m"): UsageCounts(requests=1)}
        await add_usage(PostgresTransaction(other), row)
        copying = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dragoman", "state", "copy"),
            cwd=folder,
            env=environment(folder, STATE_URL=url),
            stdout=subprocess.DEVNULL,
        )
        async with asyncio.timeout(60):
            while not await watcher.fetchval("SELECT COUNT(*) FROM pg_locks WHERE NOT granted"):
                await asyncio.sleep(0.02)
        copying.kill()
        await copying.wait()
        await waiting.rollback()
        count = await watcher.fetchval("SELECT COUNT(*) FROM agent_usage")
        await other.close()
        await watcher.close()
        return int(count)

    assert 0 < asyncio.run(kill_in_the_middle()) <= 1_000
    done = dragoman(folder, "state", "copy", STATE_URL=url)
    assert done.code == 0, done.err
    assert ["agent_usage", "2450", "2450", "equal"] in [line.split() for line in done.out.splitlines()]
    assert "differs" not in done.out


def test_what_belongs_to_running_gateways_is_not_copied(folder: Path, url: str) -> None:
    """The file of a gateway with workers has their secret and their hints."""
    path = folder / ".local/state/dragoman/state.db"
    fill(path)
    storage = SqliteStorage(path, PEERS_SCHEMA)
    storage.run_now(find_secret)
    hint = Hint("cooldown", "up", "m", 0, 1.0, time.time() + 60)
    storage.run_now(lambda transaction: write_hints(transaction, "gateway", [hint], time.time()))
    storage.close_now()
    done = dragoman(folder, "state", "copy", STATE_URL=url)
    assert done.code == 0, done.err
    assert not {"peer_secret", "hints", "parked_calls"} & {line.split()[0] for line in done.out.splitlines()}


def test_rows_that_differ_are_reported(folder: Path, url: str) -> None:
    path = folder / ".local/state/dragoman/state.db"
    fill(path)
    assert dragoman(folder, "state", "copy", STATE_URL=url).code == 0
    KeyHolder(path, url).do(lambda transaction: transaction.execute("UPDATE agent_usage SET requests = 7"))
    done = dragoman(folder, "state", "copy", STATE_URL=url)
    assert done.code == 2
    assert "the database has other rows than the file" in done.err


def test_a_state_in_use_is_not_copied(folder: Path, url: str) -> None:
    path = folder / ".local/state/dragoman/state.db"
    name = build_process_name()
    KeyHolder(path).do(lambda transaction: renew_process(transaction, name, time.time()))
    done = dragoman(folder, "state", "copy", STATE_URL=url)
    assert done.code == 2
    assert "a gateway uses the state file" in done.err


def test_the_state_is_checked_and_migrated(folder: Path, url: str) -> None:
    assert "4 schemas need a migration" in dragoman(folder, "state", "check", STATE_URL=url).out
    assert "up to date" in dragoman(folder, "state", "migrate", STATE_URL=url).out
    checked = dragoman(folder, "state", "check", STATE_URL=url).out
    assert "PostgreSQL" in checked
    assert "up to date" in checked
    (folder / "dragoman.toml").write_text("")
    assert "4 schemas need a migration" in dragoman(folder, "state", "check").out
    assert "up to date" in dragoman(folder, "state", "migrate").out
    assert "up to date" in dragoman(folder, "state", "check").out
    refused = dragoman(folder, "state", "copy")
    assert refused.code == 2
    assert "names no database" in refused.err


def test_errors_say_what_to_do_and_show_no_secret(folder: Path) -> None:
    unset = dragoman(folder, "state", "check")
    assert (unset.code, "STATE_URL is not set" in unset.err) == (2, True)
    port = postgres.find_free_port()
    gone = dragoman(folder, "state", "check", STATE_URL=f"postgresql://me:secret@127.0.0.1:{port}/db")
    assert gone.code == 2
    assert f"127.0.0.1:{port}/db does not answer" in gone.err
    assert "secret" not in gone.err
    (folder / "dragoman.toml").write_text('[state]\nurl = "mysql://x"\n')
    assert "expected an address of PostgreSQL" in dragoman(folder, "state", "check").err
