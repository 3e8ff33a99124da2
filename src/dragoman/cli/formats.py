"""Values as commands read and print them: shared options, amounts, dates, tables and JSON."""

import re
import shutil
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec

if TYPE_CHECKING:
    from dragoman.config.config import Config

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_SPAN = re.compile(r"(\d{1,6})([mhdw])")
_COUNT = re.compile(r"(\d{1,12})([kM]?)")
_FACTORS = {"": 1, "k": 1_000, "M": 1_000_000}
_MONEY = re.compile(r"\$?(\d{1,9})(?:\.(\d{1,6}))?")

#: Columns of a file or a pipe, spaces between the columns of a table, and the least width of a cut column.
UNLIMITED = 100_000
GAP = 2
MIN_WIDTH = 10

#: Options that many commands share.
config_option = click.option(
    "--config", "path", metavar="FILE", help="Configuration file. Default: dragoman.toml."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
Command = TypeVar("Command", bound=Callable[..., object])


def group_options(choices: Sequence[str]) -> Callable[[Command], Command]:
    """The options `--by` and `--since` of a command that prints sums. `choices` are the groups."""
    by = click.option(
        "--by",
        type=click.Choice(choices),
        multiple=True,
        default=("key",),
        show_default=True,
        help="Group by this. Can be repeated.",
    )
    since = click.option(
        "--since",
        type=parse_past_date,
        default="1970-01-01",
        metavar="DATE",
        help="Only since this date: 24h, 7d, 2026-11-01 (UTC).",
    )
    return lambda command: by(since(command))


def parse_span(text: str) -> float:
    """Seconds, from `90m`, `12h`, `30d` or `2w`."""
    seconds = _read_span(text)
    if seconds is None:
        raise click.BadParameter(f"expected a number and m, h, d or w, such as 12h, got {text!r}")
    return seconds


def parse_future_date(text: str) -> float:
    """A time after now, from `30d` or `2026-12-31` (the start of that day in UTC)."""
    seconds = _read_span(text)
    return _read_date(text) if seconds is None else time.time() + seconds


def parse_past_date(text: str) -> float:
    """A time before now, from `7d` or `2026-11-01`."""
    seconds = _read_span(text)
    return _read_date(text) if seconds is None else time.time() - seconds


def parse_money(text: str) -> int:
    """Micro-dollars, from dollars."""
    found = _MONEY.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"expected dollars such as 5 or 2.50, got {text!r}")
    return int(found[1]) * 1_000_000 + int((found[2] or "").ljust(6, "0"))


def parse_count(text: str) -> int:
    """A number, from `5000`, `5k` or `2M`."""
    found = _COUNT.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"expected a number such as 5000, 5k or 2M, got {text!r}")
    return int(found[1]) * _FACTORS[found[2]]


def _read_span(text: str) -> float | None:
    found = _SPAN.fullmatch(text)
    return float(int(found[1]) * _SECONDS[found[2]]) if found else None


def _read_date(text: str) -> float:
    try:
        date = datetime.fromisoformat(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"expected a date such as 2026-12-31, or a span such as 30d, got {text!r}"
        ) from None


def format_date(moment: float) -> str:
    """The date and time in UTC; empty for 0."""
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M} UTC" if moment else ""


def format_value(value: object) -> str:
    """A fact's value as in TOML, with separators in large numbers."""
    return f"{value:_}" if type(value) is int else msgspec.json.encode(value).decode()


def format_json(value: object) -> str:
    """Indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def read_width() -> int:
    """The columns of the terminal, or of the variable COLUMNS; without limit for a file or a pipe."""
    return shutil.get_terminal_size((UNLIMITED, 24)).columns


def format_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with aligned columns, two spaces apart. All rows have the same number of cells.

    On a narrow terminal the widest columns are cut, so that a row stays in its line.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    limit = read_width() - GAP * (len(widths) - 1)
    while widths and sum(widths) > limit and max(widths) > MIN_WIDTH:
        widest = widths.index(max(widths))
        widths[widest] = max(MIN_WIDTH, widths[widest] - (sum(widths) - limit))
    return [
        (" " * GAP)
        .join(_cut(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True))
        .rstrip()
        for row in rows
    ]


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else f"{cell[: width - 1]}…"


def remove_controls(text: str) -> str:
    """The text with `?` for control characters. Text of clients and servers must not move the cursor."""
    return "".join(character if character.isprintable() else "?" for character in text)


def print_warnings(config: "Config") -> None:
    """Print each warning about the configuration file, and its hint, on standard error."""
    for warning in config.warnings:
        click.echo(f"{click.style('warning:', fg='yellow')} {warning.message}", err=True)
        if warning.hint:
            click.echo(f"hint: {warning.hint}", err=True)
