"""`dragoman sessions`: lists, shows and ends the sessions of a Claude Code provider."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import click

from dragoman.cli.admin import AdminClient, admin_options
from dragoman.cli.formats import format_json, format_table, json_option

#: Events that are counted, in the order in which they are printed.
_EVENTS = (
    "spawned",
    "continued",
    "forwarded",
    "replayed",
    "evicted",
    "expired",
    "timed_out",
    "denied",
    "crashed",
)


@click.group()
def sessions() -> None:
    """List, show and end sessions of Claude Code.

    A provider with the dialect "claude_code" keeps one session and one process for each conversation. You can
    end a session at any time: the next request of the conversation starts a new one from the history.

    \b
    dragoman sessions list
    dragoman sessions show ses_…
    dragoman sessions end ses_…
    """


@sessions.command("list")
@admin_options
@json_option
def list_sessions(path: str | None, url: str, as_json: bool) -> None:
    """List the sessions, with counts of earlier events."""
    report = AdminClient(path, url).call("GET", "/admin/sessions")
    click.echo(format_json(report) if as_json else "\n".join(format_list(report)))


@sessions.command()
@click.argument("session")
@admin_options
@json_option
def show(session: str, path: str | None, url: str, as_json: bool) -> None:
    """Show one session: its tools, its open calls, and its permission decisions."""
    report = AdminClient(path, url).call("GET", f"/admin/sessions/{quote(session, safe='')}")
    click.echo(format_json(report) if as_json else "\n".join(format_session(report)))


@sessions.command()
@click.argument("session")
@admin_options
def end(session: str, path: str | None, url: str) -> None:
    """End a session and its process."""
    report = AdminClient(path, url).call("DELETE", f"/admin/sessions/{quote(session, safe='')}")
    click.echo(f"ended {report['ended']}")


def format_list(report: dict[str, Any]) -> Iterator[str]:
    """The lines of `dragoman sessions list`."""
    rows = [
        (
            str(session["id"]),
            str(session["provider"]),
            str(session["state"]) + (", overdue" if session["overdue"] else ""),
            f"{session['seconds']:g} s",
            str(session["requests"]),
            str(session["waiting"]),
            str(session["model"]),
        )
        for session in report["sessions"]
    ]
    headings = ("session", "provider", "state", "since", "requests", "calls", "model")
    yield from format_table([headings, *rows]) if rows else ["no sessions"]
    for provider, counts in report["counts"].items():
        events = [f"{counts[name]} {name.replace('_', ' ')}" for name in _EVENTS if counts.get(name)]
        yield f"{provider} so far: {', '.join(events) or 'nothing'}"


def format_session(report: dict[str, Any]) -> Iterator[str]:
    """The lines of `dragoman sessions show`."""
    names = ("id", "provider", "state", "model", "process", "requests")
    rows = [(name, str(report[name])) for name in names]
    yield from format_table([*rows, ("tools", ", ".join(report["tools"]) or "none")])
    for call in report["calls"]:
        yield f"waits for {call['tool']} ({call['id']})"
    for decision in report["audit"]:
        verdict = "allowed" if decision["allowed"] else click.style("denied", fg="red")
        yield f"{verdict} {decision['tool']} ({decision['call']})"
