"""Writes `dragoman.learned.toml`: the facts that an examination learned about a model.

The file is edited in place, so that the user's comments and other tables stay.
"""

import os
from pathlib import Path
from typing import Any

import tomlkit

from dragoman.config.config import Config
from dragoman.config.model_facts import learned_path, read_learned
from dragoman.doctor.findings import Examination, Facts
from dragoman.hub.errors import ConfigError

_HEADING = """\
# Facts about models, written by `dragoman doctor --write`. They take precedence over the facts that ship with
# dragoman. The configuration takes precedence over them. You can edit or delete this file.
"""


def write_learned(config: Config, examination: Examination) -> Path:
    """Store the facts of an examination beside the configuration. Returns the path of the file."""
    if not config.path:
        raise ConfigError(
            "there is no configuration file to store the facts beside", hint="`dragoman setup` writes one"
        )
    path = learned_path(config.path)
    text = path.read_text("utf-8") if path.is_file() else _HEADING
    known = read_learned(text, str(path))
    provider, _, model = examination.target.partition("/")
    models = known.setdefault(provider, {})
    # An incomplete examination keeps the facts that it did not test.
    kept = {} if examination.is_whole else models.get(model, {})
    models[model] = {**kept, **examination.facts}
    edited = _edit(text, provider, model, models[model])
    if _read_facts(edited, path, provider, model) != models[model]:
        # tomlkit cannot extend every form of table, such as `models.x.images = false` below [providers.p].
        tables = {name: {"models": facts} for name, facts in known.items()}
        edited = _HEADING + "\n" + tomlkit.dumps({"providers": tables})
    _replace(path, edited)
    return path


def _edit(text: str, provider: str, model: str, facts: Facts) -> str:
    """The file with these facts about the model, and everything else unchanged."""
    document = tomlkit.parse(text)
    tables: Any = document
    for name in ("providers", provider, "models"):
        tables = tables.setdefault(name, {})
    table = tables.setdefault(model, {})
    for name in [name for name in table if name not in facts]:
        del table[name]
    for name, value in facts.items():
        if table.get(name) != value:
            table[name] = value
    if not facts:
        del tables[model]
    return tomlkit.dumps(document)


def _read_facts(text: str, path: Path, provider: str, model: str) -> Facts:
    try:
        return read_learned(text, str(path)).get(provider, {}).get(model, {})
    except ConfigError:
        return {}


def _replace(path: Path, text: str) -> None:
    """Write the file in one step, readable by its owner only."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
