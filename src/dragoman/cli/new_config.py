"""The text of a new configuration file, with comments."""

from collections.abc import Mapping

import msgspec

from dragoman.cli.formats import format_value
from dragoman.providers.local_programs import LOCAL_PROGRAMS, LocalProgram
from dragoman.providers.presets import load_presets

_TEMPLATE = """\
# Maps the model names that agents request to providers. `dragoman config keys` lists every key.

[server]
host = "127.0.0.1"                # other addresses need `keys`
port = 8484
# keys = ["env:DRAGOMAN_KEY"]     # keys that clients must send

[providers.{provider}]
preset = "{provider}"
{address}{key}{model_facts}
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

_NO_FACTS = """
# [providers.{provider}.models.{model}]
# context_tokens = 32768          # facts about the model: `dragoman config keys models`
# images = false
"""
_FACTS = """
# What the server reports about the model, and what tests of it have shown. See `dragoman config keys models`.
[providers.{provider}.models.{model}]
{facts}
"""


def build_config(
    provider: str, model: str, *, base_url: str = "", facts: Mapping[str, object] | None = None
) -> str:
    """The text of the file. `provider` is the name of a preset, `base_url` its address if it is unusual."""
    # A JSON string is a valid TOML string.
    target, name = (msgspec.json.encode(text).decode() for text in (f"{provider}/{model}", model))
    variable = load_presets()[provider].key
    lines = "\n".join(f"{key} = {format_value(value)}" for key, value in (facts or {}).items())
    template = _FACTS if lines else "" if is_stand_in(provider) else _NO_FACTS
    return _TEMPLATE.format(
        provider=provider,
        target=target,
        address=f"base_url = {msgspec.json.encode(base_url).decode()}\n" if base_url else "",
        key=f'api_key = "env:{variable}"\n' if variable else "",
        model_facts=template.format(provider=provider, model=name, facts=lines),
    )


def find_program(preset: str) -> LocalProgram | None:
    """The local program of a preset; None if its provider is called over HTTP."""
    return LOCAL_PROGRAMS.get(load_presets()[preset].dialect)


def is_stand_in(preset: str) -> bool:
    """Whether the provider answers for every model name, so that a model has no name and no facts."""
    program = find_program(preset)
    return program is not None and program.is_stand_in
