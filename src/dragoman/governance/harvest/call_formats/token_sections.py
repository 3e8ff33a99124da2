"""Sections of calls between special tokens: DeepSeek, Kimi K2, Step-3.

Each call has its own marks and counts as soon as the next one begins, because that may take long. Models
often omit the end of a section.
"""

import re
from collections.abc import Callable

from dragoman.governance.harvest.call_formats.tagged_parameters import (
    CallSyntax,
    ParameterSyntax,
    read_parameters,
    read_tagged_call,
    read_tool_name,
)
from dragoman.governance.harvest.cursor import CallReading, CursorReading, TextCall, TextCursor
from dragoman.governance.harvest.format import (
    THINK,
    THINK_IN_PROMPT,
    FamilyFormat,
    FormatReader,
    FoundCalls,
    Opener,
    ReaderContext,
    Reading,
)
from dragoman.governance.harvest.json_text import (
    JsonBounds,
    decode_string,
    is_object,
    normalize_arguments,
    read_raw_value,
    write_object,
)
from dragoman.governance.tool_names import DeclaredTool
from dragoman.schema import properties_of

CallReader = Callable[[TextCursor, ReaderContext], CallReading]


def section_opener(section: str, call: str, read_call: CallReader, section_end: str) -> Opener:
    """An opener of calls, each behind its own `call` token, up to the section's end."""

    def read(cursor: TextCursor, context: ReaderContext) -> Reading:
        found: TextCall | None = None
        while True:
            yield from cursor.skip_blanks()
            if not (yield from cursor.peek_literal(call)):
                yield from cursor.take_closer(section_end)
                return FoundCalls((found,)) if found else None
            if found is not None:
                yield found
            yield from cursor.take(call)
            found = yield from read_call(cursor, context)
            if found is None:
                return None

    return Opener(section, read, "A")


def _lone_call_reader(read_call: CallReader, section_end: str) -> FormatReader:
    """A reader of one call whose section has no beginning."""

    def read(cursor: TextCursor, context: ReaderContext) -> Reading:
        call = yield from read_call(cursor, context)
        if call is None:
            return None
        yield from cursor.skip_blanks()
        yield from cursor.take(section_end)
        return FoundCalls((call,))

    return read


def _take_call_end(cursor: TextCursor, closer: str, *followers: str) -> CursorReading[bool]:
    """Consume a call's end. It may be missing where one of the followers comes."""
    yield from cursor.skip_blanks()
    if (yield from cursor.take_closer(closer)):
        return True
    return bool((yield from cursor.peek_literal(*followers)))


# DeepSeek V3 to V3.1. V3 puts the arguments into a fence.

_DEEPSEEK = "<\uff5ctool\u2581calls\u2581begin\uff5c>"
_DEEPSEEK_END = "<\uff5ctool\u2581calls\u2581end\uff5c>"
_DEEPSEEK_CALL = "<\uff5ctool\u2581call\u2581begin\uff5c>"
_DEEPSEEK_SEPARATOR = "<\uff5ctool\u2581sep\uff5c>"
_DEEPSEEK_CALL_END = "<\uff5ctool\u2581call\u2581end\uff5c>"
_FENCE = "```"
_LANGUAGE = re.compile(r"[a-z]+")


def _read_deepseek_v3(cursor: TextCursor, context: ReaderContext) -> CallReading:
    """`function`, the separator, the name, and a fence with the arguments."""
    if not (yield from cursor.take("function" + _DEEPSEEK_SEPARATOR)):
        return None
    tool = yield from read_tool_name(cursor, context)
    if tool is None:
        return None
    yield from cursor.skip_blanks()
    fence = yield from cursor.take(_FENCE)
    if fence:
        yield from cursor.take_matching(_LANGUAGE, 16)
        yield from cursor.skip_blanks()
    closers = (_FENCE, _DEEPSEEK_CALL_END) if fence else (_DEEPSEEK_CALL_END,)
    return (yield from _read_deepseek_arguments(cursor, tool, closers, fence))


