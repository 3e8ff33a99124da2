"""Step-3: a section of calls between special tokens, each a named invocation with named parameters."""

from dragoman.governance.harvest.cursor import Call, Cursor, Step
from dragoman.governance.harvest.format import Context, Format, Opener
from dragoman.governance.harvest.reasoning import IMPLIED_THINK
from dragoman.governance.harvest.sections import end_of_call, section_of_calls
from dragoman.governance.harvest.tagged import Invocation, Parameter, read_invocation

SECTION = "<\uff5ctool_calls_begin\uff5c>"
SECTION_END = "<\uff5ctool_calls_end\uff5c>"
CALL = "<\uff5ctool_call_begin\uff5c>"
SEPARATOR = "<\uff5ctool_sep\uff5c>"
CALL_END = "<\uff5ctool_call_end\uff5c>"
INVOKE = Invocation(
    opens='<steptml:invoke name="',
    named=('">',),
    closes="</steptml:invoke>",
    parameter=Parameter(
        opens='<steptml:parameter name="', named={'">': "schema"}, closes="</steptml:parameter>"
    ),
)


def _read_call(cursor: Cursor, context: Context) -> Step[Call | None]:
    for literal in ("function", SEPARATOR, INVOKE.opens):
        yield from cursor.blanks()
        if not (yield from cursor.literal(literal)):
            return None
    call = yield from read_invocation(cursor, context, INVOKE)
    if call is None or not (yield from end_of_call(cursor, CALL_END, CALL, SECTION_END)):
        return None
    return call


FORMATS = (
    Format(
        name="step3",
        models="Step-3",
        openers=(Opener(marker=SECTION, read=section_of_calls(CALL, _read_call, SECTION_END), safety="A"),),
        reasoning=(IMPLIED_THINK,),
    ),
)
