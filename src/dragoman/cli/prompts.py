"""`dragoman prompts try`: shows what the prompt rules make of recorded requests."""

import os
from collections.abc import Iterator
from functools import partial

import click
import msgspec

from dragoman.cli.formats import config_option, format_json, json_option
from dragoman.cli.formats import remove_controls as clean
from dragoman.cli.records import complete_sessions, use_records
from dragoman.cli.replay import format_differences
from dragoman.config.find import find_config
from dragoman.hub.errors import ConfigError
from dragoman.records.preview import PromptPreview, preview_session, preview_turn


@click.group()
def prompts() -> None:
    """Try the prompt rules of the configuration on recorded requests.

    \b
    dragoman prompts try last
    dragoman prompts try last 3
    """


@prompts.command("try")
@click.argument("session", shell_complete=complete_sessions)
@click.argument("number", type=int, required=False)
@config_option
@json_option
def try_(session: str, number: int | None, path: str | None, as_json: bool) -> None:
    """Show what [[prompts]] changes in the requests of SESSION, or in one of its turns.

    Nothing is sent. The exit code is 1 if a rule changes the beginning of a prompt from one turn to the next,
    so that the provider's cache would miss.
    """
    config = find_config(path, os.environ, secrets=False)
    if not config.prompts:
        raise ConfigError(
            "the configuration has no [[prompts]]", hint="`dragoman config keys prompts` lists their keys"
        )
    if number is None:
        found = use_records(path, partial(preview_session, session=session, config=config))
    else:
        turn = partial(preview_turn, session=session, number=number, config=config)
        found = [use_records(path, turn)]
    if not found:
        raise ConfigError("no contents are recorded there", hint='set record = "bodies" in [records]')
    if as_json:
        click.echo(format_json(msgspec.to_builtins(found)))
    else:
        click.echo("\n".join(format_previews(found)))
    if any(each.broken for each in found):
        raise SystemExit(1)


def format_previews(previews: list[PromptPreview]) -> Iterator[str]:
    """The lines of `dragoman prompts try`."""
    for each in previews:
        rules = ", ".join(dict.fromkeys(each.rules))
        yield f"turn {each.number}: {clean(rules) or 'no rule changes it'}"
        yield from (f"  {line}" for line in format_differences(each.differences))
        if each.broken:
            place = f"{each.broken.path}, character {each.broken.position}"
            yield click.style(f"  the prompt cache would miss: {clean(place)} differs from before", fg="red")
