"""`dragoman config`: checks the configuration file, shows its effective values, and lists its keys."""

import os
from collections.abc import Sequence

import click

from dragoman.cli.files import has_stored_keys
from dragoman.cli.formats import config_option, format_json, json_option, print_warnings
from dragoman.config.config import Config, list_tables
from dragoman.config.effective import describe_config, write_toml
from dragoman.config.find import find_config, list_config_places
from dragoman.config.load import find_line
from dragoman.config.mistakes import ConfigWarning, list_mistakes
from dragoman.hub.errors import ConfigError
from dragoman.server.access import check_exposure
from dragoman.steps.selection import StepSelection

_file_argument = click.argument("file", default="")


@click.group()
def config() -> None:
    """Check the configuration, show its effective values, or list its keys."""


@config.command()
@_file_argument
@config_option
@json_option
def check(file: str, path: str | None, as_json: bool) -> None:
    """Check the configuration file. The exit code is 2 if it has a mistake.

    All mistakes are reported, in the order of their lines. Warnings name what has no effect or cannot work,
    such as a provider whose variable is not set; the gateway serves the rest. No provider is called.
    """
    try:
        found = _read(file or path)
    except ConfigError as error:
        if not as_json:
            raise
        click.echo(format_json(_build_report(list_mistakes(error), ())))
        raise SystemExit(2) from None
    if as_json:
        click.echo(format_json(_build_report((), found.warnings)))
        return
    print_warnings(found)
    if not found.path:
        searched = " and ".join(str(place) for place in list_config_places(os.environ))
        click.echo(f"no configuration at {searched}: dragoman would serve the embedded model")
        click.echo("next: dragoman setup", err=True)
        return
    counts = [_count(len(found.providers), "provider"), _count(len(found.routes), "route")]
    if found.warnings:
        counts.append(_count(len(found.warnings), "warning"))
    verdict = "usable" if found.warnings else "fine"
    click.echo(f"{found.path}: {verdict} ({', '.join(counts)})")


def _read(path: str | None) -> Config:
    """The configuration, which must not let other machines in without a key, and whose steps can be built."""
    found = find_config(path, os.environ)
    try:
        check_exposure(found.server, has_stored_keys=has_stored_keys(found))
    except ConfigError as error:
        line = find_line(found.path, "server", "host")
        message = f"{found.path}, line {line}: {error.message}"
        raise ConfigError(message, hint=error.hint, line=line) from None
    StepSelection(found)
    return found


def _build_report(mistakes: Sequence[ConfigError], warnings: Sequence[ConfigWarning]) -> object:
    rows: Sequence[ConfigError | ConfigWarning]
    lists = {}
    for name, rows in (("mistakes", mistakes), ("warnings", warnings)):
        lists[name] = [{"line": row.line, "message": row.message, "hint": row.hint} for row in rows]
    return {"ok": not mistakes, **lists}


@config.command()
@_file_argument
@config_option
@json_option
def show(file: str, path: str | None, as_json: bool) -> None:
    """Show the effective value of every key: from the file, the presets and the defaults.

    Secrets are not shown. A variable is shown by its name: `env:NAME`.
    """
    table = describe_config(find_config(file or path, os.environ, secrets=False))
    if as_json:
        click.echo(format_json(table))
        return
    for line in write_toml(table):
        click.echo(line)


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
