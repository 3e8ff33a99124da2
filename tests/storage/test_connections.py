"""How PostgreSQL is reached: with TLS, through poolers in transaction mode, and after an outage."""

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import certifi
import pytest

from dragoman.accounts.ledger import UsageLedger
from dragoman.accounts.limits import Amount, Limits
from dragoman.accounts.store import ACCOUNTS_SCHEMA, Reservation, ReservationRequest, read_account
from dragoman.peers.store import PEERS_SCHEMA
from dragoman.responses.tables import RESPONSES_SCHEMA
from dragoman.storage.database import StorageError
from dragoman.storage.postgres import PostgresOptions, PostgresStorage
from tests import postgres
from tests.e2e.fleet import Fleet
from tests.e2e.test_keys import USED
from tests.postgres_proxy import run_proxy
from tests.upstream.http.test_tls import TRUSTED, server_tls

SCHEMAS = (ACCOUNTS_SCHEMA, PEERS_SCHEMA, RESPONSES_SCHEMA)
#: The certificate of the server is its own authority. It is for 127.0.0.1 and localhost.
AUTHORITY = f"sslrootcert={TRUSTED}"
REQUEST = ReservationRequest(
    key="key_1", limits=Limits(tokens_per_day=10**6), maximum=Amount(60, 0), minimum=Amount(5, 0)
)


async def select_one(url: str) -> int:
    storage = PostgresStorage(PostgresOptions(url=url, timeout=20.0))
    try:
        rows = await storage.read(lambda transaction: transaction.fetch("SELECT 1"))
    finally:
        await storage.close()
    return int(rows[0][0])


@pytest.mark.parametrize(
    ("parameters", "host", "is_accepted", "is_encrypted"),
    [
        ("sslmode=require", "127.0.0.1", True, True),
        (f"sslmode=verify-ca&{AUTHORITY}", "127.0.0.1", True, True),
        (f"sslmode=verify-full&{AUTHORITY}", "localhost", True, True),
        (f"sslmode=verify-ca&{AUTHORITY}", "127.0.0.2", True, True),
        # The certificate is for another name, or of an unknown authority.
        (f"sslmode=verify-full&{AUTHORITY}", "127.0.0.2", False, False),
        (f"sslmode=verify-ca&sslrootcert={certifi.where()}", "127.0.0.1", False, False),
        ("sslmode=disable", "127.0.0.1", True, False),
    ],
    ids=[
        "require",
        "verify-ca",
        "verify-full",
        "verify-ca other name",
        "other name",
        "other authority",
        "disable",
    ],
)
def test_the_mode_of_tls_decides_which_server_is_trusted(
    parameters: str, host: str, is_accepted: bool, is_encrypted: bool
) -> None:
    address = "127.0.0.1" if host == "localhost" else host
    with run_proxy(postgres.shared_url(), address=address, tls=server_tls()) as proxy:
        url = f"postgresql://postgres@{host}:{proxy.port}/postgres?{parameters}"
        if is_accepted:
            assert asyncio.run(select_one(url)) == 1
        else:
            with pytest.raises(StorageError, match="certificate verify failed"):
                asyncio.run(select_one(url))
        assert bool(proxy.encrypted) == is_encrypted


def test_a_server_without_tls_is_refused_if_tls_is_required() -> None:
    with run_proxy(postgres.shared_url()) as proxy:
        url = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres?sslmode=require"
        with pytest.raises(StorageError, match="SSL"):
            asyncio.run(select_one(url))


CLIENTS = Path(__file__).parents[2] / ".clients"


def find_pgbouncer() -> Path | None:
    """The real pooler: the one that a variable names, one of this machine, or the one of `make clients`."""
    named = os.environ.get("DRAGOMAN_TEST_PGBOUNCER")
    found = named or shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    unpacked = CLIENTS / "pgbouncer" / "root" / "usr" / "sbin" / "pgbouncer"
    return Path(found) if found else unpacked if unpacked.exists() else None


