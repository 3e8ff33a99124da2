"""JSON, or nearly JSON, inside other text: where a value ends and what it contains.

The end of a value follows from strings, escapes and brackets. For valid JSON it is exact. Where a model did
not escape a quotation mark, the mark ends a string only if what follows can follow a string.
"""

import re

import msgspec

from dragoman.governance.harvest.cursor import CursorReading, TextCursor
from dragoman.hub.errors import DragomanError
from dragoman.wire.fields import decode, encode
from dragoman.wire.partial_json import LIMIT, parse_object

_INSIDE = {'"': re.compile(r'["\\]'), "'": re.compile(r"['\\]")}
_AFTER_STRING = frozenset(",:}]")
_BEFORE_SINGLE_QUOTE = frozenset("{[,:")
_SCALARS = re.compile(r"[\w.+-]+")
_KEY = {'"': re.compile(r'[^"\\\r\n]+'), "'": re.compile(r"[^'\\\r\n]+")}
_BARE_KEY = re.compile(r"[\w$-]+")
_OPENING = frozenset("{[\"'")

KEY_LIMIT = 256


class JsonBounds(msgspec.Struct, frozen=True):
    """Literals outside strings: `closers` end a value, `barred` show that the text is not a value."""

    closers: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()


def read_raw_value(cursor: TextCursor, bounds: JsonBounds) -> CursorReading[str | None]:
    """The text of the next value, which a closer ends if brackets are missing; None if it has no end."""
    first = yield from cursor.peek()
    if first not in _OPENING:
        return (yield from cursor.take_matching(_SCALARS, LIMIT)) or None
    cursor.record = []
    is_whole = yield from _skip_value(cursor, bounds)
    raw, cursor.record = "".join(cursor.record), None
    return raw if is_whole else None


def _skip_value(cursor: TextCursor, bounds: JsonBounds) -> CursorReading[bool]:
    edges = frozenset(literal[0] for literal in (*bounds.closers, *bounds.barred))
    stops = re.compile(r"[\"'{}\[\]" + "".join(map(re.escape, edges)) + "]")
    depth = 0
    last = ":"
    while (yield from cursor.wait()):
        start = cursor.at
        character = cursor.skip_to(stops)
        gap = cursor.source.between(start, cursor.at).rstrip()
        last = gap[-1] if gap else last
        if not character:
            continue
        if character in edges:
            if (yield from cursor.peek_literal(*bounds.closers)):
                return depth > 0
            if (yield from cursor.peek_literal(*bounds.barred)):
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


def _skip_string(cursor: TextCursor, quote: str, bounds: JsonBounds) -> CursorReading[bool]:
    """Consume a string and its closing quotation mark; False if the text ends first."""
    while (yield from cursor.wait()):
        found = cursor.skip_to(_INSIDE[quote])
        cursor.advance(len(found))
        if not found:
            continue
        if found == "\\":
            if (yield from cursor.wait()):
                cursor.advance(1)
            continue
        yield from cursor.skip_blanks()
        follower = yield from cursor.peek()
        if not follower or follower in _AFTER_STRING or (yield from cursor.peek_literal(*bounds.closers)):
            return True
    return False


def read_key(cursor: TextCursor, *, strict: bool) -> CursorReading[str | None]:
    """A member's key and its colon; None if there is none."""
    quote = yield from cursor.take('"', "'")
    if quote:
        key = yield from cursor.take_matching(_KEY[quote], KEY_LIMIT)
        if not (yield from cursor.take(quote)) or (strict and quote == "'"):
            return None
    else:
        key = "" if strict else (yield from cursor.take_matching(_BARE_KEY, KEY_LIMIT))
    yield from cursor.skip_blanks()
    return key if key and (yield from cursor.take(":")) else None


def read_name(cursor: TextCursor, limit: int) -> CursorReading[str | None]:
    """A short string without escapes; None if there is none."""
    quote = yield from cursor.take('"', "'")
    if not quote:
        return None
    name = yield from cursor.take_matching(_KEY[quote], limit)
    return name if (yield from cursor.take(quote)) else None


def decode_string(raw: str) -> str | None:
    """The content of a JSON string; None if the text is not one."""
    try:
        value = decode(raw, limit=LIMIT)
    except DragomanError:
        return None
    return value if isinstance(value, str) else None


def normalize_arguments(raw: str) -> str:
    """The arguments of a call from their raw value: null is an empty object, an encoded object is decoded."""
    text = raw.strip()
    if text in ("", "null", "None", '""'):
        return "{}"
    if text.startswith('"'):
        inner = decode_string(text)
        if inner is not None and inner.lstrip().startswith("{"):
            return inner
    return raw


def is_object(text: str) -> bool:
    return text.lstrip().startswith("{") and parse_object(text) is not None


def is_json(text: str) -> bool:
    try:
        decode(text, limit=LIMIT)
    except DragomanError:
        return False
    return True


def write_string(text: str) -> str:
    """The text as a JSON string, without lone surrogates, which JSON cannot hold."""
    return encode(text.encode("utf-8", "replace").decode()).decode()


def write_object(members: dict[str, str]) -> str:
    """A JSON object of members whose values are JSON text."""
    return "{" + ",".join([f"{write_string(key)}:{value}" for key, value in members.items()]) + "}"
