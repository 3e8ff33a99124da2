"""Kimi K3: everything stands in channels that open and close with several tokens each.

An argument's type stands in its tag; strings are raw text. Attribute values escape `&` and `"`. The visible
answer stands in a channel of its own.
"""

import re

from msgspec.structs import replace

from dragoman.governance.harvest.cursor import Call, Cursor, Step
from dragoman.governance.harvest.format import Context, Format, Opener, Place, Reasoning
from dragoman.governance.harvest.json_text import Bounds, json_object, json_string, raw_value, unwrapped
from dragoman.governance.harvest.reasoning import layout_reader
from dragoman.governance.harvest.schemas import is_json, may_be_all, member_schema, typed
from dragoman.governance.harvest.sections import section_of_calls
from dragoman.governance.tool_names import DeclaredTool

SEPARATOR = "<|sep|>"
TOOLS = "<|open|>tools<|sep|>"
TOOLS_END = "<|close|>tools<|sep|>"
CALL = "<|open|>call "
CALL_END = "<|close|>call<|sep|>"
ARGUMENT = "<|open|>argument "
ARGUMENT_END = "<|close|>argument<|sep|>"
OBJECT = "<|open|>json "
OBJECT_END = "<|close|>json<|sep|>"
#: What frames the whole message.
MESSAGE_ENDS = ("<|close|>message<|sep|>", "<|end_of_msg|>")
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')
_HEADER_LIMIT = 1024


def _read_attributes(cursor: Cursor) -> Step[dict[str, str] | None]:
    header, stop = yield from cursor.until(SEPARATOR, limit=_HEADER_LIMIT)
    if not stop:
        return None
    return {
        key: value.replace("&quot;", '"').replace("&amp;", "&") for key, value in _ATTRIBUTE.findall(header)
    }


def _read_call(cursor: Cursor, context: Context) -> Step[Call | None]:
    attributes = yield from _read_attributes(cursor)
    tool = context.tools.get(attributes.get("tool", "")) if attributes else None
    members: dict[str, str] = {}
    while tool is not None:
        yield from cursor.blanks()
        found = yield from cursor.literal(ARGUMENT, OBJECT, CALL_END)
        if found == OBJECT:
            return (yield from _read_object(cursor, tool))
        if found != ARGUMENT:
            may_end = may_be_all(members, tool.schema)
            ended = found or (may_end and (yield from cursor.closing(CALL_END)))
            return Call(name=tool.name, arguments=json_object(members)) if ended else None
        attributes = yield from _read_attributes(cursor)
        text, stop = yield from cursor.until(ARGUMENT_END)
        if not attributes or not stop or "key" not in attributes:
            return None
        members[attributes["key"]] = _as_json(text, attributes, tool)
    return None


def _read_object(cursor: Cursor, tool: DeclaredTool) -> Step[Call | None]:
    """All arguments as one JSON object."""
    attributes = yield from _read_attributes(cursor)
    yield from cursor.blanks()
    raw = yield from raw_value(cursor, Bounds((OBJECT_END, CALL_END), (CALL, TOOLS)))
    yield from cursor.blanks()
    if attributes is None or raw is None or not (yield from cursor.closing(OBJECT_END)):
        return None
    yield from cursor.blanks()
    closed = yield from cursor.closing(CALL_END)
    return Call(name=tool.name, arguments=unwrapped(raw)) if closed else None


def _as_json(text: str, attributes: dict[str, str], tool: DeclaredTool) -> str:
    if attributes.get("type") == "string":
        return json_string(text)
    if "type" in attributes and is_json(text):
        return text
    return typed(text, member_schema(tool.schema, attributes["key"]), tool.schema)


THINK = Reasoning(
    opens="<|open|>think<|sep|>",
    closes="<|close|>think<|sep|>",
    again=True,
    wraps=(("<|open|>response<|sep|>", "<|close|>response<|sep|>"),),
)
K3 = Format(
    name="kimi_k3",
    models="Kimi K3",
    openers=(
        Opener(marker=TOOLS, read=section_of_calls(CALL, _read_call, TOOLS_END), safety="A"),
        *(
            Opener(
                marker=end, read=layout_reader(), safety="A", place=Place.ANYWHERE, auto=False, frames=True
            )
            for end in MESSAGE_ENDS
        ),
    ),
    reasoning=(THINK,),
)

FORMATS = (
    K3,
    replace(
        K3,
        name="kimi_k3_thinking",
        models="Kimi K3, where the prompt opens the reasoning",
        reasoning=(replace(THINK, implied=True),),
    ),
)
