"""Writes blocks as the content of Anthropic messages.

A request that came in this dialect is written as it came, forms and extras included; any other is written in
the plainest spelling, and what Anthropic would refuse is left out and told.
"""

from collections.abc import Callable, Iterable
from typing import Any

from dragoman.dialects.anthropic.calls import input_of
from dragoman.dialects.anthropic.citations import write_citation
from dragoman.dialects.anthropic.content_reader import STRING
from dragoman.dialects.anthropic.hosted import write_call, write_result
from dragoman.dialects.anthropic.media import write_media
from dragoman.dialects.anthropic.reasoning import write_reasoning
from dragoman.dialects.anthropic.spelling import add_common, restore_empty
from dragoman.dialects.anthropic.tools import write_tool
from dragoman.dialects.base import Json
from dragoman.hub.content import (
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
from dragoman.wire.partial_json import parse_object


class ContentWriter:
    """`own`: the request came in this dialect. `issuers`: whose seals the far end takes back."""

    def __init__(self, losses: Losses, issuers: frozenset[str], *, own: bool) -> None:
        self._losses = losses
        self._issuers = issuers
        self._own = own

    def blocks(self, blocks: Iterable[AnyBlock]) -> list[Json]:
        written = []
        for block in blocks:
            said = _WRITERS[type(block)](self, block)
            if said is not None:
                written.append(said)
        return written

    def content(self, blocks: tuple[AnyBlock, ...], form: str) -> str | list[Json]:
        """A list of blocks, or the bare text that it was."""
        written = self.blocks(blocks)
        if (
            self._own
            and STRING in form.split()
            and len(written) == 1
            and written[0].keys() == {"type", "text"}
        ):
            return str(written[0]["text"])
        return written

    def _common(self, written: Json, block: AnyBlock) -> Json:
        return add_common(written, block.cache, block.extras, own=self._own)

    def _lose(self, at: str, reason: str) -> None:
        self._losses.add(at, reason)

    def _text(self, block: Text) -> Json | None:
        if not block.text and not self._own:
            return None
        written: Json = {"type": "text", "text": block.text}
        if self._own:
            if block.citations:
                written["citations"] = [write_citation(citation, own=True) for citation in block.citations]
            restore_empty(block.form, written)
        return self._common(written, block)

    def _refusal(self, block: Refusal) -> Json | None:
        return self._common({"type": "text", "text": block.text}, block) if block.text else None

    def _reasoning(self, block: Reasoning) -> Json | None:
        written = write_reasoning(block, self._issuers, own=self._own)
        if written is None:
            self._lose(block.at, "Anthropic takes back only thoughts that it signed itself")
            return None
        return self._common(written, block)

    def _media(self, block: Media) -> Json | None:
        written = write_media(block, own=self._own)
        if written is None:
            self._lose(block.at, f"Anthropic does not take {block.kind} content like this")
            return None
        return self._common(written, block)

    def _call(self, block: ToolCall) -> Json:
        if block.kind == "custom":
            given: Json = {"input": block.arguments}
        else:
            given = input_of(block.arguments)
            if parse_object(block.arguments) is None:
                self._lose(
                    f"{block.at}.arguments", "the arguments are no JSON object: sent as text inside one"
                )
        return self._common({"type": "tool_use", "id": block.id, "name": block.name, "input": given}, block)

    def _reference(self, block: ToolReference) -> Json:
        return self._common({"type": "tool_reference", "tool_name": block.name}, block)

    def _declarations(self, block: ToolDeclarations) -> Json | None:
        tools = [write_tool(tool, self._losses, own=self._own) for tool in block.tools]
        if not self._own or len(tools) != 1:
            self._lose(block.at, "tools declared in the middle of the conversation")
            return None
        addition: Json = {"type": "tool_addition"}
        addition["tool"] = {"type": "tool_definition", "definition": tools[0]}
        return self._common(addition, block)

    def _result(self, block: ToolResult) -> Json:
        written: Json = {"type": "tool_result", "tool_use_id": block.call_id}
        if block.content:
            content = self.content(block.content, block.form)
            if not self._own and len(content) == 1 and isinstance(content[0], dict):
                only = content[0]
                content = str(only["text"]) if only.keys() == {"type", "text"} else content
            if content or self._own:
                written["content"] = content
        if block.is_error:
            written["is_error"] = True
        if self._own:
            restore_empty(block.form, written)
        return self._common(written, block)

    def _hosted_call(self, block: HostedCall) -> Json | None:
        if not self._own:
            self._lose(block.at, "a call of another vendor's own tool")
            return None
        return write_call(block)

    def _hosted_result(self, block: HostedResult) -> Json | None:
        if not self._own:
            self._lose(block.at, "the result of another vendor's own tool")
            return None
        return write_result(block)

    def _opaque(self, block: Opaque) -> Json | None:
        if self._own:
            return block.value
        self._lose(block.at, f"Anthropic knows no content of kind {block.kind!r}")
        return {"type": "text", "text": block.text} if block.text else None


_WRITERS: dict[type, Callable[[ContentWriter, Any], Json | None]] = {
    Text: ContentWriter._text,
    Refusal: ContentWriter._refusal,
    Reasoning: ContentWriter._reasoning,
    Media: ContentWriter._media,
    ToolCall: ContentWriter._call,
    ToolReference: ContentWriter._reference,
    ToolDeclarations: ContentWriter._declarations,
    ToolResult: ContentWriter._result,
    HostedCall: ContentWriter._hosted_call,
    HostedResult: ContentWriter._hosted_result,
    Opaque: ContentWriter._opaque,
}
