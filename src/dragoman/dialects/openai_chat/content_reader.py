"""Reads the messages of a request, one by one, and their parts with cache marks into blocks.

The order of blocks is thoughts, content, calls. Seals that our writer put into envelopes in
`reasoning_details` go back to the blocks that they belong to.
"""

import msgspec

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_chat.fragments import read_thought_signature
from dragoman.dialects.openai_chat.media import MEDIA_READERS
from dragoman.dialects.openai_chat.names import (
    ABSENT,
    AS_NULL,
    AS_PART,
    AS_PARTS,
    AS_TEXT,
    BREAKPOINT,
    CACHE_CONTROL,
    NAME,
    add_inner,
    build_form,
)
from dragoman.dialects.openai_chat.reasoning import LIST_FIELDS, TEXT_FIELDS, read_entry, remove_text
from dragoman.hub.blocks import AnyBlock, CacheMark, Opaque, Reasoning, Refusal, Text, ToolCall, ToolResult
from dragoman.hub.ids import digest
from dragoman.hub.request import Message, Role
from dragoman.hub.seal import Seal, SealedItem, read_envelope
from dragoman.wire.fields import Fields, encode

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}

#: Forms of calls and results.
FUNCTION_CALL = "function_call"
FUNCTION_ROLE = "function"
UNTYPED = "untyped"
OBJECT = "object"
#: The call had this signature, which is also its seal if the target is its issuer.
GOOGLE = "google:"
#: The thought was an entry of a list; the type of the entry follows.
ENTRY = "entry:"
#: A field beside the entries repeats their text, joined directly or by blank lines.
BESIDE = {"beside:": "", "beside-lines:": "\n\n"}

#: The fields of a message that may hold thoughts.
_THOUGHT_FIELDS = frozenset({*LIST_FIELDS, *TEXT_FIELDS})


class MessageReader:
    """Reads the messages of one request in order.

    A result of the old `function` role has no id: it answers the last call of its name. Such results, and
    seals, belong to calls of the model's latest answer. So how a message is read does not depend on earlier
    answers.
    """

    def __init__(self) -> None:
        self._legacy_ids: dict[str, str] = {}
        #: Seals of calls in a later message.
        self._call_seals: dict[str, Seal] = {}
        self._is_answering = False

    def read(self, message: Fields, number: int) -> Message:
        """Read one message; `number` is its place in the request. Call it in the order of the messages."""
        role_name = message.text("role")
        role = ROLES.get(role_name)
        if role is None:
            raise message.error("expected the role of a message, got another string", "role")
        was_answering, self._is_answering = self._is_answering, role == "assistant"
        if role == "assistant":
            if not was_answering:
                self._legacy_ids.clear()
                self._call_seals.clear()
            return self._read_assistant(message, number)
        if role == "tool":
            return self._read_result(message, role_name, number)
        blocks, form = _read_message_content(message)
        return Message(role=role, blocks=tuple(blocks), at=message.path, form=form, extras=message.rest())

    def _read_result(self, message: Fields, role_name: str, number: int) -> Message:
        at = message.path
        blocks, form = _read_message_content(message)
        if role_name == "tool":
            call_id, name = message.text("tool_call_id"), ""
        else:
            name = message.text("name")
            call_id = self._legacy_ids.get(name) or _make_legacy_id(number)
        result = ToolResult(call_id=call_id, name=name, content=tuple(blocks), at=at, form=form)
        message_form = FUNCTION_ROLE if role_name == "function" else ""
        return Message(role="tool", blocks=(result,), at=at, form=message_form, extras=message.rest())

    def _read_assistant(self, message: Fields, number: int) -> Message:
        content, form = _read_message_content(message)
        thoughts, carried, beside = _read_thoughts(message)
        refusal = message.rest().get("refusal")
        if isinstance(refusal, str) and refusal:
            message.raw("refusal")
            content.append(Refusal(text=refusal, at=message.at("refusal")))
        calls = self._read_calls(message, number)
        for item in carried:
            if item.kind == "call":
                self._call_seals[item.call_id] = item.seal
            elif item.kind == "text":
                content = _seal_last_text(content, item.seal)
        blocks = (*thoughts, *content, *map(self._add_seal, calls))
        return Message(
            role="assistant",
            blocks=blocks,
            at=message.path,
            form=f"{form} {beside}".rstrip(),
            extras=message.rest(),
        )

    def _add_seal(self, call: ToolCall) -> ToolCall:
        seal = self._call_seals.get(call.id)
        return call if seal is None else msgspec.structs.replace(call, seal=seal)

    def _read_calls(self, message: Fields, number: int) -> list[ToolCall]:
        calls: list[ToolCall] = []
        if message.rest().get("tool_calls") != []:
            calls += [_read_call(call) for call in message.maybe_objects("tool_calls") or ()]
        legacy = message.maybe_object("function_call")
        if legacy is not None:
            name, call_id = legacy.text("name"), _make_legacy_id(number)
            self._legacy_ids[name] = call_id
            arguments, form = _read_arguments(legacy)
            calls.append(
                ToolCall(
                    id=call_id,
                    name=name,
                    arguments=arguments,
                    at=legacy.path,
                    form=build_form((FUNCTION_CALL, form)).rstrip(),
                    extras=legacy.rest(),
                )
            )
        return calls


