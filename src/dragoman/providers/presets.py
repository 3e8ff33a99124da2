"""The shipped data about providers and models: `presets.toml`, and the files in `catalogue/`.

A preset is a known provider. A catalogue file has published facts about single models: one file for each
vendor, and `local.toml` for models that users host. `checked` is the date of the last comparison with the
vendor's pages. A fact without a reliable source is left out, so that the facts of the dialect hold.
"""

import tomllib
from datetime import date
from functools import cache
from importlib.resources import files

import msgspec

from dragoman.providers.local_programs import LOCAL_PROGRAMS

_DATA = files("dragoman.providers")


class Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A known provider."""

    dialect: str
    base_url: str = ""
    #: The environment variable that usually holds its key.
    key: str = ""
    #: Its `gen_ai.provider.name` in OpenTelemetry's conventions; empty: that of its API.
    telemetry_provider: str = ""
    #: Facts about all of its models.
    facts: dict[str, object] = {}
    #: The catalogue file with facts about its models; empty: the file of the preset's name.
    catalogue: str = ""
    #: The default governance of its models' tool calls.
    governance: dict[str, object] = {}


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """The models of one vendor: facts by name pattern, general patterns first."""

    checked: date
    models: dict[str, dict[str, object]]
    #: No other provider with a catalogue has these models.
    exclusive: bool = False


class _CatalogueFile(msgspec.Struct, forbid_unknown_fields=True):
    """A file as it is written: each entry has its patterns in `match`."""

    checked: date
    models: list[dict[str, object]]
    exclusive: bool = False


@cache
def load_presets() -> dict[str, Preset]:
    """All presets, by name: those of `presets.toml`, and one for each local program."""
    text = _DATA.joinpath("presets.toml").read_text("utf-8")
    presets = msgspec.convert(tomllib.loads(text), dict[str, Preset])
    for name, program in LOCAL_PROGRAMS.items():
        presets[program.preset or name] = Preset(dialect=name, facts=program.facts)
    return presets


def list_catalogues() -> list[str]:
    """The names of all catalogue files."""
    names = (file.name for file in _DATA.joinpath("catalogue").iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


@cache
def load_catalogue(name: str) -> Catalogue | None:
    """The facts in the file of this name; None if there is no such file."""
    file = _DATA.joinpath("catalogue", f"{name}.toml")
    if not file.is_file():
        return None
    found = msgspec.convert(tomllib.loads(file.read_text("utf-8")), _CatalogueFile)
    models: dict[str, dict[str, object]] = {}
    for entry in found.models:
        facts = {fact: value for fact, value in entry.items() if fact != "match"}
        for pattern in msgspec.convert(entry["match"], list[str]):
            models[pattern] = {**models.get(pattern, {}), **facts}
    return Catalogue(checked=found.checked, models=models, exclusive=found.exclusive)
