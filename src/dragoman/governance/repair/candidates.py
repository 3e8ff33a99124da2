"""The objects that a text can mean, the most conservative first.

Every candidate is the text of an object, or nearly one. Each costs one pass over the text, and their number
is fixed.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from dragoman.governance.repair.reader import LenientReader, ReadValue
from dragoman.governance.repair.reader_states import BARE_KEY, NAME, QUOTED_KEY
from dragoman.governance.repair.schema import only_text_property, types_of
from dragoman.governance.repair.steps import RepairStep, UnreadableText, UnrepairableText
from dragoman.governance.repair.tokens import (
    CLOSING_QUOTES,
    OUTSIDE,
    QUOTES_CLASS,
    find_quote,
    read_bare_value,
    skip_blanks,
    write_string,
)
from dragoman.hub.errors import DragomanError
from dragoman.schema import properties_of, required_of
from dragoman.wire.fields import decode, encode
from dragoman.wire.json_grammar import SURROGATE, pair_surrogates

NO_ARGUMENTS = "{}"
#: How many equal objects may follow each other.
MAX_OBJECTS = 16
#: How often a text may be encoded as a string.
MAX_ENCODINGS = 2

_NULL = re.compile(r"(?:null|None|undefined|nil|NULL|\[\s*+\])(?![\w$])")
#: Keyword arguments whose value cannot begin a sentence.
_KEYWORD = re.compile(
    rf"{NAME}\s*+=\s*+(?:[{QUOTES_CLASS}\[{{]|-?[0-9]|(?:true|false|null|True|False|None)\b)"
)
_ENCODED_START = re.compile(r'\s*+[{\[](?:\s|\\[nrt])*+\\+"')
_QUOTED_OBJECT = re.compile(r'\s*+"\s*+(\{.*\})\s*"\s*', re.DOTALL)
_TAIL = re.compile(r"(?P<closers>[}\])][}\])\s]*+)|[,;][,;\s]*+")
_PROSE = re.compile(r'[^{}\[\]"]*+')
#: A name before an object is a title if it only states that these are arguments.
_TITLE = re.compile(r"\s*+(\w++)\s*+[:=]\s*+(?:```\w*+\s*+)?")
_TITLES = frozenset(("arguments", "args", "parameters", "params", "input", "json", "kwargs", "object"))
#: Prose that may hold another argument.
_ASSIGNMENT = re.compile(r"[:=]\s*+[^\s`]")
_LINE = re.compile(r"\s*+([\w$.-]{1,200}+)\s*+[:=]\s*+(\S.*+)")


class RepairCandidate(msgspec.Struct, frozen=True):
    """The text of an object, and the steps that led to it."""

    text: str
    steps: frozenset[RepairStep]


def find_candidates(text: str, schema: object, *, encodings: int = 0) -> Iterator[RepairCandidate]:
    """Yield the objects that a text may mean. The caller checks whether each is a valid object."""
    steps: set[RepairStep] = set()
    if SURROGATE.search(text):
        text = pair_surrogates(text)
        steps.add(RepairStep.ESCAPES)
    start = skip_blanks(text, 0, OUTSIDE, steps)
    if start == len(text) or _is_null(text, start):
        # A comment is content: a text with one is not empty.
        if RepairStep.COMMENTS not in steps:
            yield RepairCandidate(NO_ARGUMENTS, frozenset(steps | {RepairStep.EMPTY}))
        return
    # The second way to find the ends of strings is for texts where the first fails.
    for inner_quotes in (False, True):
        try:
            yield from _read_whole(text, start, schema, steps, inner_quotes=inner_quotes, encodings=encodings)
            break
        except UnrepairableText:
            return
        except UnreadableText:
            continue
    if encodings < MAX_ENCODINGS:
        yield from _read_escaped(text, schema, steps, encodings)
    yield from _read_behind_prose(text, start, schema, steps)
    # Bare text is never used as a tool's only text parameter: a sentence would become a command.
    if found := _read_lines(text, schema):
        yield RepairCandidate(found, frozenset(steps) | {RepairStep.LINES})


def _is_null(text: str, start: int) -> bool:
    found = _NULL.match(text, start)
    return found is not None and _skip_tail(text, found.end(), set()) == len(text)


def _skip_tail(text: str, position: int, steps: set[RepairStep]) -> int:
    """Skip what may follow an object: blanks, surplus closing brackets, commas."""
    while True:
        position = skip_blanks(text, position, OUTSIDE, steps)
        found = _TAIL.match(text, position)
        if found is None:
            return position
        steps.add(RepairStep.SURPLUS_CLOSERS if found["closers"] else RepairStep.COMMAS)
        position = found.end()


def _read_whole(
    text: str, start: int, schema: object, outer: Iterable[RepairStep], *, inner_quotes: bool, encodings: int
) -> Iterator[RepairCandidate]:
    """Read the text as one value, or as the same object several times."""
    steps = set(outer)
    found: list[str] = []
    position = start
    while position < len(text):
        if len(found) == 1 and _PROSE.fullmatch(text, position) and decode_object(found[0]):
            steps.add(RepairStep.SURROUNDING_TEXT)
            break
        if len(found) > MAX_OBJECTS or (found and text[position] != "{"):
            raise UnreadableText
        reading = _read_value(text, position, schema, inner_quotes=inner_quotes)
        steps |= reading.steps
        found.append(reading.text)
        position = _skip_tail(text, reading.end, steps)
    # With brackets both missing and surplus it is unknown which belong together.
    if {RepairStep.BRACKETS, RepairStep.SURPLUS_CLOSERS} <= steps:
        raise UnreadableText
    first = found[0]
    if first.startswith("{"):
        repeated = {RepairStep.REPEATED_OBJECT} if len(found) > 1 else set()
        yield from _select_object(found, schema, steps | repeated)
    elif first.startswith("["):
        items = [bytes(item).decode() for item in _decode_items(first)]
        yield from _select_object(items, schema, steps | {RepairStep.LIST_OF_ONE})
    elif first.startswith('"') and len(found) == 1:
        yield from _read_string(first, schema, steps, encodings)


def _read_value(text: str, position: int, schema: object, *, inner_quotes: bool) -> ReadValue:
    reader = LenientReader(text, schema, inner_quotes=inner_quotes)
    if QUOTED_KEY.match(text, position):
        return reader.read(position, without_brace=True)
    bare = BARE_KEY.match(text, position)
    is_keyword = bare and bare[1].lower() not in _TITLES and _KEYWORD.match(text, position)
    is_member = bare and (is_keyword or bare[1] in properties_of(schema))
    return reader.read(position, without_brace=bool(is_member))


def _decode_items(array: str) -> list[msgspec.Raw]:
    try:
        return msgspec.json.decode(array, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        raise UnreadableText from None


def _select_object(texts: list[str], schema: object, steps: set[RepairStep]) -> Iterator[RepairCandidate]:
    """The one object among several texts: all others are empty or equal to it.

    Where they differ the schema decides, if only one object has all required members.
    """
    if len(texts) == 1:
        yield RepairCandidate(texts[0], frozenset(steps))
        return
    if len(texts) > MAX_OBJECTS:
        raise UnreadableText
    objects: dict[bytes, str] = {}
    required = set(required_of(schema))
    complete = []
    for text in texts:
        value = decode_object(text)
        if value is None:
            raise UnreadableText
        # Compared as text, because in Python 1 equals True.
        canonical = msgspec.json.encode(value, order="deterministic")
        if value and canonical not in objects:
            objects[canonical] = text
            if required and required <= value.keys():
                complete.append(text)
    found = complete if len(objects) > 1 else list(objects.values()) or [NO_ARGUMENTS]
    if len(found) != 1:
        raise UnreadableText
    yield RepairCandidate(found[0], frozenset(steps))


def decode_object(text: str) -> dict[str, object] | None:
    """The object of a strict JSON text; None if it is not an object."""
    try:
        value = decode(text)
    except DragomanError:
        return None
    return value if isinstance(value, dict) else None


def _read_string(
    literal: str, schema: object, steps: set[RepairStep], encodings: int
) -> Iterator[RepairCandidate]:
    """Read a string that holds an encoded object, or the value of the tool's only text parameter."""
    value = msgspec.json.decode(literal, type=str)
    if not value or value.isspace():
        yield RepairCandidate(NO_ARGUMENTS, frozenset(steps | {RepairStep.EMPTY}))
        return
    if encodings < MAX_ENCODINGS and value.lstrip()[:1] in ("{", "[", '"'):
        yield from _decode_candidates(value, schema, steps, encodings)
    if name := only_text_property(schema):
        yield RepairCandidate(encode({name: value}).decode(), frozenset(steps | {RepairStep.LONE_STRING}))