def _read_deepseek_v31(cursor: TextCursor, context: ReaderContext) -> CallReading:
    """The name, the separator and the arguments."""
    tool = yield from read_tool_name(cursor, context, _DEEPSEEK_SEPARATOR)
    if tool is None:
        return None
    yield from cursor.skip_blanks()
    return (yield from _read_deepseek_arguments(cursor, tool, (_DEEPSEEK_CALL_END, _DEEPSEEK_END)))


def _read_deepseek_arguments(
    cursor: TextCursor, tool: DeclaredTool, closers: tuple[str, ...], fence: str = ""
) -> CallReading:
    raw = yield from read_raw_value(cursor, JsonBounds(closers, (_DEEPSEEK_CALL, _DEEPSEEK)))
    if raw is None or not raw.startswith("{"):
        return None
    if fence:
        yield from cursor.skip_blanks()
        if not (yield from cursor.take_closer(fence)):
            return None
    if not (yield from _take_call_end(cursor, _DEEPSEEK_CALL_END, _DEEPSEEK_CALL, _DEEPSEEK_END)):
        return None
    return TextCall(name=tool.name, arguments=normalize_arguments(raw))


_V3 = FamilyFormat(
    "deepseek_v3",
    "DeepSeek V3",
    (section_opener(_DEEPSEEK, _DEEPSEEK_CALL, _read_deepseek_v3, _DEEPSEEK_END),),
)
_V31 = FamilyFormat(
    "deepseek_v31",
    "DeepSeek V3.1",
    (section_opener(_DEEPSEEK, _DEEPSEEK_CALL, _read_deepseek_v31, _DEEPSEEK_END),),
    (THINK,),
)

# DSML, the markup of DeepSeek V3.2 and V4: named invocations whose parameters declare whether they are text.
# Models also close an invocation in its opening tag, put one JSON object into it, or put all arguments into
# one parameter that the tool does not declare.

_DSML = "\uff5cDSML\uff5c"
_DSML_CALL = f'<{_DSML}invoke name="'
_DSML_CALL_END = f"</{_DSML}invoke>"
_DSML_PARAMETER = ParameterSyntax(
    f'<{_DSML}parameter name="',
    {'" string="true">': "text", '" string="false">': "json", '">': "schema"},
    f"</{_DSML}parameter>",
)
_SELF_CLOSED = ('"/>', '" />')
#: Names of a parameter that holds all arguments.
_PACKED = ("arguments", "input")


def _read_dsml(cursor: TextCursor, context: ReaderContext) -> CallReading:
    tool = yield from read_tool_name(cursor, context)
    if tool is None:
        return None
    named = yield from cursor.take('">', *_SELF_CLOSED)
    if named in _SELF_CLOSED:
        return TextCall(name=tool.name, arguments="{}")
    yield from cursor.skip_blanks()
    if not named:
        return None
    if (yield from cursor.peek()) == "{":
        raw = yield from read_raw_value(cursor, JsonBounds((_DSML_CALL_END,), (_DSML_CALL,)))
        yield from cursor.skip_blanks()
        if raw is None or not (yield from cursor.take_closer(_DSML_CALL_END)):
            return None
        return TextCall(name=tool.name, arguments=normalize_arguments(raw))
    members = yield from read_parameters(cursor, context, _DSML_PARAMETER, tool, _DSML_CALL_END)
    return None if members is None else TextCall(name=tool.name, arguments=_unpack(members, tool))


def _unpack(members: dict[str, str], tool: DeclaredTool) -> str:
    if len(members) == 1:
        ((key, value),) = members.items()
        inner = decode_string(value) or value
        if key in _PACKED and key not in properties_of(tool.schema) and is_object(inner):
            return inner
    return write_object(members)


def _dsml_opener(outer: str) -> Opener:
    return section_opener(f"<{_DSML}{outer}>", _DSML_CALL, _read_dsml, f"</{_DSML}{outer}>")


_V4 = FamilyFormat("deepseek_v4", "DeepSeek V4", (_dsml_opener("tool_calls"),), (THINK,))
_V32 = FamilyFormat("deepseek_v32", "DeepSeek V3.2", (_dsml_opener("function_calls"),), (THINK,))

# Kimi K2. Each call begins with the model's own id, whose number counts over the whole conversation. The
# model expects ids of this form back, so the header becomes the call's id.

