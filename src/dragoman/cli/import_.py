"""`dragoman import`: converts the configuration of another gateway."""

import os
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import click

from dragoman.cli.files import read_file, write_private
from dragoman.hub.errors import ConfigError
from dragoman.importing.ccr import import_ccr
from dragoman.importing.draft import ConfigDraft
from dragoman.importing.litellm import import_litellm

#: Bytes. A longer file is not a configuration.
MAX_FILE = 4 * 1024 * 1024
#: The files of claude-code-router. Version 3 reads the second one only if the first is missing.
CCR_FILES = ("~/.claude-code-router/config.sqlite", "~/.claude-code-router/config.json")
OUTPUT = click.option(
    "--output", metavar="FILE", help="Write the configuration to this file. Default: standard output."
)
FORCE = click.option("--force", is_flag=True, help="Overwrite an existing file.")


@click.group("import")
def import_() -> None:
    """Convert the configuration of another gateway.

    The configuration goes to standard output or to a file. The report of settings without an equivalent goes
    to standard error. Neither contains keys: the configuration names the variables that hold them.
    """


@import_.command()
@click.argument("file", default="", metavar="[FILE]")
@OUTPUT
@FORCE
def ccr(file: str, output: str | None, force: bool) -> None:
    """Convert claude-code-router's config.sqlite (version 3) or config.json.

    \b
    dragoman import ccr
    dragoman import ccr config.json --output dragoman.toml

    Without FILE it reads the first of the two that exists in ~/.claude-code-router.
    """
    path = Path(file) if file else _find_ccr_file()
    text = _read_ccr_database(path) if path.suffix == ".sqlite" else _read_text(str(path))
    _write(import_ccr(text, str(path), os.environ), "claude-code-router", output, force=force)


def _find_ccr_file() -> Path:
    for name in CCR_FILES:
        path = Path(name).expanduser()
        if path.is_file():
            return path
    raise ConfigError(
        f"there is no {' and no '.join(CCR_FILES)}", hint="name the file: dragoman import ccr FILE"
    )


def _read_ccr_database(path: Path) -> str:
    """The configuration in the database of version 3, as JSON. The database is not changed."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            row = database.execute("SELECT value_json FROM app_config WHERE key = 'default'").fetchone()
    except sqlite3.Error as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    if row is None or not isinstance(row[0], str):
        raise ConfigError(f"{path} contains no configuration")
    return row[0]


@import_.command()
@click.argument("file")
@OUTPUT
@FORCE
def litellm(file: str, output: str | None, force: bool) -> None:
    """Convert the LiteLLM proxy's config.yaml.

    \b
    dragoman import litellm config.yaml --output dragoman.toml

    Needs PyYAML: pip install pyyaml.
    """
    draft = import_litellm(_read_text(file), file, os.environ)
    _write(draft, "the LiteLLM proxy", output, force=force)


def _read_text(path: str) -> str:
    data = read_file(path)
    if len(data) > MAX_FILE:
        raise ConfigError(f"{path}: longer than {MAX_FILE} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: expected UTF-8 text, byte {error.start} is not") from None


def _write(draft: ConfigDraft, origin: str, output: str | None, *, force: bool) -> None:
    """Write the configuration, then print the report and the next steps to standard error."""
    text = draft.build_text(origin)
    if output is None:
        click.echo(text, nl=False)
    else:
        if Path(output).exists() and not force:
            raise ConfigError(f"{output} exists already", hint="--force overwrites it")
        write_private(output, text, replace=force)
        click.echo(f"wrote {output}")
    if draft.notes:
        click.secho("not converted without changes:", bold=True, err=True)
    for note in draft.notes:
        click.echo(f"  {note}", err=True)
    for variable, place in draft.variables.items():
        if place or not os.environ.get(variable):
            comment = f"   # the value of {place}" if place else ""
            click.echo(f"next: export {variable}=…{comment}", err=True)
    if output is None:
        click.echo("next: the same command with --output dragoman.toml, which writes the file", err=True)
    else:
        click.echo(f"next: dragoman config check --config {shlex.quote(output)}", err=True)
