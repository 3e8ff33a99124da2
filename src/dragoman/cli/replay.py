"""`dragoman replay`, `fork`, `bisect` and `diff`: recorded sessions served again, continued and compared."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial

import click
import msgspec

from dragoman.cli.formats import config_option, format_json, format_table, json_option
from dragoman.cli.formats import remove_controls as clean
from dragoman.cli.records import complete_sessions, use_records
from dragoman.config.find import find_config, find_state_folder
from dragoman.exchange.storage import build_storage
from dragoman.hub.errors import ConfigError
from dragoman.records.comparison import Divergence, TurnPair, find_divergence, pair_turns
from dragoman.records.differences import Difference
from dragoman.records.replay import RecordedTurn, ReplayedRequest, ReplaySession, load_session

#: Characters of a value in a list of differences, and differences of one turn that are listed.
_SHOWN = 60
_LISTED = 5

_PORT = click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Listen on this port; default: a free one."
)
_AGENT = click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[AGENT [ARGUMENTS]...]")
_SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}


class SessionCommand(click.Command):
    """A command whose options stand before or after SESSION. What begins with the agent is the agent's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        before, rest = self._split_options(ctx, args)
        after, agent = self._split_options(ctx, rest[1:])
        return super().parse_args(ctx, [*before, *after, *rest[:1], *agent])

    def _split_options(self, ctx: click.Context, args: list[str]) -> tuple[list[str], list[str]]:
        """The options of this command at the beginning of the words, and the other words."""
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        has_value = {name: not each.is_flag for each in options for name in each.opts}
        position = 0
        while position < len(args) and (name := args[position].partition("=")[0]) in has_value:
            position += 2 if has_value[name] and "=" not in args[position] else 1
        return args[:position], args[position:]


@click.command(cls=SessionCommand, context_settings=_SETTINGS)
@config_option
@click.option(
    "--strict", is_flag=True, help="Refuse requests that differ, instead of using the nearest turn."
)
@_PORT
@json_option
@click.argument("session", shell_complete=complete_sessions)
@_AGENT
def replay(
    path: str | None, strict: bool, port: int, as_json: bool, session: str, command: tuple[str, ...]
) -> None:
    """Serve the recorded replies of SESSION to an agent, offline and byte for byte.

    \b
    dragoman replay last claude -p "the same prompt"
    dragoman replay last                             (serves until Ctrl-C)

    Requests are matched by their contents, without what an agent varies by itself: ids, dates, times. At the
    end the requests that differ are listed. The exit code is 1 if any differs or a turn was not used.
    """
    recorded = ReplaySession(_load(path, session), is_strict=strict)
    _serve(path, recorded, command, port=port)
    _report(recorded, as_json=as_json)
    sys.exit(0 if all(each.is_exact for each in recorded.requests) and not recorded.list_unserved() else 1)


@click.command(cls=SessionCommand, context_settings=_SETTINGS)
@config_option
@click.option("--at", required=True, type=click.IntRange(1), help="The first turn that a live model answers.")
@click.option("--model", required=True, help="The model from there on: a name that the configuration knows.")
@_PORT
@json_option
@click.argument("session", shell_complete=complete_sessions)
@_AGENT
def fork(
    path: str | None,
    at: int,
    model: str,
    port: int,
    as_json: bool,
    session: str,
    command: tuple[str, ...],
) -> None:
    """Continue SESSION from a turn on with another model.

    \b
    dragoman fork last --at 5 --model local/qwen3-coder claude -p "the same prompt"

    The turns before come from the record, the others from the model. They are recorded as a session of their
    own if contents are recorded.
    """
    turns = _load(path, session)
    if at > turns[-1].number + 1:
        raise ConfigError(
            f"the last recorded turn is {turns[-1].number}", hint=f"--at is 1 to {turns[-1].number + 1}"
        )
    recorded = ReplaySession(turns, at=at)
    _serve(path, recorded, command, port=port, model=model)
    _report(recorded, as_json=as_json)


@click.command()
@click.argument("first", shell_complete=complete_sessions)
@click.argument("second", shell_complete=complete_sessions)
@config_option
@json_option
def bisect(first: str, second: str, path: str | None, as_json: bool) -> None:
    """Find the turn where two sessions part. The exit code is 1 if they do."""
    found = find_divergence(_load(path, first), _load(path, second))
    if as_json:
        click.echo(format_json(msgspec.to_builtins(found)))
    else:
        click.echo("\n".join(format_divergence(found)))
    sys.exit(1 if found else 0)


@click.command()
@click.argument("first", shell_complete=complete_sessions)
@click.argument("second", shell_complete=complete_sessions)
@config_option
@json_option
def diff(first: str, second: str, path: str | None, as_json: bool) -> None:
    """Compare the turns of two sessions one by one."""
    pairs = pair_turns(_load(path, first), _load(path, second))
    if as_json:
        click.echo(format_json(msgspec.to_builtins(pairs)))
    else:
        click.echo("\n".join(format_pairs(pairs)))


