"""Where the gateway of a configuration file runs, written down for the commands that look for it.

Its port may be given on the command line, or chosen freely; and the file may be broken by now, which is just
when somebody wants to know how the gateway is doing.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from dragoman.config.find import state_folder
from dragoman.config.model import Config


class Notice(msgspec.Struct, frozen=True):
    """The address of a gateway, its state folder and its process."""

    url: str
    state: str
    process: int


def noted(config_path: str, environment: Mapping[str, str]) -> Notice | None:
    """What the last gateway of this file has left to be known; it may be gone since."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(_place(config_path, environment).read_bytes(), type=Notice)
    return None


def post(config_path: str, notice: Notice, environment: Mapping[str, str]) -> None:
    """A gateway can do without, if there is no place for it."""
    place = _place(config_path, environment)
    beside = place.with_suffix(f".{notice.process}")
    with suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.encode(notice))
        os.replace(beside, place)


def withdraw(config_path: str, notice: Notice, environment: Mapping[str, str]) -> None:
    """Unless another gateway has posted its own since."""
    if noted(config_path, environment) == notice:
        with suppress(OSError):
            _place(config_path, environment).unlink()


def _place(config_path: str, environment: Mapping[str, str]) -> Path:
    """One for each configuration file; always in the usual folder, because the file may name another."""
    name = sha256(os.path.abspath(config_path).encode() if config_path else b"").hexdigest()[:16]
    return state_folder(Config(), environment) / f"gateway-{name}.json"
