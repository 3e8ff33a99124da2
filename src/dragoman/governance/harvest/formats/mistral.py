"""Mistral: a list of JSON objects behind one token, or, in newer tokenizers, the token before each name.

Neither has a closing mark. The model's own ids are not kept: it makes them up, and the same ones again.
"""

import re

from dragoman.governance.harvest.cursor import Call, Cursor
from dragoman.governance.harvest.format import Calls, Context, Format, Opener, Reading, Reasoning
from dragoman.governance.harvest.json_calls import JsonBody, read_calls
from dragoman.governance.harvest.json_text import Bounds, raw_value, unwrapped
from dragoman.governance.harvest.reasoning import THINK
from dragoman.governance.harvest.tagged import NAME

MARKER = "[TOOL_CALLS]"
LIST = JsonBody(shapes=("list",))
_ID = re.compile(r"\w+")


def read(cursor: Cursor, context: Context) -> Reading:
    yield from cursor.blanks()
    if (yield from cursor.peek()) == "[":
        calls = yield from read_calls(cursor, context, LIST)
        return Calls(calls) if calls else None
    name = yield from cursor.word(NAME, context.longest)
    if not context.knows(name):
        return None
    if (yield from cursor.literal("[CALL_ID]")):
        yield from cursor.word(_ID, 64)
    yield from cursor.literal("[ARGS]")
    yield from cursor.blanks()
    if (yield from cursor.peek()) != "{":
        return None
    raw = yield from raw_value(cursor, Bounds())
    return None if raw is None else Calls((Call(name=name, arguments=unwrapped(raw)),))


FORMATS = (
    Format(
        name="mistral",
        models="Mistral, Devstral, Magistral",
        openers=(Opener(marker=MARKER, read=read, safety="A"),),
        reasoning=(Reasoning(opens="[THINK]", closes="[/THINK]"), THINK),
    ),
)
