"""The secret that an operator's commands show to the gateway: made at its first start, in a private file.

It is no client key: whoever has it may see and change what the gateway does.
"""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from dragoman.config.model import Secret
from dragoman.hub.errors import ConfigError

FILE_NAME = "admin-token"
VARIABLE = "DRAGOMAN_ADMIN_TOKEN"
#: Characters. A token of one's own must be as hard to guess as ours, or nearly.
SHORTEST = 16


def found_token(folder: Path, environment: Mapping[str, str]) -> Secret | None:
    """The token that the environment or the file holds, if one does."""
    given = environment.get(VARIABLE, "").strip()
    if given:
        return _checked(given, VARIABLE)
    try:
        kept = (folder / FILE_NAME).read_text("ascii").strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
        raise ConfigError(f"cannot read the admin token in {folder / FILE_NAME}: {why}") from None
    return _checked(kept, str(folder / FILE_NAME))


def made_token(folder: Path, environment: Mapping[str, str]) -> Secret:
    """The token; if there is none yet, a new one, in a file that nobody else can read."""
    found = found_token(folder, environment)
    if found is not None:
        return found
    beside = folder / f"{FILE_NAME}.{secrets.token_hex(8)}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with open(descriptor, "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
            _published(beside, folder / FILE_NAME)
        finally:
            beside.unlink()
    except OSError as error:
        raise ConfigError(
            f"cannot keep the admin token in {folder}: {error.strerror}",
            hint=f"name another folder in server.state, or set {VARIABLE}",
        ) from None
    kept = found_token(folder, environment)
    if kept is None:
        raise ConfigError(f"the admin token in {folder / FILE_NAME} has gone")
    return kept


def _published(beside: Path, path: Path) -> None:
    """Whole or not at all; another gateway that starts at the same moment may be first, and is right too."""
    try:
        os.link(beside, path)
    except FileExistsError:
        return


def _checked(token: str, where: str) -> Secret:
    if len(token) < SHORTEST or not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigError(
            f"{where}: expected an admin token of at least {SHORTEST} visible ASCII characters",
            hint="python -c 'import secrets; print(secrets.token_urlsafe(32))' makes one",
        )
    return Secret(token, VARIABLE if where == VARIABLE else "")
