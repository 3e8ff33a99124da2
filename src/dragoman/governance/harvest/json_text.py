"""JSON, or nearly JSON, inside other text: where a value ends, and what it says.

The end of a value is decided with the state of strings and escapes. For valid JSON that is exact. Where a
model forgot to escape a quotation mark, a mark ends a string only if what follows could follow a string.
"""

import re

import msgspec

from dragoman.governance.harvest.cursor import Cursor, Step
from dragoman.hub.errors import DragomanError
from dragoman.wire.fields import decode, encode
from dragoman.wire.partial_json import LIMIT, parse_object

_OUTSIDE = re.compile(r"[\"'{}\[\]]")
_INSIDE = {'"': re.compile(r'["\\]'), "'": re.compile(r"['\\]")}
_AFTER_STRING = frozenset(",:}]")
_BEFORE_SINGLE_QUOTE = frozenset("{[,:")
_SCALARS = re.compile(r"[\w.+-]+")
_KEY = {'"': re.compile(r'[^"\\\r\n]+'), "'": re.compile(r"[^'\\\r\n]+")}
_BARE_KEY = re.compile(r"[\w$-]+")
_OPENING = frozenset("{[\"'")

KEY_LIMIT = 256


class Bounds(msgspec.Struct, frozen=True):
    """What ends a body where it stands outside strings, and what shows there that this is no body at all."""

    closers: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()


def raw_value(cursor: Cursor, bounds: Bounds) -> Step[str | None]:
    """The text of the next value, cut off before a closer if brackets are missing; None if it has no end."""
    first = yield from cursor.peek()
    if first not in _OPENING:
        return (yield from cursor.word(_SCALARS, LIMIT)) or None
    cursor.tape = []
    whole = yield from _skip_value(cursor, bounds)
    taken, cursor.tape = "".join(cursor.tape), None
    return taken if whole else None


def _skip_value(cursor: Cursor, bounds: Bounds) -> Step[bool]:
    edges = frozenset(literal[0] for literal in (*bounds.closers, *bounds.barred))
    stops = re.compile(_OUTSIDE.pattern[:-1] + "".join(map(re.escape, edges)) + "]")
    depth = 0
    last = ":"
    while (yield from cursor.more()):
        start = cursor.at - cursor.source.base
        found = stops.search(cursor.source.text, start)
        gap = cursor.advance((found.start() if found else len(cursor.source.text)) - start).rstrip()
        last = gap[-1] if gap else last
        if found is None:
            continue
        character = found[0]
        if character in edges:
            if (yield from cursor.ahead(*bounds.closers)):
                return depth > 0
            if (yield from cursor.ahead(*bounds.barred)):
                return False
        cursor.advance(1)
        if character == '"' or (character == "'" and last in _BEFORE_SINGLE_QUOTE):
            if not (yield from _skip_string(cursor, character, bounds)):
                return False
        elif character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
        if depth <= 0:
            return True
        last = character
    return False


def _skip_string(cursor: Cursor, quote: str, bounds: Bounds) -> Step[bool]:
    """To behind the closing quotation mark; False if the text ends first."""
    while (yield from cursor.more()):
        start = cursor.at - cursor.source.base
        found = _INSIDE[quote].search(cursor.source.text, start)
        cursor.advance((found.end() if found else len(cursor.source.text)) - start)
        if found is None:
            continue
        if found[0] == "\\":
            if (yield from cursor.more()):
                cursor.advance(1)
            continue
        yield from cursor.blanks()
        follower = yield from cursor.peek()
        if not follower or follower in _AFTER_STRING or (yield from cursor.ahead(*bounds.closers)):
            return True
    return False


def read_key(cursor: Cursor, *, strict: bool) -> Step[str | None]:
    """A member's key and its colon."""
    quote = yield from cursor.literal('"', "'")
    if quote:
        key = yield from cursor.word(_KEY[quote], KEY_LIMIT)
        if not (yield from cursor.literal(quote)) or (strict and quote == "'"):
            return None
    else:
        key = "" if strict else (yield from cursor.word(_BARE_KEY, KEY_LIMIT))
    yield from cursor.blanks()
    return key if key and (yield from cursor.literal(":")) else None


def read_name(cursor: Cursor, limit: int) -> Step[str | None]:
    """A short string without escapes."""
    quote = yield from cursor.literal('"', "'")
    if not quote:
        return None
    name = yield from cursor.word(_KEY[quote], limit)
    return name if (yield from cursor.literal(quote)) else None


def decoded_string(raw: str) -> str | None:
    """What a raw JSON string says; None if it is no valid one."""
    try:
        value = decode(raw, limit=LIMIT)
    except DragomanError:
        return None
    return value if isinstance(value, str) else None


def unwrapped(raw: str) -> str:
    """Arguments as they are meant: nothing is no arguments, and an encoded object is that object."""
    text = raw.strip()
    if text in ("", "null", "None", '""'):
        return "{}"
    if text.startswith('"'):
        inner = decoded_string(text)
        if inner is not None and inner.lstrip().startswith("{"):
            return inner
    return raw


def is_object(text: str) -> bool:
    return text.lstrip().startswith("{") and parse_object(text) is not None


def json_string(text: str) -> str:
    """The text as JSON, without halves of characters, which JSON cannot hold."""
    return encode(text.encode("utf-8", "replace").decode()).decode()


def json_object(members: dict[str, str]) -> str:
    """An object of members that are JSON already."""
    return "{" + ",".join([f"{json_string(key)}:{value}" for key, value in members.items()]) + "}"
