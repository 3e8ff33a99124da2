"""Where secrets come from: the file itself, or the environment that the file points to.

No message repeats one, and none that could break out of a header gets in.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from dragoman.config.check import Place
from dragoman.config.model import Secret

PREFIX = "env:"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Environment(NamedTuple):
    """What `env:NAME` refers to. A variable may be unset if nobody is going to use the secret in it."""

    variables: Mapping[str, str]
    is_needed: bool = True


def secret(value: str, place: Place, *keys: str | int, environment: Environment) -> Secret:
    """The secret that `value`, found at these keys, is or refers to."""
    variable = value.removeprefix(PREFIX).strip() if value.startswith(PREFIX) else ""
    if value.startswith(PREFIX):
        if not _NAME.fullmatch(variable):
            # It may be the secret itself, so it is not repeated.
            raise place.error(
                "expected the name of a variable after env:",
                *keys,
                hint="the secret itself stands without env:",
            )
        value = environment.variables.get(variable, "")
        if not value.strip():
            return _unset(variable, place, *keys, environment=environment)
    # Files and shells like to add a line end.
    value = value.strip()
    if not value:
        raise place.error("expected a value, got an empty string", *keys)
    if not (value.isascii() and value.isprintable()):
        where = f"the value of {variable}" if variable else "the value"
        raise place.error(f"expected visible ASCII characters only in {where}", *keys)
    return Secret(value, variable)


def secrets(place: Place, key: str, environment: Environment) -> tuple[Secret, ...]:
    """The secret or list of secrets under a key."""
    return tuple(
        secret(
            value,
            place,
            *((key, number) if isinstance(place.values[key], list) else (key,)),
            environment=environment,
        )
        for number, value in enumerate(place.texts(key))
    )


def usual_secret(variable: str, place: Place, environment: Environment) -> Secret:
    """The key of a preset, in the variable where it usually is."""
    if not environment.variables.get(variable, "").strip():
        return _unset(variable, place, environment=environment)
    return secret(PREFIX + variable, place, environment=environment)


def _unset(variable: str, place: Place, *keys: str | int, environment: Environment) -> Secret:
    if not environment.is_needed:
        return Secret("", variable)
    raise place.error(
        f"the environment variable {variable} is not set",
        *keys,
        hint=f"export {variable}=…" if keys else f"export {variable}=…, or say api_key = …",
    )
