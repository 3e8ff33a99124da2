"""`dragoman serve`: runs the gateway in the foreground, or in the background for `dragoman start`."""

import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from dragoman.cli.connection import build_url, find_running, program_name
from dragoman.cli.files import has_stored_keys
from dragoman.cli.formats import config_option, print_warnings
from dragoman.cli.notices import find_loaded_file
from dragoman.cli.process import ConfigReader, run_gateway, run_workers
from dragoman.config.config import Config
from dragoman.hub.errors import ConfigError
from dragoman.routing.choose import list_model_names
from dragoman.server.run import bind
from dragoman.server.workers import open_sockets
from dragoman.telemetry.log import log_start, set_detail, set_up_logging, use_log_file

Bound = TypeVar("Bound")

NO_FILE = "no configuration: the embedded model answers for every model name"


def serve_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of `serve` and `start`."""
    options: list[Callable[[Callable[..., Any]], Callable[..., Any]]] = [
        config_option,
        click.option("--host", help="Listen on this address."),
        click.option(
            "--port", type=click.IntRange(0, 65535), help="Listen on this port. 0 selects a free one."
        ),
        click.option("--workers", type=click.IntRange(1, 256), help="Serve the port with so many processes."),
        click.option("--verbose", is_flag=True, help="Log all fields of every exchange."),
        click.option("--quiet", is_flag=True, help="Log only failures and warnings; print no banner."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@serve_options
@click.option("--log-file", hidden=True, default="", help="Write everything to this file, for `start`.")
def serve(path: str | None, verbose: bool, quiet: bool, log_file: str, **changes: Any) -> None:
    """Serve the APIs of all agents on one port.

    Without a configuration file the gateway serves the embedded model. It needs no key and no network, and
    shows that your agent reaches the gateway. `dragoman setup` writes a configuration file.
    """
    check_detail(verbose=verbose, quiet=quiet)
    if log_file:
        use_log_file(Path(log_file))
    set_detail("verbose" if verbose else "quiet" if quiet else "normal")
    reader = ConfigReader(path)
    changes = {name: value for name, value in changes.items() if value is not None}

    def read() -> Config:
        config = reader.read()
        return msgspec.structs.replace(config, server=msgspec.structs.replace(config.server, **changes))

    config = read()
    requires_key = has_stored_keys(config)
    announce = partial(_announce, config, requires_key=requires_key, quiet=quiet, has_banner=not log_file)
    workers = config.server.workers
    if workers > 1:
        sockets = _name_running(config, lambda: open_sockets(config, workers, has_stored_keys=requires_key))
        announce(sockets[0].public)
        return run_workers(config, sockets, read, log_file)
    listener = _name_running(config, lambda: bind(config, has_stored_keys=requires_key))
    announce(listener)
    run_gateway(config, listener, read, log_path=log_file)


def check_detail(*, verbose: bool, quiet: bool) -> None:
    """Raise if both options are given."""
    if verbose and quiet:
        raise click.UsageError("--verbose and --quiet exclude each other.")


def _announce(
    config: Config, listener: socket.socket, *, requires_key: bool, quiet: bool, has_banner: bool
) -> None:
    """Print the address, the warnings and the banner; in a JSON log, one JSON line each, without a banner."""
    address, actual = listener.getsockname()[:2]
    url = f"http://{f'[{address}]' if ':' in address else address}:{actual}"
    if config.server.log == "json":
        set_up_logging("json")
        log_start(url, config.path, map(str, config.warnings))
        return
    if not quiet:
        click.echo(f"dragoman listens on {url}  ({config.path or NO_FILE})", err=True)
    print_warnings(config)
    if has_banner and not quiet:
        click.echo(_build_banner(config, build_url(address, actual), requires_key=requires_key), err=True)


def _name_running(config: Config, bind: Callable[[], Bound]) -> Bound:
    """The listening sockets that `bind` opens. If another gateway has the port, the error names it."""
    try:
        return bind()
    except ConfigError:
        running = find_running(config)
        if running is None:
            raise
        program = program_name()
        loaded = config.absolute_path or "no configuration file"
        if not running.is_own:
            loaded = find_loaded_file(running.url, os.environ) or "another configuration"
        hint = (
            f"`{program} status` shows what it does, `{program} reload` loads a changed file; "
            "`--port 0` starts another gateway on a free port"
        )
        message = f"a dragoman already listens on {running.url}, with {loaded}"
        raise ConfigError(message, hint=hint) from None


def _build_banner(config: Config, url: str, *, requires_key: bool) -> str:
    """Commands that work on this machine when they are copied."""
    keys = config.server.keys
    key = f'"${keys[0].variable}"' if keys and keys[0].variable else "KEY"
    header = f" -H x-api-key:{key}" if keys or requires_key else ""
    key = key if header else "any"
    model = next(iter(list_model_names(config)), "any")
    program = program_name()
    own_model = f"{program} setup finds one and writes the file that the gateway then loads"
    if config.path:
        own_model = f"edit {config.path}: the gateway reloads it"
    # Claude Code takes a token without a question. For a key it asks, and recommends not to use it.
    return f"""
  Claude Code   ANTHROPIC_BASE_URL={url} ANTHROPIC_AUTH_TOKEN={key} claude
  OpenAI SDKs   OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY={key} python app.py
  Any agent     {program} run claude | codex | gemini | opencode

  Try it        curl -s {url}/v1/responses{header} -d '{{"model": "{model}", "input": "hello"}}'

  Your model    {own_model}
  Status        {program} status
  Web page      {url}/   `{program} page` prints its token

Stop with Ctrl-C."""
