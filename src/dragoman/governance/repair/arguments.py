"""Repairs the arguments of a tool call: nearly JSON in, one JSON object out.

A valid object comes back as it is, to the byte. What has no reading is not guessed at: it is shown to the
model as an object that holds the raw text.
"""

import msgspec

from dragoman.governance.repair.fitting import fitted
from dragoman.governance.repair.readings import Candidate, decode_object, readings
from dragoman.governance.repair.schema import required_of
from dragoman.governance.repair.steps import BRACKETS, in_order
from dragoman.governance.repair.truncation import closed
from dragoman.wire.fields import encode
from dragoman.wire.json_grammar import pair_surrogates

#: Longer texts are not repaired, in characters.
LIMIT = 8 * 1024 * 1024

#: The member that shows arguments which have no reading.
RAW_KEY = "text"

PARSE_FAILED = "parse_failed"
TRUNCATED = "truncated"
TOO_LONG = "too_long"


class Repaired(msgspec.Struct, frozen=True):
    """One JSON object as text, and what was done to get it.

    `steps` are names from `steps.STEPS`; none if nothing had to be done. If not `ok`, the text is an object
    that holds the raw arguments, for a reader to see and for no tool to run.
    """

    text: str
    ok: bool
    steps: tuple[str, ...]
    reason: str = ""


def repair(arguments: str, schema: dict[str, object] | None = None, *, truncated: bool = False) -> Repaired:
    """The object that was meant. `truncated`: the call broke off, so what is missing is not known."""
    if decode_object(arguments) is not None:
        return Repaired(text=arguments, ok=True, steps=())
    if truncated:
        whole = closed(arguments, schema)
        if whole is None:
            return _unrepairable(arguments, TRUNCATED)
        return Repaired(text=whole, ok=True, steps=(BRACKETS,))
    if len(arguments) > LIMIT:
        return _unrepairable(arguments, TOO_LONG)
    best = _best_reading(arguments, schema)
    if best is None:
        return _unrepairable(arguments, PARSE_FAILED)
    return Repaired(text=best.text, ok=True, steps=in_order(best.steps))


def _best_reading(arguments: str, schema: object) -> Candidate | None:
    """The first reading that has what the schema requires, or else the first."""
    required = required_of(schema)
    first = None
    for candidate in readings(arguments, schema):
        reading = fitted(candidate, schema)
        value = decode_object(reading.text)
        if value is None:
            continue
        if all(name in value for name in required):
            return reading
        first = first or reading
    return first


def _unrepairable(arguments: str, reason: str) -> Repaired:
    text = encode({RAW_KEY: pair_surrogates(arguments)}).decode()
    return Repaired(text=text, ok=False, steps=(), reason=reason)
