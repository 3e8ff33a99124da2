"""Calls as JSON without a marker: Qwen2.5 Coder, Llama 3, xLAM.

Without a marker the whole visible answer must be calls, because JSON that a user asked for looks exactly
alike. If the arguments fit the tool's schema, the last block of the answer is enough (`bare_json`).
"""

import re

from dragoman.governance.harvest.call_formats.json_in_tags import (
    READ_HERMES,
    JsonBody,
    json_reader,
    read_json_calls,
)
from dragoman.governance.harvest.cursor import CursorReading, TextCall, TextCursor, TextEnding
from dragoman.governance.harvest.format import (
    THINK,
    FamilyFormat,
    FoundCalls,
    MarkerPlace,
    Opener,
    ReaderContext,
    Reading,
)
from dragoman.governance.harvest.parts import UNFIT
from dragoman.governance.harvest.schema_values import fits_schema

_OBJECT = JsonBody("object")
_LIST = JsonBody("list")
_LLAMA_ENDS = ("<|eom_id|>", "<|eot_id|>")
_QWEN_ENDS = ("<|im_end|>", "<|endoftext|>")
_FENCE = "```"
_LANGUAGE = re.compile(r"[a-z_]+")


def is_end_of_reply(cursor: TextCursor, *tokens: str) -> CursorReading[bool]:
    """Whether the reply ends here, by the model itself; leaked end tokens are consumed."""
    while True:
        yield from cursor.skip_blanks()
        if not tokens or not (yield from cursor.take(*tokens)):
            break
    return not (yield from cursor.wait()) and cursor.source.ending is TextEnding.CLEAN


def _read_objects(cursor: TextCursor, context: ReaderContext) -> CursorReading[tuple[TextCall, ...]]:
    """Read call objects separated by `;`. Returns their calls; none if one object is no call."""
    calls: tuple[TextCall, ...] = ()
    while True:
        found = yield from read_json_calls(cursor, context, _OBJECT)
        if not found:
            return ()
        calls += found
        yield from cursor.skip_blanks()
        if not (yield from cursor.take(";")):
            return calls


def _read_llama3(cursor: TextCursor, context: ReaderContext) -> Reading:
    calls = yield from _read_objects(cursor, context)
    if not calls:
        return None
    yield from cursor.take(*_LLAMA_ENDS)
    return FoundCalls(calls)


def _read_bare_llama3(cursor: TextCursor, context: ReaderContext) -> Reading:
    calls = yield from _read_objects(cursor, context)
    return FoundCalls(calls) if calls and (yield from is_end_of_reply(cursor, *_LLAMA_ENDS)) else None


def _read_bare_list(cursor: TextCursor, context: ReaderContext) -> Reading:
    calls = yield from read_json_calls(cursor, context, _LIST)
    return FoundCalls(calls) if calls and (yield from is_end_of_reply(cursor)) else None


def _read_fitting_objects(cursor: TextCursor, context: ReaderContext) -> CursorReading[tuple[TextCall, ...]]:
    """Read consecutive call objects. Returns none if the arguments of one do not fit its tool's schema."""
    calls: tuple[TextCall, ...] = ()
    while not calls or (yield from cursor.peek()) == "{":
        found = yield from read_json_calls(cursor, context, _OBJECT)
        tool = context.find(found[0].name, cursor) if found else None
        if not found or tool is None:
            return ()
        if not fits_schema(found[0].arguments, tool.schema):
            cursor.refusal = UNFIT
            return ()
        calls += found
        yield from cursor.skip_blanks()
    return calls


def _read_bare_objects(cursor: TextCursor, context: ReaderContext) -> Reading:
    calls = yield from _read_fitting_objects(cursor, context)
    return FoundCalls(calls) if calls and (yield from is_end_of_reply(cursor, *_QWEN_ENDS)) else None


def _read_fenced_objects(cursor: TextCursor, context: ReaderContext) -> Reading:
    """Read the objects of one fence or of consecutive fences."""
    calls: tuple[TextCall, ...] = ()
    while not calls or (yield from cursor.take(_FENCE)):
        yield from cursor.take_matching(_LANGUAGE, 16)
        found = yield from _read_fitting_objects(cursor, context)
        if not found or not (yield from cursor.take(_FENCE)):
            return None
        calls += found
        yield from cursor.skip_blanks()
    return FoundCalls(calls) if (yield from is_end_of_reply(cursor, *_QWEN_ENDS)) else None


def _read_fenced_list(cursor: TextCursor, context: ReaderContext) -> Reading:
    """xLAM's own format puts its list into a fence."""
    yield from cursor.take("json")
    calls = yield from read_json_calls(cursor, context, _LIST)
    if not calls:
        return None
    yield from cursor.skip_blanks()
    is_closed = yield from cursor.take(_FENCE)
    return FoundCalls(calls) if is_closed and (yield from is_end_of_reply(cursor)) else None


FORMATS = (
    FamilyFormat(
        "bare_json",
        "Qwen2.5 Coder, and others that write only the JSON",
        (
            Opener("<tool_call>", READ_HERMES, "B"),
            Opener("{", _read_bare_objects, "C", inside=0),
            Opener(_FENCE, _read_fenced_objects, "C"),
        ),
    ),
    FamilyFormat(
        "llama3",
        "Llama 3.1 to 3.3",
        (
            Opener("<|python_tag|>", _read_llama3, "A"),
            Opener("{", _read_bare_llama3, "C", MarkerPlace.OPENING, inside=0, auto=False),
        ),
    ),
    FamilyFormat(
        "xlam",
        "xLAM",
        (
            Opener("[", _read_bare_list, "C", MarkerPlace.OPENING, inside=0, auto=False),
            Opener(_FENCE, _read_fenced_list, "C", MarkerPlace.OPENING, auto=False),
            Opener("[TOOL_CALLS]", json_reader(_LIST), "A", auto=False),
            Opener(
                "<tool_call>",
                json_reader(JsonBody("list", ("</tool_call>",), optional=True)),
                "B",
                auto=False,
            ),
        ),
        (THINK,),
    ),
)
