"""`dragoman status`: what the gateway that runs is doing."""

import sys
import time
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from dragoman.accounts.errors import format_amount
from dragoman.cli.operator import Operator, operator_options
from dragoman.cli.status_tools import shown_tools
from dragoman.cli.tables import table

#: Open exchanges that are shown one by one.
LISTED = 10

#: Lengths of time in words, the longest first.
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


@click.command()
@operator_options
@click.option("--tools", is_flag=True, help="Which models get their tool calls wrong, and how often.")
@click.option("--json", "as_json", is_flag=True, help="Everything, for programs.")
def status(path: str | None, url: str, tools: bool, as_json: bool) -> None:
    """Show what the gateway is doing: targets, cooldowns and why, open streams, keys near limits.

    \b
    dragoman status
    dragoman status --tools
    dragoman status --json | jq .targets
    """
    operator = Operator(path, url)
    told = operator.call("GET", "/admin/status")
    if as_json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n")
        return
    for line in shown_tools(told["tools"]) if tools else shown(told, operator.url, time.time()):
        click.echo(line)


def shown(told: dict[str, Any], url: str, now: float) -> Iterator[str]:
    """The status as lines for a person; `now` is the date."""
    gateway = told["gateway"]
    closing = ", shutting down" if gateway["state"] == "closing" else ""
    yield f"dragoman {gateway['version']} at {url}, up {_span(gateway['uptime'])}{closing}"
    yield from _config(told["config"], now)
    yield ""
    yield from _targets(told["targets"])
    yield ""
    yield from _exchanges(told["exchanges"])
    yield from _keys(told["keys"])
    yield from _sessions(told["sessions"])


def _config(config: dict[str, Any], now: float) -> Iterator[str]:
    source = config["path"] or "none: the embedded model answers"
    yield f"configuration: {source}, read {_span(now - config['loaded_at'])} ago"
    if config["error"]:
        failed = _span(now - config["failed_at"])
        yield click.style(f"  refused {failed} ago, so the one from before is in force:", fg="red")
        yield f"  {config['error']}"
    if config["needs_restart"]:
        yield click.style(f"  needs a new start: {', '.join(config['needs_restart'])}", fg="yellow")


def _targets(targets: list[dict[str, Any]]) -> Iterator[str]:
    if not targets:
        yield "no targets: the configuration names no provider"
        return
    rows = [("TARGET", "TRIES", "FAILED", "FIRST WORD", "HEALTH", "WHY")]
    for target in targets:
        why = "; ".join(_cooldown(each, target["keys"]) for each in target["cooldowns"])
        first = f"{target['first_token']:.2f} s" if target["first_token"] else "-"
        numbers = (f"{target['tries']:.0f}", f"{target['failed']:.0f}", first)
        rows.append((target["target"], *numbers, target["health"], why))
    colours = ["", *("" if target["health"] == "ok" else "yellow" for target in targets)]
    for line, colour in zip(table(rows), colours, strict=True):
        yield click.style(line, fg=colour) if colour else line


def _cooldown(cooldown: dict[str, Any], keys: int) -> str:
    key = f"key {cooldown['key']} of {keys}: " if keys > 1 else ""
    failures = cooldown["failures"]
    often = f", failed {failures} times in a row" if failures > 1 else ""
    return f"{key}{cooldown['reason']}{often}, tried last for {_span(cooldown['seconds'])}"


def _exchanges(exchanges: dict[str, Any]) -> Iterator[str]:
    count = exchanges["open"]
    if not count:
        yield "nothing is open"
        return
    yield f"open: {count} exchange{'' if count == 1 else 's'}, {exchanges['streams']} of them streamed"
    rows = [
        (
            f"  {_span(each['seconds'])}",
            each["agent"].partition(" ")[0] or each["client"],
            f"{each['model']} → {each['target'] or '…'}",
            "" if each["first_token"] else "waiting for the first word",
        )
        for each in exchanges["oldest"][:LISTED]
    ]
    yield from table(rows)
    if count > LISTED:
        yield f"  and {count - LISTED} more"


def _keys(near: list[dict[str, Any]]) -> Iterator[str]:
    if not near:
        return
    yield ""
    yield "keys near their limits"
    rows = [
        (
            f"  {each['key']}",
            f"{each['share']:.0%}",
            f"of {format_amount(each['of'], each['limit'])} per {each['period']}",
        )
        for each in sorted(near, key=lambda each: -each["share"])
    ]
    yield from table(rows)


def _sessions(sessions: dict[str, dict[str, int]]) -> Iterator[str]:
    for name, counts in sessions.items():
        told = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in counts.items() if count)
        yield ""
        yield f"sessions of {name}: {told or 'none yet'}"


def _span(seconds: float) -> str:
    """A length of time as people say it: `3 h 20 min`."""
    whole = max(0, round(seconds))
    for number, (size, unit) in enumerate(_UNITS):
        if whole >= size:
            count, rest = divmod(whole, size)
            smaller, name = _UNITS[number + 1] if number + 1 < len(_UNITS) else (1, "s")
            return f"{count} {unit} {rest // smaller} {name}" if rest >= smaller else f"{count} {unit}"
    return f"{whole} s"
