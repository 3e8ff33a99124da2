"""`dragoman keys`: creates, lists, changes and revokes client keys."""

import os
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import click
import msgspec

from dragoman.accounts import keys as client_keys
from dragoman.accounts.errors import format_amount, format_dollars
from dragoman.accounts.key_report import describe_key, find_key_state
from dragoman.accounts.keys import ClientKey
from dragoman.accounts.limits import Account, Amount, Limits, list_budgets, list_rates, list_session_limits
from dragoman.accounts.store import read_account
from dragoman.cli.completion import complete_keys
from dragoman.cli.files import has_stored_keys, use_state
from dragoman.cli.formats import (
    config_option,
    format_date,
    format_json,
    format_table,
    json_option,
    parse_count,
    parse_future_date,
    parse_money,
    parse_span,
)
from dragoman.config.find import find_config, find_state_folder
from dragoman.hub.errors import ConfigError
from dragoman.storage.port import Transaction

#: Names of keys appear in logs, tables and messages.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")

Command = Callable[..., None]

#: The option of each limit, the field that it sets, its parser and its help text.
_LIMITS: tuple[tuple[str, str, Any, str], ...] = (
    ("--rpm", "requests_per_minute", parse_count, "Requests per minute."),
    ("--tpm", "tokens_per_minute", parse_count, "Tokens per minute, in and out."),
    ("--tokens-per-day", "tokens_per_day", parse_count, "Tokens per day, in and out."),
    ("--tokens-per-month", "tokens_per_month", parse_count, "Tokens per month, in and out."),
    ("--cost-per-day", "cost_per_day", parse_money, "Dollars per day."),
    ("--cost-per-month", "cost_per_month", parse_money, "Dollars per month."),
    ("--tokens-per-session", "tokens_per_session", parse_count, "Tokens of one session of an agent."),
    ("--cost-per-session", "cost_per_session", parse_money, "Dollars of one session of an agent."),
    ("--tokens-per-sub-agent", "tokens_per_sub_agent", parse_count, "Tokens of one sub-agent."),
    ("--cost-per-sub-agent", "cost_per_sub_agent", parse_money, "Dollars of one sub-agent."),
)


def _limit_options(command: Command) -> Command:
    """The options that limit what a key can do."""
    for option, field, parse, about in reversed(_LIMITS):
        metavar = "DOLLARS" if parse is parse_money else "N"
        add = click.option(option, field, type=parse, metavar=metavar, help=f"{about} 0: no limit.")
        command = add(command)
    expires = "Expiry date: 30d, or 2026-12-31 (UTC). 0d: never."
    command = click.option("--expires", type=parse_future_date, metavar="DATE", help=expires)(command)
    models = "Model name that the key can request. * matches any part of a name. Can be repeated."
    return click.option("--models", multiple=True, metavar="PATTERN", help=models)(command)


@click.group()
def keys() -> None:
    """Create, list, change and revoke client keys.

    \b
    dragoman keys create ci --models 'claude-*' --rpm 60 --cost-per-day 5
    dragoman keys list
    dragoman keys revoke ci

    As soon as one key exists, the gateway requires a key from every client. A running gateway applies each
    change within a second. These commands also work while no gateway runs.
    """


