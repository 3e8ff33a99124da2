"""Replies as messages in channels: harmony (gpt-oss) and Kimi K3. The header states what a message is."""

import re

from msgspec.structs import replace

from dragoman.governance.harvest.call_formats.token_sections import section_opener
from dragoman.governance.harvest.cursor import CallReading, CursorReading, TextCall, TextCursor
from dragoman.governance.harvest.format import (
    FamilyFormat,
    FoundCalls,
    Framing,
    MarkerPlace,
    Opener,
    ReaderContext,
    ReaderOutcome,
    Reading,
    ReasoningSection,
    ReasoningStart,
    ReasoningTags,
    framing_openers,
)
from dragoman.governance.harvest.json_text import (
    JsonBounds,
    is_json,
    normalize_arguments,
    read_raw_value,
    write_object,
    write_string,
)
from dragoman.governance.harvest.schema_values import convert_text, find_member_schema, is_complete
from dragoman.governance.tool_names import DeclaredTool

# Harmony. A header ends at `<|message|>`; its meaning is unknown before. The beginning of the first message
# is usually part of the prompt and missing. Servers often do not deliver the tokens that end a message.

_START = "<|start|>"
_CHANNEL = "<|channel|>"
_MESSAGE = "<|message|>"
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_FUNCTIONS = "functions."
_HARMONY_BOUNDS = JsonBounds(_ENDS, (_START, _CHANNEL))
_RECIPIENT_IN_HEADER = re.compile(r"to=([^\s<]+)")
_CHANNEL_IN_HEADER = re.compile(r"<\|channel\|>\s*(\w+)")
_HARMONY_HEADER_LIMIT = 400

#: What a message without a recipient is, by its channel.
_BY_CHANNEL: dict[str, ReaderOutcome] = {
    "analysis": ReasoningStart(ReasoningSection(closers=_ENDS)),
    "commentary": Framing(_ENDS),
    "final": Framing(_ENDS),
}


def _harmony_opener(marker: str, place: MarkerPlace = MarkerPlace.ANYWHERE) -> Opener:
    """An opener of a message whose header begins with the marker."""

    def read(cursor: TextCursor, context: ReaderContext) -> Reading:
        stops = (_MESSAGE, _START, *_ENDS) if marker != _CHANNEL else (_MESSAGE, _START, _CHANNEL, *_ENDS)
        rest, stop = yield from cursor.take_until(*stops, limit=_HARMONY_HEADER_LIMIT)
        header = marker + rest
        if stop in (_START, _CHANNEL):
            cursor.step_back(stop)
        if stop != _MESSAGE or (marker == _START and not rest.startswith("assistant")):
            return None
        recipient = _RECIPIENT_IN_HEADER.search(header)
        if recipient is None:
            channel = _CHANNEL_IN_HEADER.search(header)
            return _BY_CHANNEL.get(channel[1]) if channel else None
        name = recipient[1].removeprefix(_FUNCTIONS)
        tool = context.find(name, cursor)
        if name == recipient[1] or tool is None:
            return None
        call = yield from _read_harmony_call(cursor, tool)
        return None if call is None else FoundCalls((call,))

    return Opener(marker, read, "A", place, frames=place is MarkerPlace.ANYWHERE)


def _read_harmony_call(cursor: TextCursor, tool: DeclaredTool) -> CallReading:
    yield from cursor.skip_blanks()
    may_end = is_complete((), tool.schema)
    if (yield from cursor.take_closer(*_ENDS, strict=not may_end)):
        return TextCall(name=tool.name, arguments="{}")
    if (yield from cursor.peek()) != "{":
        return None
    raw = yield from read_raw_value(cursor, _HARMONY_BOUNDS)
    if raw is None:
        return None
    yield from cursor.skip_blanks()
    is_end = (yield from cursor.take_closer(*_ENDS)) or (yield from cursor.peek_literal(_START, _CHANNEL))
    return TextCall(name=tool.name, arguments=normalize_arguments(raw)) if is_end else None


# Kimi K3. Channels open and close with several tokens each. An argument's type stands in its tag; strings are
# raw text. Attribute values escape `&` and `"`.

