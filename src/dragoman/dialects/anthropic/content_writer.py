"""Writes blocks as the content of Anthropic messages.

A request of this dialect is written as it was received, with its forms and extras. Any other request is
written in the simplest form, and what Anthropic would reject is left out and recorded as a loss.
"""

from collections.abc import Callable, Iterable
from typing import Any

from dragoman.dialects.anthropic.citations import write_citation
from dragoman.dialects.anthropic.content_reader import STRING
from dragoman.dialects.anthropic.hosted import write_call, write_result
from dragoman.dialects.anthropic.media import write_media
from dragoman.dialects.anthropic.names import add_common, restore_empty
from dragoman.dialects.anthropic.reasoning import write_reasoning
from dragoman.dialects.anthropic.tools import write_tool
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
from dragoman.wire.partial_json import parse_object, wrap_as_object


class ContentWriter:
    """Writes the blocks of one request.

    `same_dialect`: the request is of this dialect. `issuers`: the vendors whose seals the target accepts.
    `replays`: the target requires the thinking of earlier messages, signed or not.
    """

    def __init__(
        self, losses: Losses, issuers: frozenset[str], *, same_dialect: bool, replays: bool = False
    ) -> None:
        self._losses = losses
        self._issuers = issuers
        self._same_dialect = same_dialect
        self._replays = replays

    def write_blocks(self, blocks: Iterable[AnyBlock]) -> list[Json]:
        written = []
        for block in blocks:
            block_json = _WRITERS[type(block)](self, block)
            if block_json is not None:
                written.append(block_json)
        return written

    def write_content(self, blocks: tuple[AnyBlock, ...], form: str) -> str | list[Json]:
        """The list of blocks, or one text if the client sent one text."""
        written = self.write_blocks(blocks)
        if (
            self._same_dialect
            and STRING in form.split()
            and len(written) == 1
            and written[0].keys() == {"type", "text"}
        ):
            return str(written[0]["text"])
        return written

    def _add_common(self, written: Json, block: AnyBlock) -> Json:
        return add_common(written, block.cache, block.extras, same_dialect=self._same_dialect)

    def _lose(self, at: str, reason: str) -> None:
        self._losses.add(at, reason)

    def _write_text(self, block: Text) -> Json | None:
        if not block.text and not self._same_dialect:
            return None
        written: Json = {"type": "text", "text": block.text}
        if self._same_dialect:
            if block.citations:
                written["citations"] = [
                    write_citation(citation, same_dialect=True) for citation in block.citations
                ]
            restore_empty(block.form, written)
        return self._add_common(written, block)

    def _write_refusal(self, block: Refusal) -> Json | None:
        return self._add_common({"type": "text", "text": block.text}, block) if block.text else None

    def _write_reasoning(self, block: Reasoning) -> Json | None:
        written = write_reasoning(
            block, self._issuers, same_dialect=self._same_dialect, replays=self._replays
        )
        if written is None:
            self._lose(block.at, "Anthropic takes back only thoughts that it signed itself")
            return None
        return self._add_common(written, block)

    def _write_media(self, block: Media) -> Json | None:
        written = write_media(block, same_dialect=self._same_dialect)
        if written is None:
            self._lose(block.at, f"Anthropic does not take {block.kind} content like this")
            return None
        return self._add_common(written, block)

    def _write_call(self, block: ToolCall) -> Json:
        given = {"input": block.arguments} if block.kind == "custom" else parse_object(block.arguments)
        if given is None:
            given = wrap_as_object(block.arguments)
            self._lose(f"{block.at}.arguments", "the arguments are no JSON object: sent as text inside one")
        return self._add_common(
            {"type": "tool_use", "id": block.id, "name": block.name, "input": given}, block
        )

    def _write_reference(self, block: ToolReference) -> Json:
        return self._add_common({"type": "tool_reference", "tool_name": block.name}, block)

    def _write_declarations(self, block: ToolDeclarations) -> Json | None:
        tools = [write_tool(tool, self._losses, same_dialect=self._same_dialect) for tool in block.tools]
        if not self._same_dialect or len(tools) != 1:
            self._lose(block.at, "tools declared in the middle of the conversation")
            return None
        addition: Json = {"type": "tool_addition"}
        addition["tool"] = {"type": "tool_definition", "definition": tools[0]}
        return self._add_common(addition, block)

    def _write_result(self, block: ToolResult) -> Json:
        written: Json = {"type": "tool_result", "tool_use_id": block.call_id}
        if block.content:
            content = self.write_content(block.content, block.form)
            if not self._same_dialect and len(content) == 1 and isinstance(content[0], dict):
                only = content[0]
                content = str(only["text"]) if only.keys() == {"type", "text"} else content
            if content or self._same_dialect:
                written["content"] = content
        if block.is_error:
            written["is_error"] = True
        if self._same_dialect:
            restore_empty(block.form, written)
        return self._add_common(written, block)

    def _write_hosted_call(self, block: HostedCall) -> Json | None:
        if not self._same_dialect:
            self._lose(block.at, "a call of another vendor's own tool")
            return None
        return write_call(block)

    def _write_hosted_result(self, block: HostedResult) -> Json | None:
        if not self._same_dialect:
            self._lose(block.at, "the result of another vendor's own tool")
            return None
        return write_result(block)

    def _write_opaque(self, block: Opaque) -> Json | None:
        if self._same_dialect:
            return block.value
        self._lose(block.at, f"Anthropic has no content of kind {block.kind!r}")
        return {"type": "text", "text": block.text} if block.text else None


_WRITERS: dict[type, Callable[[ContentWriter, Any], Json | None]] = {
    Text: ContentWriter._write_text,
    Refusal: ContentWriter._write_refusal,
    Reasoning: ContentWriter._write_reasoning,
    Media: ContentWriter._write_media,
    ToolCall: ContentWriter._write_call,
    ToolReference: ContentWriter._write_reference,
    ToolDeclarations: ContentWriter._write_declarations,
    ToolResult: ContentWriter._write_result,
    HostedCall: ContentWriter._write_hosted_call,
    HostedResult: ContentWriter._write_hosted_result,
    Opaque: ContentWriter._write_opaque,
}
