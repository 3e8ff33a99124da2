"""All that a text can be read as, the timid readings before the bold ones.

Every reading is the text of an object, or meant to be one. Each costs one pass over the text, and there
is a fixed number of them.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from dragoman.governance.repair import lines
from dragoman.governance.repair.blanks import OUTSIDE, blanks_end
from dragoman.governance.repair.edits import Hopeless, Unreadable
from dragoman.governance.repair.grammar import BARE_KEY, NAME, QUOTED_KEY
from dragoman.governance.repair.reader import Reader, Reading
from dragoman.governance.repair.schema import only_text_property, properties_of, required_of
from dragoman.governance.repair.steps import (
    BRACKETS,
    COMMAS,
    COMMENTS,
    DOUBLE_ENCODING,
    EMPTY,
    ESCAPES,
    LINES,
    LIST_OF_ONE,
    LONE_STRING,
    REPEATED_OBJECT,
    SURPLUS_CLOSERS,
    SURROUNDING_TEXT,
)
from dragoman.governance.repair.strings import QUOTES_CLASS, body_end, written
from dragoman.hub.errors import DragomanError
from dragoman.wire.fields import decode, encode
from dragoman.wire.json_grammar import SURROGATE, pair_surrogates

NOTHING = "{}"
#: How many objects in a row may turn out to be one and the same.
MAX_OBJECTS = 16
#: How often a text may have been encoded as a string.
MAX_ENCODINGS = 2

_NO_ARGUMENTS = re.compile(r"(?:null|None|undefined|nil|NULL|\[\s*+\])(?![\w$])")
#: Keyword arguments whose value cannot be the beginning of a sentence.
_KEYWORD = re.compile(
    rf"{NAME}\s*+=\s*+(?:[{QUOTES_CLASS}\[{{]|-?[0-9]|(?:true|false|null|True|False|None)\b)"
)
_ENCODED_START = re.compile(r'\s*+[{\[](?:\s|\\[nrt])*+\\+"')
_QUOTED_OBJECT = re.compile(r'\s*+"\s*+(\{.*\})\s*"\s*', re.DOTALL)
_TAIL = re.compile(r"(?P<closers>[}\])][}\])\s]*+)|[,;][,;\s]*+")
_PROSE = re.compile(r'[^{}\[\]"]*+')
#: A name before an object is its title if it says no more than that these are arguments.
_TITLE = re.compile(r"\s*+(\w++)\s*+[:=]\s*+(?:```\w*+\s*+)?")
_TITLES = frozenset(("arguments", "args", "parameters", "params", "input", "json", "kwargs", "object"))
#: Prose that holds something like another argument.
_ASSIGNMENT = re.compile(r"[:=]\s*+[^\s`]")


class Candidate(msgspec.Struct, frozen=True):
    """The text of an object, and the liberties that led to it."""

    text: str
    steps: frozenset[str]


def readings(text: str, schema: object, *, encodings: int = 0) -> Iterator[Candidate]:
    """The candidates in order of boldness; whether they are objects is for the caller to see."""
    steps: set[str] = set()
    if SURROGATE.search(text):
        text = pair_surrogates(text)
        steps.add(ESCAPES)
    start = blanks_end(text, 0, OUTSIDE, steps)
    if start == len(text) or _is_nothing(text, start):
        # A comment is something that was said.
        if COMMENTS not in steps:
            yield Candidate(NOTHING, frozenset(steps | {EMPTY}))
        return
    # The second way to find the ends of strings is for texts where the first leads nowhere.
    for inner_quotes in (False, True):
        try:
            yield from _whole(text, start, schema, steps, inner_quotes=inner_quotes, encodings=encodings)
            break
        except Hopeless:
            return
        except Unreadable:
            continue
    if encodings < MAX_ENCODINGS:
        yield from _escaped(text, schema, steps, encodings)
    yield from _within_prose(text, start, schema, steps)
    yield from _by_schema(text, schema, steps)


def _is_nothing(text: str, start: int) -> bool:
    found = _NO_ARGUMENTS.match(text, start)
    return found is not None and _tail(text, found.end(), set()) == len(text)


def _tail(text: str, position: int, steps: set[str]) -> int:
    """Where what may lie around behind an object ends."""
    while True:
        position = blanks_end(text, position, OUTSIDE, steps)
        found = _TAIL.match(text, position)
        if found is None:
            return position
        steps.add(SURPLUS_CLOSERS if found["closers"] else COMMAS)
        position = found.end()


def _whole(
    text: str, start: int, schema: object, outer: Iterable[str], *, inner_quotes: bool, encodings: int
) -> Iterator[Candidate]:
    """The text as one value, or as one object several times."""
    steps = set(outer)
    found: list[str] = []
    position = start
    while position < len(text):
        if len(found) == 1 and _PROSE.fullmatch(text, position) and decode_object(found[0]):
            steps.add(SURROUNDING_TEXT)
            break
        if len(found) > MAX_OBJECTS or (found and text[position] != "{"):
            raise Unreadable
        reading = _read(text, position, schema, inner_quotes=inner_quotes)
        steps |= reading.steps
        found.append(reading.text)
        position = _tail(text, reading.end, steps)
    # Brackets both missing and left over: then who knows which belong together.
    if {BRACKETS, SURPLUS_CLOSERS} <= steps:
        raise Unreadable
    first = found[0]
    if first.startswith("{"):
        repeated = {REPEATED_OBJECT} if len(found) > 1 else set()
        yield from _one_of(found, schema, steps | repeated)
    elif first.startswith("["):
        items = [bytes(item).decode() for item in _decoded_items(first)]
        yield from _one_of(items, schema, steps | {LIST_OF_ONE})
    elif first.startswith('"') and len(found) == 1:
        yield from _string(first, schema, steps, encodings)


def _read(text: str, position: int, schema: object, *, inner_quotes: bool) -> Reading:
    reader = Reader(text, schema, inner_quotes=inner_quotes)
    if QUOTED_KEY.match(text, position):
        return reader.read(position, without_brace=True)
    bare = BARE_KEY.match(text, position)
    is_keyword = bare and bare[1].lower() not in _TITLES and _KEYWORD.match(text, position)
    is_member = bare and (is_keyword or bare[1] in properties_of(schema))
    return reader.read(position, without_brace=bool(is_member))


def _decoded_items(array: str) -> list[msgspec.Raw]:
    try:
        return msgspec.json.decode(array, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        raise Unreadable from None


def _one_of(texts: list[str], schema: object, steps: set[str]) -> Iterator[Candidate]:
    """The one object that several texts stand for: all others are empty or the same again.

    Where they differ, only the schema can tell, and only if just one has what it requires.
    """
    if len(texts) == 1:
        yield Candidate(texts[0], frozenset(steps))
        return
    if len(texts) > MAX_OBJECTS:
        raise Unreadable
    objects: dict[bytes, str] = {}
    required = set(required_of(schema))
    complete = []
    for text in texts:
        value = decode_object(text)
        if value is None:
            raise Unreadable
        # By their text, since Python takes 1 and true for equal.
        spelled = msgspec.json.encode(value, order="deterministic")
        if value and spelled not in objects:
            objects[spelled] = text
            if required and required <= value.keys():
                complete.append(text)
    found = complete if len(objects) > 1 else list(objects.values()) or [NOTHING]
    if len(found) != 1:
        raise Unreadable
    yield Candidate(found[0], frozenset(steps))


def decode_object(text: str) -> dict[str, object] | None:
    """The object that a strict JSON text holds; None if it holds none."""
    try:
        value = decode(text)
    except DragomanError:
        return None
    return value if isinstance(value, dict) else None


def _string(literal: str, schema: object, steps: set[str], encodings: int) -> Iterator[Candidate]:
    """A string that is an object once more encoded, or the one string that a tool asks for."""
    value = msgspec.json.decode(literal, type=str)
    if not value or value.isspace():
        yield Candidate(NOTHING, frozenset(steps | {EMPTY}))
        return
    if encodings < MAX_ENCODINGS and value.lstrip()[:1] in ("{", "[", '"'):
        yield from _decoded(value, schema, steps, encodings)
    if name := only_text_property(schema):
        yield Candidate(encode({name: value}).decode(), frozenset(steps | {LONE_STRING}))


def _decoded(value: str, schema: object, steps: set[str], encodings: int) -> Iterator[Candidate]:
    outer = steps | {DOUBLE_ENCODING}
    if decode_object(value) is not None:
        yield Candidate(value, frozenset(outer))
        return
    for candidate in readings(value, schema, encodings=encodings + 1):
        yield Candidate(candidate.text, candidate.steps | outer)


def _escaped(text: str, schema: object, outer: Iterable[str], encodings: int) -> Iterator[Candidate]:
    """An object encoded as a string that has lost its own quotes, or has nothing but them."""
    steps = set(outer)
    if found := _QUOTED_OBJECT.fullmatch(text):
        yield from _decoded(found[1], schema, steps, encodings)
    if _ENCODED_START.match(text) and body_end(text, 0, '"') == len(text):
        value = msgspec.json.decode(written(text, '"', steps), type=str)
        yield from _decoded(value, schema, steps, encodings)


def _within_prose(text: str, lead: int, schema: object, outer: Iterable[str]) -> Iterator[Candidate]:
    """The one object that follows a sentence or two."""
    start = text.find("{", lead)
    if start <= lead or not _PROSE.fullmatch(text, 0, start):
        return
    title = _TITLE.fullmatch(text, 0, start)
    if (title and title[1].lower() not in _TITLES) or _ASSIGNMENT.search(text, 0, start):
        return
    try:
        reading = Reader(text, schema).read(start)
    except Unreadable:
        return
    steps = {*outer, *reading.steps, SURROUNDING_TEXT}
    if _PROSE.fullmatch(text, _tail(text, reading.end, steps)) and decode_object(reading.text):
        yield Candidate(reading.text, frozenset(steps))


def _by_schema(text: str, schema: object, outer: Iterable[str]) -> Iterator[Candidate]:
    """What only makes sense for this tool: its parameters line by line.

    Text without quotes is never taken for the one text that a tool wants: a sentence would become a command.
    """
    if found := lines.read_lines(text, schema):
        yield Candidate(found, frozenset(outer) | {LINES})
