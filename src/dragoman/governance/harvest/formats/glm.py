"""GLM: the bare name in a `<tool_call>`, then pairs of key and value tags, the values verbatim.

GLM models fall back on the Hermes body now and then.
"""

from dragoman.governance.harvest.cursor import Call, Cursor
from dragoman.governance.harvest.format import Calls, Context, Format, Opener, Reading
from dragoman.governance.harvest.formats import hermes
from dragoman.governance.harvest.json_text import json_object
from dragoman.governance.harvest.reasoning import THINK
from dragoman.governance.harvest.schemas import required_of
from dragoman.governance.harvest.tagged import NAME, Parameter, read_parameters

MARKER = "<tool_call>"
CLOSER = "</tool_call>"
ARGUMENT = Parameter(
    opens="<arg_key>", named={"</arg_key>": "schema"}, begins="<arg_value>", closes="</arg_value>"
)


def read(cursor: Cursor, context: Context) -> Reading:
    yield from cursor.blanks()
    name = yield from cursor.word(NAME, context.longest)
    tool = context.tools.get(name)
    if tool is None:
        return None
    members = yield from read_parameters(cursor, context, ARGUMENT, tool, CLOSER)
    # A name between tags is how one writes about calls, unless it could be one.
    if members is None or (not members and required_of(tool.schema)):
        return None
    return Calls((Call(name=name, arguments=json_object(members)),))


FORMATS = (
    Format(
        name="glm",
        models="GLM-4.5 to 4.7, Ling 3, Poolside",
        openers=(
            Opener(marker=MARKER, read=read, safety="B"),
            Opener(marker=MARKER, read=hermes.READ, safety="B"),
        ),
        reasoning=(THINK,),
    ),
)
