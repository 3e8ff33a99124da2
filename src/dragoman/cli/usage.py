"""`dragoman usage`: prints requests, tokens and cost, by key, model, provider, agent, role or day."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import click
import msgspec

from dragoman.accounts.errors import MICRO, format_dollars
from dragoman.accounts.statistics import COUNT_NAMES, UsageCounts, UsageGroup, read_usage
from dragoman.cli.files import use_state
from dragoman.cli.formats import (
    GAP,
    config_option,
    format_json,
    format_table,
    group_options,
    read_width,
    remove_controls,
)

_CHOICES: tuple[UsageGroup, ...] = ("key", "model", "provider", "agent", "role", "day")
#: The columns of the table, by counter.
_COLUMNS = {
    "requests": "REQUESTS",
    "failures": "FAILED",
    "refused": "REFUSED",
    "input": "INPUT",
    "cache_read": "CACHED",
    "output": "OUTPUT",
    "reasoning": "REASONING",
    "cost": "COST",
}

#: The columns of a table that would be too wide for the terminal.
_NARROW_COLUMNS = {name: _COLUMNS[name] for name in ("requests", "input", "output", "cost")}

#: Characters of a name in the table. CSV and JSON have the whole name.
MAX_NAME = 60

Rows = list[tuple[tuple[str, ...], UsageCounts]]


@click.command()
@group_options(_CHOICES)
@click.option("--csv", "form", flag_value="csv", help="Print CSV.")
@click.option("--json", "form", flag_value="json", help="Print JSON.")
@config_option
def usage(by: tuple[UsageGroup, ...], since: float, form: str | None, path: str | None) -> None:
    """Show usage and cost, by key, model, provider, agent, role or day.

    \b
    dragoman usage
    dragoman usage --by day --by model --since 7d
    dragoman usage --by agent --by role
    dragoman usage --by key --csv > usage.csv

    INPUT is the whole prompt; CACHED is the part of it that the provider read from its cache. OUTPUT includes
    REASONING. The cost of models without a known price is `unknown`; for
    a sum it is added as a word. A running gateway stores its usage once a second.
    """
    by = tuple(dict.fromkeys(by))
    found = use_state(path, partial(read_usage, by=by, since=since))
    rows = [(name_groups(by, group), counts) for group, counts in found]
    if not rows:
        click.echo("no usage: no gateway with this configuration has served a request", err=True)
    click.echo(_FORMS[form or "table"](by, rows))


def name_groups(by: Sequence[str], group: Sequence[str]) -> tuple[str, ...]:
    """The labels of one row, one per column of `by`.

    Keys from `server.keys` are described; a missing name becomes `(none)` or `(no key)`.
    """
    return tuple(
        _name_key(name) if each == "key" else name or "(none)" for each, name in zip(by, group, strict=True)
    )


def _name_key(name: str) -> str:
    return f"server.keys {name.removeprefix('config-')}" if name.startswith("config-") else name or "(no key)"


def _format_table(by: Sequence[UsageGroup], rows: Rows) -> str:
    total = UsageCounts()
    for _, counts in rows:
        total = total.plus(counts)
    for columns in (_COLUMNS, _NARROW_COLUMNS):
        body = [(*map(_shorten, group), *_build_cells(counts, columns)) for group, counts in rows]
        last = ("total", *[""] * (len(by) - 1), *_build_cells(total, columns))
        table = [(*(each.upper() for each in by), *columns.values()), *body, last]
        if sum(max(map(len, column)) + GAP for column in zip(*table, strict=True)) - GAP <= read_width():
            break
    return "\n".join(format_table(table))


def _shorten(name: str) -> str:
    """A name for the table. Clients choose the names of models, so they may be long or contain anything."""
    clean = remove_controls(name)
    return clean if len(clean) <= MAX_NAME else f"{clean[: MAX_NAME - 1]}…"


def _build_cells(counts: UsageCounts, columns: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(_format_cost(counts) if name == "cost" else f"{getattr(counts, name):,}" for name in columns)


def _format_cost(counts: UsageCounts) -> str:
    """The cost in dollars. A model without a known price may cost anything, so that is not $0."""
    if not counts.unpriced:
        return format_dollars(counts.cost)
    return f"{format_dollars(counts.cost)} + unknown" if counts.cost else "unknown"


def _read_dollars(counts: UsageCounts) -> float | None:
    """The known cost in dollars; None if no price is known."""
    return None if counts.unpriced and not counts.cost else counts.cost / MICRO


def _format_csv(by: Sequence[UsageGroup], rows: Rows) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*by, *COUNT_NAMES[:-1], "cost_usd"))
    for group, counts in rows:
        *numbers, _ = msgspec.structs.astuple(counts)
        cost = _read_dollars(counts)
        shown = "" if cost is None else f"{cost:.6f}"
        writer.writerow((*map(_escape_formula, group), *numbers, shown))
    return text.getvalue().rstrip("\n")


def _escape_formula(name: str) -> str:
    """A name that a spreadsheet does not execute as a formula. Clients choose the names of models."""
    return f"'{name}" if name[:1] in ("=", "+", "-", "@", "\t", "\r") else name


def _format_json(by: Sequence[UsageGroup], rows: Rows) -> str:
    return format_json(
        [{**dict(zip(by, group, strict=True)), **_build_numbers(counts)} for group, counts in rows]
    )


def _build_numbers(counts: UsageCounts) -> dict[str, float | None]:
    numbers = msgspec.structs.asdict(counts)
    return {
        **{name: numbers[name] for name in COUNT_NAMES if name != "cost"},
        "cost_usd": _read_dollars(counts),
    }


_FORMS: dict[str, Callable[[Sequence[UsageGroup], Rows], str]] = {
    "table": _format_table,
    "csv": _format_csv,
    "json": _format_json,
}
