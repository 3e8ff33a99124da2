"""`dragoman config`: is the file right, before anything depends on it? And what may it say?"""

import os

import click

from dragoman.cli.state import has_stored_keys
from dragoman.config.find import find_config, places
from dragoman.config.keys import tables
from dragoman.server.guard import check_exposure


@click.group()
def config() -> None:
    """Check the configuration; list its keys."""


@config.command()
@click.option("--config", "path", metavar="FILE", help="The file to check, if not the usual one.")
def check(path: str | None) -> None:
    """Read the configuration and say what is wrong, with the line; exit code 2 if anything is.

    Variables that the file refers to (`env:NAME`) must be set. Nobody is called.
    """
    found = find_config(path, os.environ)
    check_exposure(found.server, has_stored_keys=has_stored_keys(found))
    if not found.path:
        looked = " and ".join(str(place) for place in places(os.environ))
        click.echo(f"no configuration at {looked}: the embedded model would be served")
        click.echo("next: dragoman init", err=True)
        return
    counts = (_count(len(found.providers), "provider"), _count(len(found.routes), "route"))
    click.echo(f"{found.path}: fine ({', '.join(counts)})")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


@config.command()
@click.argument("word", default="")
def keys(word: str) -> None:
    """List the keys that the file may hold, and what they mean; with WORD, only those that mention it."""
    for table in tables():
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
            shown = "" if default is None else f" (default: {str(default).lower()})"
            click.echo(f"  {name} = {key.kind.words}{shown}\n      {key.about}")
