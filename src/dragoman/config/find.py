"""Finds the configuration file and the folder of the persistent state."""

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from dragoman.config.config import Config
from dragoman.config.load import load_file
from dragoman.config.provider import Provider, TargetName
from dragoman.governance.settings import Governance, apply_switches

FILE_NAME = "dragoman.toml"
#: The provider and the model of a gateway without a configuration file.
EMBEDDED = "embedded"


def find_config(explicit: str | None, environment: Mapping[str, str], *, secrets: bool = True) -> Config:
    """The configuration: the explicit file, else the first file that exists, else the embedded model.

    With `secrets=False` the variables of secrets may be unset, for commands that call no provider.
    """
    path = find_config_path(explicit, environment)
    if not path:
        return build_embedded_config(environment)
    return load_file(path, environment, secrets_needed=secrets)


def find_config_path(explicit: str | None, environment: Mapping[str, str]) -> str:
    """The path that `find_config` reads; empty if there is no file."""
    if explicit:
        return explicit
    for place in list_config_places(environment):
        if place.is_file() or environment.get("DRAGOMAN_CONFIG"):
            return str(place)
    return ""


def list_config_places(environment: Mapping[str, str]) -> list[Path]:
    """The paths where a configuration file is searched, in their order.

    Only `$DRAGOMAN_CONFIG` if it is set; else the working directory, then the user's configuration folder.
    """
    explicit = environment.get("DRAGOMAN_CONFIG")
    if explicit:
        return [Path(explicit)]
    settings = environment.get("XDG_CONFIG_HOME")
    folder = Path(settings) if settings else _home(environment) / ".config"
    return [Path(FILE_NAME), folder / "dragoman" / FILE_NAME]


def identify_config(path: str, folder: Path | None = None) -> str:
    """An id of the configuration file that does not reveal its path; the same for every spelling of it.

    `folder` is the state folder. Without a file it decides, because every user may have such a gateway.
    """
    chosen = path or str(folder or "")
    place = os.path.realpath(chosen) if chosen else ""
    return sha256(place.encode()).hexdigest()[:16]


def find_state_folder(config: Config, environment: Mapping[str, str]) -> Path:
    """The folder of the state that outlives the process: `server.state`, else the user's own."""
    if config.server.state:
        return Path(config.server.state).expanduser()
    state = environment.get("XDG_STATE_HOME")
    return (Path(state) if state else _home(environment) / ".local" / "state") / "dragoman"


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment["HOME"]) if environment.get("HOME") else Path.home()


def build_embedded_config(environment: Mapping[str, str]) -> Config:
    """The configuration without a file: every model name leads to the embedded model."""
    governance = apply_switches(Governance(), environment)
    return Config(
        providers={EMBEDDED: Provider(name=EMBEDDED, dialect=EMBEDDED, governance=governance)},
        default=(TargetName(EMBEDDED, EMBEDDED),),
    )
