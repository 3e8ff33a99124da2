"""`dragoman usage`: what was asked for, by whom, and what it cost."""

import csv
import io
from collections.abc import Callable, Sequence
from functools import partial

import click
import msgspec

from dragoman.accounts.errors import MICRO, format_dollars
from dragoman.accounts.store import COUNT_NAMES, UsageCounts, UsageGroup, read_usage
from dragoman.cli.quantities import past
from dragoman.cli.state import in_state
from dragoman.cli.tables import table

_CHOICES: tuple[UsageGroup, ...] = ("key", "model", "provider", "day")
_SHOWN = {
    "requests": "REQUESTS",
    "failures": "FAILED",
    "refused": "REFUSED",
    "input": "INPUT",
    "cache_read": "CACHED",
    "output": "OUTPUT",
    "reasoning": "REASONING",
    "cost": "COST",
}

#: Characters of a name in the table; the other forms have all of it.
WIDEST = 60

Rows = list[tuple[tuple[str, ...], UsageCounts]]


@click.command()
@click.option(
    "--by",
    type=click.Choice(_CHOICES),
    multiple=True,
    default=("key",),
    show_default=True,
    help="What to sum up by. May be repeated.",
)
@click.option(
    "--since",
    type=past,
    default="1970-01-01",
    metavar="DATE",
    help="Leave out what is older: 24h, 7d, 2026-11-01 (UTC).",
)
@click.option("--csv", "form", flag_value="csv", help="Print CSV.")
@click.option("--json", "form", flag_value="json", help="Print JSON.")
@click.option("--config", "path", metavar="FILE", help="The configuration, if not the usual one.")
def usage(by: tuple[UsageGroup, ...], since: float, form: str | None, path: str | None) -> None:
    """Show what was used, by key, model, provider or day.

    \b
    dragoman usage
    dragoman usage --by day --by model --since 7d
    dragoman usage --by key --csv > usage.csv

    INPUT is the whole prompt, CACHED the part of it that came from a cache; OUTPUT includes REASONING.
    Costs are known for models whose prices are. A running gateway writes this down once a second.
    """
    by = tuple(dict.fromkeys(by))
    found = in_state(path, partial(read_usage, by=by, since=since))
    rows = [(_named(by, group), counts) for group, counts in found]
    if not rows:
        click.echo("nothing was used; has a gateway of this configuration served anybody?", err=True)
    click.echo(_FORMS[form or "table"](by, rows))


def _named(by: Sequence[UsageGroup], group: Sequence[str]) -> tuple[str, ...]:
    """Keys of the configuration, and none at all, in words."""
    return tuple(
        _caller(name) if each == "key" else name or "(none)" for each, name in zip(by, group, strict=True)
    )


def _caller(name: str) -> str:
    return f"server.keys {name.removeprefix('config-')}" if name.startswith("config-") else name or "(no key)"


def _table(by: Sequence[UsageGroup], rows: Rows) -> str:
    total = UsageCounts()
    for _, counts in rows:
        total.add(counts)
    body = [(*map(_legible, group), *_cells(counts)) for group, counts in rows]
    last = ("total", *[""] * (len(by) - 1), *_cells(total))
    return "\n".join(table([(*(each.upper() for each in by), *_SHOWN.values()), *body, last]))


def _legible(name: str) -> str:
    """Clients make up the names of models: they must not move the cursor, or the table."""
    shown = "".join(character if character.isprintable() else "?" for character in name)
    return shown if len(shown) <= WIDEST else f"{shown[: WIDEST - 1]}…"


def _cells(counts: UsageCounts) -> tuple[str, ...]:
    return tuple(
        format_dollars(counts.cost) if name == "cost" else f"{getattr(counts, name):,}" for name in _SHOWN
    )


def _csv(by: Sequence[UsageGroup], rows: Rows) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*by, *COUNT_NAMES[:-1], "cost_usd"))
    for group, counts in rows:
        *numbers, cost = msgspec.structs.astuple(counts)
        writer.writerow((*map(_harmless, group), *numbers, f"{cost / MICRO:.6f}"))
    return text.getvalue().rstrip("\n")


def _harmless(name: str) -> str:
    """Spreadsheets take what begins like a formula for one, and clients choose the names of models."""
    return f"'{name}" if name[:1] in ("=", "+", "-", "@", "\t", "\r") else name


def _json(by: Sequence[UsageGroup], rows: Rows) -> str:
    told = [{**dict(zip(by, group, strict=True)), **_numbers(counts)} for group, counts in rows]
    return msgspec.json.format(msgspec.json.encode(told), indent=2).decode()


def _numbers(counts: UsageCounts) -> dict[str, float]:
    numbers = msgspec.structs.asdict(counts)
    return {
        **{name: numbers[name] for name in COUNT_NAMES if name != "cost"},
        "cost_usd": counts.cost / MICRO,
    }


_FORMS: dict[str, Callable[[Sequence[UsageGroup], Rows], str]] = {"table": _table, "csv": _csv, "json": _json}
