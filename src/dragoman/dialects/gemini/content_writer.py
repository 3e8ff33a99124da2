"""Writes messages as contents: roles `user` and `model`, calls and results as objects, signatures on parts.

Gemini requires its signature on the first call of each model message. A call that it did not make gets the
documented sentinel instead. A block that came from Gemini is written unchanged; of other blocks only what
Gemini supports.
"""

from collections.abc import Iterable
from typing import assert_never

import msgspec

from dragoman.dialects.gemini.content_reader import (
    AS_JSON,
    CONTENT,
    ERROR,
    NO_RESPONSE,
    OUTPUT,
    ROLE_NAMES,
    WHOLE_RESPONSE,
    WRAPPINGS,
)
from dragoman.dialects.gemini.hosted import write_hosted
from dragoman.dialects.gemini.media import write_media
from dragoman.dialects.gemini.names import (
    BARE_PART,
    NAME,
    NO_ARGUMENTS,
    NO_ID,
    NO_PARTS,
    NO_ROLE,
    ONE_PART,
    ROLE,
    SIGNATURE,
    STRING,
    TEXT_ONLY,
    TEXT_PART,
    THOUGHT,
    TOP,
    UNWRAPPED,
    find_flag,
)
from dragoman.dialects.gemini.reasoning import BARE, SENTINEL
from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import (
    AnyBlock,
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
from dragoman.hub.seal import Seal
from dragoman.providers.profile import TargetFacts
from dragoman.wire.partial_json import parse_object, wrap_as_object


class HistoryWriter:
    """Writes the messages of one request: `write_system` and `write_contents`."""

    def __init__(self, request: Request, target: TargetFacts, losses: Losses) -> None:
        self._messages = request.messages
        self._native = request.dialect == NAME
        self._issuers = (target.issuer, NAME)
        self._losses = losses
        self._names = {
            block.id: block.name
            for message in request.messages
            for block in message.blocks
            if isinstance(block, ToolCall)
        }

    def write_system(self) -> object:
        """The `systemInstruction`, or None."""
        messages = self._messages[: self._count_system_messages()]
        if not messages:
            return None
        if self._native and len(messages) == 1:
            return self._write_content(messages[0], default_role="")
        parts = self._write_parts([block for message in messages for block in message.blocks])
        return {"parts": parts} if parts else None

    def write_contents(self) -> list[object]:
        contents: list[object] = []
        for message in self._messages[self._count_system_messages() :]:
            content = self._write_content(message, default_role=ROLE_NAMES[message.role])
            if self._native or (isinstance(content, dict) and content.get("parts")):
                contents.append(content)
        return contents

    def _count_system_messages(self) -> int:
        """The number of leading messages that form the system instruction."""
        for index, message in enumerate(self._messages):
            top = TOP in message.form.split() if self._native and message.form else True
            if message.role not in ("system", "developer") or not top:
                return index
        return len(self._messages)

    def _write_content(self, message: Message, *, default_role: str) -> object:
        flags = message.form.split(" ") if self._native else []
        parts = self._write_parts(message.blocks)
        if TEXT_ONLY in flags:
            return _join_texts(message)
        if BARE_PART in flags:
            return parts[0] if parts else {}
        content: Json = dict(message.extras) if self._native else {}
        if TEXT_PART in flags:
            content["parts"] = _join_texts(message)
        elif ONE_PART in flags:
            content["parts"] = parts[0] if parts else {}
        elif NO_PARTS not in flags:
            content["parts"] = parts
        role_name = find_flag(message.form, ROLE) if self._native else None
        role = default_role if role_name is None else role_name
        if (role or role_name is not None) and NO_ROLE not in flags:
            content["role"] = role
        return content

    def _write_parts(self, blocks: Iterable[AnyBlock]) -> list[object]:
        parts: list[object] = []
        calls = 0
        for block in blocks:
            part = self._write_part(block, first_call=not calls)
            calls += isinstance(block, ToolCall)
            if part is not None:
                parts.append(part)
        return parts

    def _write_part(self, block: AnyBlock, *, first_call: bool) -> object:
        match block:
            case Text():
                return self._write_text(block)
            case Refusal():
                return {"text": block.text} if block.text else None
            case Reasoning():
                return self._write_thought(block)
            case ToolCall():
                return self._write_call(block, first=first_call)
            case ToolResult():
                name = self._names.get(block.call_id, block.call_id)
                return write_result(block, name, native=self._native, losses=self._losses)
            case Media() | ToolReference() | ToolDeclarations() | HostedCall() | HostedResult() | Opaque():
                return write_part(block, native=self._native, losses=self._losses)
            case _:
                assert_never(block)

    def _write_signature(self, seal: Seal | None, form: str) -> Json:
        if seal is not None and seal.issuer in self._issuers:
            return {"thoughtSignature": seal.value}
        sentinel = find_flag(form, SIGNATURE) if self._native else None
        return {"thoughtSignature": sentinel} if sentinel else {}

    def _write_text(self, text: Text) -> object:
        signature = self._write_signature(text.seal, text.form)
        if not self._native:
            return {"text": text.text, **signature} if text.text or signature else None
        flags = text.form.split(" ")
        if STRING in flags:
            return text.text
        part: Json = {} if BARE in flags else {"text": text.text}
        return {**part, **signature, **text.extras}

    def _write_thought(self, thought: Reasoning) -> Json | None:
        signature = self._write_signature(thought.seal, thought.form)
        flags = thought.form.split(" ") if self._native else []
        part: Json = {} if BARE in flags else {"text": thought.text}
        if thought.parts or THOUGHT in flags:
            part["thought"] = True
        elif not signature:
            # There is neither text nor a signature of Gemini: what is left belongs to another vendor.
            return None
        return {**part, **signature, **(thought.extras if self._native else {})}

    def _write_call(self, call: ToolCall, *, first: bool) -> Json:
        flags = call.form.split(" ") if self._native else []
        arguments = parse_object(call.arguments) if call.kind != "custom" else {"input": call.arguments}
        if arguments is None:
            self._losses.add(call.at, "arguments that are no JSON object were wrapped as text")
            arguments = wrap_as_object(call.arguments)
        function: Json = {"name": call.name, "args": arguments, "id": call.id}
        if NO_ID in flags:
            del function["id"]
        if NO_ARGUMENTS in flags and not arguments:
            del function["args"]
        signature = self._write_signature(call.seal, call.form)
        if first and not signature and (not self._native or UNWRAPPED in flags):
            signature = {"thoughtSignature": SENTINEL}
        extras = dict(call.extras) if self._native else {}
        inside = extras.pop("functionCall", None)
        if isinstance(inside, dict):
            function |= inside
        return {"functionCall": function, **signature, **extras}


def _join_texts(message: Message) -> str:
    return "".join(block.text for block in message.blocks if isinstance(block, Text))


def write_part(block: AnyBlock, *, native: bool, losses: Losses) -> Json | None:
    """The part for a block, or None with the loss recorded."""
    match block:
        case Media():
            return write_media(block, native=native, losses=losses)
        case HostedCall() | HostedResult():
            return write_hosted(block, native=native, losses=losses)
        case Opaque():
            if native:
                return block.value
            if block.text:
                return {"text": block.text}
            losses.add(block.at, f"a {block.kind} block cannot be written in Gemini's dialect")
            return None
        case (
            Text()
            | Refusal()
            | Reasoning()
            | ToolCall()
            | ToolReference()
            | ToolDeclarations()
            | ToolResult()
        ):
            losses.add(block.at, f"a {type(block).__name__} block has no equivalent here in Gemini's dialect")
            return None
        case _:
            assert_never(block)


def write_result(result: ToolResult, name: str, *, native: bool, losses: Losses) -> Json:
    """Write the part of a result. `name`: the tool's name if the result has none."""
    flags = result.form.split() if native else []
    texts: list[str] = []
    media: list[Json] = []
    for block in result.content:
        if isinstance(block, Text):
            texts.append(block.text)
            continue
        part = write_part(block, native=native, losses=losses)
        if part is None:
            continue
        text = part.get("text")
        if isinstance(text, str):
            texts.append(text)
        else:
            media.append(part)
    response: Json = {"name": result.name if native else result.name or name}
    if NO_ID not in flags:
        response["id"] = result.call_id
    if NO_RESPONSE not in flags:
        response["response"] = _wrap_response("\n".join(texts), result, flags)
    if media:
        response["parts"] = media
    extras = dict(result.extras) if native else {}
    left = extras.pop("functionResponse", None)
    if isinstance(left, dict):
        response |= left
    if native and not response["name"]:
        del response["name"]
    return {"functionResponse": response, **extras}


def _wrap_response(text: str, result: ToolResult, flags: list[str]) -> object:
    form = next((flag for flag in flags if flag != NO_ID), "")
    if form == WHOLE_RESPONSE:
        return msgspec.json.decode(text)
    key = form.removesuffix(AS_JSON)
    value: object = msgspec.json.decode(text) if form.endswith(AS_JSON) else text
    if key == CONTENT:
        return {"name": result.name, CONTENT: value}
    if key in WRAPPINGS:
        return {key: value}
    return {ERROR if result.is_error else OUTPUT: text}
