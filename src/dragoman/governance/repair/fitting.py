"""Lets the tool's schema decide what a repaired object means: the envelope around it, names, types.

Only for objects that had to be repaired. One that came as valid JSON is what the model said, and whether
the tool likes it is for the tool to say.
"""

from collections.abc import Iterable

import msgspec

from dragoman.governance.repair.readings import Candidate
from dragoman.governance.repair.scalars import LITERALS_BY_WORD, read_number
from dragoman.governance.repair.schema import TYPE_NAMES, allows, properties_of, required_of, types_of
from dragoman.governance.repair.steps import ALIASES, ENVELOPE, TYPES
from dragoman.hub.errors import DragomanError
from dragoman.wire.fields import decode, encode

#: Members as they are written: what is not changed is passed on to the digit.
Members = dict[str, msgspec.Raw]

#: Names of a member that holds the arguments themselves, and of what may stand beside it.
ENVELOPES = frozenset(("arguments", "args", "parameters", "params", "input", "kwargs"))
BESIDE = frozenset(("name", "tool", "tool_name", "function", "type", "id"))

#: Names that models use for one another.
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


def fitted(candidate: Candidate, schema: object) -> Candidate:
    """The same object as the schema wants to see it, if there is no doubt how."""
    properties = properties_of(schema)
    members = _members(candidate.text)
    if not properties or not members:
        return candidate
    required = required_of(schema)
    steps: set[str] = set()
    members = _without_envelope(members, properties, required, steps)
    members = _renamed(members, properties, required, steps)
    members = _typed(members, properties, steps)
    if not steps:
        return candidate
    return Candidate(encode(members).decode(), candidate.steps | steps)


def _members(text: str) -> Members:
    try:
        return msgspec.json.decode(text, type=Members)
    except (msgspec.DecodeError, RecursionError):
        return {}


def _without_envelope(
    members: Members, properties: dict[str, object], required: Iterable[str], steps: set[str]
) -> Members:
    inside = [name for name in members if name in ENVELOPES]
    if len(inside) != 1 or any(name in properties for name in members):
        return members
    if not all(name in BESIDE or name in ENVELOPES for name in members):
        return members
    content = _members(bytes(members[inside[0]]).decode())
    if not any(name in properties for name in content) or not all(name in content for name in required):
        return members
    steps.add(ENVELOPE)
    return content


def _renamed(
    members: Members, properties: dict[str, object], required: Iterable[str], steps: set[str]
) -> Members:
    """Members by their declared names, where exactly one unknown name can stand for a missing one."""
    unknown = {name: _plain(name) for name in members if name not in properties}
    if not unknown:
        return members
    names: dict[str, str] = {}
    for missing in [name for name in properties if name not in members]:
        plain = _plain(missing)
        meant = {plain}
        if missing in required:
            meant.update(*(group for group in SYNONYMS if plain in group))
        found = [name for name, spelled in unknown.items() if spelled in meant]
        if len(found) == 1 and found[0] not in names:
            names[found[0]] = missing
    if names:
        steps.add(ALIASES)
    return {names.get(name, name): value for name, value in members.items()}


def _plain(name: str) -> str:
    return "".join([character for character in name.casefold() if character.isalnum()])


def _typed(members: Members, properties: dict[str, object], steps: set[str]) -> Members:
    typed = {}
    for name, value in members.items():
        types = types_of(properties.get(name))
        found = None if not types or "string" in types else _unquoted(bytes(value), types)
        if found is not None:
            steps.add(TYPES)
        typed[name] = value if found is None else msgspec.Raw(found.encode())
    return typed


def _unquoted(value: bytes, types: frozenset[str]) -> str | None:
    """What a string holds, where the schema wants no string but just such a value."""
    if not value.startswith(b'"'):
        return None
    text = msgspec.json.decode(value, type=str).strip()
    word = LITERALS_BY_WORD.get(text) or read_number(text) or text
    try:
        kind = TYPE_NAMES[type(decode(word))]
    except DragomanError:
        return None
    return word if allows(types, kind) else None
