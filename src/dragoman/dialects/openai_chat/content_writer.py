"""Writes the conversation as messages of the API.

A request of this dialect is written as it was received. Any other request gets the usual form: one string if
there is only text, null content beside calls, one message for each result, results before other content of
the user.
"""

from collections.abc import Sequence
from typing import assert_never

import msgspec

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_chat.content_reader import (
    BESIDE,
    ENTRY,
    FUNCTION_CALL,
    FUNCTION_ROLE,
    GOOGLE,
    OBJECT,
    UNTYPED,
)
from dragoman.dialects.openai_chat.media import write_media
from dragoman.dialects.openai_chat.names import (
    ABSENT,
    AS_NULL,
    AS_PART,
    AS_PARTS,
    BREAKPOINT,
    CACHE_CONTROL,
    NAME,
    split_inner,
)
from dragoman.dialects.openai_chat.reasoning import TEXT_FIELDS, add_text, find_list_field, write_entry
from dragoman.dialects.openai_chat.stream_blocks import build_google_content
from dragoman.hub.blocks import (
    AnyBlock,
    Block,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolDeclarations,
    ToolReference,
    ToolResult,
)
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request
from dragoman.providers.profile import TargetFacts
from dragoman.wire.fields import encode
from dragoman.wire.partial_json import parse_object

INSTRUCTING = ("system", "developer")
SYSTEM_JOINT = "\n"
RESULT_JOINT = "\n"

#: For messages without reasoning at a server that requires it. Moonshot refuses an empty text.
NO_REASONING = " "

_THOUGHTS_ONLY = frozenset({"role", "content", TEXT_FIELDS[0]})

#: OpenAI's lifetimes of a cached prompt, by the names of other dialects.
BREAKPOINT_TTL = {"5m": "30m", "1h": "12h"}


