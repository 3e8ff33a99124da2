"""Reads secrets: literals in the file, or environment variables that the file refers to with `env:NAME`.

No message repeats a secret, and no secret can contain a line break, which would add a header to a request.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from dragoman.config.document import TomlTable
from dragoman.config.settings import Secret

PREFIX = "env:"
_PASSWORD = re.compile("//[^/@]*@")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: How shells, Windows, LiteLLM and OpenCode refer to a variable.
_FOREIGN_REFERENCE = re.compile(
    r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?|%([A-Za-z_][A-Za-z0-9_]*)%"
    r"|os\.environ/([A-Za-z_][A-Za-z0-9_]*)|\{env:([A-Za-z_][A-Za-z0-9_]*)\}"
)


def hide_password(url: str) -> str:
    """The address for messages: without a user name and a password."""
    return _PASSWORD.sub("//", url)


class Environment(NamedTuple):
    """The environment variables. `is_needed`: those that the gateway's own secrets refer to must be set."""

    variables: Mapping[str, str]
    is_needed: bool = True


def read_secret(value: str, table: TomlTable, *keys: str | int, environment: Environment) -> Secret:
    """The secret that `value` is or refers to. The keys lead to the value, for the error."""
    if foreign := _FOREIGN_REFERENCE.fullmatch(value.strip()):
        hint = f'write "env:{next(filter(None, foreign.groups()))}"'
        raise table.error(
            "expected a secret or env:NAME, got another reference to a variable", *keys, hint=hint
        )
    variable = value.removeprefix(PREFIX).strip() if value.startswith(PREFIX) else ""
    if value.startswith(PREFIX):
        if not _VARIABLE.fullmatch(variable):
            # It may be the secret itself, so the message does not repeat it.
            raise table.error(
                "expected the name of a variable after env:",
                *keys,
                hint="write a literal secret without env:",
            )
        value = environment.variables.get(variable, "")
        if not value.strip():
            return _read_unset(variable, table, *keys, environment=environment)
    # Files and shells often add a line break.
    value = value.strip()
    if not value:
        raise table.error("expected a value, got an empty string", *keys)
    if not (value.isascii() and value.isprintable()):
        where = f"the value of {variable}" if variable else "the value"
        raise table.error(f"expected visible ASCII characters only in {where}", *keys)
    return Secret(value, variable)


def read_secrets(table: TomlTable, key: str, environment: Environment) -> tuple[Secret, ...]:
    """The secret or the list of secrets of a key."""
    is_list = isinstance(table.values.get(key), list)
    return tuple(
        read_secret(value, table, *((key, number) if is_list else (key,)), environment=environment)
        for number, value in enumerate(table.texts(key))
    )


def read_preset_secret(variable: str, table: TomlTable, environment: Environment) -> Secret:
    """The key of a preset, from the variable that usually holds it."""
    if not environment.variables.get(variable, "").strip():
        return _read_unset(variable, table, environment=environment)
    return read_secret(PREFIX + variable, table, environment=environment)


def _read_unset(variable: str, table: TomlTable, *keys: str | int, environment: Environment) -> Secret:
    hint = f"export {variable}=…" if keys else f"export {variable}=…, or set api_key"
    message = f"the environment variable {variable} is not set"
    if environment.is_needed:
        raise table.error(message, *keys, hint=hint)
    table.warn(message, *keys, hint=hint)
    return Secret("", variable)
