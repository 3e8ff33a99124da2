"""`dragoman top`: the open exchanges and the latest sessions of the running gateway, in a terminal."""

import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import click

from dragoman.cli.admin import AdminClient, admin_options
from dragoman.cli.formats import format_json, format_table, json_option
from dragoman.cli.formats import remove_controls as clean
from dragoman.cli.records import format_sessions

#: Sessions that are shown.
_LISTED = 10
_CLEAR = "\x1b[H\x1b[2J"


@click.command()
@click.argument("filter_", metavar="[FILTER]", default="")
@click.option("--once", is_flag=True, help="Print the present state once and end.")
@click.option("--interval", default=1.0, show_default=True, help="Seconds between two updates.")
@admin_options
@json_option
def top(filter_: str, once: bool, interval: float, path: str | None, url: str, as_json: bool) -> None:
    """Show the open exchanges and the latest sessions, until Ctrl-C. FILTER selects sessions.

    \b
    dragoman top
    dragoman top 'agent:claude-code' --once
    """
    client = AdminClient(path, url)
    while True:
        report = {
            **client.call("GET", "/admin/records/now"),
            **client.call("GET", f"/admin/records/sessions?limit={_LISTED}&filter={quote(filter_)}"),
        }
        text = format_json(report) if as_json else "\n".join(format_top(report))
        click.echo(text if once or as_json else f"{_CLEAR}{text}")
        if once or as_json:
            return
        try:
            time.sleep(max(0.1, interval))
        except KeyboardInterrupt:
            return


def format_top(report: dict[str, Any]) -> Iterator[str]:
    """The lines: open exchanges, the oldest first, then sessions, the latest first."""
    exchanges = report["exchanges"]
    yield f"{len(exchanges)} open"
    if exchanges:
        rows = [("SECONDS", "AGENT", "SESSION", "MODEL", "TARGET", "STATE")]
        for each in exchanges:
            state = "answering" if each["first_token"] else "waiting"
            state += f", try {each['tries']}" if each["tries"] > 1 else ""
            session = clean(each["session"] + (f" / {each['sub_agent']}" if each["sub_agent"] else ""))
            names = (clean(each["agent"]), session, clean(each["model"]), clean(each["target"]))
            rows.append((f"{each['seconds']:.1f}", *names, state))
        yield from format_table(rows)
    yield ""
    yield from format_sessions(report["sessions"])
