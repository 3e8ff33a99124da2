"""Where an agent finds the gateway: the options that `env` and `run` share, and what follows from them."""

from collections.abc import Callable
from typing import Any

import click

from dragoman.cli.launch import Agent, Door
from dragoman.cli.state import has_stored_keys
from dragoman.config.model import Config
from dragoman.hub.errors import ConfigError
from dragoman.routing.choose import ModelNotFound, choose, model_names

#: Clients insist on having a key, also where none is asked for.
ANY_KEY = "dragoman"
#: The variable in which `run` passes a key to a gateway that it starts, where one is needed.
KEY_VARIABLE = "DRAGOMAN_COMPANION_KEY"

#: Addresses that can be listened on but not called.
_EVERYWHERE = {".".join("0000"): "127.0.0.1", "::": "::1", "": "127.0.0.1"}


def door_options(command: Callable[..., None]) -> Callable[..., None]:
    options: list[Callable[[Callable[..., Any]], Callable[..., Any]]] = [
        click.option(
            "--config", "path", metavar="FILE", help="The gateway's configuration, if not the usual one."
        ),
        click.option("--model", default="", metavar="NAME", help="The model that the agent shall ask for."),
        click.option(
            "--url", default="", metavar="URL", help="The address of a gateway that runs elsewhere."
        ),
        click.option(
            "--key", default="", metavar="KEY", envvar="DRAGOMAN_KEY", help="The client key to show there."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def door_to(agent: Agent, url: str, config: Config | None, *, key: str, model: str) -> Door:
    """The door at this address; what the options leave open is taken from the gateway's configuration."""
    names = tuple(model_names(config)) if config else ()
    if not model and not _is_served(agent.asks_for, config):
        if not names and not agent.asks_for:
            raise ConfigError(f"which model shall {agent.title} ask for?", hint="--model NAME")
        model = names[0] if names else ""
    return Door(
        url=url.rstrip("/").removesuffix("/v1"),
        key=key or _key(config),
        model=model,
        names=names,
    )


def _is_served(model: str, config: Config | None) -> bool:
    """Whether the gateway knows what to do with this name; nobody knows of one that runs elsewhere."""
    if not model or config is None:
        return bool(model)
    try:
        choose(config, model)
    except ModelNotFound:
        return False
    return True


def _key(config: Config | None) -> str:
    if config is None:
        return ANY_KEY
    if not config.server.keys:
        if has_stored_keys(config):
            raise ConfigError("the gateway asks for a client key", hint="--key KEY, or export DRAGOMAN_KEY=…")
        return ANY_KEY
    first = config.server.keys[0]
    if not first:
        raise ConfigError(
            f"the gateway asks for a key, and {first.variable} is not set",
            hint=f"export {first.variable}=…, or --key KEY",
        )
    return first.reveal()


def address(config: Config) -> str:
    """Where a gateway of this configuration can be called."""
    return called(config.server.host, config.server.port)


def called(host: str, port: int) -> str:
    """The address under which to call what listens there."""
    host = _EVERYWHERE.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
