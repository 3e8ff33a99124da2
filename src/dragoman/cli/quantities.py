"""Amounts of money and time as people write them on a command line."""

import re
import time
from datetime import UTC, datetime

import click

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_SPAN = re.compile(r"(\d{1,6})([mhdw])")
_COUNT = re.compile(r"(\d{1,12})([kM]?)")
_THOUSANDS = {"": 1, "k": 1_000, "M": 1_000_000}
_MONEY = re.compile(r"\$?(\d{1,9})(?:\.(\d{1,6}))?")


def span(text: str) -> float:
    """Seconds: `90m`, `12h`, `30d`, `2w`."""
    seconds = _seconds(text)
    if seconds is None:
        raise click.BadParameter(f"expected a number and m, h, d or w, such as 12h, got {text!r}")
    return seconds


def coming(text: str) -> float:
    """A date to come: `30d` from now, or `2026-12-31`, which is the beginning of that day in UTC."""
    seconds = _seconds(text)
    return _date(text) if seconds is None else time.time() + seconds


def past(text: str) -> float:
    """A date that was: `7d` ago, or `2026-11-01`."""
    seconds = _seconds(text)
    return _date(text) if seconds is None else time.time() - seconds


def money(text: str) -> int:
    """Dollars in, micro-dollars out."""
    found = _MONEY.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"expected dollars such as 5 or 2.50, got {text!r}")
    return int(found[1]) * 1_000_000 + int((found[2] or "").ljust(6, "0"))


def count(text: str) -> int:
    """`5000`, `5k`, `2M`."""
    found = _COUNT.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"expected a number such as 5000, 5k or 2M, got {text!r}")
    return int(found[1]) * _THOUSANDS[found[2]]


def date_text(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M} UTC" if moment else ""


def _seconds(text: str) -> float | None:
    found = _SPAN.fullmatch(text)
    return float(int(found[1]) * _SECONDS[found[2]]) if found else None


def _date(text: str) -> float:
    try:
        date = datetime.fromisoformat(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"expected a date such as 2026-12-31, or a span such as 30d, got {text!r}"
        ) from None
