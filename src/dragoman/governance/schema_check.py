"""Checks a JSON value against the common words of JSON schema, within a bounded number of steps.

Words that are not known here permit everything, and so does what cannot be decided: this check is there to
tell which models misbehave, not to prove that they do not. Flaws name places and types, never values.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache

import msgspec

from dragoman.governance.guard.pattern_syntax import PatternError
from dragoman.governance.guard.patterns import Pattern
from dragoman.wire.fields import json_type

MAX_STEPS = 20_000
MAX_DEPTH = 60
MAX_FLAWS = 8
#: Longer texts are not held against a pattern.
MAX_PATTERN_TEXT = 64 * 1024
MAX_SHOWN_NAME = 64

Schema = object


class Flaw(msgspec.Struct, frozen=True):
    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem


class Check(msgspec.Struct, frozen=True):
    """`is_complete`: everything could be looked at."""

    flaws: tuple[Flaw, ...]
    is_complete: bool = True


class _GaveUp(Exception):
    """There was more to look at than allowed."""


def check(value: object, schema: Schema) -> Check:
    """What is wrong with the value, the first few flaws of it."""
    checker = _Checker(schema)
    flaws: list[Flaw] = []
    try:
        for flaw in checker.flaws(value, schema, "", 0):
            flaws.append(flaw)
            if len(flaws) == MAX_FLAWS:
                break
    except _GaveUp:
        return Check(tuple(flaws), is_complete=False)
    return Check(tuple(flaws))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool


def _is_integer(value: object) -> bool:
    return _is_number(value) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


TYPES: dict[str, tuple[str, Callable[[object], bool]]] = {
    "object": ("an object", lambda value: isinstance(value, dict)),
    "array": ("an array", lambda value: isinstance(value, list)),
    "string": ("a string", lambda value: isinstance(value, str)),
    "number": ("a number", _is_number),
    "integer": ("an integer", _is_integer),
    "boolean": ("a boolean", lambda value: isinstance(value, bool)),
    "null": ("null", lambda value: value is None),
}

#: Bounds: what they bound, how, and in which words.
_Bound = Callable[[float, float], bool]
_BOUNDS: dict[str, tuple[str, _Bound, str]] = {
    "minimum": ("number", lambda size, bound: size >= bound, "a number from {} on"),
    "maximum": ("number", lambda size, bound: size <= bound, "a number up to {}"),
    "exclusiveMinimum": ("number", lambda size, bound: size > bound, "a number above {}"),
    "exclusiveMaximum": ("number", lambda size, bound: size < bound, "a number below {}"),
    "minLength": ("string", lambda size, bound: size >= bound, "at least {} characters"),
    "maxLength": ("string", lambda size, bound: size <= bound, "at most {} characters"),
    "minItems": ("array", lambda size, bound: size >= bound, "at least {} items"),
    "maxItems": ("array", lambda size, bound: size <= bound, "at most {} items"),
    "minProperties": ("object", lambda size, bound: size >= bound, "at least {} members"),
    "maxProperties": ("object", lambda size, bound: size <= bound, "at most {} members"),
}


class _Checker:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._steps = 0

    def flaws(self, value: object, schema: Schema, path: str, depth: int) -> Iterator[Flaw]:
        self._steps += 1
        if self._steps > MAX_STEPS or depth > MAX_DEPTH:
            raise _GaveUp
        if schema is False:
            yield Flaw(path, "expected nothing here")
        if not isinstance(schema, dict):
            return
        if "$ref" in schema:
            yield from self.flaws(value, _resolved(self._root, schema["$ref"]), path, depth + 1)
        if value is None and schema.get("nullable") is True:
            return
        wrong = list(_wrong_type(value, schema.get("type"), path))
        if wrong:
            # What is of another type has no use for the rest.
            yield from wrong
            return
        yield from _wrong_choice(value, schema, path)
        yield from _out_of_bounds(value, schema, path)
        yield from self._combined(value, schema, path, depth)
        if isinstance(value, dict):
            yield from self._object(value, schema, path, depth)
        elif isinstance(value, list):
            yield from self._array(value, schema, path, depth)

    def _fits(self, value: object, schema: Schema, path: str, depth: int) -> bool:
        return next(self.flaws(value, schema, path, depth + 1), None) is None

    def _combined(self, value: object, schema: dict[str, object], path: str, depth: int) -> Iterator[Flaw]:
        for option in _list(schema.get("allOf")):
            yield from self.flaws(value, option, path, depth + 1)
        for word in ("anyOf", "oneOf"):
            options = _list(schema.get(word))
            fitting = sum(self._fits(value, option, path, depth) for option in options)
            if options and not fitting:
                yield Flaw(path, f"expected one of {len(options)} forms, got {json_type(value)} of none")
            elif word == "oneOf" and fitting > 1:
                yield Flaw(path, f"expected exactly one of {len(options)} forms, fits {fitting}")
        if "not" in schema and self._fits(value, schema["not"], path, depth):
            yield Flaw(path, "expected anything but this")

    def _object(
        self, value: dict[str, object], schema: dict[str, object], path: str, depth: int
    ) -> Iterator[Flaw]:
        declared = schema.get("properties")
        properties = declared if isinstance(declared, dict) else {}
        for name in _list(schema.get("required")):
            if isinstance(name, str) and name not in value:
                yield Flaw(_below(path, name), "expected, but missing")
        patterns = schema.get("patternProperties")
        others = schema.get("additionalProperties", True)
        for name, member in value.items():
            place = _below(path, name)
            if name in properties:
                yield from self.flaws(member, properties[name], place, depth + 1)
            elif others is False and not isinstance(patterns, dict):
                yield Flaw(place, "no such member")
            elif isinstance(others, dict) and not isinstance(patterns, dict):
                yield from self.flaws(member, others, place, depth + 1)

    def _array(self, value: list[object], schema: dict[str, object], path: str, depth: int) -> Iterator[Flaw]:
        first = _list(schema.get("prefixItems"))
        for position, item in enumerate(value):
            wanted = first[position] if position < len(first) else schema.get("items", True)
            if wanted is not True:
                yield from self.flaws(item, wanted, f"{path}[{position}]", depth + 1)


def _wrong_type(value: object, wanted: object, path: str) -> Iterator[Flaw]:
    names = [wanted] if isinstance(wanted, str) else _list(wanted)
    # Gemini spells types in capitals.
    known = [TYPES[name.lower()] for name in names if isinstance(name, str) and name.lower() in TYPES]
    if known and len(known) == len(names) and not any(accepts(value) for _, accepts in known):
        words = " or ".join(words for words, _ in known)
        yield Flaw(path, f"expected {words}, got {json_type(value)}")


def _wrong_choice(value: object, schema: dict[str, object], path: str) -> Iterator[Flaw]:
    choices = schema.get("enum")
    if isinstance(choices, list) and choices and not any(_is_same(value, choice) for choice in choices):
        yield Flaw(path, f"expected one of {len(choices)} values, got another {_kind(value)}")
    if "const" in schema and not _is_same(value, schema["const"]):
        yield Flaw(path, f"expected one certain value, got another {_kind(value)}")


def _out_of_bounds(value: object, schema: dict[str, object], path: str) -> Iterator[Flaw]:
    for word, (kind, holds, words) in _BOUNDS.items():
        bound = schema.get(word)
        if bound is None or not isinstance(bound, int | float) or not TYPES[kind][1](value):
            continue
        if not holds(_size(value), bound):
            yield Flaw(path, f"expected {words.format(bound)}")
    source = schema.get("pattern")
    if isinstance(value, str) and isinstance(source, str) and len(value) <= MAX_PATTERN_TEXT:
        pattern = _pattern(source)
        if pattern is not None and not pattern.found_in(value):
            yield Flaw(path, "expected a text of a certain pattern")


def _size(value: object) -> float:
    if isinstance(value, int | float):
        return value
    return len(value) if isinstance(value, str | list | dict) else 0


def _is_same(one: object, other: object) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _kind(value: object) -> str:
    return json_type(value).removeprefix("a ").removeprefix("an ")


@lru_cache(maxsize=256)
def _pattern(source: str) -> Pattern | None:
    """None: a pattern that cannot be looked for in one pass, and so is not looked for."""
    try:
        return Pattern(source)
    except PatternError:
        return None


def _resolved(root: Schema, reference: object) -> Schema:
    """What a reference within the schema means; anything else permits everything."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return True
    schema = root
    for name in reference[1:].split("/")[1:]:
        name = name.replace("~1", "/").replace("~0", "~")
        if not isinstance(schema, dict) or name not in schema:
            return True
        schema = schema[name]
    return schema


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _below(path: str, name: str) -> str:
    """A name that a model made up may be anything; one that could be a member's is shown."""
    shown = name if name.isascii() and name.isidentifier() and len(name) <= MAX_SHOWN_NAME else "*"
    return f"{path}.{shown}" if path else shown
