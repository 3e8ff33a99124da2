"""`dragoman cache`: explains, turn by turn, what a provider's prompt cache did."""

import os
from collections.abc import Iterator
from functools import partial

import click
import msgspec

from dragoman.accounts.errors import format_dollars
from dragoman.accounts.estimates import PriceList
from dragoman.cli.formats import config_option, format_json, format_table, json_option
from dragoman.cli.formats import remove_controls as clean
from dragoman.cli.records import complete_sessions, use_records
from dragoman.config.find import find_config
from dragoman.records.cache import CacheReport, MissCause, diagnose_session

#: The causes in words.
_MEANINGS: dict[MissCause, str] = {
    "first": "new prompt",
    "short": "too short for a cache",
    "hit": "hit",
    "agent": "the agent changed the prompt",
    "gateway": "the gateway changed the prompt",
    "route": "another target",
    "expiry": "too much time passed",
    "provider": "not used by the provider",
    "unknown": "not reported",
}


@click.command()
@click.argument("session", default="last", shell_complete=complete_sessions)
@config_option
@json_option
def cache(session: str, path: str | None, as_json: bool) -> None:
    """Explain the prompt cache of a recorded session, turn by turn.

    Each turn is compared with the turn that it continues, as the provider saw both. The first difference of
    the prompts is shown with its path and its position. Contents must be recorded: record = "bodies".
    """
    prices = PriceList(find_config(path, os.environ, secrets=False))
    reports = use_records(path, partial(diagnose_session, session=session, prices=prices))
    if as_json:
        click.echo(format_json([msgspec.to_builtins(report) for report in reports]))
    else:
        click.echo("\n".join(format_reports(reports)))


def format_reports(reports: list[CacheReport]) -> Iterator[str]:
    """The lines of `dragoman cache`."""
    if not reports:
        yield 'no contents of this session are recorded: set record = "bodies"'
        return
    rows = [("TURN", "AFTER", "SUB-AGENT", "PROMPT", "CACHED", "LOST", "COST", "CAUSE", "PLACE")]
    for each in reports:
        cost = format_dollars(each.lost_cost) if each.lost_cost else ""
        numbers = (str(each.number), str(each.previous or ""), clean(each.sub_agent), _count(each.input))
        cause = f"{_MEANINGS[each.cause]}{f' ({clean(each.vendor)})' if each.vendor else ''}"
        rows.append(
            (*numbers, _count(each.cached), _count(each.lost or None), cost, cause, _describe_place(each))
        )
    yield from format_table(rows)
    total = sum(each.lost for each in reports)
    money = sum(each.lost_cost or 0 for each in reports)
    if total:
        yield f"lost: {total:,} tokens" + (f", {format_dollars(money)}" if money else "")


def _describe_place(report: CacheReport) -> str:
    found = (
        report.upstream_break if report.cause == "gateway" else report.client_break or report.upstream_break
    )
    if report.cause in ("hit", "first", "short") or found is None:
        return ", ".join(report.settings)
    change = f"{found.before[:24]!r} → {found.after[:24]!r}"
    return f"{clean(found.path)}, character {found.position}: {change}"


def _count(number: int | None) -> str:
    return f"{number:,}" if number is not None else ""
