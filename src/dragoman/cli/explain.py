"""`dragoman explain`: shows which rule decides about a request, and why the others do not."""

import os
import sqlite3
import time
from pathlib import Path

import click
import msgspec

from dragoman.cli.files import DIALECT, read_file
from dragoman.cli.formats import config_option, format_json, json_option
from dragoman.cli.records import complete_sessions, use_records
from dragoman.config.config import Config
from dragoman.config.find import find_config
from dragoman.exchange.selection import build_traits
from dragoman.hub.errors import ConfigError
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.records.reading import build_metadata, read_raw, read_turn
from dragoman.routing.explain import RouteExplanation
from dragoman.server.overview_api import explain_request
from dragoman.server.paths import find_endpoint

_HINT = 'a file has {"path": "/v1/messages", "headers": {…}, "body": {…}}, or the body alone with --dialect'


class RecordedRequest(msgspec.Struct, kw_only=True):
    """A request in a file: its path, its headers and its body."""

    path: str
    headers: dict[str, str] = {}
    body: msgspec.Raw = msgspec.Raw(b"{}")


@click.command()
@click.argument("file", metavar="REQUEST.json|-|SESSION", shell_complete=complete_sessions)
@click.argument("turn", type=int, required=False)
@config_option
@click.option("--dialect", type=DIALECT, help="The file is the body alone, of this dialect.")
@click.option("--model", default="", help="Model name, if it was in the URL (Gemini clients).")
@click.option("--header", "headers", multiple=True, metavar="NAME:VALUE", help="Add a request header.")
@click.option("--key", default="", help="The name of the client key.")
@json_option
def explain(
    file: str,
    turn: int | None,
    path: str | None,
    dialect: str | None,
    model: str,
    headers: tuple[str, ...],
    key: str,
    as_json: bool,
) -> None:
    """Explain which rule and which targets a request gets.

    REQUEST.json has the path, the headers and the body of a request; with TURN, it is a recorded one of
    SESSION. Nothing is sent. The functions of rules run.

    \b
    dragoman explain request.json
    dragoman explain last 3
    dragoman explain body.json --dialect anthropic --header "user-agent: claude-cli/2.1.325"
    """
    config = find_config(path, os.environ, secrets=False)
    given = dict(_read_header(each) for each in headers)
    if turn is not None:
        plan, recorded_key = use_records(
            path, lambda connection: _read_recorded(connection, file, turn, given)
        )
        key = key or recorded_key
    else:
        plan = _build_plan(config, _read_request(file), file, dialect, model, given)
    plan.peek()
    found = explain_request(config, build_traits(config, plan, key, time.time))
    if as_json:
        click.echo(format_json(msgspec.to_builtins(found)))
    else:
        _print(found)


def _read_request(file: str) -> bytes:
    try:
        return read_file(file)
    except ConfigError as error:
        if error.hint or Path(file).exists():
            raise
        hint = f"for a recorded request, add the number of its turn: dragoman explain {file} 1"
        raise ConfigError(error.message, hint=hint) from None


def _read_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise click.BadParameter(f"expected NAME:VALUE, got {text!r}")
    return name.strip().lower(), value.strip()


def _read_recorded(
    connection: sqlite3.Connection, session: str, number: int, headers: dict[str, str]
) -> tuple[RequestPlan, str]:
    """The recorded request of a turn, and the name of its client key."""
    row = read_turn(connection, session, number)
    body = read_raw(connection, row["id"], "client_request")
    if body is None:
        raise ConfigError("no contents are recorded there", hint='set record = "bodies" in [records]')
    return RequestPlan(build_metadata(row, headers), body), row["key"] or ""


def _build_plan(
    config: Config, data: bytes, name: str, dialect: str | None, model: str, headers: dict[str, str]
) -> RequestPlan:
    if dialect is not None:
        return RequestPlan(RequestMetadata(dialect=dialect, headers=headers, model=model), data)
    try:
        recorded = msgspec.json.decode(data, type=RecordedRequest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"{name}: {error}", hint=_HINT) from None
    path, entry = recorded.path.partition("?")[0], ""
    head, slash, rest = path[1:].partition("/")
    if any(f"/{head}" in rule.when.path for rule in config.rules):
        path, entry = f"{slash}{rest}", f"/{head}"
    endpoint = find_endpoint(path)
    if endpoint is None or endpoint.name not in ("turn", "stream"):
        raise ConfigError(f"{name}: the path {path} is no request to a model", hint=_HINT)
    metadata = RequestMetadata(
        dialect=endpoint.dialect,
        headers={each.lower(): value for each, value in recorded.headers.items()} | headers,
        model=model or endpoint.model,
        stream=endpoint.name == "stream",
        entry=entry,
    )
    return RequestPlan(metadata, bytes(recorded.body))


def _print(found: RouteExplanation) -> None:
    described = ", ".join(f"{name} {value}" for name, value in found.traits.items())
    click.echo(f"request  {found.model or '(no model)'}: {described}")
    if found.unreadable:
        click.echo(f"unread   {found.unreadable}")
    for row in found.rules:
        mark = "wins " if row.holds and row.rule == found.rule else "holds" if row.holds else "no   "
        click.echo(f"{mark}    {row.rule}: {row.reason} → {row.result}")
    if found.error:
        click.echo(f"refused  {found.error}")
    elif found.answer:
        click.echo(f"answer   by the gateway, rule {found.rule}")
    else:
        by = f"rule {found.rule}, route {found.route}" if found.rule else f"no rule, route {found.route}"
        click.echo(f"targets  {', '.join(found.targets)} ({by})")
