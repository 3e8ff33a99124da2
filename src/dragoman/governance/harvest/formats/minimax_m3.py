"""MiniMax M3: every tag stands behind a mark of its own, and parameters are elements named after their keys.

Nested objects are nested elements; the items of a list repeat one element.
"""

import re

from msgspec.structs import replace

from dragoman.governance.harvest.cursor import Call, Cursor, Step
from dragoman.governance.harvest.format import Context, Format, Opener, Reasoning
from dragoman.governance.harvest.json_text import json_object
from dragoman.governance.harvest.schemas import member_schema, properties_of, resolved, typed, types_of
from dragoman.governance.harvest.sections import section_of_calls
from dragoman.governance.harvest.tagged import read_tool_name

MARK = "]<]minimax[>["
SECTION = f"{MARK}<tool_call>"
SECTION_END = f"{MARK}</tool_call>"
INVOKE = f'{MARK}<invoke name="'
INVOKE_END = "</invoke>"
_NAME = re.compile(r"[^<>\s/]+")
_NAME_LIMIT = 256
_DEPTH = 32

#: The text of an element, or the elements in it.
Node = str | list[tuple[str, "Node"]]


def _read_call(cursor: Cursor, context: Context) -> Step[Call | None]:
    tool = yield from read_tool_name(cursor, context, '">')
    if tool is None:
        return None
    content = yield from _read_content(cursor, INVOKE_END, _DEPTH)
    if content is None or (isinstance(content, str) and content.strip()):
        return None
    members = {
        key: _as_json(node, member_schema(tool.schema, key), tool.schema)
        for key, node in ([] if isinstance(content, str) else content)
    }
    return Call(name=tool.name, arguments=json_object(members))


def _read_content(cursor: Cursor, closer: str, depth: int) -> Step[Node | None]:
    """What stands in an element, up to and with its end."""
    elements: list[tuple[str, Node]] = []
    while True:
        text, mark = yield from cursor.until(MARK)
        if not mark or (elements and text.strip()):
            return None
        if (yield from cursor.literal(closer)):
            return elements or text
        if text.strip() or not depth or not (yield from cursor.literal("<")):
            return None
        name = yield from cursor.word(_NAME, _NAME_LIMIT)
        if not name or not (yield from cursor.literal(">")):
            return None
        inner = yield from _read_content(cursor, f"</{name}>", depth - 1)
        if inner is None:
            return None
        elements.append((name, inner))


def _as_json(node: Node, schema: object, root: object) -> str:
    if isinstance(node, str):
        return typed(node, schema, root)
    types = types_of(schema, root)
    known = resolved(schema, root)
    names = {name for name, _ in node}
    if "array" in types or ("object" not in types and len(names) == 1 and len(node) > 1):
        items = known.get("items") if isinstance(known, dict) else None
        return "[" + ",".join([_as_json(item, items, root) for _, item in node]) + "]"
    members = properties_of(known)
    return json_object({name: _as_json(inner, members.get(name), root) for name, inner in node})


THINK = Reasoning(opens="<mm:think>", closes="</mm:think>", again=True, stray=True)
M3 = Format(
    name="minimax_m3",
    models="MiniMax M3",
    openers=(Opener(marker=SECTION, read=section_of_calls(INVOKE, _read_call, SECTION_END), safety="A"),),
    reasoning=(THINK,),
)

FORMATS = (
    M3,
    replace(
        M3,
        name="minimax_m3_thinking",
        models="MiniMax M3 thinking",
        reasoning=(replace(THINK, implied=True),),
    ),
)