def _make_legacy_id(number: int) -> str:
    return "call_" + digest(FUNCTION_CALL, str(number))


def _read_message_content(message: Fields) -> tuple[list[AnyBlock], str]:
    """The blocks of a message's content, and its form. An empty text is part of the form, not a block."""
    if not message.has("content"):
        return [], ABSENT
    content = message.raw("content")
    if content is None:
        return [], AS_NULL
    if isinstance(content, str):
        return ([Text(text=content, at=message.at("content"))] if content else []), AS_TEXT
    if isinstance(content, list):
        return read_content(message, content), AS_PARTS
    raise message.error("expected a string or an array", "content")


def _read_call(call: Fields) -> ToolCall:
    kind = call.maybe_text("type")
    identity = call.text("id")
    if kind == "custom":
        custom = call.object("custom")
        return ToolCall(
            id=identity,
            name=custom.text("name"),
            arguments=custom.text("input"),
            kind="custom",
            at=call.path,
            extras=add_inner(call.rest(), "custom", custom.rest()),
        )
    if kind not in (None, "function"):
        raise call.error("expected the type of a tool call, got another string", "type")
    function = call.object("function")
    arguments, form = _read_arguments(function)
    name = function.text("name")
    signature, seal = _read_signature(call)
    return ToolCall(
        id=identity,
        name=name,
        arguments=arguments,
        seal=seal,
        at=call.path,
        form=build_form(flag for flag in (form, signature, "" if kind else UNTYPED) if flag),
        extras=add_inner(call.rest(), "function", function.rest()),
    )


def _read_signature(call: Fields) -> tuple[str, Seal | None]:
    """The flag for the call's `form` and the seal, from Google's signature in `extra_content`.

    Empty and None if there is no signature, or if the field holds anything else; then the field stays.
    """
    content = call.rest().get("extra_content")
    signature = read_thought_signature(content)
    if signature.split() != [signature] or content != {"google": {"thought_signature": signature}}:
        return "", None
    call.raw("extra_content")
    return GOOGLE + signature, Seal("gemini", "", signature)


def _read_arguments(function: Fields) -> tuple[str, str]:
    """The arguments as text, and their form. Some clients send an object, or nothing for no arguments."""
    value = function.rest().get("arguments")
    if isinstance(value, dict):
        function.raw("arguments")
        return encode(value).decode(), OBJECT
    if value is None:
        return "", "" if function.has("arguments") else ABSENT
    return function.text("arguments"), ""


def _seal_last_text(content: list[AnyBlock], seal: Seal) -> list[AnyBlock]:
    """The content with the seal added to its last text."""
    for place in reversed(range(len(content))):
        block = content[place]
        if isinstance(block, Text):
            return [*content[:place], msgspec.structs.replace(block, seal=seal), *content[place + 1 :]]
    return content