@keys.command()
@click.argument("name")
@_limit_options
@json_option
@config_option
def create(
    name: str, path: str | None, as_json: bool, models: tuple[str, ...], expires: float | None, **limits: Any
) -> None:
    """Create a key and print it. It cannot be printed again: only its hash is stored."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"expected a name of letters, digits, `.`, `_`, `@` and `-`, got {name!r}",
            hint="for example: ci",
        )
    now = time.time()
    config = find_config(path, os.environ, secrets=False)
    is_first = not config.server.keys and not has_stored_keys(config)
    made, key = use_state(
        path,
        partial(
            client_keys.create_key,
            name=name,
            now=now,
            models=models,
            limits=_limits(Limits(), limits),
            expires=_check_expiry(expires, now),
        ),
    )
    _print_new_key(made, key, as_json=as_json)
    if is_first:
        click.echo(
            "this is the first key: from now on every client of every gateway with this state folder\n"
            f"({find_state_folder(config, os.environ)}) needs a key, also your own agents",
            err=True,
        )


@keys.command()
@click.argument("name", shell_complete=complete_keys)
@click.option(
    "--keep-old", type=parse_span, default="0m", metavar="SPAN", help="Keep the old key valid for: 24h, 7d."
)
@json_option
@config_option
def rotate(name: str, path: str | None, keep_old: float, as_json: bool) -> None:
    """Replace a key by a new one with the same name, limits and usage, and print it."""
    made, key = use_state(path, partial(client_keys.rotate_key, name=name, now=time.time(), keep=keep_old))
    _print_new_key(made, key, as_json=as_json)
    old = f"valid until {format_date(made.former_until)}" if made.former_until else "no longer valid"
    click.echo(f"the old key is {old}", err=True)


@keys.command()
@click.argument("name", shell_complete=complete_keys)
@_limit_options
@json_option
@config_option
def change(
    name: str, path: str | None, as_json: bool, models: tuple[str, ...], expires: float | None, **limits: Any
) -> None:
    """Change the limits of a key. Other limits stay. `--models '*'` allows all models again."""
    now = time.time()

    async def work(transaction: Transaction) -> tuple[ClientKey, Account]:
        caller = (await client_keys.get_key(transaction, name)).caller
        changed = await client_keys.change_key(
            transaction,
            name,
            models=models or caller.models,
            limits=_limits(caller.limits, limits),
            expires=caller.expires if expires is None else _check_expiry(expires, now),
        )
        return changed, await read_account(transaction, caller.id, now)

    _print_key(*use_state(path, work), as_json=as_json)


@keys.command()
@click.argument("name", shell_complete=complete_keys)
@click.option("--delete", is_flag=True, help="Delete the key with its usage. Its name can be used again.")
@config_option
def revoke(name: str, path: str | None, delete: bool) -> None:
    """Revoke a key. Running replies are completed."""
    if delete:
        use_state(path, partial(client_keys.delete_key, name=name))
        click.echo(f"{name} is deleted", err=True)
        return
    revoked = use_state(path, partial(client_keys.revoke_key, name=name, now=time.time()))
    click.echo(f"{name} is revoked since {format_date(revoked.revoked)}", err=True)


@keys.command()
@click.argument("name", shell_complete=complete_keys)
@json_option
@config_option
def show(name: str, path: str | None, as_json: bool) -> None:
    """Show the limits of a key and its usage."""
    now = time.time()

    async def work(transaction: Transaction) -> tuple[ClientKey, Account]:
        key = await client_keys.get_key(transaction, name)
        return key, await read_account(transaction, key.caller.id, now)

    _print_key(*use_state(path, work), as_json=as_json)


@keys.command(name="list")
@json_option
@config_option
def list_keys(path: str | None, as_json: bool) -> None:
    """List the keys, oldest first."""
    now = time.time()

    async def work(transaction: Transaction) -> list[tuple[ClientKey, Account]]:
        stored = await client_keys.list_keys(transaction)
        return [(key, await read_account(transaction, key.caller.id, now)) for key in stored]

    found = use_state(path, work)
    if as_json:
        click.echo(format_json([describe_key(key, held, now) for key, held in found]))
        return
    if not found:
        click.echo("there are no keys; create one: dragoman keys create NAME", err=True)
        return
    heading = ("NAME", "KEY", "STATE", "MODELS", "LIMITS", "TODAY", "THIS MONTH")
    click.echo("\n".join(format_table([heading, *(_build_row(key, held, now) for key, held in found)])))


def _limits(limits: Limits, given: dict[str, int | None]) -> Limits:
    changes = {name: value for name, value in given.items() if value is not None}
    return msgspec.structs.replace(limits, **changes)


def _check_expiry(expires: float | None, now: float) -> float:
    """The expiry date; 0 for never (`0d`). Raises if the date is in the past."""
    if expires is None or abs(expires - now) < 1:
        return 0.0
    if expires < now:
        raise ConfigError(
            f"{format_date(expires)} is in the past", hint="give a later date, or a span such as 30d"
        )
    return expires


def _print_new_key(made: ClientKey, key: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(format_json({"name": made.caller.name, "id": made.caller.id, "key": key}))
        return
    click.echo(key)
    click.echo(
        f"this is the key {made.caller.name!r}; it is not shown again. Clients send it as their API key:\n"
        "  DRAGOMAN_KEY=… dragoman run claude",
        err=True,
    )


def _describe_state(key: ClientKey, now: float) -> str:
    state, expires = find_key_state(key, now), key.caller.expires
    return f"until {format_date(expires)}" if state == "valid" and expires else state


def _build_row(key: ClientKey, held: Account, now: float) -> tuple[str, ...]:
    caller = key.caller
    day, month = held.used["day"], held.used["month"]
    return (
        caller.name,
        f"{key.prefix}…",
        _describe_state(key, now),
        " ".join(caller.models) or "all",
        ", ".join(_format_limits(caller.limits)) or "none",
        _format_amount(day),
        _format_amount(month),
    )


def _format_amount(amount: Amount) -> str:
    return f"{format_amount('tokens', amount.tokens)}, {format_dollars(amount.cost)}"


def _format_limits(limits: Limits) -> list[str]:
    texts = [f"{format_amount(unit, limit)}/minute" for unit, limit in list_rates(limits)]
    texts += [f"{format_amount(each.unit, each.limit)}/{each.period}" for each in list_budgets(limits)]
    return texts + [
        f"{format_amount(unit, limit)}/{scope}" for unit, scope, limit in list_session_limits(limits)
    ]


def _print_key(key: ClientKey, held: Account, *, as_json: bool) -> None:
    now = time.time()
    if as_json:
        click.echo(format_json(describe_key(key, held, now)))
        return
    caller = key.caller
    rows = [
        ("name", caller.name),
        ("id", caller.id),
        ("key", f"{key.prefix}…"),
        ("state", _describe_state(key, now)),
        ("created", format_date(key.created)),
        ("models", " ".join(caller.models) or "all"),
        ("limits", ", ".join(_format_limits(caller.limits)) or "none"),
        ("today", _format_amount(held.used["day"])),
        ("this month", _format_amount(held.used["month"])),
    ]
    if held.reserved["month"] != Amount():
        rows.append(("reserved", _format_amount(held.reserved["month"])))
    click.echo("\n".join(format_table(rows)))
