"""`dragoman models`: what clients may ask for, where it goes, and what is known about it."""

import os
from collections.abc import Iterator

import click
import msgspec

from dragoman.cli.tables import shown_value, table
from dragoman.config.explain import Fact, explained
from dragoman.config.find import find_config
from dragoman.config.model import Config, TargetName
from dragoman.routing.choose import choose

CONFIG_OPTION = click.option(
    "--config", "path", metavar="FILE", help="The configuration, if not the usual one."
)


@click.group(invoke_without_command=True)
@CONFIG_OPTION
@click.pass_context
def models(context: click.Context, path: str | None) -> None:
    """List the models that clients may ask for, and the targets behind them.

    \b
    claude-*          anthropic/*, else openrouter/anthropic/claude-sonnet-4.5
    local/MODEL       any model of http://127.0.0.1:8000/v1 (openai_chat)
    anything else     local/qwen3-coder
    """
    if context.invoked_subcommand is not None:
        context.obj = path
        return
    for line in table(list(_rows(find_config(path, os.environ, secrets=False)))):
        click.echo(line)


@models.command()
@click.argument("name")
@CONFIG_OPTION
@click.option("--all", "is_all", is_flag=True, help="Also what is known of the dialect alone.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def show(outer: str | None, name: str, path: str | None, is_all: bool, as_json: bool) -> None:
    """Tell what is known about a model, and who says so.

    NAME is what a client would ask for: a route's name or `provider/model`.

    \b
    dragoman models show claude-opus-5
    dragoman models show ollama/qwen3-coder:30b --all

    A fact of your own goes into the configuration, below [providers.PROVIDER.models."MODEL"].
    """
    config = find_config(path or outer, os.environ, secrets=False)
    choice = choose(config, name)
    known = {
        target: explained(config.providers[target.provider], target.model, dialect_too=is_all)
        for target in choice.targets
    }
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(_report(name, choice.route, known))))
        return
    for target, facts in known.items():
        provider = config.providers[target.provider]
        click.secho(f"{target} ({provider.dialect}, by route {choice.route})", bold=True)
        rows = [(fact.name, shown_value(fact.value), _source(fact)) for fact in facts]
        for line in (
            table(rows) if rows else ["nothing but its dialect is known; --all tells what follows from it"]
        ):
            click.echo(f"  {line}")


def _source(fact: Fact) -> str:
    other = fact.instead_of
    return f"{fact.source}, not {shown_value(other.value)} ({other.source})" if other else fact.source


def _report(name: str, route: str, known: dict[TargetName, list[Fact]]) -> object:
    targets = [
        {
            "target": str(target),
            "facts": {fact.name: {"value": fact.value, "source": fact.source} for fact in facts},
        }
        for target, facts in known.items()
    ]
    return {"model": name, "route": route, "targets": targets}


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
