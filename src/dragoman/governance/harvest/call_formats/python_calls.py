"""Calls written as Python: a name and keyword arguments that are literals.

Positional arguments, expressions and comprehensions are code, not calls, and are refused.
"""

import re

from dragoman.governance.harvest.call_formats.bare_calls import is_end_of_reply
from dragoman.governance.harvest.call_formats.tagged_parameters import read_tool_name
from dragoman.governance.harvest.cursor import CallReading, CursorReading, TextCall, TextCursor
from dragoman.governance.harvest.format import (
    THINK,
    FamilyFormat,
    FoundCalls,
    MarkerPlace,
    Opener,
    ReaderContext,
    Reading,
)
from dragoman.governance.harvest.json_text import write_object
from dragoman.governance.harvest.python_literals import convert_literal

_KEYWORD = re.compile(r"\w+")
_KEYWORD_LIMIT = 256
_OUTSIDE = re.compile(r"[\"'()\[\]{},]")
_INSIDE = {'"': re.compile(r'["\\]'), "'": re.compile(r"['\\]")}


def _read_list(cursor: TextCursor, context: ReaderContext) -> CursorReading[tuple[TextCall, ...] | None]:
    """`[f(a=1), g()]`, with at least one call."""
    calls: list[TextCall] = []
    if not (yield from cursor.take("[")):
        return None
    while True:
        yield from cursor.skip_blanks()
        if calls and (yield from cursor.take("]")):
            return tuple(calls)
        if calls:
            if not (yield from cursor.take(",")):
                return None
            yield from cursor.skip_blanks()
        call = yield from _read_call(cursor, context)
        if call is None:
            return None
        calls.append(call)


def _read_call(cursor: TextCursor, context: ReaderContext) -> CallReading:
    tool = yield from read_tool_name(cursor, context, "(")
    if tool is None:
        return None
    members: dict[str, str] = {}
    has_comma = True
    while True:
        yield from cursor.skip_blanks()
        if (yield from cursor.take(")")):
            return TextCall(name=tool.name, arguments=write_object(members))
        key = (yield from cursor.take_matching(_KEYWORD, _KEYWORD_LIMIT)) if has_comma else ""
        yield from cursor.skip_blanks()
        if not key or not (yield from cursor.take("=")):
            return None
        cursor.record = []
        is_whole = yield from _skip_argument(cursor)
        raw, cursor.record = "".join(cursor.record), None
        value = convert_literal(raw) if is_whole else None
        if value is None:
            return None
        members[key] = value
        has_comma = bool((yield from cursor.take(",")))


def _skip_argument(cursor: TextCursor) -> CursorReading[bool]:
    """Consume the text up to the comma or bracket that ends an argument; False if there is none."""
    depth = 0
    while (yield from cursor.wait()):
        character = cursor.skip_to(_OUTSIDE)
        if not character:
            continue
        if character in ",)" and not depth:
            return True
        if character in "\"'":
            quote = yield from cursor.take(character * 3, character)
            if not (yield from _skip_string(cursor, quote)):
                return False
            continue
        cursor.advance(1)
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            return False
    return False


def _skip_string(cursor: TextCursor, quote: str) -> CursorReading[bool]:
    while (yield from cursor.wait()):
        found = cursor.skip_to(_INSIDE[quote[0]])
        if not found:
            continue
        if found == "\\":
            cursor.advance(1)
            if (yield from cursor.wait()):
                cursor.advance(1)
        elif (yield from cursor.take(quote)):
            return True
        else:
            cursor.advance(1)
    return False


_LLAMA_ENDS = ("<|python_end|>", "<|eom_id|>", "<|eot_id|>", "<|eot|>", "<|eom|>")


def _read_llama4(cursor: TextCursor, context: ReaderContext) -> Reading:
    yield from cursor.skip_blanks()
    calls = yield from _read_list(cursor, context)
    if not calls:
        return None
    yield from cursor.skip_blanks()
    while (yield from cursor.take(*_LLAMA_ENDS)):
        yield from cursor.skip_blanks()
    return FoundCalls(calls)


def _read_bare_llama4(cursor: TextCursor, context: ReaderContext) -> Reading:
    calls = yield from _read_list(cursor, context)
    return FoundCalls(calls) if calls and (yield from is_end_of_reply(cursor, *_LLAMA_ENDS)) else None


def _read_lfm2(cursor: TextCursor, context: ReaderContext) -> Reading:
    yield from cursor.skip_blanks()
    calls = yield from _read_list(cursor, context)
    if not calls:
        return None
    yield from cursor.skip_blanks()
    return FoundCalls(calls) if (yield from cursor.take_closer("<|tool_call_end|>")) else None


def _read_olmo3(cursor: TextCursor, context: ReaderContext) -> Reading:
    """One call per line."""
    calls: list[TextCall] = []
    while True:
        yield from cursor.skip_blanks()
        if (yield from cursor.take_closer("</function_calls>", strict=context.strict)):
            return FoundCalls(tuple(calls)) if calls else None
        call = yield from _read_call(cursor, context)
        if call is None:
            return None
        calls.append(call)


FORMATS = (
    FamilyFormat(
        "llama4",
        "Llama 4, Llama 3.2",
        (
            Opener("<|python_start|>", _read_llama4, "A"),
            Opener("[", _read_bare_llama4, "C", MarkerPlace.OPENING, inside=0, auto=False),
        ),
    ),
    FamilyFormat(
        "lfm2", "LFM2", (Opener("<|tool_call_start|>", _read_lfm2, "A", text_behind=True),), (THINK,)
    ),
    FamilyFormat("olmo3", "Olmo 3", (Opener("<function_calls>", _read_olmo3, "B"),), (THINK,)),
)
