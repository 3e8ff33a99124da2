"""`dragoman state`: checks and migrates the state, and copies a state file into PostgreSQL."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from dragoman.accounts.keys import INCREMENT_GENERATION
from dragoman.accounts.store import ACCOUNTS_SCHEMA
from dragoman.cli.formats import config_option, format_table
from dragoman.config.find import find_config, find_state_folder
from dragoman.exchange.storage import find_options
from dragoman.healing.learned import LEARNED_SCHEMA
from dragoman.hub.errors import ConfigError
from dragoman.peers.store import PEERS_SCHEMA
from dragoman.responses.tables import RESPONSES_SCHEMA
from dragoman.storage.copy import CopiedTable, copy_table, read_shapes
from dragoman.storage.database import FILE_NAME, connect, find_outdated
from dragoman.storage.postgres import PostgresOptions, PostgresStorage, describe_url
from dragoman.storage.postgres import find_outdated as find_outdated_in_postgres
from dragoman.storage.postgres import migrate as migrate_postgres
from dragoman.storage.processes import PROCESS_TIMEOUT, is_process_gone

if TYPE_CHECKING:
    import asyncpg

SCHEMAS = (ACCOUNTS_SCHEMA, RESPONSES_SCHEMA, LEARNED_SCHEMA, PEERS_SCHEMA)
#: Rows between two lines about the progress.
REPORT_EVERY = 10_000
#: Seconds for one command.
MAX_SECONDS = 86_400.0
#: Tables about running processes, and the counter of changes to the keys, which goes on in the new state.
NOT_COPIED = frozenset({"processes", "key_generation", "parked_calls", "peer_secret", "hints"})

Result = TypeVar("Result")


@click.group()
def state() -> None:
    """Check, migrate and copy the state of the gateway.

    The state is a SQLite file, or with `[state] url` a PostgreSQL database that several gateways share.
    """


def _find_state(path: str | None) -> tuple[PostgresOptions | None, Path]:
    """The database of a configuration, if it names one, and the path of the state file."""
    config = find_config(path, os.environ, secrets=False)
    return find_options(config), find_state_folder(config, os.environ) / FILE_NAME


@state.command()
@config_option
def check(path: str | None) -> None:
    """Show where the state is, and whether this version of dragoman can use it."""
    options, file = _find_state(path)
    if options is None:
        missing = len(find_outdated(connect(file), SCHEMAS)) if file.is_file() else len(SCHEMAS)
        click.echo(f"{file}: {_describe(missing)}")
        return

    async def work(connection: "asyncpg.Connection[Any]") -> tuple[str, int]:
        version = await connection.fetchval("SHOW server_version")
        return str(version), len(await find_outdated_in_postgres(connection, SCHEMAS))

    version, missing = _use_postgres(options, work)
    click.echo(f"{describe_url(options.url)}: PostgreSQL {version}; {_describe(missing)}")


def _describe(missing: int) -> str:
    return f"{missing} schemas need a migration" if missing else "up to date"


@state.command()
@config_option
def migrate(path: str | None) -> None:
    """Create or update the tables. A gateway does the same when it starts."""
    options, file = _find_state(path)
    if options is None:
        connect(file, *SCHEMAS).close()
        click.echo(f"{file}: up to date")
        return
    count = _use_postgres(options, lambda connection: migrate_postgres(connection, SCHEMAS))
    click.echo(f"{describe_url(options.url)}: {count} migrations applied; up to date")


@state.command()
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The state file. Default: the one in the state folder.",
)
@config_option
def copy(path: str | None, source: Path | None) -> None:
    """Copy a SQLite state file into the PostgreSQL database of `[state] url`, and compare the two.

    Stop the gateways first. A copy that was interrupted continues when the command runs again.
    """
    options, file = _find_state(path)
    if options is None:
        raise ConfigError("the configuration names no database", hint='set url = "env:NAME" in [state]')
    file = source or file
    if not file.is_file():
        raise ConfigError(f"there is no state file {file}", hint="name it with --from")
    copied = _use_postgres(options, lambda connection: _copy(file, connection))
    rows = [(each.name, str(each.source), str(each.target), _judge(each)) for each in copied]
    click.echo("\n".join(format_table([("TABLE", "FILE", "DATABASE", "ROWS"), *rows])))
    if not all(each.is_equal for each in copied):
        raise ConfigError(
            "the database has other rows than the file",
            hint="copy into an empty database, or go on with the database as it is",
        )


def _judge(table: CopiedTable) -> str:
    return "equal" if table.is_equal else "differs"


async def _copy(file: Path, target: "asyncpg.Connection[Any]") -> list[CopiedTable]:
    source = connect(file, *SCHEMAS)
    try:
        now = time.time()
        for name, seen in source.execute("SELECT id, seen FROM processes"):
            if seen > now - PROCESS_TIMEOUT and not is_process_gone(name):
                raise ConfigError("a gateway uses the state file", hint="stop it, then copy")
        await migrate_postgres(target, SCHEMAS)
        copied = [
            await copy_table(source, target, shape, _build_report(shape.name))
            for shape in read_shapes(source, NOT_COPIED)
        ]
        await target.execute(INCREMENT_GENERATION)
        return copied
    finally:
        source.close()


def _build_report(name: str) -> Callable[[int], None]:
    def report(count: int) -> None:
        if count % REPORT_EVERY == 0:
            click.echo(f"{name}: {count} rows", err=True)

    return report


def _use_postgres(
    options: PostgresOptions, work: Callable[["asyncpg.Connection[Any]"], Awaitable[Result]]
) -> Result:
    """Run the work with one connection to the database. It may take long."""

    async def main() -> Result:
        storage = PostgresStorage(msgspec.structs.replace(options, timeout=MAX_SECONDS))
        try:
            async with storage.use_connection() as connection:
                return await work(connection)
        finally:
            await storage.close()

    return asyncio.run(main())
