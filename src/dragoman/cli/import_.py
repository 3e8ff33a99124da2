"""`dragoman import`: converts the configuration of another gateway."""

import os
from pathlib import Path

import click

from dragoman.cli.files import read_file, write_private
from dragoman.hub.errors import ConfigError
from dragoman.importing.ccr import import_ccr
from dragoman.importing.draft import ConfigDraft
from dragoman.importing.litellm import import_litellm

#: Bytes. A longer file is not a configuration.
MAX_FILE = 4 * 1024 * 1024
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
@click.argument("file", default="~/.claude-code-router/config.json", metavar="[FILE]")
@OUTPUT
@FORCE
def ccr(file: str, output: str | None, force: bool) -> None:
    """Convert claude-code-router's config.json.

    \b
    dragoman import ccr
    dragoman import ccr config.json --output dragoman.toml
    """
    path = str(Path(file).expanduser())
    _write(import_ccr(_read_text(path), file), "claude-code-router", output, force=force)


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
    click.echo(f"next: dragoman config check{f' --config {output}' if output else ''}", err=True)
