"""What is publicly known about models: one file for each vendor, and one for what people run themselves.

Files grow old: `checked` says how old. A fact that nobody could support is left out, and then the dialect's
own facts hold. Entries apply in the order of the file, so the general ones come first.
"""

import tomllib
from datetime import date
from functools import cache
from importlib.resources import files

import msgspec


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """The models of one vendor, by pattern."""

    #: When the facts were compared with what is published.
    checked: date
    models: dict[str, dict[str, object]]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    checked: date
    models: list[dict[str, object]]


@cache
def catalogue(name: str) -> Catalogue | None:
    """What is known of a vendor's models, if anything is."""
    file = files("dragoman.providers.catalogue").joinpath(f"{name}.toml")
    if not file.is_file():
        return None
    found = msgspec.convert(tomllib.loads(file.read_text("utf-8")), _File)
    models: dict[str, dict[str, object]] = {}
    for entry in found.models:
        facts = {fact: value for fact, value in entry.items() if fact != "match"}
        for pattern in msgspec.convert(entry["match"], list[str]):
            models[pattern] = {**models.get(pattern, {}), **facts}
    return Catalogue(checked=found.checked, models=models)
