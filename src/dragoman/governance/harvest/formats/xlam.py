"""xLAM: a JSON list of calls: alone, in a fence, behind Mistral's token or in a `<tool_call>`.

Alone or in a fence it must be the whole answer. The fence is part of the format here.
"""

from dragoman.governance.harvest.bare import nothing_follows
from dragoman.governance.harvest.cursor import Cursor
from dragoman.governance.harvest.format import Calls, Context, Format, Opener, Place, Reading
from dragoman.governance.harvest.json_calls import JsonBody, json_reader, read_calls
from dragoman.governance.harvest.reasoning import THINK

FENCE = "```"
LIST = JsonBody(shapes=("list",))
WRAPPED = json_reader(JsonBody(shapes=("list",), closers=("</tool_call>",), optional=True))


def read_bare(cursor: Cursor, context: Context) -> Reading:
    calls = yield from read_calls(cursor, context, LIST)
    return Calls(calls) if calls and (yield from nothing_follows(cursor)) else None


def read_fenced(cursor: Cursor, context: Context) -> Reading:
    yield from cursor.literal("json")
    calls = yield from read_calls(cursor, context, LIST)
    if not calls:
        return None
    yield from cursor.blanks()
    fenced = yield from cursor.literal(FENCE)
    return Calls(calls) if fenced and (yield from nothing_follows(cursor)) else None


FORMATS = (
    Format(
        name="xlam",
        models="xLAM",
        openers=(
            Opener(marker="[", read=read_bare, safety="C", place=Place.OPENING, inside=0),
            Opener(marker=FENCE, read=read_fenced, safety="C", place=Place.OPENING),
            Opener(marker="[TOOL_CALLS]", read=json_reader(LIST), safety="A", auto=False),
            Opener(marker="<tool_call>", read=WRAPPED, safety="B", auto=False),
        ),
        reasoning=(THINK,),
    ),
)
