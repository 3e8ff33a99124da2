"""`dragoman import`: another gateway's configuration as ours, and what has no equivalent."""

import os
from pathlib import Path

import click

from dragoman.cli.files import read_file
from dragoman.cli.init import write_private
from dragoman.hub.errors import ConfigError
from dragoman.importing.ccr import import_ccr
from dragoman.importing.draft import Draft
from dragoman.importing.litellm import import_litellm

#: Nobody's settings are longer.
MAX_FILE = 4 * 1024 * 1024
OUTPUT = click.option("--output", metavar="FILE", help="Write the configuration there, not to the terminal.")
FORCE = click.option("--force", is_flag=True, help="Overwrite an existing file.")


@click.group("import")
def import_() -> None:
    """Make a configuration from another gateway's.

    The configuration goes to standard output or into a file, the report of what has no equivalent to standard
    error. Keys stay out of both: the configuration says which variables hold them.
    """


@import_.command()
@click.argument("file", default="~/.claude-code-router/config.json", metavar="[FILE]")
@OUTPUT
@FORCE
def ccr(file: str, output: str | None, force: bool) -> None:
    """Take over claude-code-router's config.json.

    \b
    dragoman import ccr
    dragoman import ccr config.json --output dragoman.toml
    """
    path = str(Path(file).expanduser())
    _give(import_ccr(_text(path), file), "claude-code-router's configuration", output, force=force)


@import_.command()
@click.argument("file")
@OUTPUT
@FORCE
def litellm(file: str, output: str | None, force: bool) -> None:
    """Take over the LiteLLM proxy's config.yaml.

    \b
    dragoman import litellm config.yaml --output dragoman.toml

    Needs a reader of YAML: pip install 'dragoman[import]'.
    """
    draft = import_litellm(_text(file), file, os.environ)
    _give(draft, "the LiteLLM proxy's configuration", output, force=force)


def _text(path: str) -> str:
    data = read_file(path)
    if len(data) > MAX_FILE:
        raise ConfigError(f"{path}: longer than {MAX_FILE} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: expected UTF-8 text, byte {error.start} is not") from None


def _give(draft: Draft, origin: str, output: str | None, *, force: bool) -> None:
    text = draft.text(origin)
    if output is None:
        click.echo(text, nl=False)
    else:
        if Path(output).exists() and not force:
            raise ConfigError(f"{output} exists already", hint="--force overwrites it")
        write_private(output, text, replace=force)
        click.echo(f"wrote {output}")
    if draft.notes:
        click.secho("not taken over as it was:", bold=True, err=True)
    for note in draft.notes:
        click.echo(f"  {note}", err=True)
    for variable, place in draft.variables.items():
        if place or not os.environ.get(variable):
            behind = f"   # the value of {place}" if place else ""
            click.echo(f"next: export {variable}=…{behind}", err=True)
    click.echo(f"next: dragoman config check{f' --config {output}' if output else ''}", err=True)
