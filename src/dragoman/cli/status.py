"""`dragoman status` and `dragoman reload`: what the running gateway does, and a new configuration for it."""

import os
import time
from collections.abc import Iterator
from typing import Any

import click

from dragoman.accounts.errors import format_amount
from dragoman.cli.admin import AdminClient, admin_options
from dragoman.cli.formats import format_json, format_table, json_option
from dragoman.cli.notices import find_live_notice
from dragoman.config.find import find_config_path

#: Open exchanges that are listed one by one.
LISTED = 10

#: Seconds between two reports of `--watch`.
WATCH_INTERVAL = 2.0

#: Units of time, the longest first.
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))

#: The columns of `--tools` and the counters that they show. A column is left out if it is 0 for every model.
TOOL_COLUMNS: dict[str, str] = {
    "REPLIES": "replies",
    "CALLS": "calls",
    "REPAIRED": "repaired",
    "UNREPAIRABLE": "unrepairable",
    "HARVESTED": "harvested",
    "UNFINISHED": "unfinished",
    "REASONING": "reasoning",
    "RENAMED": "renamed",
    "UNDECLARED": "undeclared",
    "DOUBLED": "doubled",
    "INVALID": "invalid",
    "DENIED": "denied",
    "REWRITTEN": "rewritten",
    "LET GO": "let_go",
    "ANSWERS": "answers",
}
#: The colour of a target's row by its health; other rows are yellow.
COLOURS = {"ok": "", "unused": "", "unusable": "red", "failing": "red"}
#: Columns that are always shown.
_FIXED_COLUMNS = ("REPLIES", "CALLS", "REPAIRED", "HARVESTED")
#: Counters that do not indicate a problem of the model.
_NO_PROBLEM = ("replies", "calls", "held", "valid", "allowed", "raised", "contracts", "reasoning", "answers")


@click.command()
@admin_options
@click.option("--tools", is_flag=True, help="Show which models make mistakes in tool calls, and how often.")
@click.option("--watch", is_flag=True, help="Show it again every two seconds, until Ctrl-C.")
@json_option
def status(path: str | None, url: str, tools: bool, watch: bool, as_json: bool) -> None:
    """Show what the gateway does: targets, cooldowns and their causes, open streams, keys near their limits.

    \b
    dragoman status
    dragoman status --tools
    dragoman status --watch
    dragoman status --json | jq .targets
    """
    client = AdminClient(path, url)
    while True:
        report = client.call("GET", "/admin/status")
        if watch and not as_json:
            click.clear()
        _print_status(report, client.url, tools=tools, as_json=as_json, log=_find_log(path, client.url))
        if not watch:
            return
        time.sleep(WATCH_INTERVAL)


def _find_log(path: str | None, url: str) -> str:
    """The log file of the gateway at this address, if it runs in the background on this machine."""
    notice = find_live_notice(find_config_path(path, os.environ), os.environ)
    return notice.log if notice and notice.url == url else ""


def _print_status(report: dict[str, Any], url: str, *, tools: bool, as_json: bool, log: str) -> None:
    if as_json:
        click.echo(format_json({**report, "gateway": {**report["gateway"], "log": log}}))
        return
    for line in format_tools(report["tools"]) if tools else format_status(report, url, time.time(), log):
        click.echo(line)


@click.command()
@admin_options
def reload(path: str | None, url: str) -> None:
    """Reload the configuration of the running gateway. Open streams continue.

    The gateway also reloads when the file changes, and on SIGHUP. Running exchanges keep the old
    configuration; new ones use the new one. A file with a mistake is refused and changes nothing.
    """
    report = AdminClient(path, url).call("POST", "/admin/reload")
    click.echo(f"reloaded {report['config'] or 'without a file: the embedded model answers'}")
    for name, details in report["changed"].items():
        click.echo(f"  changed: {name}{': ' + ', '.join(details) if isinstance(details, list) else ''}")
    if not report["changed"]:
        click.echo("  nothing has changed")
    if report["needs_restart"]:
        click.echo(f"  takes effect after a restart: {', '.join(report['needs_restart'])}", err=True)


def format_status(report: dict[str, Any], url: str, now: float, log: str = "") -> Iterator[str]:
    """The lines of `dragoman status`. `now` is the current time, `log` the file of a background gateway."""
    gateway = report["gateway"]
    closing = ", shutting down" if gateway["state"] == "closing" else ""
    yield f"dragoman {gateway['version']} at {url}, up {format_span(gateway['uptime'])}{closing}"
    if log:
        yield f"in the background, log: {log}"
    yield from _format_config(report["config"], now)
    yield ""
    yield from _format_targets(report["targets"])
    yield ""
    yield from _format_exchanges(report["exchanges"])
    yield from _format_keys(report["keys"])
    yield from _format_sessions(report["sessions"])
    yield from _format_records(report["records"])


def _format_config(config: dict[str, Any], now: float) -> Iterator[str]:
    if config["path"]:
        yield f"configuration: {config['path']}, read {format_span(now - config['loaded_at'])} ago"
    else:
        yield "configuration: no file, so the embedded model answers"
    if config["error"]:
        failed = format_span(now - config["failed_at"])
        yield click.style(f"  a change was refused {failed} ago; the earlier version is active:", fg="red")
        yield f"  {config['error']}"
    if config["needs_restart"]:
        restart = ", ".join(config["needs_restart"])
        yield click.style(f"  takes effect after a restart: {restart}", fg="yellow")


