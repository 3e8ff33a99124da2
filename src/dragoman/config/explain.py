"""Each fact about a model, and who says so.

From the weakest voice to the strongest: the dialect, the preset, the catalogue, the doctor, the file.
"""

from collections.abc import Iterable

import msgspec

from dragoman.config.facts import facts
from dragoman.config.model import Provider
from dragoman.providers.dialect_facts import DIALECT_FACTS
from dragoman.providers.facts import PERMISSIVE, list_changes


class Said(msgspec.Struct, frozen=True):
    """What one source says."""

    value: object
    source: str


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """What holds, and what a weaker source said otherwise."""

    name: str
    value: object
    source: str
    instead_of: Said | None = None


def explained(provider: Provider, model: str, *, dialect_too: bool = False) -> list[Fact]:
    """What is known about a model, in the order of the documentation.

    What is known of the dialect alone, and so of every model that speaks it, is told if wanted.
    """
    dialect = provider.wire_dialect
    known: dict[str, list[Said]] = {}
    _hear(known, f"dialect {dialect}", list_changes(DIALECT_FACTS.get(dialect, PERMISSIVE)).items())
    of_dialect = {name: list(said) for name, said in known.items()}
    for source, stated in provider.sources(model):
        _hear(known, source, stated.items())
    return [
        _fact(name, known[name])
        for name in facts()
        if name in known and (dialect_too or known[name] != of_dialect.get(name))
    ]


def _hear(known: dict[str, list[Said]], source: str, stated: Iterable[tuple[str, object]]) -> None:
    for name, value in stated:
        known.setdefault(name, []).append(Said(plain(value), source))


def _fact(name: str, said: list[Said]) -> Fact:
    last = said[-1]
    others = [each for each in said if each.value != last.value]
    return Fact(name=name, value=last.value, source=last.source, instead_of=others[-1] if others else None)


def plain(value: object) -> object:
    """A value as a file would say it: sets in order, tuples as lists."""
    if isinstance(value, frozenset):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value
