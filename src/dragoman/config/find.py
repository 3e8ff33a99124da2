"""Where the configuration is looked for; the first that is found is taken."""

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from dragoman.config.embedded import embedded_config
from dragoman.config.load import load_file
from dragoman.config.model import Config

FILE_NAME = "dragoman.toml"


def places(environment: Mapping[str, str]) -> list[Path]:
    """`$DRAGOMAN_CONFIG` alone if it is set; else the working directory, then the user's settings."""
    named = environment.get("DRAGOMAN_CONFIG")
    if named:
        return [Path(named)]
    settings = environment.get("XDG_CONFIG_HOME")
    folder = Path(settings) if settings else _home(environment) / ".config"
    return [Path(FILE_NAME), folder / "dragoman" / FILE_NAME]


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment["HOME"]) if environment.get("HOME") else Path.home()


def state_folder(config: Config, environment: Mapping[str, str]) -> Path:
    """Where the gateway keeps what outlives it: the folder that was named, else the user's own."""
    if config.server.state:
        return Path(config.server.state).expanduser()
    kept = environment.get("XDG_STATE_HOME")
    return (Path(kept) if kept else _home(environment) / ".local" / "state") / "dragoman"


def find_config(explicit: str | None, environment: Mapping[str, str], *, secrets: bool = True) -> Config:
    """The configuration: the file that was named, else the first that exists, else the embedded default.

    Commands that call nobody can do without the `secrets` that the file refers to.
    """
    path = config_path(explicit, environment)
    return load_file(path, environment, secrets_needed=secrets) if path else embedded_config(environment)


def config_path(explicit: str | None, environment: Mapping[str, str]) -> str:
    """The file that `find_config` reads, or nothing."""
    if explicit:
        return explicit
    for place in places(environment):
        if place.is_file() or environment.get("DRAGOMAN_CONFIG"):
            return str(place)
    return ""


def identify_config(path: str) -> str:
    """An id of the configuration file that does not reveal its path; the same for every spelling of it."""
    return sha256(os.path.realpath(path).encode() if path else b"").hexdigest()[:16]