def _load(path: str | None, session: str) -> list[RecordedTurn]:
    turns = use_records(path, partial(load_session, session=session))
    if not turns:
        raise ConfigError(
            "no contents of this session are recorded", hint='set record = "bodies" in [records]'
        )
    return turns


def _serve(
    path: str | None, recorded: ReplaySession, command: tuple[str, ...], *, port: int, model: str = ""
) -> None:
    """Serve the session while the agent runs, or until Ctrl-C."""
    from dragoman.server.replay import replay_server

    config = find_config(path, os.environ, secrets=bool(model))
    storage = build_storage(config, find_state_folder(config, os.environ)) if model else None
    with replay_server(config, recorded, model=model, storage=storage, port=port) as url:
        if not command:
            click.echo(
                f"the session is served on {url}; `dragoman run --url {url} AGENT` uses it. Stop: Ctrl-C",
                err=True,
            )
            try:
                while True:
                    time.sleep(1)
            except KeyboardInterrupt:
                return
        arguments = [sys.executable, "-m", "dragoman", "run", "--url", url, *command]
        code = subprocess.run(arguments, check=False).returncode  # noqa: S603 (our own command)
    if code:
        click.echo(f"the agent ended with exit code {code}", err=True)


def _report(recorded: ReplaySession, *, as_json: bool) -> None:
    if as_json:
        report = {"requests": msgspec.to_builtins(recorded.requests), "unserved": recorded.list_unserved()}
        click.echo(format_json(report), err=True)
    else:
        click.echo("\n".join(format_replay(recorded.requests, recorded.list_unserved())), err=True)


def format_replay(requests: list[ReplayedRequest], unserved: list[int]) -> Iterator[str]:
    """The lines about a replay: a count, each deviation, the turns that were not used."""
    exact = sum(request.is_exact for request in requests)
    live = sum(request.is_live for request in requests)
    count = f"{len(requests)} request{'' if len(requests) == 1 else 's'}"
    words = f", {live} answered by the live model" if live else ""
    yield f"{count}: {exact} as recorded, {len(requests) - exact - live} different{words}"
    deviations = [request for request in requests if not request.is_exact]
    for number, request in enumerate(deviations):
        if request.is_live:
            # All later requests of a fork are compared with the same turn, which stays unused.
            if not request.number or any(request.number == each.number for each in deviations[:number]):
                continue
            yield f"differs from turn {request.number}, and the live model answered:"
        else:
            yield (
                f"differs from turn {request.number}:" if request.number else "no turn is left for a request"
            )
        yield from (f"  {line}" for line in format_differences(request.differences))
    if unserved:
        yield f"not used: turn{'s' if len(unserved) > 1 else ''} {', '.join(map(str, unserved))}"


def format_divergence(found: Divergence | None) -> Iterator[str]:
    """The lines of `dragoman bisect`."""
    if found is None:
        yield "the sessions are equal"
        return
    request = f"after equal replies the requests differ: turn {found.first} and turn {found.second}"
    kinds = {
        "reply": f"the replies differ: turn {found.first} and turn {found.second}",
        "request": request if found.first > 1 else "the first requests differ",
        "end": f"one session ends, the other has turn {found.first or found.second}",
    }
    yield kinds[found.kind]
    yield from format_differences(found.differences)


def format_pairs(pairs: list[TurnPair]) -> Iterator[str]:
    """The lines of `dragoman diff`."""
    rows = [("FIRST", "SECOND", "REQUEST", "REPLY")]
    for pair in pairs:
        both = bool(pair.first and pair.second)
        request = f"{len(pair.request)} differences" if pair.request else "equal"
        reply = "equal" if pair.is_reply_equal else "differs"
        rows.append(
            (str(pair.first or "-"), str(pair.second or "-"), request if both else "", reply if both else "")
        )
    yield from format_table(rows)
    first = next((pair for pair in pairs if pair.request), None)
    if first is not None:
        yield f"the first different request: turn {first.first} and turn {first.second}"
        yield from format_differences(first.request)


def format_differences(differences: list[Difference]) -> Iterator[str]:
    """One line for each of the first differences."""
    for each in differences[:_LISTED]:
        start = max(0, (each.position or 0) - 10)
        values = [_shorten(value, start) for value in (each.before, each.after)]
        change = {"added": f"+ {values[1]}", "removed": f"- {values[0]}"}.get(each.kind, " → ".join(values))
        yield f"{clean(each.path)}: {change}"
    if len(differences) > _LISTED:
        yield f"and {len(differences) - _LISTED} more"


def _shorten(value: object, start: int) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    # It escapes all that is not printable, such as the control characters of a terminal.
    return repr(text[start : start + _SHOWN])
