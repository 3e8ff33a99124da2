"""JSON as people write it in settings: with comments and commas that are one too many."""

import re

import msgspec

from dragoman.hub.errors import ConfigError

#: A string, a comment, or a comma before a closing bracket; strings are found first, so that they stay whole.
_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*[\s\S]*?\*/|,(?=(?:\s|//[^\n]*|/\*[\s\S]*?\*/)*[}\]])')


def read_object(text: str, path: str) -> dict[str, object]:
    plain = _TOKEN.sub(lambda found: found[1] or "", text.removeprefix("\ufeff"))
    try:
        return msgspec.json.decode(plain, type=dict[str, object])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        # The message names a place and a type, never a value.
        raise ConfigError(f"{path}: not the JSON of a configuration: {error}") from None
