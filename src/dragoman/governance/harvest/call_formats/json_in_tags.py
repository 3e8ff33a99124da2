"""Calls as JSON between a family's own marks: one object, a list of objects, or one object per line."""

from typing import Literal

import msgspec
from msgspec.structs import replace

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
    framing_openers,
)
from dragoman.governance.harvest.json_text import (
    JsonBounds,
    is_object,
    normalize_arguments,
    read_key,
    read_name,
    read_raw_value,
)
from dragoman.governance.tool_names import DeclaredTool
from dragoman.schema import properties_of

JsonShape = Literal["object", "list", "lines"]

#: Keys that do not affect what is called.
_IGNORED_KEYS = frozenset(("id", "type", "index", "tool_call_id"))


class JsonBody(msgspec.Struct, frozen=True):
    """How a family writes calls as JSON.

    `closers`: what ends the body; without any its last bracket does. `optional`: the closer may be missing.
    `barred`: literals that show that this is not a body. `before`: literals between the marker and the body.
    `keyed`: the only key of an object is the tool's name.
    """

    shape: JsonShape
    closers: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    optional: bool = False
    names: tuple[str, ...] = ("name",)
    arguments: tuple[str, ...] = ("arguments", "parameters")
    keyed: bool = False


def json_reader(body: JsonBody) -> FormatReader:
    """A reader of such a body and its closer."""

    def read(cursor: TextCursor, context: ReaderContext) -> Reading:
        for literal in body.before:
            yield from cursor.skip_blanks()
            if not (yield from cursor.take(literal)):
                return None
        calls = yield from read_json_calls(cursor, context, body)
        if not calls or not (yield from _take_end(cursor, body, strict=context.strict)):
            return None
        return FoundCalls(calls)

    return read


def _take_end(cursor: TextCursor, body: JsonBody, *, strict: bool) -> CursorReading[bool]:
    """Consume the closer behind the body, and surplus brackets before it unless `strict`."""
    if not body.closers:
        return True
    yield from cursor.skip_blanks()
    if body.optional:
        yield from cursor.take(*body.closers)
        return True
    while not strict and (yield from cursor.take("}", "]")):
        yield from cursor.skip_blanks()
    return (yield from cursor.take_closer(*body.closers, strict=strict))


def read_json_calls(
    cursor: TextCursor, context: ReaderContext, body: JsonBody
) -> CursorReading[tuple[TextCall, ...] | None]:
    """The calls of a body, without its closer; None if these are not calls."""
    yield from cursor.skip_blanks()
    if (yield from cursor.peek()) != ("[" if body.shape == "list" else "{"):
        return None
    if body.shape == "list":
        return (yield from _read_list(cursor, context, body))
    calls: list[TextCall] = []
    while not calls or (body.shape == "lines" and (yield from cursor.peek()) == "{"):
        call = yield from _read_call(cursor, context, body)
        if call is None:
            return None
        calls.append(call)
        if body.shape == "lines":
            yield from cursor.skip_blanks()
    return tuple(calls)


def _read_list(
    cursor: TextCursor, context: ReaderContext, body: JsonBody
) -> CursorReading[tuple[TextCall, ...] | None]:
    calls: list[TextCall] = []
    yield from cursor.take("[")
    while True:
        yield from cursor.skip_blanks()
        if (yield from cursor.take("]")):
            return tuple(calls)
        if calls and not context.strict and (yield from cursor.peek_literal(*body.closers)):
            return tuple(calls)
        if calls and not (yield from cursor.take(",")) and context.strict:
            return None
        yield from cursor.skip_blanks()
        call = yield from _read_call(cursor, context, body)
        if call is None:
            return None
        calls.append(call)


def _read_call(cursor: TextCursor, context: ReaderContext, body: JsonBody) -> CallReading:
    """Read one call. None as soon as its name is read and not declared."""
    tool = arguments = None
    bounds = JsonBounds(body.closers, body.barred)
    if not (yield from cursor.take("{")):
        return None
    while not (yield from _take_object_end(cursor, context, body)):
        key = yield from read_key(cursor, strict=context.strict)
        if key is None:
            return None
        yield from cursor.skip_blanks()
        if tool is None and (body.keyed or key in body.names):
            name = key if body.keyed else (yield from read_name(cursor, context.longest))
            tool = context.find(name, cursor) if name else None
            if tool is None:
                return None
            if not body.keyed:
                continue
        elif context.strict and key not in body.arguments and key not in _IGNORED_KEYS:
            return None
        raw = yield from read_raw_value(cursor, bounds)
        if raw is None:
            return None
        if arguments is None and (body.keyed or key in body.arguments):
            arguments = raw
    return None if tool is None else _build_call(tool, arguments, strict=context.strict)


def _take_object_end(cursor: TextCursor, context: ReaderContext, body: JsonBody) -> CursorReading[bool]:
    """Whether the object ends here; otherwise the comma before its next member is consumed."""
    yield from cursor.skip_blanks()
    if (yield from cursor.take(",")):
        yield from cursor.skip_blanks()
        if context.strict:
            return False
    if (yield from cursor.take("}")):
        return True
    return not context.strict and bool((yield from cursor.peek_literal(*body.closers)))


def _build_call(tool: DeclaredTool, raw: str | None, *, strict: bool) -> TextCall | None:
    if raw is None:
        # A call without arguments is complete only for a tool that declares none.
        return None if properties_of(tool.schema) else TextCall(name=tool.name, arguments="{}")
    arguments = normalize_arguments(raw)
    if strict and not is_object(arguments):
        return None
    return TextCall(name=tool.name, arguments=arguments)


