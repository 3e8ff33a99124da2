"""The admin token: a secret in a private file of the state folder, which the first start creates.

It is not a client key. Its owner can see and change what the gateway does.
"""

import errno
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from dragoman.config.settings import Secret
from dragoman.hub.errors import ConfigError
from dragoman.storage.database import make_private, make_private_folder

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
        token = _read_private(folder / FILE_NAME).strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
        raise ConfigError(f"cannot read the admin token in {folder / FILE_NAME}: {why}") from None
    return _check_token(token, str(folder / FILE_NAME))


def find_or_create_token(folder: Path, environment: Mapping[str, str]) -> Secret:
    """The token. If there is none, a new one in a file that only this user can read."""
    try:
        make_private_folder(folder)
    except OSError as error:
        raise _unusable(folder, error) from None
    found = find_token(folder, environment)
    if found is not None:
        return found
    temporary = folder / f"{FILE_NAME}.{secrets.token_hex(8)}"
    try:
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
        raise _unusable(folder, error) from None
    created = find_token(folder, environment)
    if created is None:
        raise ConfigError(f"the admin token in {folder / FILE_NAME} has disappeared")
    return created


def _read_private(path: Path) -> str:
    """The text of the file. Raises if another user may have written it; closes it to readers."""
    # A link could make any known text the token.
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), encoding="ascii") as file:
        status = os.fstat(file.fileno())
        if os.name == "posix" and status.st_uid not in (0, os.geteuid(), path.parent.stat().st_uid):
            raise PermissionError(errno.EPERM, "it belongs to another user; delete it")
        if os.name == "posix" and status.st_mode & 0o022:
            raise PermissionError(errno.EPERM, "other users can write it; delete it")
        make_private(file.fileno())
        return file.read()


def _unusable(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot keep the admin token in {folder}: {error.strerror}",
        hint=f"name another folder in server.state, or set {VARIABLE}",
    )


def _check_token(token: str, where: str) -> Secret:
    if len(token) < MIN_LENGTH or not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigError(
            f"{where}: expected an admin token of at least {MIN_LENGTH} visible ASCII characters",
            hint="python -c 'import secrets; print(secrets.token_urlsafe(32))' makes one",
        )
    return Secret(token, VARIABLE if where == VARIABLE else "")
