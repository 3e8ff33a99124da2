"""Writes a configuration as TOML: short tables in one line, long ones under a heading of their own."""

import re
from collections.abc import Iterator, Mapping

import msgspec

Table = Mapping[str, object]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
#: Tables of a provider that have headings.
_HEADED = ("models", "governance")


def written(
    server: Table, providers: Mapping[str, Table], routes: Mapping[str, list[str]], origin: str
) -> str:
    parts = [f"# Made from {origin}. `dragoman config keys` explains every key.\n"]
    if server:
        parts.append("[server]\n" + "".join(_pairs(server)))
    for name, provider in providers.items():
        parts.append("\n".join(_provider(f"providers.{key(name)}", provider)))
    for match, targets in routes.items():
        target = targets[0] if len(targets) == 1 else targets
        parts.append("[[routes]]\n" + "".join(_pairs({"match": match, "target": target})))
    return "\n".join(parts)


def _provider(heading: str, provider: Table) -> Iterator[str]:
    flat = {name: value for name, value in provider.items() if name not in _HEADED}
    yield f"[{heading}]\n" + "".join(_pairs(flat))
    governance = provider.get("governance")
    if isinstance(governance, dict) and governance:
        yield f"[{heading}.governance]\n" + "".join(_pairs(governance))
    models = provider.get("models")
    for model, facts in models.items() if isinstance(models, dict) else ():
        if facts:
            yield f"[{heading}.models.{key(model)}]\n" + "".join(_pairs(facts))


def _pairs(table: Table) -> Iterator[str]:
    for name, value in table.items():
        yield f"{key(name)} = {inline(value)}\n"


def inline(value: object) -> str:
    """A value in one line. Of all but tables, JSON's spelling is TOML's too."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key(name)} = {inline(item)}" for name, item in value.items()) + " }"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return msgspec.json.encode(value).decode()


def key(name: str) -> str:
    return name if _BARE.fullmatch(name) else msgspec.json.encode(name).decode()
