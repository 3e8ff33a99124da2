"""Syntax of a single vendor: Mistral, Gemma, MiniMax M3. Also families that write only reasoning."""

import re

from msgspec.structs import replace

from dragoman.governance.harvest.call_formats.json_in_tags import JsonBody, read_json_calls
from dragoman.governance.harvest.call_formats.tagged_parameters import read_tool_name
from dragoman.governance.harvest.call_formats.token_sections import section_opener
from dragoman.governance.harvest.cursor import CallReading, CursorReading, TextCall, TextCursor
from dragoman.governance.harvest.format import (
    THINK,
    FamilyFormat,
    FoundCalls,
    Opener,
    ReaderContext,
    Reading,
    ReasoningTags,
)
from dragoman.governance.harvest.json_text import (
    JsonBounds,
    is_object,
    normalize_arguments,
    read_raw_value,
    write_object,
    write_string,
)
from dragoman.governance.harvest.schema_values import convert_text, find_member_schema
from dragoman.schema import properties_of, resolve, types_of

# Mistral: a list of JSON objects behind one token, or, in newer tokenizers, the token before each name.
# Neither has a closing mark. The model's own ids are not used: it invents them and repeats them.

_MISTRAL_LIST = JsonBody("list")
_MISTRAL_ID = re.compile(r"\w+")


def _read_mistral(cursor: TextCursor, context: ReaderContext) -> Reading:
    yield from cursor.skip_blanks()
    if (yield from cursor.peek()) == "[":
        calls = yield from read_json_calls(cursor, context, _MISTRAL_LIST)
        return FoundCalls(calls) if calls else None
    tool = yield from read_tool_name(cursor, context)
    if tool is None:
        return None
    if (yield from cursor.take("[CALL_ID]")):
        yield from cursor.take_matching(_MISTRAL_ID, 64)
    yield from cursor.take("[ARGS]")
    yield from cursor.skip_blanks()
    if (yield from cursor.peek()) != "{":
        return None
    raw = yield from read_raw_value(cursor, JsonBounds())
    if raw is None:
        return None
    return FoundCalls((TextCall(name=tool.name, arguments=normalize_arguments(raw)),))


# Gemma: `call:name{key:value}`, with strings between tokens of their own.

_GEMMA_KEY = re.compile(r"([{,]\s*)([A-Za-z_$][\w$.-]*)(\s*:)")
#: The published template writes Python's name for null.
_GEMMA_NULL = re.compile(r"([:\[,]\s*)None(?=\s*[,}\]])")


def _gemma_opener(opens: str, quote: str, closes: str) -> Opener:
    def read(cursor: TextCursor, context: ReaderContext) -> Reading:
        yield from cursor.skip_blanks()
        if not (yield from cursor.take("call:")):
            return None
        yield from cursor.skip_blanks()
        tool = yield from read_tool_name(cursor, context)
        if tool is None:
            return None
        yield from cursor.skip_blanks()
        if (yield from cursor.peek()) != "{":
            return None
        parts: list[str] = []
        while True:
            outside, stop = yield from cursor.take_until(quote, closes, opens)
            parts.append(_GEMMA_NULL.sub(r"\1null", _GEMMA_KEY.sub(r'\1"\2"\3', outside)))
            if stop == opens:
                cursor.step_back(stop)
                return None
            if stop != quote:
                break
            inside, stop = yield from cursor.take_until(quote)
            if not stop:
                return None
            parts.append(write_string(inside))
        arguments = "".join(parts).rstrip()
        is_end = stop == closes or (not stop and cursor.has_ended_well)
        if not is_end or not is_object(arguments):
            return None
        return FoundCalls((TextCall(name=tool.name, arguments=arguments),))

    return Opener(opens, read, "A")


# MiniMax M3: every tag stands behind a mark, and parameters are elements named after their keys. Nested
# objects are nested elements; the items of a list repeat one element.

_MARK = "]<]minimax[>["
_ELEMENT = re.compile(r"[^<>\s/]+")
_ELEMENT_LIMIT = 256
_DEPTH = 32

