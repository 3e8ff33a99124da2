"""Calls written as Python: a name and keyword arguments that are literals, nothing else.

Positional arguments, expressions and comprehensions are code, not calls, and are refused.
"""

import re

from dragoman.governance.harvest.cursor import Call, Cursor, Step
from dragoman.governance.harvest.format import Context
from dragoman.governance.harvest.json_text import json_object
from dragoman.governance.harvest.literals import as_json
from dragoman.governance.harvest.tagged import NAME

_KEYWORD = re.compile(r"\w+")
_KEYWORD_LIMIT = 256
_OUTSIDE = re.compile(r"[\"'()\[\]{},]")
_INSIDE = {'"': re.compile(r'["\\]'), "'": re.compile(r"['\\]")}


def read_python_list(cursor: Cursor, context: Context) -> Step[tuple[Call, ...] | None]:
    """`[f(a=1), g()]`, with at least one call."""
    calls: list[Call] = []
    if not (yield from cursor.literal("[")):
        return None
    while True:
        yield from cursor.blanks()
        if calls and (yield from cursor.literal("]")):
            return tuple(calls)
        if calls:
            if not (yield from cursor.literal(",")):
                return None
            yield from cursor.blanks()
        call = yield from read_python_call(cursor, context)
        if call is None:
            return None
        calls.append(call)


def read_python_call(cursor: Cursor, context: Context) -> Step[Call | None]:
    name = yield from cursor.word(NAME, context.longest)
    if not context.knows(name) or not (yield from cursor.literal("(")):
        return None
    members: dict[str, str] = {}
    comma = True
    while True:
        yield from cursor.blanks()
        if (yield from cursor.literal(")")):
            return Call(name=name, arguments=json_object(members))
        key = (yield from cursor.word(_KEYWORD, _KEYWORD_LIMIT)) if comma else ""
        yield from cursor.blanks()
        if not key or not (yield from cursor.literal("=")):
            return None
        raw = yield from _raw_argument(cursor)
        value = None if raw is None else as_json(raw)
        if value is None:
            return None
        members[key] = value
        comma = bool((yield from cursor.literal(",")))


def _raw_argument(cursor: Cursor) -> Step[str | None]:
    """The text up to the comma or bracket that ends an argument; None if there is none."""
    cursor.tape = []
    whole = yield from _skip_argument(cursor)
    taken, cursor.tape = "".join(cursor.tape), None
    return taken if whole else None


def _skip_argument(cursor: Cursor) -> Step[bool]:
    depth = 0
    while (yield from cursor.more()):
        start = cursor.at - cursor.source.base
        found = _OUTSIDE.search(cursor.source.text, start)
        cursor.advance((found.start() if found else len(cursor.source.text)) - start)
        if found is None:
            continue
        character = found[0]
        if character in ",)" and not depth:
            return True
        if character in "\"'":
            quote = yield from cursor.literal(character * 3, character)
            if not (yield from _skip_string(cursor, quote)):
                return False
            continue
        cursor.advance(1)
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            return False
    return False


def _skip_string(cursor: Cursor, quote: str) -> Step[bool]:
    while (yield from cursor.more()):
        start = cursor.at - cursor.source.base
        found = _INSIDE[quote[0]].search(cursor.source.text, start)
        cursor.advance((found.start() if found else len(cursor.source.text)) - start)
        if found is None:
            continue
        if found[0] == "\\":
            cursor.advance(1)
            if (yield from cursor.more()):
                cursor.advance(1)
        elif (yield from cursor.literal(quote)):
            return True
        else:
            cursor.advance(1)
    return False
