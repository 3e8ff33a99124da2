"""Calls whose parameters stand in tags as raw text; the tool's schema decides their types.

A raw value is data to its last blank. It ends at the closing tag that more of the call's structure follows,
so that it may contain tags that look alike.
"""

import re
from typing import Literal

import msgspec

from dragoman.governance.harvest.call_formats.json_in_tags import READ_HERMES
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
    ReasoningTags,
)
from dragoman.governance.harvest.json_text import (
    JsonBounds,
    is_json,
    is_object,
    normalize_arguments,
    read_raw_value,
    write_object,
    write_string,
)
from dragoman.governance.harvest.schema_values import convert_text, find_member_schema, is_complete
from dragoman.governance.tool_names import DeclaredTool
from dragoman.schema import properties_of, required_of

#: Where the type of a value comes from: the schema, or the tag, which declares it as text or JSON.
ValueKind = Literal["schema", "text", "json"]

NAME = re.compile(r"[^\s<>\"'={}\[\]()|,;]+")
_KEY = re.compile(r"[^<>\"\r\n]+")
_KEY_LIMIT = 256
_CDATA = re.compile(r"\s*<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
_LINE_BREAK_BEFORE = re.compile(r"\r?\n")
_LINE_BREAK_AFTER = re.compile(r"\r?\n\Z")


class ParameterSyntax(msgspec.Struct, frozen=True):
    """How a family writes one parameter: `opens` key `named` value `closes`.

    `named` maps what may end the key to where the value's type comes from; `begins` follows it, behind
    blanks. `trims_lines`: one line break on either side of the value is layout. `allows_cdata`: the value may
    stand in a CDATA section.
    """

    opens: str
    named: dict[str, ValueKind]
    closes: str
    begins: str = ""
    trims_lines: bool = False
    allows_cdata: bool = False


class CallSyntax(msgspec.Struct, frozen=True):
    """How a family writes one call: `opens` name `named` parameters `closes`."""

    opens: str
    named: str
    closes: str
    parameter: ParameterSyntax


def read_tool_name(
    cursor: TextCursor, context: ReaderContext, named: str = ""
) -> CursorReading[DeclaredTool | None]:
    """Read the name of a declared tool, and then the text `named`; None if either is missing."""
    tool = context.find((yield from cursor.take_matching(NAME, context.longest)), cursor)
    return tool if tool and (not named or (yield from cursor.take(named))) else None


def read_tagged_call(cursor: TextCursor, context: ReaderContext, syntax: CallSyntax) -> CallReading:
    """One call, from behind its opening."""
    tool = yield from read_tool_name(cursor, context, syntax.named)
    if tool is None:
        return None
    members = yield from read_parameters(cursor, context, syntax.parameter, tool, syntax.closes)
    return None if members is None else TextCall(name=tool.name, arguments=write_object(members))


def wrapped_reader(syntax: CallSyntax, closer: str, *, one_by_one: bool = False) -> FormatReader:
    """A reader of calls up to a wrapper's end. `one_by_one`: each call counts when the next one begins."""

    def read(cursor: TextCursor, context: ReaderContext) -> Reading:
        calls: list[TextCall] = []
        while True:
            yield from cursor.skip_blanks()
            if one_by_one and calls and (yield from cursor.peek_literal(syntax.opens)):
                yield calls.pop()
            found = yield from cursor.take(syntax.opens, closer)
            if found != syntax.opens:
                is_end = bool(found) or (not context.strict and cursor.ends_inside(syntax.opens, closer))
                if not is_end or not calls:
                    return None
                if not found:
                    yield from cursor.take_closer(closer)
                return FoundCalls(tuple(calls))
            call = yield from read_tagged_call(cursor, context, syntax)
            if call is None:
                return None
            calls.append(call)

    return read


def unwrapped_reader(syntax: CallSyntax, optional_closer: str = "") -> FormatReader:
    """A reader of one call without a wrapper. The wrapper's end may be there though its beginning is not."""

    def read(cursor: TextCursor, context: ReaderContext) -> Reading:
        call = yield from read_tagged_call(cursor, context, syntax)
        if call is not None and optional_closer:
            yield from cursor.skip_blanks()
            yield from cursor.take(optional_closer)
        return None if call is None else FoundCalls((call,))

    return read


def read_parameters(
    cursor: TextCursor, context: ReaderContext, syntax: ParameterSyntax, tool: DeclaredTool, closer: str
) -> CursorReading[dict[str, str] | None]:
    """The arguments as JSON by key, up to and with the closer; None if these are not parameters."""
    members: dict[str, str] = {}
    is_open = False
    while True:
        if not is_open:
            yield from cursor.skip_blanks()
            found = yield from cursor.take(syntax.opens, closer)
            if found != syntax.opens:
                may_end = not context.strict and is_complete(members, tool.schema)
                return members if found or (may_end and (yield from cursor.take_closer(closer))) else None
        key = yield from cursor.take_matching(_KEY, _KEY_LIMIT)
        named = yield from cursor.take(*syntax.named)
        if not key or not named:
            return None
        if syntax.begins:
            yield from cursor.skip_blanks()
            if not (yield from cursor.take(syntax.begins)):
                return None
        value = yield from _read_value(cursor, context, syntax, closer, _list_other_keys(tool, members, key))
        if value is None:
            return None
        text, is_open = value
        members[key] = _convert_value(_strip_layout(text, syntax), syntax.named[named], key, tool)


def _read_value(
    cursor: TextCursor, context: ReaderContext, syntax: ParameterSyntax, closer: str, other_keys: list[str]
) -> CursorReading[tuple[str, bool] | None]:
    """A raw value, and whether the next parameter has already begun; None if the value has no end.

    Models forget closing tags. The opening tag of another parameter that the tool declares and that was not
    yet given ends the value too. Other keys are data that looks alike.
    """
    parts: list[str] = []
    next_parameters = [key + named for key in other_keys for named in syntax.named]
    while True:
        text, stop = yield from cursor.take_until(syntax.closes, syntax.opens)
        parts.append(text)
        if not stop:
            return None
        if stop == syntax.opens:
            is_data = syntax.allows_cdata and _is_cdata_open(parts)
            if not is_data and (yield from cursor.peek_literal(*next_parameters)):
                whole = "".join(parts)
                # The line break before the next tag is layout, for which the closing tag was forgotten too.
                return whole if syntax.trims_lines else _LINE_BREAK_AFTER.sub("", whole), True
            parts.append(stop)
            continue
        blanks = yield from cursor.skip_blanks()
        if syntax.allows_cdata and _is_cdata_open(parts):
            parts += (stop, blanks)
            continue
        followers = (syntax.opens, closer)
        if (yield from cursor.peek_literal(*followers)) or (
            not context.strict and cursor.ends_inside(*followers)
        ):
            return "".join(parts), False
        parts += (stop, blanks)


def _is_cdata_open(parts: list[str]) -> bool:
    """Whether a CDATA section began that does not end with these parts: tags in it are data."""
    return parts[0].lstrip().startswith("<![CDATA[") and not parts[-1].rstrip().endswith("]]>")


def _list_other_keys(tool: DeclaredTool, members: dict[str, str], key: str) -> list[str]:
    return [other for other in properties_of(tool.schema) if other != key and other not in members]


def _strip_layout(text: str, syntax: ParameterSyntax) -> str:
    if syntax.allows_cdata and (found := _CDATA.fullmatch(text)) is not None:
        return found[1]
    if not syntax.trims_lines:
        return text
    before = _LINE_BREAK_BEFORE.match(text)
    return _LINE_BREAK_AFTER.sub("", text[before.end() :] if before else text)


def _convert_value(text: str, kind: ValueKind, key: str, tool: DeclaredTool) -> str:
    if kind == "text":
        return write_string(text)
    if kind == "json" and is_json(text):
        return text
    return convert_text(text, find_member_schema(tool.schema, key), tool.schema)


def _named_tag_opener(opens: str, closes: str) -> Opener:
    """An opener of a call with the name in the tag and all parameters in it as one JSON object.

    `closes` may contain the name as `{}`.
    """

    def read(cursor: TextCursor, context: ReaderContext) -> Reading:
        tool = yield from read_tool_name(cursor, context, ">")
        if tool is None:
            return None
        yield from cursor.skip_blanks()
        if (yield from cursor.peek()) != "{":
            return None
        closer = closes.format(tool.name)
        raw = yield from read_raw_value(cursor, JsonBounds((closer,), (opens,)))
        if raw is None or (context.strict and not is_object(raw)):
            return None
        yield from cursor.skip_blanks()
        is_closed = yield from cursor.take_closer(closer, strict=context.strict)
        call = TextCall(name=tool.name, arguments=normalize_arguments(raw))
        return FoundCalls((call,)) if is_closed else None

    return Opener(opens, read, "B")


def _key_value_tags(suffix: str = "") -> ParameterSyntax:
    """The tags of GLM and Hunyuan."""
    return ParameterSyntax(
        f"<arg_key{suffix}>",
        {f"</arg_key{suffix}>": "schema"},
        f"</arg_value{suffix}>",
        begins=f"<arg_value{suffix}>",
    )


_GLM_PARAMETER = _key_value_tags()


def _read_glm(cursor: TextCursor, context: ReaderContext) -> Reading:
    """Read a GLM call: the tool's name, then `<arg_key>` and `<arg_value>` pairs."""
    yield from cursor.skip_blanks()
    tool = yield from read_tool_name(cursor, context)
    if tool is None:
        return None
    members = yield from read_parameters(cursor, context, _GLM_PARAMETER, tool, "</tool_call>")
    # Texts about calls have a name alone between tags; it counts only if it can be a whole call.
    if members is None or (not members and required_of(tool.schema)):
        return None
    return FoundCalls((TextCall(name=tool.name, arguments=write_object(members)),))


_SUFFIX = re.compile(r"[\w:.-]+")
_SUFFIX_LIMIT = 32


def _read_hunyuan(cursor: TextCursor, context: ReaderContext) -> Reading:
    """Calls like GLM's in `<tool_calls>`; some builds put one suffix behind every tag's name."""
    suffix = yield from cursor.take_matching(_SUFFIX, _SUFFIX_LIMIT)
    if not (yield from cursor.take(">")):
        return None
    parameter = _key_value_tags(suffix)
    opens, closes, end = f"<tool_call{suffix}>", f"</tool_call{suffix}>", f"</tool_calls{suffix}>"
    calls: list[TextCall] = []
    while True:
        yield from cursor.skip_blanks()
        found = yield from cursor.take(opens, end)
        if found != opens:
            is_end = found or (calls and not context.strict and (yield from cursor.take_closer(end)))
            return FoundCalls(tuple(calls)) if calls and is_end else None
        tool = yield from read_tool_name(cursor, context)
        if tool is None:
            return None
        yield from cursor.skip_blanks()
        yield from cursor.take(f"<tool_sep{suffix}>")
        members = yield from read_parameters(cursor, context, parameter, tool, closes)
        if members is None:
            return None
        calls.append(TextCall(name=tool.name, arguments=write_object(members)))


_QWEN = CallSyntax(
    "<function=",
    ">",
    "</function>",
    ParameterSyntax("<parameter=", {">": "schema"}, "</parameter>", trims_lines=True),
)
_INVOKE = CallSyntax(
    '<invoke name="',
    '">',
    "</invoke>",
    ParameterSyntax('<parameter name="', {'">': "schema"}, "</parameter>"),
)
_MINICPM = CallSyntax(
    '<function name="',
    '">',
    "</function>",
    ParameterSyntax('<param name="', {'">': "schema"}, "</param>", allows_cdata=True),
)
_QWEN3_CODER = FamilyFormat(
    "qwen3_coder",
    "Qwen3 Coder, newer Qwen3 templates",
    (
        Opener("<tool_call>", wrapped_reader(_QWEN, "</tool_call>"), "B"),
        Opener("<tool_call>", READ_HERMES, "B"),
        Opener(_QWEN.opens, unwrapped_reader(_QWEN, "</tool_call>"), "B", auto=False),
    ),
    (THINK,),
)
_SEED_THINK = ReasoningTags("<seed:think>", "</seed:think>")
_MINIMAX_THINK = ReasoningTags("<think>", "</think>", in_prompt=True, repeats=True)


def _family(
    name: str, models: str, opener: Opener, *others: Opener, reasoning: tuple[ReasoningTags, ...] = ()
) -> FamilyFormat:
    return FamilyFormat(name, models, (opener, *others), reasoning)


_GLM = _family(
    "glm",
    "GLM-4.5 to 4.7, Ling 3, Poolside",
    # GLM 4.6 and later put the tag right behind the text.
    Opener("<tool_call>", _read_glm, "B", inline=True),
    Opener("<tool_call>", READ_HERMES, "B"),
    reasoning=(THINK,),
)
# The published template puts the suffix of its other tags behind these too.
_OPEN_THINK = ReasoningTags("<think:opensource>", "</think:opensource>")
_HUNYUAN = Opener("<tool_calls", _read_hunyuan, "B")
_HUNYUAN_V3 = _family("hunyuan_v3", "Hunyuan V3", _HUNYUAN, reasoning=(THINK, _OPEN_THINK))
_MINICPM5 = _family(
    "minicpm5", "MiniCPM 5", Opener(_MINICPM.opens, unwrapped_reader(_MINICPM), "B"), reasoning=(THINK,)
)

FORMATS = (
    _QWEN3_CODER,
    _QWEN3_CODER.variant("qwen35", "Qwen3.5", THINK_IN_PROMPT),
    _QWEN3_CODER.variant("nemotron3", "Nemotron 3", THINK_IN_PROMPT),
    _QWEN3_CODER.variant("step35", "Step-3.5", THINK_IN_PROMPT),
    _family(
        "seed_oss",
        "Seed-OSS",
        Opener("<seed:tool_call>", wrapped_reader(_QWEN, "</seed:tool_call>"), "A"),
        reasoning=(_SEED_THINK,),
    ),
    _GLM,
    _GLM.variant(
        "glm_thinking", "GLM 4.7 and Poolside, where the prompt opens the reasoning", THINK_IN_PROMPT
    ),
    _HUNYUAN_V3,
    _HUNYUAN_V3.variant(
        "hunyuan_v3_thinking",
        "Hunyuan V3, where the prompt opens the reasoning",
        ReasoningTags("<think>", "</think>", in_prompt=True, also_closes=(_OPEN_THINK.closes,)),
    ),
    _family(
        "minimax_m2",
        "MiniMax M2",
        Opener("<minimax:tool_call>", wrapped_reader(_INVOKE, "</minimax:tool_call>", one_by_one=True), "A"),
        reasoning=(_MINIMAX_THINK,),
    ),
    _family(
        "dots",
        "dots",
        Opener("<dots_function_call>", wrapped_reader(_INVOKE, "</dots_function_call>"), "B"),
    ),
    _MINICPM5,
    _MINICPM5.variant(
        "minicpm5_thinking", "MiniCPM 5, where the prompt opens the reasoning", THINK_IN_PROMPT
    ),
    _family("tool_tag", "models that write `<tool:name>`", _named_tag_opener("<tool:", "</tool:{}>")),
    _family(
        "claude",
        "Claude, and models that imitate it",
        Opener("<function_calls>", wrapped_reader(_INVOKE, "</function_calls>"), "B"),
        Opener(_INVOKE.opens, unwrapped_reader(_INVOKE, "</function_calls>"), "B", auto=False),
    ),
    _family(
        "functionary",
        "Functionary 3.1, Llama 3.1 with custom calls",
        _named_tag_opener("<function=", "</function>"),
    ),
)
