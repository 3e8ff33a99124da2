"""`dragoman init`: a configuration that explains itself, asking only what it must."""

import os
import sys
from pathlib import Path

import click
import msgspec

from dragoman.config.load import load, presets
from dragoman.hub.errors import ConfigError

TEMPLATE = """\
# Which agent's model names go where. `dragoman config keys` lists every key.

[server]
host = "127.0.0.1"                # anything but loopback needs `keys`
port = 8484
# keys = ["env:DRAGOMAN_KEY"]     # what clients must show

[providers.{provider}]
preset = "{provider}"
{key}{model_facts}
# Whatever model a client asks for, it gets this one. Names go before patterns, patterns in their order.
[[routes]]
match = "*"
target = {target}
# target = [{target}, "another/model"]   # the next is tried when one fails
# strict = true                   # refuse what cannot be translated without loss

# [routes.governance]             # for models that get their tool calls wrong
# tools = "hold"                  # calls go out whole and mended
# harvest = "auto"                # calls that the model writes as text become calls
"""

MODEL_FACTS = """
# [providers.{provider}.models.{model}]
# images = false                  # facts about the model: `dragoman config keys models`
"""


@click.command()
@click.option("--provider", type=click.Choice(sorted(presets())), help="Who to call.")
@click.option("--model", metavar="NAME", help="The model, as the provider calls it.")
@click.option(
    "--file", "path", default="dragoman.toml", show_default=True, metavar="FILE", help="Where to write."
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def init(provider: str | None, model: str | None, path: str, force: bool) -> None:
    """Write a configuration file to grow from.

    \b
    dragoman init
    dragoman init --provider ollama --model qwen3-coder

    Asks for the provider and the model unless they are given. Keys stay in the environment; the file only
    says which variables hold them.
    """
    if Path(path).exists() and not force:
        raise ConfigError(f"{path} exists already", hint="--force overwrites it, --file writes elsewhere")
    provider = provider or _asked_provider()
    model = model or _asked_model(provider)
    variable = presets()[provider].key
    text = written(provider, model)
    load(text, path, {variable: "to be set"})
    write_private(path, text, replace=force)
    click.echo(f"wrote {path}")
    steps = [f"export {variable}=…"] if variable and not os.environ.get(variable) else []
    for step in (*steps, "dragoman serve, and in another terminal dragoman run claude"):
        click.echo(f"next: {step}", err=True)


def written(provider: str, model: str) -> str:
    # A JSON string is a TOML string too.
    target, name = (msgspec.json.encode(text).decode() for text in (f"{provider}/{model}", model))
    variable = presets()[provider].key
    return TEMPLATE.format(
        provider=provider,
        target=target,
        key=f'api_key = "env:{variable}"\n' if variable else "",
        model_facts="" if provider == "embedded" else MODEL_FACTS.format(provider=provider, model=name),
    )


def _asked_provider() -> str:
    known = sorted(presets())
    if not sys.stdin.isatty():
        raise ConfigError("which provider?", hint=f"--provider, one of {', '.join(known)}")
    return str(click.prompt("Provider", type=click.Choice(known), default="ollama"))


def _asked_model(provider: str) -> str:
    if provider == "embedded":
        return provider
    if not sys.stdin.isatty():
        raise ConfigError("which model?", hint="--model NAME, as the provider calls it")
    return str(click.prompt("Model, as the provider calls it"))


def write_private(path: str, text: str, *, replace: bool) -> None:
    """Keys may be written into it later, so it is for the user's eyes alone."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if replace else os.O_EXCL)
    try:
        with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}", hint="--file writes elsewhere") from None
