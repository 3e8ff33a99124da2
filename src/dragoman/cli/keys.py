"""`dragoman keys`: who may call, on which terms."""

import re
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import click
import msgspec

from dragoman.accounts import keys as client_keys
from dragoman.accounts.errors import format_amount, format_dollars
from dragoman.accounts.keys import ClientKey
from dragoman.accounts.limits import Account, Amount, Limits, list_budgets
from dragoman.accounts.store import read_account
from dragoman.cli.quantities import coming, count, date_text, money, span
from dragoman.cli.state import in_state
from dragoman.cli.tables import table
from dragoman.hub.errors import ConfigError

#: A key's name stands in logs, tables and messages.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")

Command = Callable[..., None]

_config = click.option("--config", "path", metavar="FILE", help="The configuration, if not the usual one.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
#: Each limit's option, the field it sets, its kind and its help.
_LIMITS: tuple[tuple[str, str, Any, str], ...] = (
    ("--rpm", "requests_per_minute", count, "Requests per minute."),
    ("--tpm", "tokens_per_minute", count, "Tokens per minute, in and out."),
    ("--tokens-per-day", "tokens_per_day", count, "Tokens per day, in and out."),
    ("--tokens-per-month", "tokens_per_month", count, "Tokens per month, in and out."),
    ("--cost-per-day", "cost_per_day", money, "Dollars per day."),
    ("--cost-per-month", "cost_per_month", money, "Dollars per month."),
)


def _terms(command: Command) -> Command:
    """The options that say what a key may do."""
    for option, field, kind, about in reversed(_LIMITS):
        metavar = "DOLLARS" if kind is money else "N"
        command = click.option(option, field, type=kind, metavar=metavar, help=f"{about} 0: no limit.")(
            command
        )
    command = click.option(
        "--expires", type=coming, metavar="DATE", help="When it ends: 30d, or 2026-12-31 (in UTC); 0d: never."
    )(command)
    return click.option(
        "--models",
        multiple=True,
        metavar="PATTERN",
        help="A model that may be asked for; * stands for any part of a name. May be repeated.",
    )(command)


@click.group()
def keys() -> None:
    """Make, list, change and revoke the keys that clients show.

    \b
    dragoman keys create ci --models 'claude-*' --rpm 60 --cost-per-day 5
    dragoman keys list
    dragoman keys revoke ci

    As soon as there is one key, the gateway asks everybody for one. A running gateway notices every change
    within a second; none needs to run.
    """


@keys.command()
@click.argument("name")
@_terms
@_json
@_config
def create(
    name: str, path: str | None, as_json: bool, models: tuple[str, ...], expires: float | None, **limits: Any
) -> None:
    """Make a key and print it, once: only its hash is kept."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"expected a name of letters, digits, `.`, `_`, `@` and `-`, got {name!r}",
            hint="such as ci",
        )
    now = time.time()
    made, key = in_state(
        path,
        partial(
            client_keys.create_key,
            name=name,
            now=now,
            models=models,
            limits=_limits(Limits(), limits),
            expires=_ending(expires, now),
        ),
    )
    _give(made, key, as_json=as_json)


@keys.command()
@click.argument("name")
@click.option(
    "--keep-old", type=span, default="0m", metavar="SPAN", help="How long the old key still counts: 24h, 7d."
)
@_json
@_config
def rotate(name: str, path: str | None, keep_old: float, as_json: bool) -> None:
    """Replace a key by a new one with the same name, terms and budget, and print it, once."""
    made, key = in_state(path, partial(client_keys.rotate_key, name=name, now=time.time(), keep=keep_old))
    _give(made, key, as_json=as_json)
    until = f"until {date_text(made.former_until)}" if made.former_until else "no more"
    click.echo(f"the old key counts {until}", err=True)


@keys.command()
@click.argument("name")
@_terms
@_json
@_config
def change(
    name: str, path: str | None, as_json: bool, models: tuple[str, ...], expires: float | None, **limits: Any
) -> None:
    """Change what a key may do; what is not named stays. `--models '*'` allows all models again."""
    now = time.time()

    def work(connection: sqlite3.Connection) -> tuple[ClientKey, Account]:
        caller = client_keys.get_key(connection, name).caller
        changed = client_keys.change_key(
            connection,
            name,
            models=models or caller.models,
            limits=_limits(caller.limits, limits),
            expires=caller.expires if expires is None else _ending(expires, now),
        )
        return changed, read_account(connection, caller.id, now)

    _print(*in_state(path, work), as_json=as_json)


@keys.command()
@click.argument("name")
@click.option("--delete", is_flag=True, help="Forget it altogether, so that its name can be used again.")
@_config
def revoke(name: str, path: str | None, delete: bool) -> None:
    """Make a key worthless from now on. Replies that are under way are finished."""
    if delete:
        in_state(path, partial(client_keys.delete_key, name=name))
        click.echo(f"{name} is deleted", err=True)
        return
    revoked = in_state(path, partial(client_keys.revoke_key, name=name, now=time.time()))
    click.echo(f"{name} is revoked since {date_text(revoked.revoked)}", err=True)


@keys.command()
@click.argument("name")
@_json
@_config
def show(name: str, path: str | None, as_json: bool) -> None:
    """Show what a key may do, and what it has used of its list_budgets."""
    now = time.time()

    def work(connection: sqlite3.Connection) -> tuple[ClientKey, Account]:
        key = client_keys.get_key(connection, name)
        return key, read_account(connection, key.caller.id, now)

    _print(*in_state(path, work), as_json=as_json)


@keys.command(name="list")
@_json
@_config
def list_keys(path: str | None, as_json: bool) -> None:
    """List the keys, the oldest first."""
    now = time.time()

    def work(connection: sqlite3.Connection) -> list[tuple[ClientKey, Account]]:
        listed = client_keys.list_keys(connection)
        return [(key, read_account(connection, key.caller.id, now)) for key in listed]

    found = in_state(path, work)
    if as_json:
        click.echo(_encoded([_told(key, held, now) for key, held in found]))
        return
    if not found:
        click.echo("there are no keys; make one: dragoman keys create NAME", err=True)
        return
    heading = ("NAME", "KEY", "STATE", "MODELS", "LIMITS", "TODAY", "THIS MONTH")
    click.echo("\n".join(table([heading, *(_row(key, held, now) for key, held in found)])))


def _limits(limits: Limits, given: dict[str, int | None]) -> Limits:
    changes = {name: value for name, value in given.items() if value is not None}
    return msgspec.structs.replace(limits, **changes)


def _ending(expires: float | None, now: float) -> float:
    """`0d` is never; any other date must be one that is still to come."""
    if expires is None or abs(expires - now) < 1:
        return 0.0
    if expires < now:
        raise ConfigError(f"{date_text(expires)} is over", hint="name a later date, or a span such as 30d")
    return expires


def _give(made: ClientKey, key: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(_encoded({"name": made.caller.name, "id": made.caller.id, "key": key}))
        return
    click.echo(key)
    click.echo(
        f"this is the key {made.caller.name!r}; it is not shown again. Clients send it as their API key:\n"
        "  DRAGOMAN_KEY=… dragoman run claude",
        err=True,
    )


def _state(key: ClientKey, now: float) -> str:
    if key.revoked:
        return "revoked"
    if key.caller.expires and now >= key.caller.expires:
        return "expired"
    return f"until {date_text(key.caller.expires)}" if key.caller.expires else "valid"


def _row(key: ClientKey, held: Account, now: float) -> tuple[str, ...]:
    caller = key.caller
    day, month = held.used["day"], held.used["month"]
    return (
        caller.name,
        f"{key.prefix}…",
        _state(key, now),
        " ".join(caller.models) or "all",
        ", ".join(_limit_texts(caller.limits)) or "none",
        _used(day),
        _used(month),
    )


def _used(amount: Amount) -> str:
    return f"{format_amount('tokens', amount.tokens)}, {format_dollars(amount.cost)}"


def _limit_texts(limits: Limits) -> list[str]:
    texts = []
    if limits.requests_per_minute:
        texts.append(f"{format_amount('requests', limits.requests_per_minute)}/minute")
    if limits.tokens_per_minute:
        texts.append(f"{format_amount('tokens', limits.tokens_per_minute)}/minute")
    texts += [f"{format_amount(each.unit, each.limit)}/{each.period}" for each in list_budgets(limits)]
    return texts


def _print(key: ClientKey, held: Account, *, as_json: bool) -> None:
    now = time.time()
    if as_json:
        click.echo(_encoded(_told(key, held, now)))
        return
    caller = key.caller
    rows = [
        ("name", caller.name),
        ("id", caller.id),
        ("key", f"{key.prefix}…"),
        ("state", _state(key, now)),
        ("created", date_text(key.created)),
        ("models", " ".join(caller.models) or "all"),
        ("limits", ", ".join(_limit_texts(caller.limits)) or "none"),
        ("today", _used(held.used["day"])),
        ("this month", _used(held.used["month"])),
    ]
    if held.reserved["month"] != Amount():
        rows.append(("set aside", _used(held.reserved["month"])))
    click.echo("\n".join(table(rows)))


def _told(key: ClientKey, held: Account, now: float) -> dict[str, object]:
    """For machines: times in seconds since the epoch, money in micro-format_dollars."""
    caller = key.caller
    return {
        "name": caller.name,
        "id": caller.id,
        "prefix": key.prefix,
        "state": _state(key, now).partition(" ")[0].replace("until", "valid"),
        "created": key.created,
        "expires": caller.expires or None,
        "revoked": key.revoked or None,
        "models": caller.models,
        "limits": {field: getattr(caller.limits, field) or None for field in Limits.__struct_fields__},
        "used": {period: amount._asdict() for period, amount in held.used.items()},
        "reserved": {period: amount._asdict() for period, amount in held.reserved.items()},
    }


def _encoded(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
