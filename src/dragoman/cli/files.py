"""Files of the commands: input files, private files and the state database."""

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from dragoman.accounts import keys as client_keys
from dragoman.accounts.store import ACCOUNTS_SCHEMA
from dragoman.config.config import Config
from dragoman.config.find import find_config, find_state_folder
from dragoman.dialects.registry import DIALECTS
from dragoman.exchange.storage import has_state, run_work
from dragoman.governance.settings import KEYS, Governance, read_governance
from dragoman.healing.learned import LEARNED_SCHEMA, LearnedFact, read_learned_facts
from dragoman.hub.errors import ConfigError
from dragoman.providers.profile import PROFILE_FIELDS, Profile
from dragoman.storage.database import FILE_NAME
from dragoman.storage.port import Work

PIECE = 64 * 1024
#: The dialects that `translate` and `check` accept.
DIALECT = click.Choice(list(DIALECTS))

Result = TypeVar("Result")


def read_file(name: str) -> bytes:
    """The bytes of a file, or of standard input for `-`."""
    return b"".join(read_pieces(name))


def read_pieces(name: str) -> Iterator[bytes]:
    """Yield the bytes of file `name` (`-`: standard input) as they arrive.

    So a piped stream is translated while it is still running.
    """
    try:
        with open(0 if name == "-" else name, "rb", closefd=name != "-") as stream:
            while piece := stream.read1(PIECE):
                yield piece
    except OSError as error:
        raise ConfigError(f"cannot read {name}: {error.strerror}") from None


def read_profile(name: str | None, dialect: str) -> Profile | None:
    """A profile from a TOML or JSON file. `dialect` is used if the file does not state one."""
    if name is None:
        return None
    hint = f"the facts of a profile are: {', '.join(PROFILE_FIELDS)}"
    try:
        return Profile(**{"dialect": dialect, **_read_table(name, hint)})
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {error}", hint=hint) from None


def read_governance_file(name: str) -> Governance:
    """Governance settings from a TOML or JSON file."""
    return read_governance(_read_table(name, f"the keys are: {', '.join([*KEYS, 'guard'])}"), path=name)


def _read_table(name: str, hint: str) -> dict[str, Any]:
    data = read_file(name)
    try:
        values = tomllib.loads(data.decode()) if name.endswith(".toml") else msgspec.json.decode(data)
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}: {error}", hint=hint) from None
    if not isinstance(values, dict):
        raise ConfigError(f"{name}: expected a table", hint=hint)
    return values


def write_private(path: str, text: str, *, replace: bool) -> None:
    """Write a file that only its owner can read. `replace` allows to overwrite an existing one."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if replace else os.O_EXCL)
    try:
        with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}", hint="--file writes another file"
        ) from None


def state_file(config: Config) -> Path:
    """The state file of a gateway with this configuration."""
    return find_state_folder(config, os.environ) / FILE_NAME


def use_state(path: str | None, work: Work[Result]) -> Result:
    """Run `work` in one transaction of the state. `path` is the configuration file."""
    config = find_config(path, os.environ, secrets=False)
    return run_work(config, find_state_folder(config, os.environ), work, ACCOUNTS_SCHEMA)


def list_learned_facts(config: Config) -> list[LearnedFact]:
    """The facts that a gateway with this configuration has learned from refusals."""
    folder = find_state_folder(config, os.environ)
    if not has_state(config, folder):
        return []
    return run_work(config, folder, read_learned_facts, LEARNED_SCHEMA)


def has_stored_keys(config: Config) -> bool:
    """Whether `dragoman keys` has created keys, so that a gateway with this configuration requires one."""
    folder = find_state_folder(config, os.environ)
    return has_state(config, folder) and run_work(
        config, folder, client_keys.has_stored_keys, ACCOUNTS_SCHEMA
    )
