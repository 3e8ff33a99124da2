"""Gemma 4 and FunctionGemma: `call:name{key:value}`, with strings between tokens of their own."""

import re

import msgspec

from dragoman.governance.harvest.cursor import Call, Cursor
from dragoman.governance.harvest.format import Calls, Context, Format, Opener, Reader, Reading, Reasoning
from dragoman.governance.harvest.json_text import is_object, json_string
from dragoman.governance.harvest.tagged import NAME

_BARE_KEY = re.compile(r"([{,]\s*)([A-Za-z_$][\w$.-]*)(\s*:)")


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    opens: str
    quote: str
    closes: str


GEMMA4 = Marks(opens="<|tool_call>", quote='<|"|>', closes="<tool_call|>")
FUNCTION_GEMMA = Marks(opens="<start_function_call>", quote="<escape>", closes="<end_function_call>")


def _reader(marks: Marks) -> Reader:
    def read(cursor: Cursor, context: Context) -> Reading:
        yield from cursor.blanks()
        if not (yield from cursor.literal("call:")):
            return None
        yield from cursor.blanks()
        name = yield from cursor.word(NAME, context.longest)
        if not context.knows(name):
            return None
        yield from cursor.blanks()
        if (yield from cursor.peek()) != "{":
            return None
        parts: list[str] = []
        while True:
            outside, stop = yield from cursor.until(marks.quote, marks.closes, marks.opens)
            parts.append(_BARE_KEY.sub(r'\1"\2"\3', outside))
            if stop == marks.opens:
                cursor.back(stop)
                return None
            if stop != marks.quote:
                break
            inside, stop = yield from cursor.until(marks.quote)
            if not stop:
                return None
            parts.append(json_string(inside))
        arguments = "".join(parts).rstrip()
        ended = stop == marks.closes or (not stop and cursor.ended_well)
        return Calls((Call(name=name, arguments=arguments),)) if ended and is_object(arguments) else None

    return read


FORMATS = (
    Format(
        name="gemma4",
        models="Gemma 4",
        openers=(Opener(marker=GEMMA4.opens, read=_reader(GEMMA4), safety="A"),),
        reasoning=(Reasoning(opens="<|channel>", closes="<channel|>", again=True, label="thought"),),
    ),
    Format(
        name="functiongemma",
        models="FunctionGemma",
        openers=(Opener(marker=FUNCTION_GEMMA.opens, read=_reader(FUNCTION_GEMMA), safety="A"),),
    ),
)
