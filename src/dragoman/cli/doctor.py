"""`dragoman doctor`: reports what is wrong, what to do, and what a model supports."""

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click
import msgspec

from dragoman.cli.completion import complete_models
from dragoman.cli.connection import find_running
from dragoman.cli.formats import (
    config_option,
    format_json,
    format_table,
    format_value,
    json_option,
    remove_controls,
)
from dragoman.config.config import Config
from dragoman.config.find import find_config
from dragoman.config.provider import TargetName
from dragoman.doctor.environment import check_environment, check_providers
from dragoman.doctor.examine import BUDGET, Progress, examine
from dragoman.doctor.findings import Examination, Finding, State
from dragoman.doctor.learned import write_learned
from dragoman.doctor.servers import check_window
from dragoman.routing.choose import choose

COLOURS: dict[State, str] = {
    "works": "green",
    "helped": "cyan",
    "lacks": "yellow",
    "fails": "red",
    "skipped": "yellow",
    "unclear": "yellow",
}


@click.command()
@click.argument("model", default="", shell_complete=complete_models)
@config_option
@click.option(
    "--budget",
    type=click.IntRange(1_000),
    default=BUDGET,
    show_default=True,
    metavar="TOKENS",
    help="Maximum number of tokens for the examination of the model.",
)
@click.option("--write", "writes", is_flag=True, help="Store the facts that were learned about the model.")
@json_option
def doctor(model: str, path: str | None, budget: int, writes: bool, as_json: bool) -> None:
    """Report what is wrong and what to do about it.

    \b
    dragoman doctor                     check the configuration, the keys, the port and every provider
    dragoman doctor local/qwen3-coder   also test what this model supports, through the gateway
    dragoman doctor fast --write        also store what was learned about the model

    The checks of the providers cost nothing. A model gets about 16 small requests, within the budget. The
    exit code is 1 if a check fails.
    """
    config = find_config(path, os.environ, secrets=False)
    choice = choose(config, model) if model else None
    target = choice.targets[0] if choice else None
    running = find_running(config)
    url, is_own = (running.url, running.is_own) if running else ("", False)
    environment = list(check_environment(config, os.environ, running=url, is_own=is_own))
    with show_progress(quiet=as_json) as progress:
        providers, examination = asyncio.run(_check_all(config, target, budget, progress))
    environment += providers
    if as_json:
        click.echo(format_json({"findings": environment, "examination": examination}))
    else:
        _print_report(environment, examination)
    if writes and examination is not None:
        click.echo(f"wrote {write_learned(config, examination)}", err=True)
    if not as_json and target is not None and examination is None:
        click.echo(f"{target} was not examined, because its provider cannot be used", err=True)
    if not as_json and examination is not None:
        _print_next_steps(model, config, examination, choice.targets[1:] if choice else (), writes=writes)
    findings = (*environment, *(examination.findings if examination else ()))
    if any(finding.state == "fails" for finding in findings):
        raise SystemExit(1)


async def _check_all(
    config: Config, target: TargetName | None, budget: int, progress: Progress
) -> tuple[list[Finding], Examination | None]:
    """Without a target, check every provider. With one, check its provider, then examine the model."""
    if target is None:
        return await check_providers(config, progress=progress), None
    alone = msgspec.structs.replace(config, providers={target.provider: config.providers[target.provider]})
    findings = await check_providers(alone, progress=progress)
    if any(finding.state in ("fails", "skipped") for finding in findings):
        return findings, None
    examination = await examine(config, target, budget=budget, progress=progress)
    # After the examination, because some servers load a model at its first request.
    window = await asyncio.to_thread(check_window, config.providers[target.provider], target.model)
    found = (*examination.findings, window) if window else examination.findings
    return findings, msgspec.structs.replace(examination, findings=found)


@contextmanager
def show_progress(*, quiet: bool) -> Iterator[Progress]:
    """Print the current check on standard error: on a terminal always in the same line."""
    is_terminal = sys.stderr.isatty()

    def show(name: str) -> None:
        if is_terminal:
            click.echo(f"\r\x1b[K… {name}", nl=False, err=True)
        elif not quiet:
            click.echo(f"… {name}", err=True)

    yield show
    if is_terminal:
        click.echo("\r\x1b[K", nl=False, err=True)


def _print_report(environment: Sequence[Finding], examination: Examination | None) -> None:
    print_findings("environment", environment)
    if examination is None:
        return
    click.echo()
    print_findings(f"{examination.target}, {_describe_cost(examination)}", examination.findings)
    if examination.facts:
        click.echo()
        click.secho("learned", bold=True)
        for line in format_table([(name, format_value(value)) for name, value in examination.facts.items()]):
            click.echo(f"  {line}")


def print_findings(title: str, findings: Sequence[Finding], *, err: bool = False) -> None:
    """Print a title and one line for each finding, with its advice below. `err`: on standard error."""
    click.secho(title, bold=True, err=err)
    width = max((len(finding.name) for finding in findings), default=0)
    for finding in findings:
        state = click.style(f"{finding.state:<7}", fg=COLOURS[finding.state])
        click.echo(f"  {state}  {finding.name:<{width}}  {_clean(finding.detail)}".rstrip(), err=err)
        if finding.advice:
            click.echo(f"  {'':<7}  {'':<{width}}  → {finding.advice}", err=err)


def _clean(detail: str) -> str:
    """The text of a server in one line."""
    return remove_controls(" ".join(detail.split()))


def _describe_cost(examination: Examination) -> str:
    tokens = f"{examination.tokens:_} tokens"
    if examination.micro_dollars is None:
        return tokens
    return f"{tokens}, {examination.micro_dollars / 1_000_000:.4f} dollars"


def _print_next_steps(
    model: str, config: Config, examination: Examination, others: Sequence[TargetName], *, writes: bool
) -> None:
    if examination.facts and config.path and not writes:
        click.echo(f"next: dragoman doctor {model} --write   # stores what was learned", err=True)
    if others:
        names = ", ".join(map(str, others))
        click.echo(f"only {examination.target} was examined; further targets of {model}: {names}", err=True)
