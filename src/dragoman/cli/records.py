"""`dragoman records`: lists, shows, exports, imports and deletes recorded sessions."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from dragoman.accounts.errors import format_dollars
from dragoman.cli.files import state_file
from dragoman.cli.formats import config_option, format_date, format_json, format_table, json_option
from dragoman.cli.formats import remove_controls as clean
from dragoman.config.find import find_config
from dragoman.hub.errors import ConfigError, DragomanError
from dragoman.records import reading
from dragoman.records.archive import read_archive, write_archive
from dragoman.records.filters import Condition, parse_filter
from dragoman.records.store import PARTS, delete_turns, find_records_file, open_records

Result = TypeVar("Result")

#: The most sessions that a shell is offered.
COMPLETED = 50


def use_records(
    path: str | None, work: Callable[[sqlite3.Connection], Result], *, creates: bool = False
) -> Result:
    """Run `work` in one transaction of the records. `path` is the configuration file."""
    file = find_records_file(state_file(find_config(path, os.environ, secrets=False)))
    if not creates and not file.is_file():
        raise ConfigError(
            "nothing is recorded here yet", hint='set `record` in [records]; "bodies" records contents too'
        )
    try:
        return open_records(file, work)
    except sqlite3.Error as error:
        raise ConfigError(f"cannot use the records in {file}: {error}") from None


def complete_sessions(context: click.Context, parameter: click.Parameter, start: str) -> list[str]:
    """The ids of the latest recorded sessions that begin with `start`, for the completion of a shell."""
    with suppress(DragomanError):
        work = partial(reading.list_sessions, condition=parse_filter(""), limit=COMPLETED)
        found = use_records(context.params.get("path"), work)
        names = ["last", *(str(row["session"]) for row in found)]
        return [name for name in names if name.startswith(start)]
    return []


@click.group()
def records() -> None:
    """List, show, export, import and delete recorded sessions.

    A session is named by its id, by a unique beginning of it, or by `last`.

    \b
    dragoman records list 'agent:claude-code failed'
    dragoman records show last
    dragoman records show last 3 upstream_request
    dragoman records export last session.zst
    """


@records.command("list")
@click.argument("filter_", metavar="[FILTER]", default="")
@click.option(
    "--limit",
    default=30,
    type=click.IntRange(1),
    show_default=True,
    help="The most sessions that are listed.",
)
@config_option
@json_option
def list_(filter_: str, limit: int, path: str | None, as_json: bool) -> None:
    """List the sessions, the latest first. FILTER selects: agent:codex cost>0.1 failed -sub."""
    found = use_records(path, partial(reading.list_sessions, condition=parse_filter(filter_), limit=limit))
    click.echo(format_json(found) if as_json else "\n".join(format_sessions(found)))


@records.command()
@click.argument("session", shell_complete=complete_sessions)
@click.argument("number", type=int, required=False)
@click.argument("part", type=click.Choice(PARTS), required=False)
@click.option("--raw", is_flag=True, help="Print the bytes of the part as they were.")
@config_option
@json_option
def show(
    session: str, number: int | None, part: str | None, raw: bool, path: str | None, as_json: bool
) -> None:
    """Show a session, one of its turns, or a part of a turn."""
    if number is None:
        found, turns = use_records(path, lambda connection: _read_session(connection, session))
        lines = format_turns(found, turns)
        click.echo(format_json({**found, "list": turns}) if as_json else "\n".join(lines))
    elif part is None:
        turn = use_records(path, partial(reading.read_turn, session=session, number=number))
        click.echo(format_json(turn) if as_json else "\n".join(format_turn(turn)))
    elif raw:
        content = use_records(path, partial(_read_bytes, session=session, number=number, part=part))
        click.echo(content, nl=False)
    else:
        click.echo(
            format_json(
                use_records(path, partial(reading.read_part, session=session, number=number, part=part))
            )
        )


@records.command()
@click.argument("session", shell_complete=complete_sessions)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--no-contents", is_flag=True, help="Leave out requests and replies.")
@config_option
def export(session: str, file: Path, no_contents: bool, path: str | None) -> None:
    """Write a session to one file, which only its owner can read."""
    # An existing file is replaced by a complete one only, and gets the rights of the new one.
    new = file.with_name(f".{file.name[:80]}.{os.getpid()}")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
            work = partial(write_archive, session=session, file=target, with_contents=not no_contents)
            turns = use_records(path, work)
        new.replace(file)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}") from None
    finally:
        new.unlink(missing_ok=True)
    click.echo(f"{turns} turns, {file.stat().st_size:,} bytes: {file}")


@records.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--as", "name", default="", metavar="NAME", help="The session's name here.")
@config_option
def import_(file: Path, name: str, path: str | None) -> None:
    """Add a session from a file that `export` wrote."""
    with file.open("rb") as source:
        session, turns = use_records(path, partial(read_archive, file=source, name=name), creates=True)
    click.echo(f"{turns} turns: {clean(session)}")


@records.command()
@click.argument("session", shell_complete=complete_sessions)
@config_option
def delete(session: str, path: str | None) -> None:
    """Delete a session."""

    def work(connection: sqlite3.Connection) -> tuple[str, int]:
        name = reading.find_session_id(connection, session)
        rows = connection.execute("SELECT id FROM turns WHERE session = ?", (name,)).fetchall()
        delete_turns(connection, [row[0] for row in rows])
        return name, len(rows)

    name, turns = use_records(path, work)
    click.echo(f"deleted {clean(name)}: {turns} turns")


def _read_session(
    connection: sqlite3.Connection, session: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    found = reading.read_session(connection, session)
    return found, list(reading.iterate_turns(connection, Condition("session = ?", (found["session"],))))


def _read_bytes(connection: sqlite3.Connection, session: str, number: int, part: str) -> bytes:
    turn = reading.read_turn(connection, session, number)
    content = reading.read_raw(connection, turn["id"], part)
    if content is None:
        raise reading.PartNotFound(turn, part)
    return content


def format_sessions(sessions: list[dict[str, Any]]) -> Iterator[str]:
    """The lines of `dragoman records list`."""
    if not sessions:
        yield "no sessions"
        return
    rows = [("SESSION", "AGENT", "PROJECT", "MODELS", "TURNS", "INPUT", "CACHED", "OUTPUT", "COST", "ENDED")]
    for each in sessions:
        models = clean(", ".join(each["models"]))
        counts = (str(each["turns"]), _count(each["input"]), format_share(each["cache_read"], each["input"]))
        money = _money(each["cost"], each["unpriced"])
        rest = (_count(each["output"]), money, format_date(each["updated"]))
        rows.append(
            (clean(each["session"]), clean(each["agent"]), clean(each["project"]), models, *counts, *rest)
        )
    yield from format_table(rows)


def format_turns(session: dict[str, Any], turns: list[dict[str, Any]]) -> Iterator[str]:
    """The lines of `dragoman records show SESSION`."""
    folder = clean(session["project"]) or "an unknown folder"
    yield f"{clean(session['session'])}: {clean(session['agent'])} in {folder}"
    rows = [
        (
            "TURN",
            "SUB-AGENT",
            "MODEL",
            "TARGET",
            "SECONDS",
            "INPUT",
            "CACHED",
            "OUTPUT",
            "COST",
            "CALLS",
            "RESULT",
        )
    ]
    for turn in turns:
        result = turn["error"] or turn["cause"] or turn["ending"]
        notes = [f"{name}: {turn[name]}" for name in ("losses", "interventions") if turn[name]]
        notes += [f"{turn['tries']} tries"] if turn["tries"] > 1 else []
        names = (str(turn["number"]), clean(turn["sub_agent"]), clean(turn["model"]), clean(turn["target"]))
        counts = (
            f"{turn['seconds']:.1f}",
            _count(turn["input"]),
            format_share(turn["cache_read"], turn["input"]),
        )
        rest = (_count(turn["output"]), _money(turn["cost"], 0), str(turn["tools"]))
        rows.append((*names, *counts, *rest, clean(", ".join([result, *notes]))))
    yield from format_table(rows)
    saved = f", {format_dollars(session['saved'])} saved by the prompt cache" if session["saved"] else ""
    yield f"cost: {_money(session['cost'], session['unpriced'])}{saved}"
    yield from format_losses(session["loss_groups"])


def format_losses(groups: list[dict[str, Any]]) -> Iterator[str]:
    """The losses of a session, one line for each group."""
    for group in groups:
        place = clean(group["path"]) or "the reply"
        turns = f"{group['turns']} turns" if group["turns"] > 1 else f"turn {group['last']}"
        advice = f" ({group['advice']})" if group["advice"] else ""
        yield f"loss in {turns}: {place}: {clean(group['reason'])}{advice}"


def format_turn(turn: dict[str, Any]) -> Iterator[str]:
    """The lines of `dragoman records show SESSION TURN`."""
    names = (
        "request",
        "agent",
        "key",
        "model",
        "route",
        "rule",
        "target",
        "lane",
        "status",
        "ending",
        "cause",
    )
    rows = [(name, clean(str(turn[name]))) for name in (*names, "error") if turn[name] not in ("", None)]
    rows += [("started", format_date(turn["started"])), ("seconds", f"{turn['seconds']:g}")]
    rows.append(("usage", ", ".join(f"{name} {count}" for name, count in turn["usage"].items())))
    yield from format_table(rows)
    for attempt in turn["attempts"]:
        failure = attempt["failure"]
        reason = f"{failure['kind']}: {clean(failure['message'])}" if failure else "answered"
        yield f"attempt: {clean(attempt['target'])}, {attempt['ended'] - attempt['began']:.2f} s, {reason}"
    for loss in turn["loss_list"]:
        yield (
            f"loss: {clean(loss['path'])}: {clean(loss['reason'])}"
            if loss["path"]
            else f"loss: {loss['reason']}"
        )
    for done in turn["intervention_list"]:
        what = f"{done['kind']} {done.get('tool', '')} {done.get('detail', '')}"
        yield f"intervention: {clean(what).rstrip()}"
    kinds = dict.fromkeys(each["part"] for each in turn["parts"])
    yield f"contents: {', '.join(kinds)}" if kinds else "contents: none are recorded"


def format_share(part: int | None, whole: int | None) -> str:
    return f"{part / whole:.0%}" if part is not None and whole else "-"


def _count(number: int | None) -> str:
    return f"{number:,}" if number is not None else "-"


def _money(cost: int | None, unpriced: int) -> str:
    return "unknown" if cost is None else format_dollars(cost) + (" and unknown" if unpriced else "")
