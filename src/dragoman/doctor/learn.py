"""Writes the learned profile: what was found out about a model, where the configuration looks for it."""

import os
import re
from pathlib import Path

import msgspec

from dragoman.config.learned import learned_file, read_learned
from dragoman.config.model import Config, Models
from dragoman.doctor.finding import Examination, Facts
from dragoman.hub.errors import ConfigError

HEADING = """\
# What `dragoman doctor --write` found out about models. It outweighs what ships with dragoman, and the
# configuration outweighs it. Safe to edit and to delete.
"""
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def write_learned(config: Config, examination: Examination) -> Path:
    """Keep what was learned about the model, beside what is known of others."""
    if not config.path:
        raise ConfigError(
            "there is no configuration to write the profile beside", hint="`dragoman init` writes one"
        )
    path = learned_file(config.path)
    known = read_learned(path.read_text("utf-8"), str(path)) if path.is_file() else {}
    provider, _, model = examination.target.partition("/")
    models = known.setdefault(provider, {})
    # What an examination that was cut short did not look at stays as it was.
    before = {} if examination.is_whole else models.get(model, {})
    models[model] = {**before, **examination.facts}
    _replace(path, written(known))
    return path


def written(known: dict[str, Models]) -> str:
    tables = [
        f"[providers.{_key(provider)}.models.{_key(model)}]\n{_lines(facts)}"
        for provider, models in known.items()
        for model, facts in models.items()
        if facts
    ]
    return "\n".join((HEADING, *tables))


def _lines(facts: Facts) -> str:
    # Of numbers, flags, texts and lists of them, JSON's spelling is TOML's too.
    return "".join(f"{name} = {msgspec.json.encode(value).decode()}\n" for name, value in facts.items())


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else msgspec.json.encode(name).decode()


def _replace(path: Path, text: str) -> None:
    """All or nothing, and for the user's eyes alone."""
    fresh = path.with_name(f".{path.name}.new")
    try:
        with open(
            os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
        ) as file:
            file.write(text)
        fresh.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