def _read_thoughts(message: Fields) -> tuple[list[Reasoning], list[SealedItem], str]:
    """The thoughts of a message, the seals of other blocks, and the field that repeats the thoughts."""
    thoughts: list[Reasoning] = []
    carried: list[SealedItem] = []
    if _THOUGHT_FIELDS.isdisjoint(message.rest()):
        return thoughts, carried, ""
    for field in LIST_FIELDS:
        entries = message.rest().get(field)
        if isinstance(entries, list) and entries and all(map(read_entry, entries)):
            message.raw(field)
            for index, entry in enumerate(entries):
                _read_thought(message, field, index, entry, thoughts, carried)
    for field in TEXT_FIELDS:
        text = message.rest().get(field)
        if not isinstance(text, str) or not text:
            continue
        if not thoughts:
            message.raw(field)
            return [Reasoning(parts=(text,), raw=True, at=message.at(field), form=field)], carried, ""
        if not any(thought.parts for thought in thoughts):
            # The entry has a seal but no text: it seals the text of the field.
            thoughts[0] = msgspec.structs.replace(thoughts[0], parts=(text,))
        for flag, joint in BESIDE.items():
            if text == joint.join(thought.text for thought in thoughts):
                message.raw(field)
                return thoughts, carried, flag + field
        break
    return thoughts, carried, ""


def _read_thought(
    message: Fields,
    field: str,
    index: int,
    entry: Json,
    thoughts: list[Reasoning],
    carried: list[SealedItem],
) -> None:
    at = message.at(field, index)
    data = entry.get("data")
    opened = read_envelope(data) if isinstance(data, str) else None
    if opened is not None:
        for item in opened:
            if item.kind == "reasoning":
                thoughts.append(Reasoning(parts=item.parts, seal=item.seal, redacted=item.redacted, at=at))
            else:
                carried.append(item)
        return
    thought = read_entry(entry)
    if thought is None:
        return
    if thought.seal:
        # The value of the seal is the entry without its text and its index.
        extras = {"index": entry["index"]} if "index" in entry else {}
    else:
        extras = remove_text(entry, "type")
    thoughts.append(
        Reasoning(
            parts=(thought.text,) if thought.text else (),
            seal=Seal(NAME, "", thought.seal) if thought.seal else None,
            redacted=thought.redacted,
            raw=thought.raw,
            at=at,
            form=ENTRY + str(entry["type"]),
            extras=extras,
        )
    )


def read_content(message: Fields, content: list[object]) -> list[AnyBlock]:
    return [read_part(part) for part in message.children(content, "content")]


def read_part(part: Fields) -> AnyBlock:
    """Read one part. A part of unknown type is kept unchanged."""
    kind = part.text("type")
    at = part.path
    cache = read_cache(part)
    if kind == "text":
        return Text(text=part.text("text"), at=at, cache=cache, extras=part.rest())
    if kind == "refusal":
        return Refusal(text=part.text("refusal"), at=at, form=AS_PART, cache=cache, extras=part.rest())
    if kind == "thinking":
        thought = _read_thinking(part)
        if thought is not None:
            return thought
    reader = MEDIA_READERS.get(kind)
    if reader is None:
        value: Json = {"type": kind, **part.rest()}
        return Opaque(kind=kind, value=value, at=at, cache=cache)
    media, inner = reader(part)
    extras = add_inner(part.rest(), kind, inner)
    return msgspec.structs.replace(media, cache=cache, extras=extras)


def _read_thinking(part: Fields) -> Reasoning | None:
    """Read a thought of Mistral; None if it has content other than text."""
    inner = part.rest().get("thinking")
    if isinstance(inner, str):
        inner = [{"type": "text", "text": inner}]
    if not isinstance(inner, list):
        return None
    texts = [piece.get("text") if isinstance(piece, dict) else None for piece in inner]
    parts = tuple(text for text in texts if isinstance(text, str))
    if inner != [{"type": "text", "text": text} for text in parts]:
        return None
    form = AS_PART if isinstance(part.raw("thinking"), list) else f"{AS_PART}-text"
    return Reasoning(parts=parts, raw=True, form=form, at=part.path, extras=part.rest())


def read_cache(part: Fields) -> CacheMark | None:
    """Take the cache mark of a part. Only Anthropic's mark has a type, so the writer can distinguish them."""
    for name in (BREAKPOINT, CACHE_CONTROL):
        value = part.rest().get(name)
        if isinstance(value, dict) and ("type" in value) == (name == CACHE_CONTROL):
            mark = part.object(name)
            ttl = mark.text("ttl") if mark.rest().get("ttl") else ""
            return CacheMark(ttl=ttl, extras=mark.rest())
    return None
