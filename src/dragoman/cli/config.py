"""`dragoman config`: checks the configuration file and lists its keys."""

import os

import click

from dragoman.cli.files import has_stored_keys
from dragoman.cli.formats import config_option
from dragoman.config.find import find_config, list_config_places
from dragoman.config.model import list_tables
from dragoman.server.access import check_exposure


@click.group()
def config() -> None:
    """Check the configuration, or list its keys."""


@config.command()
@config_option
def check(path: str | None) -> None:
    """Check the configuration file. The exit code is 2 if it has a mistake.

    A mistake is reported with its line. The variables that the file refers to (`env:NAME`) must be set. No
    provider is called.
    """
    found = find_config(path, os.environ)
    check_exposure(found.server, has_stored_keys=has_stored_keys(found))
    if not found.path:
        searched = " and ".join(str(place) for place in list_config_places(os.environ))
        click.echo(f"no configuration at {searched}: dragoman would serve the embedded model")
        click.echo("next: dragoman init", err=True)
        return
    counts = (_count(len(found.providers), "provider"), _count(len(found.routes), "route"))
    click.echo(f"{found.path}: fine ({', '.join(counts)})")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@config.command()
@click.argument("word", default="")
def keys(word: str) -> None:
    """List the keys of the configuration file with their meaning; with WORD, only keys that mention it."""
    for table in list_tables():
        rows = [
            (name, key)
            for name, key in table.keys.items()
            if word.lower() in f"{table.heading} {name} {key.about}".lower()
        ]
        if not rows:
            continue
        click.secho(table.heading or "above the first heading", bold=True)
        for name, key in rows:
            default = table.default(name)
            suffix = "" if default is None else f" (default: {str(default).lower()})"
            click.echo(f"  {name} = {key.kind.expected}{suffix}\n      {key.about}")
