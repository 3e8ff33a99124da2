"""`dragoman models`: what clients may ask for, and where it goes."""

import os
from collections.abc import Iterator

import click

from dragoman.config.find import find_config
from dragoman.config.model import Config, TargetName


@click.command()
@click.option("--config", "path", metavar="FILE", help="The configuration, if not the usual one.")
def models(path: str | None) -> None:
    """List the models that clients may ask for, and the targets behind them.

    \b
    claude-*          anthropic/*, else openrouter/anthropic/claude-sonnet-4.5
    local/MODEL       any model of http://127.0.0.1:8000/v1 (openai_chat)
    anything else     local/qwen3-coder
    """
    rows = list(_rows(find_config(path, os.environ, secrets=False)))
    width = max((len(name) for name, _ in rows), default=0)
    for name, goes in rows:
        click.echo(f"{name:<{width}}  {goes}")


def _rows(config: Config) -> Iterator[tuple[str, str]]:
    for route in config.routes:
        yield route.match, _chain(route.targets) + (", strict" if route.strict else "")
    for provider in config.providers.values():
        whose = provider.base_url or "this process"
        yield f"{provider.name}/MODEL", f"any model of {whose} ({provider.dialect})"
    if all(route.match != "*" for route in config.routes):
        yield "anything else", _chain(config.default) if config.default else "refused, with status 404"


def _chain(targets: tuple[TargetName, ...]) -> str:
    return ", else ".join(map(str, targets))
