"""DSML, the markup of DeepSeek V3.2 and V4: named invocations whose parameters say whether they are text.

Models also close an invocation in its opening tag, put one JSON object into it, or pack all arguments into
one parameter that the tool does not know.
"""

from msgspec.structs import replace

from dragoman.governance.harvest.cursor import Call, Cursor, Step
from dragoman.governance.harvest.format import Context, Format, Opener
from dragoman.governance.harvest.json_text import (
    Bounds,
    decoded_string,
    is_object,
    json_object,
    raw_value,
    unwrapped,
)
from dragoman.governance.harvest.reasoning import IMPLIED_THINK, THINK
from dragoman.governance.harvest.schemas import properties_of
from dragoman.governance.harvest.sections import section_of_calls
from dragoman.governance.harvest.tagged import NAME, Parameter, read_parameters
from dragoman.governance.tool_names import DeclaredTool

TAG = "\uff5cDSML\uff5c"
INVOKE = f'<{TAG}invoke name="'
INVOKE_END = f"</{TAG}invoke>"
PARAMETER = Parameter(
    opens=f'<{TAG}parameter name="',
    named={'" string="true">': "text", '" string="false">': "json", '">': "schema"},
    closes=f"</{TAG}parameter>",
)
SELF_CLOSED = ('"/>', '" />')
#: Names under which models pack all arguments together.
PACKED = ("arguments", "input")


def _read_call(cursor: Cursor, context: Context) -> Step[Call | None]:
    name = yield from cursor.word(NAME, context.longest)
    tool = context.tools.get(name)
    if tool is None:
        return None
    named = yield from cursor.literal('">', *SELF_CLOSED)
    if named in SELF_CLOSED:
        return Call(name=tool.name, arguments="{}")
    yield from cursor.blanks()
    if not named:
        return None
    if (yield from cursor.peek()) == "{":
        raw = yield from raw_value(cursor, Bounds((INVOKE_END,), (INVOKE,)))
        yield from cursor.blanks()
        closed = raw is not None and (yield from cursor.closing(INVOKE_END))
        return Call(name=tool.name, arguments=unwrapped(raw)) if raw is not None and closed else None
    members = yield from read_parameters(cursor, context, PARAMETER, tool, INVOKE_END)
    return None if members is None else Call(name=tool.name, arguments=_unpacked(members, tool))


def _unpacked(members: dict[str, str], tool: DeclaredTool) -> str:
    if len(members) == 1:
        ((key, value),) = members.items()
        inner = decoded_string(value) or value
        if key in PACKED and key not in properties_of(tool.schema) and is_object(inner):
            return inner
    return json_object(members)


def _opener(outer: str) -> Opener:
    return Opener(
        marker=f"<{TAG}{outer}>",
        read=section_of_calls(INVOKE, _read_call, f"</{TAG}{outer}>"),
        safety="A",
    )


V32 = Format(
    name="deepseek_v32",
    models="DeepSeek V3.2",
    openers=(_opener("function_calls"),),
    reasoning=(THINK,),
)

FORMATS = (
    V32,
    replace(V32, name="deepseek_v32_thinking", models="DeepSeek V3.2 thinking", reasoning=(IMPLIED_THINK,)),
    replace(V32, name="deepseek_v4", models="DeepSeek V4", openers=(_opener("tool_calls"),)),
)