#: The text of an element, or the elements in it.
ElementContent = str | list[tuple[str, "ElementContent"]]


def _read_minimax(cursor: TextCursor, context: ReaderContext) -> CallReading:
    tool = yield from read_tool_name(cursor, context, '">')
    if tool is None:
        return None
    content = yield from _read_content(cursor, "</invoke>", _DEPTH)
    if content is None or (isinstance(content, str) and content.strip()):
        return None
    members = {
        key: _convert_content(inner, find_member_schema(tool.schema, key), tool.schema)
        for key, inner in ([] if isinstance(content, str) else content)
    }
    return TextCall(name=tool.name, arguments=write_object(members))


def _read_content(cursor: TextCursor, closer: str, depth: int) -> CursorReading[ElementContent | None]:
    """The content of an element, up to and with its end; None if there is none."""
    elements: list[tuple[str, ElementContent]] = []
    while True:
        text, mark = yield from cursor.take_until(_MARK)
        if not mark or (elements and text.strip()):
            return None
        if (yield from cursor.take(closer)):
            return elements or text
        if text.strip() or not depth or not (yield from cursor.take("<")):
            return None
        name = yield from cursor.take_matching(_ELEMENT, _ELEMENT_LIMIT)
        if not name or not (yield from cursor.take(">")):
            return None
        inner = yield from _read_content(cursor, f"</{name}>", depth - 1)
        if inner is None:
            return None
        elements.append((name, inner))


def _convert_content(content: ElementContent, schema: object, root: object) -> str:
    if isinstance(content, str):
        return convert_text(content, schema, root)
    types = types_of(schema, root)
    known = resolve(schema, root)
    names = {name for name, _ in content}
    if "array" in types or ("object" not in types and len(names) == 1 and len(content) > 1):
        items = known.get("items") if isinstance(known, dict) else None
        return "[" + ",".join([_convert_content(item, items, root) for _, item in content]) + "]"
    members = properties_of(known)
    return write_object({name: _convert_content(inner, members.get(name), root) for name, inner in content})


_MINIMAX_THINK = ReasoningTags("<mm:think>", "</mm:think>", repeats=True, lone_close=True)
_MINIMAX_M3 = FamilyFormat(
    "minimax_m3",
    "MiniMax M3",
    (section_opener(f"{_MARK}<tool_call>", f'{_MARK}<invoke name="', _read_minimax, f"{_MARK}</tool_call>"),),
    (_MINIMAX_THINK,),
)
_EXAONE_THINK = ReasoningTags("<thought>", "</thought>")

FORMATS = (
    FamilyFormat(
        "mistral",
        "Mistral, Devstral, Magistral",
        (Opener("[TOOL_CALLS]", _read_mistral, "A"),),
        (ReasoningTags("[THINK]", "[/THINK]"), THINK),
    ),
    FamilyFormat(
        "gemma4",
        "Gemma 4",
        (_gemma_opener("<|tool_call>", '<|"|>', "<tool_call|>"),),
        (ReasoningTags("<|channel>", "<channel|>", repeats=True, label="thought"),),
    ),
    FamilyFormat(
        "functiongemma",
        "FunctionGemma",
        (_gemma_opener("<start_function_call>", "<escape>", "<end_function_call>"),),
    ),
    _MINIMAX_M3,
    _MINIMAX_M3.variant(
        "minimax_m3_thinking", "MiniMax M3 thinking", replace(_MINIMAX_THINK, in_prompt=True)
    ),
    FamilyFormat("kimi_vl", "Kimi VL", reasoning=(ReasoningTags("◁think▷", "◁/think▷"),)),
    FamilyFormat("phi4_reasoning", "Phi-4-reasoning", reasoning=(THINK,)),
    FamilyFormat("exaone_deep", "Exaone Deep", reasoning=(_EXAONE_THINK,)),
    FamilyFormat(
        "exaone_deep_thinking",
        "Exaone Deep, where the prompt opens the reasoning",
        reasoning=(replace(_EXAONE_THINK, in_prompt=True),),
    ),
)
