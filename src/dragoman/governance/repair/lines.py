"""Parameters written one to a line, as `name: value` or `name = value`.

Only for tools whose parameters are known, and only if every line is one of them: then nothing else can
have been meant.
"""

import re

from dragoman.governance.repair.scalars import read_word
from dragoman.governance.repair.schema import properties_of, types_of
from dragoman.governance.repair.strings import CLOSING_QUOTES, body_end, written
from dragoman.wire.fields import encode

_LINE = re.compile(r"\s*+([\w$.-]{1,200}+)\s*+[:=]\s*+(\S.*+)")


def read_lines(text: str, schema: object) -> str | None:
    """The object that the lines give, as JSON; None if a line is something else."""
    properties = properties_of(schema)
    members: dict[str, str] = {}
    for line in text.splitlines() if properties else ():
        if not line or line.isspace():
            continue
        found = _LINE.fullmatch(line)
        if found is None or found[1] not in properties or found[1] in members:
            return None
        value = _value(found[2].rstrip(), types_of(properties[found[1]]))
        if value is None:
            return None
        members[found[1]] = value
    if not members:
        return None
    return "{" + ", ".join([f"{encode(name).decode()}: {value}" for name, value in members.items()]) + "}"


def _value(text: str, types: frozenset[str]) -> str | None:
    if text[0] in CLOSING_QUOTES:
        end = body_end(text, 1, text[0])
        return written(text[1:end], text[0], set()) if end == len(text) - 1 else None
    if types == {"string"}:
        return encode(text).decode()
    return None if text[0] in "{[" else read_word(text, types, set())
