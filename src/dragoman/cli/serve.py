"""`dragoman serve`: the gateway in the foreground."""

import click
import msgspec

from dragoman.cli.door import called
from dragoman.cli.start import Source, serve_here
from dragoman.cli.state import has_stored_keys
from dragoman.config.model import Config
from dragoman.routing.choose import model_names
from dragoman.server.run import bind

NO_FILE = "no configuration: every model name reaches the embedded model"


@click.command()
@click.option(
    "--config", "path", metavar="FILE", help="The configuration; without it dragoman.toml is looked for."
)
@click.option("--host", help="Listen on this address instead.")
@click.option("--port", type=click.IntRange(0, 65535), help="Listen on this port; 0 picks a free one.")
def serve(path: str | None, host: str | None, port: int | None) -> None:
    """Serve every agent's API on one port.

    Without a configuration file it serves the embedded model: no key, no network, to see that your agent
    gets through. `dragoman init` writes a file to grow from.
    """
    source = Source(path)
    changes = {name: value for name, value in (("host", host), ("port", port)) if value is not None}

    def read() -> Config:
        config = source.read()
        return msgspec.structs.replace(config, server=msgspec.structs.replace(config.server, **changes))

    config = read()
    asks_for_keys = has_stored_keys(config)
    listener = bind(config, has_stored_keys=asks_for_keys)
    address, actual = listener.getsockname()[:2]
    shown = f"[{address}]" if ":" in address else address
    click.echo(f"dragoman listens on http://{shown}:{actual}  ({config.path or NO_FILE})", err=True)
    click.echo(_welcome(config, called(address, actual), asks_for_keys=asks_for_keys), err=True)
    serve_here(config, listener, read)


def _welcome(config: Config, url: str, *, asks_for_keys: bool) -> str:
    """Commands that work as they stand, on this machine."""
    keys = config.server.keys
    key = f'"${keys[0].variable}"' if keys and keys[0].variable else "KEY"
    shown = f" -H x-api-key:{key}" if keys or asks_for_keys else ""
    key = key if shown else "any"
    model = next(iter(model_names(config)), "any")
    return f"""
  Claude Code   ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY={key} claude
  OpenAI SDKs   OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY={key} python app.py
  Any agent     dragoman run claude | codex | gemini | opencode

  Try it        curl -s {url}/v1/responses{shown} -d '{{"model": "{model}", "input": "hello"}}'

  How it does   dragoman status         New settings   save the file: they are taken over at once

Stop with Ctrl-C."""
