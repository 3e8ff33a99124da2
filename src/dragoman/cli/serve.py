"""`dragoman serve`: runs the gateway in the foreground."""

import socket

import click
import msgspec

from dragoman.cli.connection import build_url, find_running, program_name
from dragoman.cli.files import has_stored_keys
from dragoman.cli.formats import config_option
from dragoman.cli.process import ConfigReader, run_gateway
from dragoman.config.model import Config
from dragoman.hub.errors import ConfigError
from dragoman.routing.choose import list_model_names
from dragoman.server.run import bind, ignore_early_hangup

NO_FILE = "no configuration: the embedded model answers for every model name"


@click.command()
@config_option
@click.option("--host", help="Listen on this address.")
@click.option("--port", type=click.IntRange(0, 65535), help="Listen on this port. 0 selects a free one.")
def serve(path: str | None, host: str | None, port: int | None) -> None:
    """Serve the APIs of all agents on one port.

    Without a configuration file the gateway serves the embedded model. It needs no key and no network, and
    shows that your agent reaches the gateway. `dragoman init` writes a configuration file.
    """
    reader = ConfigReader(path)
    changes = {name: value for name, value in (("host", host), ("port", port)) if value is not None}

    def read() -> Config:
        config = reader.read()
        return msgspec.structs.replace(config, server=msgspec.structs.replace(config.server, **changes))

    config = read()
    requires_key = has_stored_keys(config)
    ignore_early_hangup()
    listener = _bind(config, requires_key=requires_key)
    address, actual = listener.getsockname()[:2]
    shown = f"[{address}]" if ":" in address else address
    click.echo(f"dragoman listens on http://{shown}:{actual}  ({config.path or NO_FILE})", err=True)
    click.echo(_build_banner(config, build_url(address, actual), requires_key=requires_key), err=True)
    run_gateway(config, listener, read)


def _bind(config: Config, *, requires_key: bool) -> socket.socket:
    """The listening socket. If another gateway has the port, the error names it."""
    try:
        return bind(config, has_stored_keys=requires_key)
    except ConfigError:
        running = find_running(config)
        if running is None:
            raise
        hint = "`dragoman status` shows what it does; `--port 0` starts another one on a free port"
        raise ConfigError(f"a dragoman already listens on {running.url}", hint=hint) from None


def _build_banner(config: Config, url: str, *, requires_key: bool) -> str:
    """Commands that work on this machine when they are copied."""
    keys = config.server.keys
    key = f'"${keys[0].variable}"' if keys and keys[0].variable else "KEY"
    header = f" -H x-api-key:{key}" if keys or requires_key else ""
    key = key if header else "any"
    model = next(iter(list_model_names(config)), "any")
    program = program_name()
    own_model = f"{program} init writes a file, and the gateway loads it"
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

Stop with Ctrl-C."""
