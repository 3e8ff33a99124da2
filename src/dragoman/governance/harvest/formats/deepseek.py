"""DeepSeek V3 to V3.1: a section of calls between special tokens; V3 puts the arguments into a fence."""

import re

from msgspec.structs import replace

from dragoman.governance.harvest.cursor import Call, Cursor, Step
from dragoman.governance.harvest.format import Context, Format, Opener
from dragoman.governance.harvest.json_text import Bounds, raw_value, unwrapped
from dragoman.governance.harvest.reasoning import IMPLIED_THINK, THINK
from dragoman.governance.harvest.sections import end_of_call, section_of_calls
from dragoman.governance.harvest.tagged import NAME

SECTION = "<\uff5ctool\u2581calls\u2581begin\uff5c>"
SECTION_END = "<\uff5ctool\u2581calls\u2581end\uff5c>"
CALL = "<\uff5ctool\u2581call\u2581begin\uff5c>"
SEPARATOR = "<\uff5ctool\u2581sep\uff5c>"
CALL_END = "<\uff5ctool\u2581call\u2581end\uff5c>"
FENCE = "```"
BARRED = (CALL, SECTION)
_WORD = re.compile(r"[a-z]+")


def _read_fenced_call(cursor: Cursor, context: Context) -> Step[Call | None]:
    """`function`, the separator, the name, and a fence with the arguments."""
    if not (yield from cursor.literal("function" + SEPARATOR)):
        return None
    name = yield from cursor.word(NAME, context.longest)
    if not context.knows(name):
        return None
    yield from cursor.blanks()
    fence = yield from cursor.literal(FENCE)
    if fence:
        yield from cursor.word(_WORD, 16)
        yield from cursor.blanks()
    raw = yield from raw_value(cursor, Bounds((FENCE, CALL_END) if fence else (CALL_END,), BARRED))
    if raw is None or not raw.startswith("{"):
        return None
    yield from cursor.blanks()
    if fence and not (yield from cursor.closing(FENCE)):
        return None
    return (yield from _ended(cursor, name, raw))


def _read_bare_call(cursor: Cursor, context: Context) -> Step[Call | None]:
    """The name, the separator, and the arguments."""
    name = yield from cursor.word(NAME, context.longest)
    if not context.knows(name) or not (yield from cursor.literal(SEPARATOR)):
        return None
    yield from cursor.blanks()
    raw = yield from raw_value(cursor, Bounds((CALL_END, SECTION_END), BARRED))
    if raw is None or not raw.startswith("{"):
        return None
    return (yield from _ended(cursor, name, raw))


def _ended(cursor: Cursor, name: str, raw: str) -> Step[Call | None]:
    if not (yield from end_of_call(cursor, CALL_END, CALL, SECTION_END)):
        return None
    return Call(name=name, arguments=unwrapped(raw))


V3 = Format(
    name="deepseek_v3",
    models="DeepSeek V3",
    openers=(
        Opener(marker=SECTION, read=section_of_calls(CALL, _read_fenced_call, SECTION_END), safety="A"),
    ),
)
V31 = Format(
    name="deepseek_v31",
    models="DeepSeek V3.1",
    openers=(Opener(marker=SECTION, read=section_of_calls(CALL, _read_bare_call, SECTION_END), safety="A"),),
    reasoning=(THINK,),
)

FORMATS = (
    V3,
    replace(V3, name="deepseek_r1", models="DeepSeek R1", reasoning=(IMPLIED_THINK,)),
    V31,
    replace(V31, name="deepseek_v31_thinking", models="DeepSeek V3.1 thinking", reasoning=(IMPLIED_THINK,)),
)
