"""MiniCPM 5: function tags with named parameters and no wrapper; a value may stand in a CDATA section."""

from dragoman.governance.harvest.cursor import Cursor
from dragoman.governance.harvest.format import Calls, Context, Format, Opener, Reading
from dragoman.governance.harvest.reasoning import THINK
from dragoman.governance.harvest.tagged import Invocation, Parameter, read_invocation

FUNCTION = Invocation(
    opens='<function name="',
    named=('">',),
    closes="</function>",
    parameter=Parameter(
        opens='<param name="', named={'">': "schema"}, closes="</param>", character_data=True
    ),
)


def read(cursor: Cursor, context: Context) -> Reading:
    call = yield from read_invocation(cursor, context, FUNCTION)
    return None if call is None else Calls((call,))


FORMATS = (
    Format(
        name="minicpm5",
        models="MiniCPM 5",
        openers=(Opener(marker=FUNCTION.opens, read=read, safety="B"),),
        reasoning=(THINK,),
    ),
)