#: Also the fallback of models whose own format is another one inside the same tag.
READ_HERMES = json_reader(JsonBody("object", ("</tool_call>",), ("<tool_call>",)))
_READ_GRANITE = json_reader(JsonBody("list", ("</tool_call>",), optional=True))
_GRANITE = (
    Opener("<|tool_call|>", _READ_GRANITE, "A"),
    # Without a closing tag the markup proves too little where the family is unknown.
    Opener("<tool_call>", _READ_GRANITE, "B", auto=False),
)
_HERMES = FamilyFormat(
    "hermes",
    "Hermes 2 and 3, Qwen2.5, Qwen3, Granite 4, Trinity and many fine-tunes",
    (Opener("<tool_call>", READ_HERMES, "B"),),
    (THINK,),
)
_ERNIE_THINK = ReasoningTags(
    "<think>", "</think>", in_prompt=True, answer_tags=(("<response>", "</response>"),)
)
_HUNYUAN_THINK = ReasoningTags("<think>", "</think>", answer_tags=(("<answer>", "</answer>"),))
_COMMAND_THINK = ReasoningTags(
    "<|START_THINKING|>", "<|END_THINKING|>", answer_tags=(("<|START_RESPONSE|>", "<|END_RESPONSE|>"),)
)
#: Sentences that an answer may begin with, so that `auto` does not accept them.
_GRANITE_THINK = ReasoningTags("Here is my thought process:", "Here is my response:", is_distinct=False)


def _tool_calls_opener(shape: JsonShape) -> Opener:
    """The marker leaves out the bracket, because Hunyuan V3 puts a suffix behind the tag's name."""
    body = JsonBody(shape, ("</tool_calls>",), ("<tool_calls>",), before=(">",))
    return Opener("<tool_calls", json_reader(body), "B")


def _family(
    name: str, models: str, marker: str, body: JsonBody, *reasoning: ReasoningTags, safety: Literal["A", "B"]
) -> FamilyFormat:
    return FamilyFormat(name, models, (Opener(marker, json_reader(body), safety),), reasoning)


_COMMAND_BODY = JsonBody("list", ("<|END_ACTION|>",), ("<|START_ACTION|>",), names=("tool_name", "name"))
_COMMAND = FamilyFormat(
    "command",
    "Command A, Command R7B",
    (
        Opener("<|START_ACTION|>", json_reader(_COMMAND_BODY), "A"),
        *framing_openers(
            "<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|END_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"
        ),
    ),
    (_COMMAND_THINK,),
)
_LIST_IN_TOOL_CALLS = _tool_calls_opener("list")

FORMATS = (
    _HERMES,
    _HERMES.variant("qwen3_thinking", "Qwen3 thinking, QwQ", THINK_IN_PROMPT),
    _HERMES.variant("ernie", "Ernie 4.5", THINK),
    _HERMES.variant("ernie_thinking", "Ernie 4.5 thinking", _ERNIE_THINK),
    _family(
        "longcat",
        "LongCat",
        "<longcat_tool_call>",
        JsonBody("object", ("</longcat_tool_call>",), ("<longcat_tool_call>",)),
        safety="A",
    ),
    FamilyFormat("granite", "Granite 3", _GRANITE),
    FamilyFormat("granite_spoken", "Granite 3.2 with thinking", _GRANITE, (_GRANITE_THINK,)),
    FamilyFormat(
        "granite_20b",
        "Granite 20b function calling",
        (
            Opener(
                "<function_call>",
                json_reader(JsonBody("object", barred=("<function_call>",))),
                "B",
                auto=False,
            ),
        ),
    ),
    _family(
        "nemotron",
        "Llama Nemotron, Nemotron Nano",
        "<TOOLCALL>",
        JsonBody("list", ("</TOOLCALL>",), ("<TOOLCALL>",)),
        THINK,
        safety="B",
    ),
    FamilyFormat("jamba", "Jamba", (_LIST_IN_TOOL_CALLS,)),
    FamilyFormat("hunyuan_a13b", "Hunyuan A13B", (_LIST_IN_TOOL_CALLS,), (_HUNYUAN_THINK,)),
    FamilyFormat("minimax_m1", "MiniMax M1", (_tool_calls_opener("lines"),), (THINK,)),
    _family(
        "internlm",
        "InternLM 2, Intern-S1",
        "<|action_start|>",
        JsonBody("object", ("<|action_end|>",), ("<|action_start|>",), before=("<|plugin|>",)),
        THINK,
        safety="A",
    ),
    _family(
        "apertus",
        "Apertus",
        "<|tools_prefix|>",
        JsonBody("list", ("<|tools_suffix|>",), ("<|tools_prefix|>",), keyed=True),
        safety="A",
    ),
    _COMMAND,
    _COMMAND.variant(
        "command_thinking",
        "Command A, where the prompt opens the reasoning",
        replace(_COMMAND_THINK, in_prompt=True),
    ),
    # GigaChat 3 writes a message named `function call`; 3.1 has a token for it.
    FamilyFormat(
        "gigachat",
        "GigaChat 3 and 3.1",
        (
            Opener(
                "<|message_sep|>",
                json_reader(JsonBody("object", before=("function call<|role_sep|>",))),
                "A",
            ),
            Opener("<|function_call|>", json_reader(JsonBody("object")), "A"),
        ),
    ),
    # The reader begins at the bracket: `functools` alone is a module of Python.
    FamilyFormat(
        "phi4_mini",
        "Phi-4-mini",
        (
            Opener("functools[", json_reader(JsonBody("list")), "B", inside=len("functools"), auto=False),
            Opener("<|tool_call|>", json_reader(JsonBody("list", ("<|/tool_call|>",), optional=True)), "A"),
            *framing_openers("<|/tool_call|>"),
        ),
    ),
)
