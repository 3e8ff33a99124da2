"""MiniMax M2 and dots: named invocations with named parameters in a wrapper; the values are verbatim."""

from dragoman.governance.harvest.cursor import Cursor
from dragoman.governance.harvest.format import Context, Format, Opener, Reader, Reading, Reasoning
from dragoman.governance.harvest.tagged import Invocation, Parameter, read_wrapped

INVOKE = Invocation(
    opens='<invoke name="',
    named=('">',),
    closes="</invoke>",
    parameter=Parameter(opens='<parameter name="', named={'">': "schema"}, closes="</parameter>"),
)
THINK_AGAIN = Reasoning(opens="<think>", closes="</think>", implied=True, again=True)


def _reader(closer: str, *, one_by_one: bool) -> Reader:
    def read(cursor: Cursor, context: Context) -> Reading:
        return (yield from read_wrapped(cursor, context, INVOKE, closer, one_by_one=one_by_one))

    return read


FORMATS = (
    Format(
        name="minimax_m2",
        models="MiniMax M2",
        openers=(
            Opener(
                marker="<minimax:tool_call>",
                read=_reader("</minimax:tool_call>", one_by_one=True),
                safety="A",
            ),
        ),
        reasoning=(THINK_AGAIN,),
    ),
    Format(
        name="dots",
        models="dots",
        openers=(
            Opener(
                marker="<dots_function_call>",
                read=_reader("</dots_function_call>", one_by_one=False),
                safety="B",
            ),
        ),
    ),
)
