"""Where the gateway is: its address, the options `--url`, `--key` and `--model`, and running gateways."""

import os
import shutil
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from dragoman.accounts.keys import ANY_KEY
from dragoman.cli.agents import Agent, GatewayAccess, ModelLimits
from dragoman.cli.completion import complete_models
from dragoman.cli.files import has_stored_keys
from dragoman.cli.formats import config_option
from dragoman.cli.notices import find_live_notice
from dragoman.config.config import Config
from dragoman.config.find import find_state_folder, identify_config
from dragoman.config.provider import TargetName
from dragoman.doctor.servers import find_server_model
from dragoman.hub.errors import ConfigError
from dragoman.routing.choose import ModelNotFound, choose, list_model_names

#: Seconds that a running gateway has to answer.
ANSWER_TIMEOUT = 3.0

#: Models in the menu of an agent, and bytes of the gateway's list.
MAX_NAMES = 100
MAX_LIST = 4 * 1024 * 1024

#: Seconds that a gateway on another machine has to answer.
REMOTE_TIMEOUT = 10.0

#: Addresses that a server can listen on but that a client cannot call.
_ALL_INTERFACES = {
    "0.0.0.0": "127.0.0.1",  # noqa: S104 (compared, not bound)
    "::": "::1",
    "": "127.0.0.1",
}


def access_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of `run` and `env` that describe the gateway."""
    options: list[Callable[[Callable[..., Any]], Callable[..., Any]]] = [
        config_option,
        click.option(
            "--model",
            default="",
            metavar="NAME",
            help="Model that the agent requests.",
            shell_complete=complete_models,
        ),
        click.option("--url", default="", metavar="URL", help="Address of a gateway on another machine."),
        click.option(
            "--key", default="", metavar="KEY", envvar="DRAGOMAN_KEY", help="Client key for the gateway."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def build_access(
    agent: Agent,
    url: str,
    config: Config | None,
    *,
    key: str,
    model: str,
    listed: Mapping[str, ModelLimits] | None = None,
) -> GatewayAccess:
    """What the agent needs to use the gateway at `url`.

    `config` is the configuration of that gateway; None if it runs elsewhere. It supplies the key and the
    model if the options do not. `listed`: the models that the running gateway lists, with their limits.
    """
    listed = listed or {}
    names = tuple(dict.fromkeys((*(list_model_names(config) if config else ()), *listed)))[:MAX_NAMES]
    if model and config is not None:
        # Raises with the names that exist. Agents replace that message by one of their own.
        choose(config, model)
    if not model and not _is_served(agent.default_model, config):
        if not names and not agent.default_model:
            raise ConfigError(f"{agent.title} needs the name of a model", hint="--model NAME")
        model = names[0] if names else ""
    url = url.rstrip("/").removesuffix("/v1")
    requested = model or agent.default_model
    target = _find_target(requested, config)
    known = {name: limits for name, limits in listed.items() if limits != ModelLimits()}
    limits = known | _find_limits((requested, *names), config, asked=target if url else None)
    if not model and config is not None and requested in limits:
        model = _adopt_name(agent, config)
        limits[model or requested] = limits[requested]
        requested = model or requested
    relays_credential = config is not None and _relays_credential(requested, config)
    key = key or choose_key(config)
    return GatewayAccess(
        url=url,
        key="" if relays_credential and key == ANY_KEY else key,
        relays_credential=relays_credential,
        model=model,
        names=names,
        requested=requested,
        answering=str(target) if target else "",
        limits=limits,
    )


class GatewayModel(msgspec.Struct):
    """An entry of the gateway's model list."""

    id: str
    context_length: int = 0
    max_output_tokens: int = 0


class GatewayModels(msgspec.Struct):
    data: list[GatewayModel]


def ask_for_models(url: str, key: str) -> dict[str, ModelLimits]:
    """The models that the running gateway lists, with their limits; empty if it does not answer in time."""
    request = urllib.request.Request(f"{url}/v1/models", headers={"authorization": f"Bearer {key}"})  # noqa: S310 (only http)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT) as response:  # noqa: S310 (only http)
            found = msgspec.json.decode(response.read(MAX_LIST), type=GatewayModels)
    except (OSError, HTTPException, msgspec.MsgspecError):
        return {}
    return {
        model.id: ModelLimits(context=model.context_length, output=model.max_output_tokens)
        for model in found.data
    }


def _relays_credential(model: str, config: Config) -> bool:
    """Whether a provider with `auth = "client"` may answer the agent: by the model's route, or by a rule."""
    targets = [target for rule in config.rules for target in rule.targets]
    with suppress(ModelNotFound):
        targets += choose(config, model).targets
    return any(config.providers[target.provider].uses_client_credential for target in targets)


