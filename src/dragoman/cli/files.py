"""Files as the commands read them: a path or `-`, whole or in pieces, with errors that say what to do."""

import tomllib
from collections.abc import Iterator

import click
import msgspec

from dragoman.hub.errors import ConfigError
from dragoman.providers.profile import PROFILE_FIELDS, Profile

PIECE = 64 * 1024


def read_file(name: str) -> bytes:
    return b"".join(read_pieces(name))


def read_pieces(name: str) -> Iterator[bytes]:
    """The bytes as they come, so that a stream piped in is translated while it still flows."""
    try:
        with open(0 if name == "-" else name, "rb", closefd=name != "-") as stream:
            while piece := stream.read1(PIECE):
                yield piece
    except OSError as error:
        raise ConfigError(f"cannot read {name}: {error.strerror}") from None


def read_profile(name: str | None, dialect: str) -> Profile | None:
    """A profile from a TOML or JSON file; its `dialect` may be left out."""
    if name is None:
        return None
    data = read_file(name)
    try:
        values = tomllib.loads(data.decode()) if name.endswith(".toml") else msgspec.json.decode(data)
        if not isinstance(values, dict):
            raise ConfigError(f"{name}: expected a table of facts")
        return Profile(**{"dialect": dialect, **values})
    except (
        msgspec.DecodeError,
        msgspec.ValidationError,
        tomllib.TOMLDecodeError,
        UnicodeDecodeError,
    ) as error:
        known = ", ".join(PROFILE_FIELDS)
        raise ConfigError(f"{name}: {error}", hint=f"facts a profile can hold: {known}") from None


DIALECT = click.Choice(["anthropic", "openai_chat", "openai_responses", "gemini"])
