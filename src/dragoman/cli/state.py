"""The state file as the commands use it: the same one that a gateway of this configuration writes."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dragoman.accounts.keys import has_keys_in_file
from dragoman.accounts.store import ACCOUNTS_SCHEMA
from dragoman.config.find import find_config, state_folder
from dragoman.config.model import Config
from dragoman.hub.errors import ConfigError
from dragoman.storage.database import FILE_NAME, Database

Result = TypeVar("Result")


def state_file(config: Config) -> Path:
    return state_folder(config, os.environ) / FILE_NAME


def in_state(path: str | None, work: Callable[[sqlite3.Connection], Result]) -> Result:
    """Do the work in one transaction; `path` is that of the configuration."""
    file = state_file(find_config(path, os.environ, secrets=False))
    database = Database(file, ACCOUNTS_SCHEMA)
    try:
        return database.run_now(work)
    except sqlite3.Error as error:
        raise ConfigError(f"cannot use the state file {file}: {error}") from None
    finally:
        database.close()


def has_stored_keys(config: Config) -> bool:
    """Whether a gateway of this configuration asks for keys, even if the configuration names none."""
    return has_keys_in_file(state_file(config))