@contextmanager
def run_pgbouncer(program: Path, server: postgres.PostgresServer, pool_mode: str) -> Iterator[int]:
    """The real pooler. Gives its port."""
    port = postgres.find_free_port()
    settings = (
        f"[databases]\npostgres = host=127.0.0.1 port={server.port} user=postgres\n[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\npool_mode = {pool_mode}\n"
        f"default_pool_size = {POOL_SIZES[pool_mode]}\nserver_round_robin = 1\nunix_socket_dir =\n"
    )
    # Like the server, it refuses to run as root.
    user = postgres.NOBODY if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pgbouncer.ini"
        path.write_text(settings)
        path.parent.chmod(0o755)
        libraries = ""
        if program.is_relative_to(CLIENTS):
            # Another user may not be able to reach it where it is.
            shutil.copytree(CLIENTS / "pgbouncer" / "root", Path(folder) / "root")
            program = Path(folder) / "root" / "usr" / "sbin" / "pgbouncer"
            libraries = ":".join(str(each) for each in (Path(folder) / "root" / "usr" / "lib").glob("*-*"))
        process = subprocess.Popen(
            [program, path],
            user=user,
            cwd="/",
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LD_LIBRARY_PATH": libraries},
        )
        try:
            yield port
        finally:
            process.terminate()
            process.wait(20)


#: Connections to the server. In session mode a client keeps its connection.
POOL_SIZES = {"transaction": 3, "session": 30}
POOLERS = ["emulated", *(POOL_SIZES if find_pgbouncer() else ())]


@pytest.mark.parametrize("pooler", POOLERS)
def test_all_state_works_through_a_pooler_that_changes_the_connection_after_each_transaction(
    pooler: str,
) -> None:
    """The tables are in the database's own schema: a pooler forgets the search path of a connection."""
    program = find_pgbouncer()
    with postgres.run_server() as server:
        if pooler == "emulated" or program is None:
            with run_proxy(server.url, is_pooler=True) as proxy:
                asyncio.run(use_pooler(proxy.port))
                assert len(set(proxy.used)) == 3
        else:
            with run_pgbouncer(program, server, pooler) as port:
                asyncio.run(use_pooler(port))
                assert 1 <= asyncio.run(count_connections(server.url)) <= POOL_SIZES[pooler]


