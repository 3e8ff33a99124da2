"""Kimi K2: a section of calls, each headed by the model's own id for it.

The header's number counts over the whole conversation, so it is no index. The model wants to see ids of this
shape again, so the header becomes the call's id.
"""

import re

from dragoman.governance.harvest.cursor import Call, Cursor, Step
from dragoman.governance.harvest.format import Context, Format, Opener, Reasoning
from dragoman.governance.harvest.json_text import Bounds, raw_value, unwrapped
from dragoman.governance.harvest.reasoning import THINK
from dragoman.governance.harvest.sections import end_of_call, lone_call, section_of_calls

SECTION = "<|tool_calls_section_begin|>"
SECTION_END = "<|tool_calls_section_end|>"
CALL = "<|tool_call_begin|>"
ARGUMENTS = "<|tool_call_argument_begin|>"
CALL_END = "<|tool_call_end|>"
BOUNDS = Bounds((CALL_END, SECTION_END), (CALL, SECTION))
HEADER = re.compile(r"(?:functions\.)?(?P<name>.+?):(?P<number>\d+)|(?P<lone>\d+)")


def _read_call(cursor: Cursor, context: Context) -> Step[Call | None]:
    header, stop = yield from cursor.until(ARGUMENTS, CALL_END, CALL, limit=context.longest + 64)
    if stop == CALL:
        cursor.back(stop)
    header = header.strip()
    name = _name(header, context) if stop == ARGUMENTS else None
    if name is None:
        return None
    yield from cursor.blanks()
    empty = yield from cursor.ahead(CALL_END)
    raw = "{}" if empty else (yield from raw_value(cursor, BOUNDS))
    if raw is None:
        return None
    if not (yield from end_of_call(cursor, CALL_END, CALL, SECTION_END)):
        return None
    return Call(name=name, arguments=unwrapped(raw), header=header if ":" in header else "")


def _name(header: str, context: Context) -> str | None:
    """A header may be reduced to its number, which tells the tool only if there is but one."""
    found = HEADER.fullmatch(header)
    if found is None:
        return None
    if found["lone"]:
        return next(iter(context.tools)) if len(context.tools) == 1 else None
    return found["name"] if context.knows(found["name"]) else None


OPENERS = (
    Opener(marker=SECTION, read=section_of_calls(CALL, _read_call, SECTION_END), safety="A"),
    Opener(marker=CALL, read=lone_call(_read_call, SECTION_END), safety="A"),
)

FORMATS = (
    Format(name="kimi_k2", models="Kimi K2 and K2.5", openers=OPENERS, reasoning=(THINK,)),
    Format(
        name="kimi_vl",
        models="Kimi VL",
        reasoning=(Reasoning(opens="◁think▷", closes="◁/think▷"),),
    ),
)
