"""Writes the messages of the hub as items of `input`.

The texts and media of a message become one item. Every other block becomes an item of its own, in order.
"""

from collections.abc import Sequence
from typing import assert_never

from dragoman.dialects.openai_responses.citations import write_citation
from dragoman.dialects.openai_responses.content_reader import BY_ID, NO_ROLE, OUTPUT, UNTYPED, USUAL_TEXT
from dragoman.dialects.openai_responses.hosted import FOLLOWS, write_hosted
from dragoman.dialects.openai_responses.media import write_media
from dragoman.dialects.openai_responses.names import (
    CALL_OF_KIND,
    COMPLETED,
    FAILED,
    STRING,
    build_arguments,
)
from dragoman.dialects.openai_responses.reasoning import UNSEALED, write_reasoning
from dragoman.dialects.openai_responses.tools import write_tools
from dragoman.hub.blocks import (
    AnyBlock,
    Extras,
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
from dragoman.hub.request import Message
from dragoman.providers.profile import TargetFacts
from dragoman.wire.fields import encode
from dragoman.wire.partial_json import parse_object


class InputWriter:
    """Writes the items of one request. `same_dialect`: the request came in this dialect."""

    def __init__(self, target: TargetFacts, losses: Losses, *, same_dialect: bool) -> None:
        self._target = target
        self._losses = losses
        self._same_dialect = same_dialect
        self.items: list[Extras] = []

    def write(self, message: Message) -> None:
        """The items of one message."""
        content: list[AnyBlock] = []
        for block in message.blocks:
            if self._is_content(block):
                content.append(block)
                continue
            if content:
                self._write_message(message, content)
                content = []
            item = self._write_item(block)
            if item is not None:
                self.items.append(item)
        if content or (self._same_dialect and not message.blocks):
            self._write_message(message, content)

    def _choose_role(self, message: Message) -> str:
        if self._same_dialect:
            return message.role
        if message.role in ("system", "developer"):
            return "developer" if self._target.developer_role else "system"
        return "user" if message.role == "tool" else message.role

    def _is_content(self, block: AnyBlock) -> bool:
        if isinstance(block, Media):
            # An image that the model made is an item, and only this dialect can write it as one.
            return not (self._same_dialect and write_hosted(block) is not None)
        return isinstance(block, Text | Refusal) or (isinstance(block, Opaque) and block.form == "part")

    def _write_message(self, message: Message, content: list[AnyBlock]) -> None:
        role = self._choose_role(message)
        flags = message.form.split() if self._same_dialect else []
        only = content[0] if len(content) == 1 else None
        written: object
        if STRING in flags and isinstance(only, Text):
            written = only.text
        else:
            written = self._write_parts(content, role)
            if content and not written:
                return
        item: Extras = {} if UNTYPED in flags else {"type": "message"}
        self.items.append(self._add_extras(item | {"role": role, "content": written}, message.extras))

    def _add_extras(self, item: Extras, extras: Extras) -> Extras:
        return {**item, **extras} if self._same_dialect else item

    def _write_item(self, block: AnyBlock) -> Extras | None:
        item: Extras | None = None
        match block:
            case ToolCall():
                return self._write_call(block)
            case ToolResult():
                return self._write_output(block)
            case Reasoning():
                return self._write_reasoning(block)
            case ToolDeclarations():
                return self._write_additional_tools(block)
            case HostedCall() | HostedResult() | Opaque() | Media():
                if self._same_dialect and isinstance(block, HostedResult) and block.form == FOLLOWS:
                    return None
                item = write_hosted(block) if self._same_dialect else None
            case ToolReference() | Text() | Refusal():
                pass
            case _:
                assert_never(block)
        if item is None:
            self._losses.add(block.at, "OpenAI Responses has no input item for this")
        return item

    def _write_reasoning(self, block: Reasoning) -> Extras | None:
        """Reasoning returns only to the issuer of its seal. Without a seal it must come from this dialect.

        Other servers of this dialect may require the reasoning of earlier messages and check no seals.
        """
        seal = block.seal
        is_own = self._same_dialect and block.form != UNSEALED
        if seal is None and not is_own and not (self._target.replay_reasoning and block.text):
            self._losses.add(block.at, "reasoning without a seal of OpenAI's is not sent")
            return None
        if seal is not None and seal.issuer != self._target.issuer:
            self._losses.add(block.at, "reasoning that another vendor sealed is not sent")
            return None
        item = write_reasoning(block, same_dialect=self._same_dialect)
        if seal is not None:
            item["encrypted_content"] = seal.value
        return self._add_extras(item, block.extras)

    def _write_additional_tools(self, block: ToolDeclarations) -> Extras:
        tools = write_tools(block.tools, self._losses, same_dialect=self._same_dialect)
        item: Extras = {"type": "additional_tools", "tools": tools}
        if not self._same_dialect or block.form != NO_ROLE:
            item["role"] = "developer"
        return self._add_extras(item, block.extras)

    # Calls and their outputs

    def _write_call(self, block: ToolCall) -> Extras:
        call = CALL_OF_KIND[block.kind]
        flags = block.form.split() if self._same_dialect else []
        text = (
            block.arguments
            if self._same_dialect or call.kind != "function"
            else self._build_object_text(block)
        )
        arguments = text if STRING in flags else build_arguments(text, call, same_dialect=self._same_dialect)
        item: Extras = {"type": call.item, BY_ID if BY_ID in flags else "call_id": block.id}
        item[call.field] = arguments
        if not call.name:
            item["name"] = block.name
        if block.namespace:
            item["namespace"] = block.namespace
        if not self._same_dialect and not call.is_text:
            item["status"] = COMPLETED
        return self._add_extras(item | call.constants, block.extras)

    def _build_object_text(self, block: ToolCall) -> str:
        """The arguments as one JSON object: upstreams require it, and an empty text is none."""
        if parse_object(block.arguments) is not None:
            return block.arguments.strip() or "{}"
        self._losses.add(block.at, "arguments that are no JSON object were wrapped as text")
        return encode({"text": block.arguments}).decode()

    def _write_output(self, block: ToolResult) -> Extras:
        call = CALL_OF_KIND[block.kind]
        flags = block.form.split() if self._same_dialect else []
        extras = dict(block.extras) if self._same_dialect else {}
        item: Extras = {"type": call.output, BY_ID if BY_ID in flags else "call_id": block.call_id}
        match call.kind:
            case "tool_search":
                blocks = [inner for inner in block.content if isinstance(inner, ToolDeclarations)]
                tools = tuple(tool for inner in blocks for tool in inner.tools)
                item["tools"] = write_tools(tools, self._losses, same_dialect=self._same_dialect)
                item |= call.constants
                if not self._same_dialect:
                    item["status"] = COMPLETED
            case "shell":
                outcome = {"type": "exit", "exit_code": int(block.is_error)}
                output = [{"stdout": _join_texts(block.content), "stderr": "", "outcome": outcome}]
                item["output"] = extras.pop(OUTPUT, output)
            case "apply_patch":
                item["status"] = FAILED if block.is_error else COMPLETED
                if block.content:
                    item["output"] = _join_texts(block.content)
            case "function" | "custom" | "local_shell":
                item["output"] = self._write_output_content(block, is_string=STRING in flags)
            case _:
                assert_never(call.kind)
        return item | extras

    def _write_output_content(self, block: ToolResult, *, is_string: bool) -> object:
        is_text = all(isinstance(inner, Text) for inner in block.content)
        if is_text and (is_string or not self._same_dialect):
            return _join_texts(block.content)
        return self._write_parts(block.content, "tool")

    # Content parts

    def _write_parts(self, blocks: Sequence[AnyBlock], role: str) -> list[Extras]:
        parts = (self._write_part(block, role) for block in blocks)
        return [part for part in parts if part is not None]

    def _write_part(self, block: AnyBlock, role: str) -> Extras | None:
        """A block as a content part; None, and a loss, if it cannot be one."""
        part: Extras | None = None
        match block:
            case Text():
                part = self._write_text(block, role)
            case Refusal() if role == "assistant":
                part = {"type": "refusal", "refusal": block.text}
            case Refusal():
                part = {"type": "input_text", "text": block.text}
            case Media():
                part = write_media(block, same_dialect=self._same_dialect)
            case Opaque():
                if self._same_dialect and block.form == "part":
                    return dict(block.value)
            case (
                Reasoning()
                | ToolCall()
                | ToolReference()
                | ToolDeclarations()
                | ToolResult()
                | HostedCall()
                | HostedResult()
            ):
                pass
            case _:
                assert_never(block)
        if part is None:
            self._losses.add(block.at, "OpenAI Responses has no content part for this")
            return None
        if self._same_dialect:
            if block.cache is not None:
                part["prompt_cache_breakpoint"] = dict(block.cache.extras)
            _merge(part, block.extras)
        return part

    def _write_text(self, block: Text, role: str) -> Extras:
        usual = USUAL_TEXT.get(role, "input_text")
        part: Extras = {"type": (self._same_dialect and block.form) or usual, "text": block.text}
        if self._same_dialect and block.citations:
            length = len(block.text)
            part["annotations"] = [
                write_citation(citation, length, same_dialect=True) for citation in block.citations
            ]
        return part


def _merge(part: Extras, extras: Extras) -> None:
    """Add the extras to a part. Where both have an object, the members of the part win."""
    for name, value in extras.items():
        known = part.get(name)
        part[name] = {**value, **known} if isinstance(known, dict) and isinstance(value, dict) else value


def _join_texts(content: tuple[AnyBlock, ...]) -> str:
    return "\n".join(block.text for block in content if isinstance(block, Text))
