"""The admin token: a secret in a private file of the state folder, which the first start creates.

It is not a client key. Its owner can see and change what the gateway does.
"""

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from dragoman.config.model import Secret
from dragoman.hub.errors import ConfigError

FILE_NAME = "admin-token"
VARIABLE = "DRAGOMAN_ADMIN_TOKEN"
#: Characters. An operator's own token must be hard to guess too.
MIN_LENGTH = 16


def find_token(folder: Path, environment: Mapping[str, str]) -> Secret | None:
    """The token in the environment or in the file, if there is one."""
    given = environment.get(VARIABLE, "").strip()
    if given:
        return _check_token(given, VARIABLE)
    try:
        token = (folder / FILE_NAME).read_text("ascii").strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
        raise ConfigError(f"cannot read the admin token in {folder / FILE_NAME}: {why}") from None
    return _check_token(token, str(folder / FILE_NAME))


def find_or_create_token(folder: Path, environment: Mapping[str, str]) -> Secret:
    """The token. If there is none, a new one in a file that only this user can read."""
    found = find_token(folder, environment)
    if found is not None:
        return found
    temporary = folder / f"{FILE_NAME}.{secrets.token_hex(8)}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with open(descriptor, "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
            # A link appears complete or not at all. Another gateway that starts now may create it first.
            with suppress(FileExistsError):
                os.link(temporary, folder / FILE_NAME)
        finally:
            temporary.unlink()
    except OSError as error:
        raise ConfigError(
            f"cannot keep the admin token in {folder}: {error.strerror}",
            hint=f"name another folder in server.state, or set {VARIABLE}",
        ) from None
    created = find_token(folder, environment)
    if created is None:
        raise ConfigError(f"the admin token in {folder / FILE_NAME} has disappeared")
    return created


def _check_token(token: str, where: str) -> Secret:
    if len(token) < MIN_LENGTH or not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigError(
            f"{where}: expected an admin token of at least {MIN_LENGTH} visible ASCII characters",
            hint="python -c 'import secrets; print(secrets.token_urlsafe(32))' makes one",
        )
    return Secret(token, VARIABLE if where == VARIABLE else "")
