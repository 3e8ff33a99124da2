"""`repair`: the arguments of a tool call as one JSON object, or as an object that shows the raw text."""

import re

import msgspec

from dragoman.governance.repair.candidates import RepairCandidate, decode_object, find_candidates
from dragoman.governance.repair.schema import declares_only
from dragoman.governance.repair.schema_fit import fit_to_schema
from dragoman.governance.repair.steps import RepairStep, sort_steps
from dragoman.schema import required_of
from dragoman.wire.fields import encode
from dragoman.wire.json_grammar import pair_surrogates
from dragoman.wire.partial_json import JsonPrefix

#: Longer texts are not repaired, in characters.
LIMIT = 8 * 1024 * 1024

#: The member that shows arguments which cannot be repaired.
RAW_KEY = "text"

PARSE_FAILED = "parse_failed"
TRUNCATED = "truncated"
TOO_LONG = "too_long"

#: Ends of values that are complete. A number is not: another digit may follow.
_COMPLETE_VALUE = re.compile(r'(?:["}\]]|true|false|null)\s*+\Z')
_LONGEST_END = 100


class RepairResult(msgspec.Struct, frozen=True):
    """One JSON object as text, and the steps that produced it; no steps if the arguments were valid.

    With `ok` false the text is an object that holds the raw arguments. The client's own check of the
    arguments then rejects the call, so that the model sees what it wrote.
    """

    text: str
    ok: bool
    steps: tuple[str, ...]
    reason: str = ""


def repair(
    arguments: str, schema: dict[str, object] | None = None, *, truncated: bool = False
) -> RepairResult:
    """Repair the arguments of a call. `truncated`: the call was cut off, so its end is unknown.

    A valid object is returned byte for byte.
    """
    if decode_object(arguments) is not None:
        return RepairResult(text=arguments, ok=True, steps=())
    if truncated:
        whole = _complete_truncated(arguments, schema)
        if whole is None:
            return _show_raw(arguments, TRUNCATED)
        return RepairResult(text=whole, ok=True, steps=(RepairStep.BRACKETS.value,))
    if len(arguments) > LIMIT:
        return _show_raw(arguments, TOO_LONG)
    best = _find_best(arguments, schema)
    if best is None:
        return _show_raw(arguments, PARSE_FAILED)
    return RepairResult(text=best.text, ok=True, steps=sort_steps(best.steps))


def _find_best(arguments: str, schema: object) -> RepairCandidate | None:
    """The first candidate with all required members, or else the first candidate."""
    required = required_of(schema)
    first = None
    for unfitted in find_candidates(arguments, schema):
        candidate = fit_to_schema(unfitted, schema)
        value = decode_object(candidate.text)
        if value is None:
            continue
        if all(name in value for name in required):
            return candidate
        first = first or candidate
    return first


def _show_raw(arguments: str, reason: str) -> RepairResult:
    text = encode({RAW_KEY: pair_surrogates(arguments)}).decode()
    return RepairResult(text=text, ok=False, steps=(), reason=reason)


def _complete_truncated(text: str, schema: object) -> str | None:
    """The text with the one bracket that it lacks; None if it may lack more.

    Half a command must not run, and neither must a command without its directory. So the bracket is added
    only where the schema proves that the object is complete.
    """
    prefix = JsonPrefix()
    if prefix.feed(text) < len(text) or prefix.closing() != "}":
        return None
    if not _COMPLETE_VALUE.search(text, max(0, len(text) - _LONGEST_END)):
        return None
    whole = text + "}"
    value = decode_object(whole)
    return whole if value and declares_only(schema, list(value)) else None
