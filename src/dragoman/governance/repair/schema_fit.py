"""Changes that the tool's schema justifies: the wrapper around the arguments, member names, value types.

Only for objects that needed a repair. A valid object is the model's own statement: the tool itself rejects it
if it does not fit.
"""

from collections.abc import Iterable

import msgspec

from dragoman.governance.repair.candidates import RepairCandidate
from dragoman.governance.repair.schema import allows, types_of
from dragoman.governance.repair.steps import RepairStep
from dragoman.governance.repair.tokens import LITERALS, read_number
from dragoman.hub.errors import DragomanError
from dragoman.schema import TYPE_NAMES, properties_of, required_of
from dragoman.wire.fields import decode, encode

#: Members in their original spelling: an unchanged value keeps every digit.
Members = dict[str, msgspec.Raw]

#: Names of a member that holds the arguments themselves, and of members that may stand next to it.
WRAPPERS = frozenset(("arguments", "args", "parameters", "params", "input", "kwargs"))
BESIDE = frozenset(("name", "tool", "tool_name", "function", "type", "id"))

#: Names that models confuse with each other.
SYNONYMS: tuple[frozenset[str], ...] = (
    frozenset(("command", "cmd", "script", "shellcommand")),
    frozenset(("cwd", "workdir", "workingdirectory", "workingdir")),
    frozenset(("path", "file", "filepath", "filename", "absolutepath")),
    frozenset(("content", "contents", "text", "filetext")),
    frozenset(("patch", "input", "diff")),
    frozenset(("oldstring", "oldstr", "oldtext")),
    frozenset(("newstring", "newstr", "newtext")),
    frozenset(("query", "q", "searchquery")),
    frozenset(("url", "uri", "link")),
)


def fit_to_schema(candidate: RepairCandidate, schema: object) -> RepairCandidate:
    """Change the object to the form that the schema declares, where only one form is possible."""
    properties = properties_of(schema)
    members = _decode_members(candidate.text)
    if not properties or not members:
        return candidate
    required = required_of(schema)
    steps: set[RepairStep] = set()
    members = _remove_wrapper(members, properties, required, steps)
    members = _rename_members(members, properties, required, steps)
    members = _convert_types(members, properties, steps)
    if not steps:
        return candidate
    return RepairCandidate(encode(members).decode(), candidate.steps | steps)


def _decode_members(text: str) -> Members:
    try:
        return msgspec.json.decode(text, type=Members)
    except (msgspec.DecodeError, RecursionError):
        return {}


def _remove_wrapper(
    members: Members, properties: dict[str, object], required: Iterable[str], steps: set[RepairStep]
) -> Members:
    inside = [name for name in members if name in WRAPPERS]
    if len(inside) != 1 or any(name in properties for name in members):
        return members
    if not all(name in BESIDE or name in WRAPPERS for name in members):
        return members
    content = _decode_members(bytes(members[inside[0]]).decode())
    if not any(name in properties for name in content) or not all(name in content for name in required):
        return members
    steps.add(RepairStep.WRAPPER)
    return content


def _rename_members(
    members: Members, properties: dict[str, object], required: Iterable[str], steps: set[RepairStep]
) -> Members:
    """Rename undeclared members, where exactly one declared and missing member can be meant."""
    unknown = {name: _normalize(name) for name in members if name not in properties}
    if not unknown:
        return members
    names: dict[str, str] = {}
    for missing in [name for name in properties if name not in members]:
        normal = _normalize(missing)
        meant = {normal}
        if missing in required:
            meant.update(*(group for group in SYNONYMS if normal in group))
        found = [name for name, normal in unknown.items() if normal in meant]
        if len(found) == 1 and found[0] not in names:
            names[found[0]] = missing
    if names:
        steps.add(RepairStep.ALIASES)
    return {names.get(name, name): value for name, value in members.items()}


def _normalize(name: str) -> str:
    return "".join([character for character in name.casefold() if character.isalnum()])


def _convert_types(members: Members, properties: dict[str, object], steps: set[RepairStep]) -> Members:
    typed = {}
    for name, value in members.items():
        types = types_of(properties.get(name))
        found = None if not types or "string" in types else _read_unquoted(bytes(value), types)
        if found is not None:
            steps.add(RepairStep.TYPES)
        typed[name] = value if found is None else msgspec.Raw(found.encode())
    return typed


def _read_unquoted(value: bytes, types: frozenset[str]) -> str | None:
    """The value inside a string, where the schema declares exactly such a value instead of a string."""
    if not value.startswith(b'"'):
        return None
    text = msgspec.json.decode(value, type=str).strip()
    literal = LITERALS.get(text) or read_number(text) or text
    try:
        kind = TYPE_NAMES[type(decode(literal))]
    except DragomanError:
        return None
    return literal if allows(types, kind) else None
