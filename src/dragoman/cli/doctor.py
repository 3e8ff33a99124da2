"""`dragoman doctor`: what is wrong, and what to do about it."""

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click
import msgspec

from dragoman.cli.run import running_at
from dragoman.cli.tables import shown_value, table
from dragoman.config.find import find_config
from dragoman.config.model import Config, TargetName
from dragoman.doctor.examine import BUDGET, Progress, examine
from dragoman.doctor.finding import Examination, Finding, State
from dragoman.doctor.learn import write_learned
from dragoman.doctor.reach import reach
from dragoman.doctor.surroundings import surroundings
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
@click.argument("model", default="")
@click.option("--config", "path", metavar="FILE", help="The configuration, if not the usual one.")
@click.option(
    "--budget",
    type=click.IntRange(1_000),
    default=BUDGET,
    show_default=True,
    metavar="TOKENS",
    help="The most that examining the model may use.",
)
@click.option("--write", "keeps", is_flag=True, help="Keep what was learned about the model.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def doctor(model: str, path: str | None, budget: int, keeps: bool, as_json: bool) -> None:
    """Find out what is wrong, and what to do about it.

    \b
    dragoman doctor                     the configuration, the keys, the port, every provider
    dragoman doctor local/qwen3-coder   also what this model can do, through the gateway
    dragoman doctor fast --write        and keep what was learned about it

    The providers are asked nothing that costs. A model is asked about a dozen small questions, within the
    budget. Exit code 1 if something fails.
    """
    config = find_config(path, os.environ, secrets=False)
    choice = choose(config, model) if model else None
    target = choice.targets[0] if choice else None
    around = list(surroundings(config, os.environ, running=running_at(config)))
    with _progress(quiet=as_json) as progress:
        reached, examination = asyncio.run(_asked(config, target, budget, progress))
    around += reached
    if as_json:
        report = {"findings": around, "examination": examination}
        click.echo(msgspec.json.format(msgspec.json.encode(report)))
    else:
        _tell(around, examination)
    if keeps and examination is not None:
        click.echo(f"wrote {write_learned(config, examination)}", err=True)
    if not as_json:
        _tell_next(model, config, examination, choice.targets[1:] if choice else (), keeps=keeps)
    findings = (*around, *(examination.findings if examination else ()))
    if any(finding.state == "fails" for finding in findings):
        raise SystemExit(1)


async def _asked(
    config: Config, target: TargetName | None, budget: int, progress: Progress
) -> tuple[list[Finding], Examination | None]:
    """Every provider without a target; with one, its provider, and the model if that can be reached."""
    if target is None:
        return await reach(config, progress=progress), None
    alone = msgspec.structs.replace(config, providers={target.provider: config.providers[target.provider]})
    reached = await reach(alone, progress=progress)
    if any(finding.state in ("fails", "skipped") for finding in reached):
        return reached, None
    return reached, await examine(config, target, budget=budget, progress=progress)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Progress]:
    """Tells on standard error what is being looked at: in one line on a terminal, else line by line."""
    is_terminal = sys.stderr.isatty()

    def told(name: str) -> None:
        if is_terminal:
            click.echo(f"\r\x1b[K… {name}", nl=False, err=True)
        elif not quiet:
            click.echo(f"… {name}", err=True)

    yield told
    if is_terminal:
        click.echo("\r\x1b[K", nl=False, err=True)


def _tell(around: Sequence[Finding], examination: Examination | None) -> None:
    _tell_findings("around the gateway", around)
    if examination is None:
        return
    click.echo()
    _tell_findings(f"{examination.target}, {_spent(examination)}", examination.findings)
    if examination.facts:
        click.echo()
        click.secho("learned", bold=True)
        for line in table([(name, shown_value(value)) for name, value in examination.facts.items()]):
            click.echo(f"  {line}")


def _tell_findings(title: str, findings: Sequence[Finding]) -> None:
    click.secho(title, bold=True)
    width = max((len(finding.name) for finding in findings), default=0)
    for finding in findings:
        state = click.style(f"{finding.state:<7}", fg=COLOURS[finding.state])
        click.echo(f"  {state}  {finding.name:<{width}}  {_legible(finding.detail)}".rstrip())
        if finding.advice:
            click.echo(f"  {'':<7}  {'':<{width}}  → {finding.advice}")


def _legible(detail: str) -> str:
    """Servers' words in one line, without what would move the cursor."""
    words = " ".join(detail.split())
    return "".join(character if character.isprintable() else "?" for character in words)


def _spent(examination: Examination) -> str:
    spent = f"{examination.tokens:_} tokens"
    if examination.micro_dollars is None:
        return spent
    return f"{spent}, {examination.micro_dollars / 1_000_000:.4f} dollars"


def _tell_next(
    model: str,
    config: Config,
    examination: Examination | None,
    others: Sequence[TargetName],
    *,
    keeps: bool,
) -> None:
    if examination is not None and examination.facts and config.path and not keeps:
        click.echo(f"next: dragoman doctor {model} --write keeps what was learned", err=True)
    if examination is not None and others:
        behind = ", ".join(map(str, others))
        click.echo(f"only {examination.target} was examined; behind it: {behind}", err=True)