class MessageWriter:
    """Writes the conversation of one request for one target."""

    def __init__(self, request: Request, target: TargetFacts, losses: Losses) -> None:
        self._same_dialect = request.dialect == NAME
        self._target = target
        self._losses = losses
        self._marks = self._same_dialect or target.caching == "breakpoints"
        #: DeepSeek and Moonshot require reasoning of every assistant message as soon as there are tools.
        self._needs_reasoning = target.replay_reasoning and not self._same_dialect and bool(request.tools)

    def write(self, messages: Sequence[Message]) -> list[Json]:
        """The messages of the API. At least one, if the conversation has any."""
        written: list[Json] = []
        for message in messages:
            if message.role == "assistant":
                written += self._write_assistant(message)
            elif message.role in INSTRUCTING:
                self._add_system(message, written)
            else:
                written += self._write_results(message)
                written += self._write_user(message)
        return written

    def _add_system(self, message: Message, written: list[Json]) -> None:
        """Add a system message. In requests of other dialects, neighbouring ones become one message."""
        developer = message.role == "developer" and self._target.developer_role
        role = "developer" if developer else "system"
        if self._same_dialect:
            written.append(self._add_content({"role": role}, message, message.blocks, SYSTEM_JOINT))
            return
        content = self._write_content(message.blocks, SYSTEM_JOINT)
        if not content:
            return
        last = written[-1] if written else {}
        before = last.get("content")
        if last.get("role") == role and isinstance(before, str) and isinstance(content, str):
            last["content"] = before + SYSTEM_JOINT + content
        else:
            written.append({"role": role, "content": content})

    def _write_user(self, message: Message) -> list[Json]:
        blocks = tuple(block for block in message.blocks if type(block) is not ToolResult)
        if self._same_dialect:
            return (
                [self._add_content({"role": "user"}, message, blocks, "")] if message.role == "user" else []
            )
        content = self._write_content(blocks, "")
        is_only_emptiness = not content and (message.blocks or message.role != "user")
        return [] if is_only_emptiness else [{"role": "user", "content": content}]

    def _write_results(self, message: Message) -> list[Json]:
        return [
            self._write_result(block, message) for block in message.blocks if isinstance(block, ToolResult)
        ]

    def _write_result(self, result: ToolResult, message: Message) -> Json:
        written: Json = {"role": "tool", "tool_call_id": result.call_id}
        if self._same_dialect and message.role == "tool" and message.form == FUNCTION_ROLE:
            written = {"role": "function", "name": result.name}
        shape = result.form if self._same_dialect else ""
        if shape != ABSENT:
            written["content"] = self._write_result_content(result, shape)
        return {**written, **message.extras} if self._same_dialect and message.role == "tool" else written

    def _write_result_content(self, result: ToolResult, shape: str) -> object:
        blocks = result.content
        if shape == AS_NULL and not blocks:
            return None
        texts = [find_text(block) for block in blocks]
        if shape == AS_PARTS or (None in texts and self._target.media_in_results):
            return self._write_parts(blocks)
        for block, text in zip(blocks, texts, strict=True):
            if text is None:
                self._losses.add(block.at, "results can hold only text in this dialect")
        return RESULT_JOINT.join(text for text in texts if text is not None)

    def _add_content(self, written: Json, message: Message, blocks: Sequence[AnyBlock], joint: str) -> Json:
        """Add the content in the client's form, and the extras, to a message of this dialect."""
        shape = message.form.partition(" ")[0]
        if shape == AS_NULL and not blocks:
            written["content"] = None
        elif shape == AS_PARTS:
            written["content"] = self._write_parts(blocks)
        elif shape != ABSENT or blocks:
            written["content"] = self._write_content(blocks, joint)
        return {**written, **message.extras}

    def _write_content(self, blocks: Sequence[AnyBlock], joint: str) -> str | list[Json]:
        """One string if the blocks are only text, otherwise parts."""
        texts: list[str] = []
        for block in blocks:
            if type(block) is not Text or (self._marks and block.cache is not None):
                return self._write_parts(blocks)
            texts.append(block.text)
        return joint.join(texts)

    def _write_parts(self, blocks: Sequence[AnyBlock]) -> list[Json]:
        parts: list[Json] = []
        for block in blocks:
            part = write_part(block, same_dialect=self._same_dialect, marks=self._marks)
            if part is None:
                self._losses.add(block.at, "a message of this dialect cannot hold it")
            else:
                parts.append(part)
        return parts

    def _write_assistant(self, message: Message) -> list[Json]:
        thoughts: list[Reasoning] = []
        calls: list[ToolCall] = []
        refusals: list[Refusal] = []
        content_blocks: list[AnyBlock] = []
        for block in message.blocks:
            if type(block) is ToolCall:
                calls.append(block)
            elif type(block) is Reasoning and not self._is_part(block):
                thoughts.append(block)
            elif type(block) is Refusal and not self._is_part(block):
                refusals.append(block)
            else:
                content_blocks.append(block)
        written: Json = {"role": "assistant"}
        if self._same_dialect and message.form:
            written = self._add_content(written, message, content_blocks, "")
        else:
            content = self._write_content(content_blocks, "")
            written["content"] = content if content or not calls else None
            if self._same_dialect:
                written.update(message.extras)
        written.update(self._write_thoughts(thoughts, message))
        if refusals:
            written["refusal"] = "".join(refusal.text for refusal in refusals)
        self._add_calls(calls, written)
        if self._same_dialect:
            return [written]
        if not written["content"] and written.keys() <= _THOUGHTS_ONLY:
            # The message had only thoughts: servers reject a message without content.
            if TEXT_FIELDS[0] in written:
                self._losses.add(message.at, "the target accepts no reasoning without an answer")
            return []
        if self._needs_reasoning:
            written.setdefault(TEXT_FIELDS[0], NO_REASONING)
        return [written]

    def _is_part(self, block: Reasoning | Refusal) -> bool:
        """Whether a thought or refusal was a part of the content, and may be written as one."""
        return self._same_dialect and block.form.startswith(AS_PART)

    def _add_calls(self, calls: Sequence[ToolCall], written: Json) -> None:
        listed: list[Json] = []
        for call in calls:
            flags = call.form.split() if self._same_dialect else []
            if FUNCTION_CALL in flags:
                written["function_call"] = {**self._write_function(call, flags), **call.extras}
            else:
                listed.append(self._write_call(call, flags))
        if listed:
            written["tool_calls"] = listed

    def _write_function(self, call: ToolCall, flags: Sequence[str]) -> Json:
        if OBJECT in flags:
            return {"name": call.name, "arguments": msgspec.json.decode(call.arguments)}
        if ABSENT in flags and not call.arguments:
            return {"name": call.name}
        return {
            "name": call.name,
            "arguments": call.arguments if self._same_dialect else self._write_arguments(call),
        }

    def _write_arguments(self, call: ToolCall) -> str:
        """The arguments as one JSON object: servers that render prompts from them reject anything else."""
        if parse_object(call.arguments) is not None:
            return call.arguments.strip() or "{}"
        self._losses.add(call.at, "arguments that are no JSON object were wrapped as text")
        return encode({"text": call.arguments}).decode()

    def _write_call(self, call: ToolCall, flags: Sequence[str]) -> Json:
        kind = "custom" if call.kind == "custom" else "function"
        outer, inner = split_inner(call.extras, kind) if self._same_dialect else ({}, {})
        body: Json = {"name": call.name, "input": call.arguments}
        if kind == "function":
            body = self._write_function(call, flags)
        written: Json = {"id": call.id, "type": kind, kind: {**body, **inner}, **outer}
        if UNTYPED in flags:
            del written["type"]
        signature = next((flag[len(GOOGLE) :] for flag in flags if flag.startswith(GOOGLE)), "")
        if signature or call.seal is not None:
            written["extra_content"] = build_google_content(
                signature or (call.seal.value if call.seal else "")
            )
        return written

    def _write_thoughts(self, thoughts: Sequence[Reasoning], message: Message) -> Json:
        """The fields of thoughts: entries for those with a seal or that were entries, a string for others."""
        fields: Json = {}
        texts: list[str] = []
        for thought in thoughts:
            if self._same_dialect and thought.form in TEXT_FIELDS:
                fields[thought.form] = thought.text
                continue
            entry = self._write_entry(thought)
            if entry is not None:
                listed = fields.setdefault(find_list_field(entry), [])
                if isinstance(listed, list):
                    listed.append(
                        entry if "index" in entry or self._same_dialect else {**entry, "index": len(listed)}
                    )
            elif thought.text and (self._same_dialect or self._target.replay_reasoning):
                texts.append(thought.text)
            elif thought.text:
                self._losses.add(thought.at, "the target accepts no reasoning of earlier messages")
        if self._target.replay_reasoning and not texts and not self._same_dialect:
            texts = [thought.text for thought in thoughts if thought.text]
        if texts:
            fields[TEXT_FIELDS[0]] = "\n\n".join(texts)
        return {**fields, **self._repeat_text(thoughts, message)}

    def _write_entry(self, thought: Reasoning) -> Json | None:
        if thought.seal is not None:
            entry = write_entry(thought.seal, thought.text, redacted=thought.redacted)
            return {**entry, **thought.extras} if self._same_dialect else entry
        if self._same_dialect and thought.form.startswith(ENTRY):
            return add_text({"type": thought.form[len(ENTRY) :], **thought.extras}, thought.text)
        return None

    def _repeat_text(self, thoughts: Sequence[Reasoning], message: Message) -> Json:
        for flag in message.form.split() if self._same_dialect else ():
            for prefix, joint in BESIDE.items():
                if flag.startswith(prefix):
                    return {flag[len(prefix) :]: joint.join(thought.text for thought in thoughts)}
        return {}


