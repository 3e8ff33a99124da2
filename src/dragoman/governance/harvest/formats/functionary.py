"""Functionary 3.1 and the custom format of Llama 3.1: the name in the tag, the arguments as JSON in it."""

from dragoman.governance.harvest.cursor import Call, Cursor
from dragoman.governance.harvest.format import Calls, Context, Format, Opener, Reading
from dragoman.governance.harvest.json_text import Bounds, is_object, raw_value, unwrapped
from dragoman.governance.harvest.tagged import read_tool_name

MARKER = "<function="
CLOSER = "</function>"
BOUNDS = Bounds((CLOSER,), (MARKER,))


def read(cursor: Cursor, context: Context) -> Reading:
    tool = yield from read_tool_name(cursor, context, ">")
    if tool is None:
        return None
    yield from cursor.blanks()
    if (yield from cursor.peek()) != "{":
        return None
    raw = yield from raw_value(cursor, BOUNDS)
    if raw is None or (context.strict and not is_object(raw)):
        return None
    yield from cursor.blanks()
    closed = yield from (cursor.literal(CLOSER) if context.strict else cursor.closing(CLOSER))
    return Calls((Call(name=tool.name, arguments=unwrapped(raw)),)) if closed else None


FORMATS = (
    Format(
        name="functionary",
        models="Functionary 3.1, Llama 3.1 with custom calls",
        openers=(Opener(marker=MARKER, read=read, safety="B"),),
    ),
)
