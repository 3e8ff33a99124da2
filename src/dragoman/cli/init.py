"""`dragoman init`: writes a configuration file with comments."""

import os
import sys
from pathlib import Path

import click
import msgspec

from dragoman.cli.connection import program_name
from dragoman.cli.files import write_private
from dragoman.config.load import load
from dragoman.hub.errors import ConfigError
from dragoman.providers.local_programs import LOCAL_PROGRAMS, LocalProgram
from dragoman.providers.presets import load_presets

TEMPLATE = """\
# Maps the model names that agents request to providers. `dragoman config keys` lists every key.

[server]
host = "127.0.0.1"                # other addresses need `keys`
port = 8484
# keys = ["env:DRAGOMAN_KEY"]     # keys that clients must send

[providers.{provider}]
preset = "{provider}"
{key}{model_facts}
# Requests for any model go to this target. Exact names are matched first, then patterns in their order.
[[routes]]
match = "*"
target = {target}
# target = [{target}, "another/model"]   # if the first target fails, the next one is tried
# strict = true                   # refuse requests that cannot be translated without loss

# [routes.governance]             # for models that make mistakes in tool calls
# tools = "hold"                  # check and repair each call before the agent gets it
# harvest = "auto"                # convert calls that the model writes as text
"""

MODEL_FACTS = """
# [providers.{provider}.models.{model}]
# images = false                  # facts about the model: `dragoman config keys models`
"""


@click.command()
@click.option("--provider", type=click.Choice(sorted(load_presets())), help="Provider of the model.")
@click.option("--model", metavar="NAME", help="The provider's name of the model.")
@click.option(
    "--file", "path", default="dragoman.toml", show_default=True, metavar="FILE", help="File to write."
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def init(provider: str | None, model: str | None, path: str, force: bool) -> None:
    """Write a configuration file.

    \b
    dragoman init
    dragoman init --provider ollama --model qwen3-coder

    Asks for the provider and the model if the options do not name them. The file contains no keys, only the
    names of the environment variables that hold them.
    """
    if Path(path).exists() and not force:
        raise ConfigError(f"{path} exists already", hint="--force overwrites it, --file writes another file")
    provider = provider or _ask_provider()
    model = model or _ask_model(provider)
    variable = load_presets()[provider].key
    text = build_config(provider, model)
    load(text, path, {variable: "to be set"})
    write_private(path, text, replace=force)
    click.echo(f"wrote {path}")
    steps = [f"export {variable}=…"] if variable and not os.environ.get(variable) else []
    # An agent as a provider serves applications; `run claude` would put Claude Code in front of itself.
    program = _find_program(provider)
    command = "serve" if program and program.is_agent else "run claude"
    for step in (*steps, f"{program_name()} {command}"):
        click.echo(f"next: {step}", err=True)


def build_config(provider: str, model: str) -> str:
    """The text of the file. `provider` is the name of a preset."""
    # A JSON string is a valid TOML string.
    target, name = (msgspec.json.encode(text).decode() for text in (f"{provider}/{model}", model))
    variable = load_presets()[provider].key
    return TEMPLATE.format(
        provider=provider,
        target=target,
        key=f'api_key = "env:{variable}"\n' if variable else "",
        model_facts="" if _is_stand_in(provider) else MODEL_FACTS.format(provider=provider, model=name),
    )


def _find_program(preset: str) -> LocalProgram | None:
    return LOCAL_PROGRAMS.get(load_presets()[preset].dialect)


def _is_stand_in(preset: str) -> bool:
    """Whether the provider answers for every model name, so that a model has no name and no facts."""
    program = _find_program(preset)
    return program is not None and program.is_stand_in


def _ask_provider() -> str:
    known = sorted(load_presets())
    if not sys.stdin.isatty():
        raise ConfigError("--provider is missing", hint=f"--provider, one of {', '.join(known)}")
    return str(click.prompt("Provider", type=click.Choice(known), default="ollama"))


def _ask_model(provider: str) -> str:
    if _is_stand_in(provider):
        return provider
    if not sys.stdin.isatty():
        raise ConfigError("--model is missing", hint="--model NAME, with the provider's name of the model")
    return str(click.prompt("Model (the provider's name of it)"))
