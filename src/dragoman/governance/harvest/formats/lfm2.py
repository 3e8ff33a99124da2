"""LFM2: a list of Python calls between special tokens."""

from dragoman.governance.harvest.cursor import Cursor
from dragoman.governance.harvest.format import Calls, Context, Format, Opener, Reading
from dragoman.governance.harvest.pythonic import read_python_list
from dragoman.governance.harvest.reasoning import THINK

MARKER = "<|tool_call_start|>"
CLOSER = "<|tool_call_end|>"


def read(cursor: Cursor, context: Context) -> Reading:
    yield from cursor.blanks()
    calls = yield from read_python_list(cursor, context)
    if not calls:
        return None
    yield from cursor.blanks()
    return Calls(calls) if (yield from cursor.closing(CLOSER)) else None


FORMATS = (
    Format(
        name="lfm2",
        models="LFM2",
        openers=(Opener(marker=MARKER, read=read, safety="A"),),
        reasoning=(THINK,),
    ),
)