_KIMI = "<|tool_calls_section_begin|>"
_KIMI_END = "<|tool_calls_section_end|>"
_KIMI_CALL = "<|tool_call_begin|>"
_KIMI_ARGUMENTS = "<|tool_call_argument_begin|>"
_KIMI_CALL_END = "<|tool_call_end|>"
_KIMI_BOUNDS = JsonBounds((_KIMI_CALL_END, _KIMI_END), (_KIMI_CALL, _KIMI))
_KIMI_HEADER = re.compile(r"(?:functions\.)?(?P<name>.+?):(?P<number>\d+)|(?P<lone>\d+)")


def _read_kimi(cursor: TextCursor, context: ReaderContext) -> CallReading:
    header, stop = yield from cursor.take_until(
        _KIMI_ARGUMENTS, _KIMI_CALL_END, _KIMI_CALL, limit=context.longest + 64
    )
    if stop == _KIMI_CALL:
        cursor.step_back(stop)
    header = header.strip()
    name = _find_kimi_name(header, cursor, context) if stop == _KIMI_ARGUMENTS else None
    if name is None:
        return None
    yield from cursor.skip_blanks()
    is_empty = yield from cursor.peek_literal(_KIMI_CALL_END)
    raw = "{}" if is_empty else (yield from read_raw_value(cursor, _KIMI_BOUNDS))
    if raw is None or not (yield from _take_call_end(cursor, _KIMI_CALL_END, _KIMI_CALL, _KIMI_END)):
        return None
    return TextCall(name=name, arguments=normalize_arguments(raw), header=header if ":" in header else "")


def _find_kimi_name(header: str, cursor: TextCursor, context: ReaderContext) -> str | None:
    """The tool of a header. A header of a number alone names a tool only if a single one is declared."""
    found = _KIMI_HEADER.fullmatch(header)
    if found is None:
        return None
    if found["lone"]:
        return next(iter(context.tools)) if len(context.tools) == 1 else None
    return found["name"] if context.find(found["name"], cursor) else None


# Step-3.

_STEP_CALL = "<\uff5ctool_call_begin\uff5c>"
_STEP_END = "<\uff5ctool_calls_end\uff5c>"
_STEP_INVOKE = CallSyntax(
    '<steptml:invoke name="',
    '">',
    "</steptml:invoke>",
    ParameterSyntax('<steptml:parameter name="', {'">': "schema"}, "</steptml:parameter>"),
)


def _read_step3(cursor: TextCursor, context: ReaderContext) -> CallReading:
    for literal in ("function", "<\uff5ctool_sep\uff5c>", _STEP_INVOKE.opens):
        yield from cursor.skip_blanks()
        if not (yield from cursor.take(literal)):
            return None
    call = yield from read_tagged_call(cursor, context, _STEP_INVOKE)
    if call is None:
        return None
    is_end = yield from _take_call_end(cursor, "<\uff5ctool_call_end\uff5c>", _STEP_CALL, _STEP_END)
    return call if is_end else None


FORMATS = (
    _V3,
    _V3.variant("deepseek_r1", "DeepSeek R1", THINK_IN_PROMPT),
    _V31,
    _V31.variant("deepseek_v31_thinking", "DeepSeek V3.1 thinking", THINK_IN_PROMPT),
    _V32,
    _V32.variant("deepseek_v32_thinking", "DeepSeek V3.2 thinking", THINK_IN_PROMPT),
    _V4,
    _V4.variant("deepseek_v4_thinking", "DeepSeek V4 thinking", THINK_IN_PROMPT),
    FamilyFormat(
        "kimi_k2",
        "Kimi K2 and K2.5",
        (
            section_opener(_KIMI, _KIMI_CALL, _read_kimi, _KIMI_END),
            Opener(_KIMI_CALL, _lone_call_reader(_read_kimi, _KIMI_END), "A"),
        ),
        (THINK,),
    ),
    FamilyFormat(
        "step3",
        "Step-3",
        (section_opener("<\uff5ctool_calls_begin\uff5c>", _STEP_CALL, _read_step3, _STEP_END),),
        (THINK_IN_PROMPT,),
    ),
)