def write_cache(block: Block, *, same_dialect: bool) -> Json:
    """The field of a part's cache mark; empty without a mark."""
    mark = block.cache
    if mark is None:
        return {}
    if not same_dialect:
        ttl = BREAKPOINT_TTL.get(mark.ttl)
        return {BREAKPOINT: {"mode": "explicit", **({"ttl": ttl} if ttl else {})}}
    written: Json = {"ttl": mark.ttl} if mark.ttl else {}
    return {CACHE_CONTROL if "type" in mark.extras else BREAKPOINT: {**written, **mark.extras}}


def write_part(block: AnyBlock, *, same_dialect: bool, marks: bool) -> Json | None:
    """Write the part of a block; None if this dialect has no such part. `marks`: write cache marks."""
    mark = write_cache(block, same_dialect=same_dialect) if marks else {}
    extras = block.extras if same_dialect else {}
    match block:
        case Text():
            return {"type": "text", "text": block.text, **mark, **extras}
        case Refusal():
            return {"type": "refusal", "refusal": block.text, **mark, **extras}
        case Media():
            part = write_media(block, same_dialect=same_dialect)
            return None if part is None else {**part, **mark}
        case Opaque() if same_dialect:
            return {**block.value, **mark}
        case Reasoning() if same_dialect and block.form.startswith(AS_PART):
            texts = [{"type": "text", "text": text} for text in block.parts]
            thinking = texts if block.form == AS_PART else block.text
            return {"type": "thinking", "thinking": thinking, **extras}
        case Opaque() | Reasoning() | ToolCall() | ToolReference() | ToolDeclarations() | ToolResult():
            return None
        case HostedCall() | HostedResult():
            return None
        case _:
            assert_never(block)


def find_text(block: AnyBlock) -> str | None:
    """The text of a block where only text is possible; None if it has no text."""
    match block:
        case Text() | Refusal() | HostedResult():
            return block.text
        case Media() if block.text:
            return f"{block.title}\n\n{block.text}" if block.title else block.text
        case ToolReference():
            return block.name
        case Opaque():
            return block.text or encode(block.value).decode()
        case Reasoning() | Media() | ToolCall() | ToolDeclarations() | ToolResult() | HostedCall():
            return None
        case _:
            assert_never(block)