def test_a_pooler_that_is_not_named_in_the_configuration_gives_a_hint() -> None:
    with run_proxy(postgres.shared_url(), is_pooler=True) as proxy:
        with pytest.raises(StorageError, match="unsupported startup parameter") as caught:
            asyncio.run(select_one(f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres"))
        assert "pooler = true" in caught.value.hint


async def count_connections(url: str) -> int:
    """The connections of the pooler to the server."""
    connection = await asyncpg.connect(url)
    try:
        return int(
            await connection.fetchval(
                "SELECT COUNT(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
                " AND pid <> pg_backend_pid()"
            )
        )
    finally:
        await connection.close()


@pytest.mark.skipif(find_pgbouncer() is None, reason="needs PgBouncer")
@pytest.mark.parametrize("pool_mode", POOL_SIZES)
def test_gateways_share_their_state_through_pgbouncer(pool_mode: str, tmp_path: Path) -> None:
    """Real gateways: keys, budgets, stored responses and revocations work through the pooler."""
    program = find_pgbouncer()
    assert program is not None
    with postgres.run_server() as server, run_pgbouncer(program, server, pool_mode) as port:
        asyncio.run(share_state(f"postgresql://postgres@127.0.0.1:{port}/postgres", tmp_path))


async def share_state(url: str, folder: Path) -> None:
    fleet = Fleet(folder, url, (0.0, 0.0), pooler=True)
    await fleet.start()
    try:
        async with asyncio.timeout(100):
            key = await fleet.create_key("pooled", Limits(tokens_per_day=10 * USED + 1))
            statuses: list[int] = [200]
            while 200 in statuses:
                statuses = await asyncio.gather(*(fleet.ask(place % 2, key, "pooled") for place in range(8)))
            used = (await fleet.read_account("pooled")).used["day"].tokens
            assert 10 * USED + 1 <= used < 11 * USED + 1
            assert fleet.upstream.answered["pooled"] * USED == used
            free = await fleet.create_key("free")
            headers = {"x-api-key": free}
            body: dict[str, object] = {"model": "m", "input": "first"}
            async with fleet.session.post(
                f"{fleet.gateways[0].url}/v1/responses", json=body, headers=headers
            ) as response:
                first = (await response.json())["id"]
            body = {"model": "m", "input": "second", "previous_response_id": first}
            async with fleet.session.post(
                f"{fleet.gateways[1].url}/v1/responses", json=body, headers=headers
            ) as response:
                assert response.status == 200
            await fleet.revoke_everywhere("pooled", key)
    finally:
        await fleet.stop()


async def use_pooler(port: int) -> None:
    options = PostgresOptions(
        url=f"postgresql://postgres@127.0.0.1:{port}/postgres", pooler=True, timeout=20.0
    )
    storages = [PostgresStorage(options, None, *SCHEMAS) for _ in range(3)]
    ledgers = [UsageLedger(storage, storage.clock) for storage in storages]
    async with asyncio.timeout(60):
        for _ in range(60):
            try:
                await storages[0].run(lambda transaction: transaction.fetch("SELECT 1"))
                break
            except StorageError:
                # The pooler is starting.
                await asyncio.sleep(0.1)

        async def spend(ledger: UsageLedger) -> None:
            for _ in range(15):
                reservation = await ledger.reserve(REQUEST)
                assert isinstance(reservation, Reservation)
                ledger.settle(reservation, Amount(10, 0))

        await asyncio.gather(*(spend(ledger) for ledger in ledgers for _ in range(3)))
        for ledger in ledgers:
            await ledger.close()
        account = await storages[0].read(
            lambda transaction: read_account(transaction, "key_1", storages[0].clock())
        )
        assert (account.used["day"], account.reserved["day"]) == (Amount(3 * 3 * 15 * 10, 0), Amount())
        for storage in storages:
            await storage.close()


def test_many_requests_in_an_outage_do_not_overload_the_database() -> None:
    """Of the requests that come while the database is away, only a few try to connect."""

    async def main() -> None:
        with run_proxy(postgres.shared_url()) as proxy:
            schema = await asyncio.to_thread(postgres.create_schema)
            url = (
                f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres?search_path="
                + schema.partition("search_path=")[2]
            )
            storage = PostgresStorage(PostgresOptions(url=url, timeout=5.0), None, ACCOUNTS_SCHEMA)

            async def ask(pause: float) -> bool:
                await asyncio.sleep(pause)
                try:
                    await storage.read(lambda transaction: transaction.fetch("SELECT 1"))
                except StorageError:
                    return False
                return True

            assert all(await asyncio.gather(*(ask(0) for _ in range(40))))
            assert proxy.accepted <= 8
            proxy.fail()
            before, begun = proxy.accepted, time.monotonic()
            answers = await asyncio.gather(*(ask(number / 1000) for number in range(1000)))
            seconds = time.monotonic() - begun
            # The pauses begin with 0.05 seconds or more and become longer.
            assert proxy.accepted - before <= 8 + seconds / 0.05
            assert answers.count(True) <= 8
            proxy.is_down = False
            async with asyncio.timeout(30):
                while not await ask(0.05):
                    pass
            before = proxy.accepted
            assert all(await asyncio.gather(*(ask(0) for _ in range(100))))
            assert proxy.accepted - before <= 8
            await storage.close()
            await asyncio.to_thread(postgres.drop_schema, schema)

    asyncio.run(main())
