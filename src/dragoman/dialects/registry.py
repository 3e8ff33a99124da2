"""All dialects by name. A new dialect is a folder beside this file, and a line in `DIALECTS`.

Other packages call `dialect_named` for one dialect and iterate over `DIALECTS` for all of them.
"""

from dragoman.dialects.anthropic import DIALECT as ANTHROPIC
from dragoman.dialects.dialect import Dialect
from dragoman.dialects.gemini import DIALECT as GEMINI
from dragoman.dialects.openai_chat import DIALECT as OPENAI_CHAT
from dragoman.dialects.openai_responses import DIALECT as OPENAI_RESPONSES
from dragoman.hub.errors import ConfigError

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES, GEMINI)
}

#: Errors are written in this dialect where neither the path nor the headers show which one the client uses.
DEFAULT_DIALECT = OPENAI_CHAT.name


def dialect_named(name: str) -> Dialect:
    """The dialect of this name; `ConfigError` if there is none."""
    try:
        return DIALECTS[name]
    except KeyError:
        known = ", ".join(DIALECTS)
        raise ConfigError(f"unknown dialect {name!r}; the dialects are: {known}") from None


def list_key_headers() -> tuple[str, ...]:
    """The request headers in which clients of any dialect send their key, besides `authorization`."""
    return tuple(name for dialect in DIALECTS.values() for name in dialect.http_api.key_headers)
