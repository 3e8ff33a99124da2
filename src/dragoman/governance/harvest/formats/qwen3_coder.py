"""Qwen3 Coder: function and parameter tags in a `<tool_call>`, the values as raw text between line breaks.

Models that know it fall back on the Hermes body now and then, and forget the wrapper.
"""

from msgspec.structs import replace

from dragoman.governance.harvest.cursor import Cursor
from dragoman.governance.harvest.format import Calls, Context, Format, Opener, Reading
from dragoman.governance.harvest.formats import hermes
from dragoman.governance.harvest.reasoning import IMPLIED_THINK, THINK
from dragoman.governance.harvest.tagged import Invocation, Parameter, read_invocation, read_wrapped

MARKER = "<tool_call>"
CLOSER = "</tool_call>"
FUNCTION = Invocation(
    opens="<function=",
    named=(">",),
    closes="</function>",
    parameter=Parameter(
        opens="<parameter=", named={">": "schema"}, closes="</parameter>", trimmed=True, forgiving=True
    ),
)


def read(cursor: Cursor, context: Context) -> Reading:
    return (yield from read_wrapped(cursor, context, FUNCTION, CLOSER))


def read_unwrapped(cursor: Cursor, context: Context) -> Reading:
    """One function; the wrapper's end may be there though its beginning is not."""
    call = yield from read_invocation(cursor, context, FUNCTION)
    if call is None:
        return None
    yield from cursor.blanks()
    yield from cursor.literal(CLOSER)
    return Calls((call,))


QWEN3_CODER = Format(
    name="qwen3_coder",
    models="Qwen3 Coder, newer Qwen3 templates",
    openers=(
        Opener(marker=MARKER, read=read, safety="B"),
        Opener(marker=MARKER, read=hermes.READ, safety="B"),
        Opener(marker=FUNCTION.opens, read=read_unwrapped, safety="B", auto=False),
    ),
    reasoning=(THINK,),
)

FORMATS = (
    QWEN3_CODER,
    replace(QWEN3_CODER, name="nemotron3", models="Nemotron 3", reasoning=(IMPLIED_THINK,)),
    replace(QWEN3_CODER, name="step35", models="Step-3.5", reasoning=(IMPLIED_THINK,)),
)
