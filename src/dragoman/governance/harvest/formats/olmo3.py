"""Olmo 3: one Python call per line between `<function_calls>` tags."""

from dragoman.governance.harvest.cursor import Call, Cursor
from dragoman.governance.harvest.format import Calls, Context, Format, Opener, Reading
from dragoman.governance.harvest.pythonic import read_python_call
from dragoman.governance.harvest.reasoning import THINK

MARKER = "<function_calls>"
CLOSER = "</function_calls>"


def read(cursor: Cursor, context: Context) -> Reading:
    calls: list[Call] = []
    while True:
        yield from cursor.blanks()
        closed = yield from (cursor.literal(CLOSER) if context.strict else cursor.closing(CLOSER))
        if closed:
            return Calls(tuple(calls)) if calls else None
        call = yield from read_python_call(cursor, context)
        if call is None:
            return None
        calls.append(call)


FORMATS = (
    Format(
        name="olmo3",
        models="Olmo 3",
        openers=(Opener(marker=MARKER, read=read, safety="B"),),
        reasoning=(THINK,),
    ),
)
