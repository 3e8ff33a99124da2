"""Hunyuan V3: calls like GLM's in a `<tool_calls>`; some builds put one suffix behind every tag's name."""

import re

from dragoman.governance.harvest.cursor import Call, Cursor
from dragoman.governance.harvest.format import Calls, Context, Format, Opener, Reading
from dragoman.governance.harvest.json_text import json_object
from dragoman.governance.harvest.reasoning import THINK
from dragoman.governance.harvest.tagged import NAME, Parameter, read_parameters

MARKER = "<tool_calls"
_SUFFIX = re.compile(r"[\w:.-]+")
_SUFFIX_LIMIT = 32


def read(cursor: Cursor, context: Context) -> Reading:
    suffix = yield from cursor.word(_SUFFIX, _SUFFIX_LIMIT)
    if not (yield from cursor.literal(">")):
        return None
    argument = Parameter(
        opens=f"<arg_key{suffix}>",
        named={f"</arg_key{suffix}>": "schema"},
        begins=f"<arg_value{suffix}>",
        closes=f"</arg_value{suffix}>",
    )
    opens, closes, end = f"<tool_call{suffix}>", f"</tool_call{suffix}>", f"</tool_calls{suffix}>"
    calls: list[Call] = []
    while True:
        yield from cursor.blanks()
        found = yield from cursor.literal(opens, end)
        if found != opens:
            ended = found or (calls and not context.strict and (yield from cursor.closing(end)))
            return Calls(tuple(calls)) if calls and ended else None
        name = yield from cursor.word(NAME, context.longest)
        tool = context.tools.get(name)
        if tool is None:
            return None
        yield from cursor.blanks()
        yield from cursor.literal(f"<tool_sep{suffix}>")
        members = yield from read_parameters(cursor, context, argument, tool, closes)
        if members is None:
            return None
        calls.append(Call(name=name, arguments=json_object(members)))


FORMATS = (
    Format(
        name="hunyuan_v3",
        models="Hunyuan V3",
        openers=(Opener(marker=MARKER, read=read, safety="B"),),
        reasoning=(THINK,),
    ),
)
