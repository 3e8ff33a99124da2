"""All formats by name. A module of `formats` that lists its own in `FORMATS` is all it takes to add one."""

import pkgutil
from functools import cache
from importlib import import_module

from dragoman.governance.harvest import formats
from dragoman.governance.harvest.format import Format

#: Instead of a family's name: whatever is safe to believe without knowing the family.
AUTO = "auto"


@cache
def families() -> dict[str, Format]:
    """Every format; they are loaded when first asked for, because many who run this never ask."""
    found: dict[str, Format] = {}
    for module in sorted(pkgutil.iter_modules(formats.__path__), key=lambda module: module.name):
        listed: tuple[Format, ...] = import_module(f"{formats.__name__}.{module.name}").FORMATS
        found.update((each.name, each) for each in listed)
    return found
