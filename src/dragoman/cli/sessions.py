"""`dragoman sessions`: what Claude Code is doing behind the gateway, and how to end it."""

import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import click
import msgspec

from dragoman.cli.operator import Operator, operator_options
from dragoman.cli.tables import table

#: What has happened so far, in the order in which it is told.
_EVENTS = ("spawned", "continued", "replayed", "evicted", "expired", "timed_out", "denied", "crashed")


@click.group()
def sessions() -> None:
    """List, show and end the sessions of Claude Code.

    A provider of dialect "claude_code" keeps a session, and a process, for each conversation. One that is
    ended loses nothing: the next request of its conversation begins it anew from the history.

    \b
    dragoman sessions list
    dragoman sessions show ses_…
    dragoman sessions end ses_…
    """


@sessions.command("list")
@operator_options
@click.option("--json", "as_json", is_flag=True, help="Everything, for programs.")
def list_command(path: str | None, url: str, as_json: bool) -> None:
    """List the sessions, and count what became of earlier ones."""
    told = Operator(path, url).call("GET", "/admin/sessions")
    _print(told, as_json, _listed(told))


@sessions.command()
@click.argument("session")
@operator_options
@click.option("--json", "as_json", is_flag=True, help="Everything, for programs.")
def show(session: str, path: str | None, url: str, as_json: bool) -> None:
    """Show one session: its tools, the calls it waits for, and who was allowed what."""
    told = Operator(path, url).call("GET", f"/admin/sessions/{quote(session, safe='')}")
    _print(told, as_json, _shown(told))


@sessions.command()
@click.argument("session")
@operator_options
def end(session: str, path: str | None, url: str) -> None:
    """End a session and its process."""
    told = Operator(path, url).call("DELETE", f"/admin/sessions/{quote(session, safe='')}")
    click.echo(f"ended {told['ended']}")


def _print(told: Any, as_json: bool, lines: Iterator[str]) -> None:
    if as_json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n")
        return
    for line in lines:
        click.echo(line)


def _listed(told: dict[str, Any]) -> Iterator[str]:
    rows = [
        (
            str(one["id"]),
            str(one["provider"]),
            str(one["state"]) + (", overdue" if one["overdue"] else ""),
            f"{one['seconds']:g} s",
            f"{one['requests']}",
            f"{one['waiting']}",
            str(one["model"]),
        )
        for one in told["sessions"]
    ]
    if rows:
        yield from table([("session", "provider", "state", "since", "requests", "calls", "model"), *rows])
    else:
        yield "no sessions"
    for provider, counts in told["counts"].items():
        counted = ", ".join(
            f"{counts[name]} {name.replace('_', ' ')}" for name in _EVENTS if counts.get(name)
        )
        yield f"{provider} so far: {counted or 'nothing'}"


def _shown(told: dict[str, Any]) -> Iterator[str]:
    rows = [(name, str(told[name])) for name in ("id", "provider", "state", "model", "process", "requests")]
    yield from table([*rows, ("tools", ", ".join(told["tools"]) or "none")])
    for call in told["calls"]:
        yield f"waits for {call['tool']} ({call['id']})"
    for decision in told["audit"]:
        verdict = "allowed" if decision["allowed"] else click.style("denied", fg="red")
        yield f"{verdict} {decision['tool']} ({decision['call']})"