_SEPARATOR = "<|sep|>"
_TOOLS = "<|open|>tools<|sep|>"
_TOOLS_END = "<|close|>tools<|sep|>"
_CALL = "<|open|>call "
_CALL_END = "<|close|>call<|sep|>"
_ARGUMENT = "<|open|>argument "
_ARGUMENT_END = "<|close|>argument<|sep|>"
_OBJECT = "<|open|>json "
_OBJECT_END = "<|close|>json<|sep|>"
#: Tokens that enclose the whole message.
_KIMI_FRAMES = (
    "<|open|>message<|sep|>",
    "<|close|>message<|sep|>",
    "<|end_of_msg|>",
    "<|close|>response<|sep|>",
)
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')
_KIMI_HEADER_LIMIT = 1024


def _read_attributes(cursor: TextCursor) -> CursorReading[dict[str, str] | None]:
    header, stop = yield from cursor.take_until(_SEPARATOR, limit=_KIMI_HEADER_LIMIT)
    if not stop:
        return None
    return {
        key: value.replace("&quot;", '"').replace("&amp;", "&") for key, value in _ATTRIBUTE.findall(header)
    }


def _read_kimi_call(cursor: TextCursor, context: ReaderContext) -> CallReading:
    attributes = yield from _read_attributes(cursor)
    tool = context.find(attributes.get("tool", ""), cursor) if attributes else None
    members: dict[str, str] = {}
    while tool is not None:
        yield from cursor.skip_blanks()
        found = yield from cursor.take(_ARGUMENT, _OBJECT, _CALL_END)
        if found == _OBJECT:
            return (yield from _read_kimi_object(cursor, tool))
        if found != _ARGUMENT:
            may_end = is_complete(members, tool.schema)
            is_end = found or (may_end and (yield from cursor.take_closer(_CALL_END)))
            return TextCall(name=tool.name, arguments=write_object(members)) if is_end else None
        attributes = yield from _read_attributes(cursor)
        text, stop = yield from cursor.take_until(_ARGUMENT_END)
        if not attributes or not stop or "key" not in attributes:
            return None
        members[attributes["key"]] = _convert_kimi_value(text, attributes, tool)
    return None


def _read_kimi_object(cursor: TextCursor, tool: DeclaredTool) -> CallReading:
    """All arguments as one JSON object."""
    attributes = yield from _read_attributes(cursor)
    yield from cursor.skip_blanks()
    raw = yield from read_raw_value(cursor, JsonBounds((_OBJECT_END, _CALL_END), (_CALL, _TOOLS)))
    yield from cursor.skip_blanks()
    if attributes is None or raw is None or not (yield from cursor.take_closer(_OBJECT_END)):
        return None
    yield from cursor.skip_blanks()
    is_end = yield from cursor.take_closer(_CALL_END)
    return TextCall(name=tool.name, arguments=normalize_arguments(raw)) if is_end else None


def _convert_kimi_value(text: str, attributes: dict[str, str], tool: DeclaredTool) -> str:
    if attributes.get("type") == "string":
        return write_string(text)
    if "type" in attributes and is_json(text):
        return text
    return convert_text(text, find_member_schema(tool.schema, attributes["key"]), tool.schema)


_KIMI_THINK = ReasoningTags(
    "<|open|>think<|sep|>",
    "<|close|>think<|sep|>",
    repeats=True,
    answer_tags=(("<|open|>response<|sep|>", "<|close|>response<|sep|>"),),
)
_KIMI_K3 = FamilyFormat(
    "kimi_k3",
    "Kimi K3",
    (
        section_opener(_TOOLS, _CALL, _read_kimi_call, _TOOLS_END),
        *framing_openers(*_KIMI_FRAMES),
    ),
    (_KIMI_THINK,),
)

FORMATS = (
    FamilyFormat(
        "gpt_oss",
        "gpt-oss",
        (
            _harmony_opener(_START),
            _harmony_opener(_CHANNEL),
            _harmony_opener("to=" + _FUNCTIONS, MarkerPlace.FIRST),
            *framing_openers(*_ENDS, "<|constrain|>"),
        ),
    ),
    _KIMI_K3,
    _KIMI_K3.variant(
        "kimi_k3_thinking",
        "Kimi K3, where the prompt opens the reasoning",
        replace(_KIMI_THINK, in_prompt=True),
    ),
)
