"""The learned profile: facts that `dragoman doctor --write` found out about models, in a file of their own.

It stands beside the configuration and is written like it, so that a table can be moved from one to the other.
"""

from pathlib import Path

from dragoman.config.check import Place, Source
from dragoman.config.kinds import TABLE, Key
from dragoman.config.layers import stated_models
from dragoman.config.model import Models

#: What such a file may hold.
_ROOT = {"providers": Key(TABLE, "What was learned, by provider.")}
_PROVIDER = {"models": Key(TABLE, "What was learned, by model.")}


def learned_file(path: str) -> Path:
    """Where the facts are kept that were learned under this configuration."""
    return Path(path).with_suffix(".learned.toml")


def read_learned(text: str, path: str) -> dict[str, Models]:
    """The facts by provider. What is wrong with the file is named by its line, as in the configuration."""
    root = Source(text, path).root()
    root.check(_ROOT)
    return {name: _models(place) for name, place in root.table("providers").named_tables()}


def _models(place: Place) -> Models:
    place.check(_PROVIDER)
    return stated_models(place)