def _format_targets(targets: list[dict[str, Any]]) -> Iterator[str]:
    if not targets:
        yield "no targets: the configuration names no provider"
        return
    rows = [("TARGET", "TRIES", "FAILED", "FIRST TOKEN", "HEALTH", "REASON")]
    for target in targets:
        reason = (
            target.get("obstacle")
            or _format_failures(target)
            or "; ".join(_format_cooldown(each, target["keys"]) for each in target["cooldowns"])
        )
        first = f"{target['first_token']:.2f} s" if target["first_token"] else "-"
        numbers = (f"{target['tries']:.0f}", f"{target['failed']:.0f}", first)
        rows.append((target["target"], *numbers, target["health"], reason))
    colours = ["", *(COLOURS.get(target["health"], "yellow") for target in targets)]
    for line, colour in zip(format_table(rows), colours, strict=True):
        yield click.style(line, fg=colour) if colour else line


def _format_failures(target: dict[str, Any]) -> str:
    """Why a target fails that has no cooldown; empty for others."""
    count = target.get("failures_in_row", 0)
    if target["cooldowns"] or not count:
        return ""
    times = f", failed {count} times in a row" if count > 1 else ""
    return f"{target['last_failure']}{times}"


def _format_cooldown(cooldown: dict[str, Any], keys: int) -> str:
    key = f"key {cooldown['key']} of {keys}: " if keys > 1 else ""
    failures = cooldown["failures"]
    repeated = f", failed {failures} times in a row" if failures > 1 else ""
    return f"{key}{cooldown['reason']}{repeated}, tried last for {format_span(cooldown['seconds'])}"


def _format_exchanges(exchanges: dict[str, Any]) -> Iterator[str]:
    count = exchanges["open"]
    if not count:
        yield "no open exchanges"
        return
    yield f"open: {count} exchange{'' if count == 1 else 's'}, {exchanges['streams']} of them streamed"
    rows = [
        (
            f"  {format_span(each['seconds'])}",
            each["agent"].partition(" ")[0] or each["client"],
            f"{each['model']} → {each['target'] or '…'}",
            "" if each["first_token"] else "waiting for the first token",
        )
        for each in exchanges["oldest"][:LISTED]
    ]
    yield from format_table(rows)
    if count > LISTED:
        yield f"  and {count - LISTED} more"


def _format_keys(keys: list[dict[str, Any]]) -> Iterator[str]:
    if not keys:
        return
    yield ""
    yield "keys near their limits"
    rows = [
        (
            f"  {each['key']}",
            f"{each['share']:.0%}",
            f"of {format_amount(each['of'], each['limit'])} per {each['period']}",
        )
        for each in sorted(keys, key=lambda each: -each["share"])
    ]
    yield from format_table(rows)


def _format_sessions(sessions: dict[str, dict[str, int]]) -> Iterator[str]:
    for name, counts in sessions.items():
        parts = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in counts.items() if count)
        yield ""
        yield f"sessions of {name}: {parts or 'none yet'}"


def _format_records(records: dict[str, Any]) -> Iterator[str]:
    """Warnings: how many records were lost, and how many prompt caches missed because of the gateway."""
    if records["lost"]:
        reason = (
            f": {records['error']}" if records["error"] else ": they came faster than they could be written"
        )
        yield ""
        yield click.style(f"{records['lost']} exchanges were not recorded{reason}", fg="yellow")
    if records.get("broken_prefixes"):
        yield ""
        text = f"the gateway changed the beginning of {records['broken_prefixes']} prompts, so caches missed"
        yield click.style(f"{text}; the last: {records['last_broken_prefix']}", fg="yellow")


def format_span(seconds: float) -> str:
    """A length of time with its two largest units: `3 h 20 min`."""
    whole = max(0, round(seconds))
    for number, (size, unit) in enumerate(_UNITS):
        if whole >= size:
            count, rest = divmod(whole, size)
            smaller, name = _UNITS[number + 1] if number + 1 < len(_UNITS) else (1, "s")
            return f"{count} {unit} {rest // smaller} {name}" if rest >= smaller else f"{count} {unit}"
    return f"{whole} s"


def format_tools(targets: list[dict[str, Any]]) -> Iterator[str]:
    """The lines of `dragoman status --tools`. The model with the most problems comes first."""
    if not targets:
        yield "no reply has been governed yet; add [routes.governance] to a route"
        return
    targets = sorted(targets, key=lambda each: (-_count_problems(each["counts"]), each["target"]))
    columns = {
        heading: name
        for heading, name in TOOL_COLUMNS.items()
        if heading in _FIXED_COLUMNS or any(each["counts"].get(name) for each in targets)
    }
    rows = [
        (each["target"], *(str(each["counts"].get(name, 0)) for name in columns.values())) for each in targets
    ]
    yield from format_table([("TARGET", *columns), *rows])


def _count_problems(counts: dict[str, int]) -> int:
    return sum(count for name, count in counts.items() if name not in _NO_PROBLEM)
