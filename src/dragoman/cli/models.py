"""`dragoman models`: lists the model names for clients, and the facts that are known about a model."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import click

from dragoman.cli.completion import complete_models
from dragoman.cli.files import list_learned_facts
from dragoman.cli.formats import config_option, format_json, format_table, format_value, json_option
from dragoman.config.config import Config
from dragoman.config.find import find_config
from dragoman.config.model_facts import ExplainedFact, explain_facts, explain_governance
from dragoman.config.provider import Provider, TargetName
from dragoman.healing.learned import LearnedFact, add_learned_facts
from dragoman.routing.choose import choose
from dragoman.server.models import describe_models


@click.group(invoke_without_command=True)
@config_option
@json_option
@click.pass_context
def models(context: click.Context, path: str | None, as_json: bool) -> None:
    """List the model names that clients can request, with their targets.

    \b
    claude-*          anthropic/*, else openrouter/anthropic/claude-sonnet-4.5
    local/MODEL       any model of http://127.0.0.1:8000/v1 (openai_chat)
    anything else     local/qwen3-coder
    """
    if context.invoked_subcommand is not None:
        context.obj = path
        return
    config = find_config(path, os.environ, secrets=False)
    if as_json:
        click.echo(format_json(describe_models(config)))
        return
    for line in format_table(list(_list_models(config))):
        click.echo(line)


@models.command()
@click.argument("name", shell_complete=complete_models)
@config_option
@click.option("--all", "is_all", is_flag=True, help="Also show the facts that hold for the whole dialect.")
@json_option
@click.pass_obj
def show(outer: str | None, name: str, path: str | None, is_all: bool, as_json: bool) -> None:
    """Show the known facts about a model and the governance of its tool calls, with their sources.

    NAME is a model name that a client can request: a name of a route, or `provider/model`.

    \b
    dragoman models show claude-opus-5
    dragoman models show ollama/qwen3-coder:30b --all

    To state a fact yourself, add it to the configuration below [providers.PROVIDER.models."MODEL"].
    """
    config = find_config(path or outer, os.environ, secrets=False)
    choice = choose(config, name)
    learned = list_learned_facts(config)
    known = {
        target: explain_facts(_add_learned(config, target, learned), target.model, include_dialect=is_all)
        for target in choice.targets
    }
    governance = {
        target: explain_governance(
            config.providers[target.provider], target.model, choice.route.match, choice.route.governance
        )
        for target in choice.targets
    }
    if as_json:
        click.echo(format_json(_build_report(name, choice.route.match, known, governance)))
        return
    for target, facts in known.items():
        provider = config.providers[target.provider]
        click.secho(f"{target} ({provider.dialect}, by route {choice.route.match})", bold=True)
        rows = [(fact.name, format_value(fact.value), _describe_source(fact)) for fact in facts]
        lines = format_table(rows) or ["only its dialect is known; --all shows the facts of the dialect"]
        for line in [*lines, *_format_governance(governance[target])]:
            click.echo(f"  {line}")


def _format_governance(settings: list[ExplainedFact]) -> list[str]:
    """The settings as lines of their own, so that their columns do not depend on the facts."""
    rows = [(f"governance.{each.name}", format_value(each.value), each.source) for each in settings]
    return format_table(rows) or ["governance is off"]


def _add_learned(config: Config, target: TargetName, learned: list[LearnedFact]) -> Provider:
    """The target's provider with the facts that refusals have proved, each with its refusal as the source."""
    provider = config.providers[target.provider]
    now = time.time()
    for fact in learned:
        if fact.target == target and fact.holds(provider.base_url, now):
            date = datetime.fromtimestamp(fact.learned_at, UTC).date()
            source = f'refusal of {date}: "{fact.message}"'
            provider = add_learned_facts(provider, target.model, {fact.name: fact.value}, "", source)
    return provider


def _describe_source(fact: ExplainedFact) -> str:
    other = fact.instead_of
    return f"{fact.source}, not {format_value(other.value)} ({other.source})" if other else fact.source


def _build_report(
    name: str,
    route: str,
    known: dict[TargetName, list[ExplainedFact]],
    governance: dict[TargetName, list[ExplainedFact]],
) -> object:
    targets = [
        {
            "target": str(target),
            "facts": {fact.name: {"value": fact.value, "source": fact.source} for fact in facts},
            "governance": {
                each.name: {"value": each.value, "source": each.source} for each in governance[target]
            },
        }
        for target, facts in known.items()
    ]
    return {"model": name, "route": route, "targets": targets}


def _list_models(config: Config) -> Iterator[tuple[str, str]]:
    for route in config.routes:
        yield route.match, _join_targets(route.targets) + (", strict" if route.strict else "")
    for provider in config.providers.values():
        server = provider.base_url or "this process"
        obstacle = f", unusable: {provider.obstacle}" if provider.obstacle else ""
        yield f"{provider.name}/MODEL", f"any model of {server} ({provider.dialect}){obstacle}"
    if all(route.match != "*" for route in config.routes):
        yield "anything else", _join_targets(config.default) or "refused, with status 404"


def _join_targets(targets: tuple[TargetName, ...]) -> str:
    return ", else ".join(map(str, targets))
