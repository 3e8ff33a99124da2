"""`dragoman activity`: prints what agents report about their work, by key, session or day."""

from functools import partial

import click
import msgspec

from dragoman.accounts.activity import ActivityCounts, ActivityGroup, read_activity
from dragoman.cli.files import use_state
from dragoman.cli.formats import config_option, format_json, format_table, group_options, remove_controls
from dragoman.cli.usage import name_groups

_CHOICES: tuple[ActivityGroup, ...] = ("key", "session", "day")
_HEADINGS = ("LINES", "COMMITS", "PRS", "EDITS", "TOOLS", "ACTIVE")


@click.command()
@group_options(_CHOICES)
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
@config_option
def activity(by: tuple[ActivityGroup, ...], since: float, is_json: bool, path: str | None) -> None:
    """Show what agents report about their work.

    \b
    dragoman activity
    dragoman activity --by day --by key --since 7d

    EDITS and TOOLS are the numbers of accepted and rejected edits and tool calls. Agents send these numbers
    as telemetry (docs/claude-code-gateway.md). They are claims of the agents.
    """
    by = tuple(dict.fromkeys(by))
    found = use_state(path, partial(read_activity, by=by, since=since))
    rows = [(name_groups(by, group), counts) for group, counts in found]
    if is_json:
        named = [(dict(zip(by, group, strict=True)), counts) for group, counts in rows]
        click.echo(format_json([{**names, **msgspec.structs.asdict(counts)} for names, counts in named]))
        return
    if not rows:
        click.echo("no activity: no agent has sent telemetry to this gateway", err=True)
        return
    table = [(*(each.upper() for each in by), *_HEADINGS)]
    table += [(*map(remove_controls, group), *_build_cells(counts)) for group, counts in rows]
    click.echo("\n".join(format_table(table)))


def _build_cells(counts: ActivityCounts) -> tuple[str, ...]:
    hours, minutes = divmod(round(counts.active_seconds / 60), 60)
    return (
        f"+{counts.lines_added:,.0f} -{counts.lines_removed:,.0f}",
        f"{counts.commits:,.0f}",
        f"{counts.pull_requests:,.0f}",
        f"{counts.edits_accepted:,.0f} / {counts.edits_rejected:,.0f}",
        f"{counts.tools_accepted:,.0f} / {counts.tools_rejected:,.0f}",
        f"{hours}h {minutes:02}m",
    )