def _decode_candidates(
    value: str, schema: object, steps: set[RepairStep], encodings: int
) -> Iterator[RepairCandidate]:
    outer = steps | {RepairStep.DOUBLE_ENCODING}
    if decode_object(value) is not None:
        yield RepairCandidate(value, frozenset(outer))
        return
    for candidate in find_candidates(value, schema, encodings=encodings + 1):
        yield RepairCandidate(candidate.text, candidate.steps | outer)


def _read_escaped(
    text: str, schema: object, outer: Iterable[RepairStep], encodings: int
) -> Iterator[RepairCandidate]:
    """Read an object that was encoded as a string, without the string's quotes or without its escapes."""
    steps = set(outer)
    if found := _QUOTED_OBJECT.fullmatch(text):
        yield from _decode_candidates(found[1], schema, steps, encodings)
    if _ENCODED_START.match(text) and find_quote(text, 0, '"') == len(text):
        value = msgspec.json.decode(write_string(text, '"', steps), type=str)
        yield from _decode_candidates(value, schema, steps, encodings)


def _read_behind_prose(
    text: str, lead: int, schema: object, outer: Iterable[RepairStep]
) -> Iterator[RepairCandidate]:
    """Read the one object after a short text."""
    start = text.find("{", lead)
    if start <= lead or not _PROSE.fullmatch(text, 0, start):
        return
    title = _TITLE.fullmatch(text, 0, start)
    if (title and title[1].lower() not in _TITLES) or _ASSIGNMENT.search(text, 0, start):
        return
    try:
        reading = LenientReader(text, schema).read(start)
    except UnreadableText:
        return
    steps = {*outer, *reading.steps, RepairStep.SURROUNDING_TEXT}
    if _PROSE.fullmatch(text, _skip_tail(text, reading.end, steps)) and decode_object(reading.text):
        yield RepairCandidate(reading.text, frozenset(steps))


def _read_lines(text: str, schema: object) -> str | None:
    """The object of parameters that stand one per line as `name: value` or `name = value`, or None.

    Only for tools with declared parameters, and only if every line is one of them: then no other meaning is
    possible.
    """
    properties = properties_of(schema)
    members: dict[str, str] = {}
    for line in text.splitlines() if properties else ():
        if not line or line.isspace():
            continue
        found = _LINE.fullmatch(line)
        if found is None or found[1] not in properties or found[1] in members:
            return None
        value = _read_line_value(found[2].rstrip(), types_of(properties[found[1]]))
        if value is None:
            return None
        members[found[1]] = value
    if not members:
        return None
    return "{" + ", ".join([f"{encode(name).decode()}: {value}" for name, value in members.items()]) + "}"


def _read_line_value(text: str, types: frozenset[str]) -> str | None:
    if text[0] in CLOSING_QUOTES:
        end = find_quote(text, 1, text[0])
        return write_string(text[1:end], text[0], set()) if end == len(text) - 1 else None
    if types == {"string"}:
        return encode(text).decode()
    return None if text[0] in "{[" else read_bare_value(text, types, set())