def _adopt_name(agent: Agent, config: Config) -> str:
    """The name of the model that answers the agent's own model names, if it takes the same route.

    Agents accept no other limits for models that they know: Claude Code takes 100,000 tokens at least.
    Empty if the agent keeps its own names.
    """
    with suppress(ModelNotFound):
        choice = choose(config, agent.default_model)
        name = choice.targets[0].model
        is_stand_in = config.providers[choice.targets[0].provider].is_stand_in
        same = (name, *agent.other_models)
        if not is_stand_in and all(choose(config, each) == choice for each in same):
            return name if name != agent.default_model else ""
    return ""


def _find_target(model: str, config: Config | None) -> TargetName | None:
    """The model that answers this name first; None if it is unknown."""
    if not model or config is None:
        return None
    with suppress(ModelNotFound):
        return choose(config, model).targets[0]
    return None


def _find_limits(
    names: tuple[str, ...], config: Config | None, asked: TargetName | None
) -> dict[str, ModelLimits]:
    """Window and output limit of the first target of each name; names without known limits are left out.

    `asked`: the target whose server is asked if its window is unknown.
    """
    found = {}
    for name in names:
        target = _find_target(name, config)
        if target is None or config is None:
            continue
        provider = config.providers[target.provider]
        facts = provider.build_profile(target.model).facts
        limits = ModelLimits(context=facts.context_tokens, output=facts.max_output_tokens)
        if target == asked and not limits.context:
            reported = find_server_model(provider, target.model)
            limits = msgspec.structs.replace(limits, context=reported.context if reported else 0)
            asked = None
        if limits != ModelLimits():
            found[name] = limits
    return found


def _is_served(model: str, config: Config | None) -> bool:
    """Whether the gateway has a target for this model name. A gateway elsewhere is assumed to have one."""
    return bool(model) and (config is None or _find_target(model, config) is not None)


def choose_key(config: Config | None) -> str:
    """The key for a gateway with this configuration; None: for one elsewhere. Raises if it is unknown."""
    if config is None:
        return ANY_KEY
    if not config.server.keys:
        if has_stored_keys(config):
            raise ConfigError("the gateway requires a client key", hint="--key KEY, or export DRAGOMAN_KEY=…")
        return ANY_KEY
    first = config.server.keys[0]
    if not first:
        raise ConfigError(
            f"the gateway requires a key, and {first.variable} is not set",
            hint=f"export {first.variable}=…, or --key KEY",
        )
    return first.reveal()


def build_url(host: str, port: int) -> str:
    """The URL for clients on this machine of a server that listens on `host` and `port`."""
    host = _ALL_INTERFACES.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def gateway_url(config: Config) -> str:
    """The URL of a gateway with this configuration."""
    return build_url(config.server.host, config.server.port)


class RunningGateway(msgspec.Struct, frozen=True):
    """A gateway at the configured address. `is_own`: it has loaded the same configuration file.

    Without a file: it is a gateway of the same user.
    """

    url: str
    is_own: bool


def find_running(config: Config) -> RunningGateway | None:
    """The gateway that runs at the configured address; None if there is none."""
    return _identify(gateway_url(config), config)


def find_own_gateway(config: Config) -> RunningGateway | None:
    """The running gateway that was started with this configuration file, at any address.

    Without one, any gateway at the configured address.
    """
    notice = find_live_notice(config.path, os.environ)
    if notice and not notice.is_child:
        found = _identify(notice.url, config)
        if found and found.is_own:
            return found
    return find_running(config)


def _identify(url: str, config: Config) -> RunningGateway | None:
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=0.5) as connection:
            # A gateway accepts connections before it is ready to answer.
            connection.settimeout(ANSWER_TIMEOUT)
            connection.sendall(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
    except OSError:
        return None
    if b'"service":"dragoman"' not in answer:
        return None
    own = identify_config(config.path, find_state_folder(config, os.environ))
    return RunningGateway(url, is_own=own.encode() in answer)


def check_url(url: str) -> str:
    """The address of a gateway without its path `/v1`. Raises if it is not an HTTP address."""
    parts = None
    with suppress(ValueError):
        parts = urlsplit(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{url!r} is not an HTTP address", hint="for example --url http://127.0.0.1:8484")
    return url.rstrip("/").removesuffix("/v1")


def check_answer(url: str) -> None:
    """Raise if no server answers at `url`. Uses the proxies of the environment, as agents do."""
    try:
        address = f"{url}/health"
        with urllib.request.urlopen(address, timeout=REMOTE_TIMEOUT) as response:  # noqa: S310 (only http)
            is_dragoman = b'"service":"dragoman"' in response.read(65_536)
    except urllib.error.HTTPError:
        is_dragoman = False
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        text = getattr(reason, "strerror", None) or reason
        hint = "check the address; without --url, `dragoman run` uses or starts a gateway on this machine"
        raise ConfigError(f"no gateway answers at {url}: {text}", hint=hint) from None
    if not is_dragoman:
        click.echo(f"warning: the server at {url} does not identify itself as dragoman", err=True)


def program_name() -> str:
    """How the user can call this program: `dragoman` if it is on the PATH, otherwise its path."""
    called = Path(sys.argv[0])
    return "dragoman" if shutil.which("dragoman") or called.name != "dragoman" else str(called)
