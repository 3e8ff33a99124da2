"""Reads the content of messages: a text, or a list of blocks of any kind.

A block that no other dialect knows is kept unchanged. Errors name the path of a block, never its content.
"""

from collections.abc import Callable

from dragoman.dialects.anthropic.citations import read_citation
from dragoman.dialects.anthropic.hosted import CALLS, is_result, read_call, read_opaque, read_result
from dragoman.dialects.anthropic.media import KINDS, read_media
from dragoman.dialects.anthropic.names import build_empty_flag, object_of, read_arguments, read_cache
from dragoman.dialects.anthropic.reasoning import SEAL_FIELDS, SealReader
from dragoman.dialects.anthropic.tools import read_tool
from dragoman.hub.blocks import (
    AnyBlock,
    Citation,
    Text,
    ToolCall,
    ToolDeclarations,
    ToolReference,
    ToolResult,
)
from dragoman.wire.fields import Fields, json_type

#: The form of content that is one text instead of a list of blocks.
STRING = "string"


class ContentReader:
    """Reads all content of one conversation in order, because a seal may precede the block it belongs to.

    Seals belong to calls of the same answer of the model: `end_answer` is called after other messages.
    """

    def __init__(self) -> None:
        self._seals = SealReader()

    def end_answer(self) -> None:
        """Drop the seals whose calls did not come in the answer."""
        self._seals.drop()

    def read(self, holder: Fields, name: str) -> tuple[tuple[AnyBlock, ...], str]:
        """The blocks in the named field of a message, and their form."""
        content = holder.raw(name)
        if isinstance(content, str):
            return (Text(text=content, at=holder.at(name)),), STRING
        if not isinstance(content, list):
            raise holder.error(f"expected a string or an array of blocks, got {json_type(content)}", name)
        blocks: list[AnyBlock] = []
        for fields in holder.children(content, name):
            kind = fields.text("type")
            if kind in SEAL_FIELDS:
                self._seals.read(kind, fields, fields.path, blocks)
            elif kind == "tool_result":
                blocks.append(_read_tool_result(fields, fields.path))
            else:
                blocks.append(_read_block(kind, fields))
        self._seals.attach_to_calls(blocks)
        return tuple(blocks), ""


def _read_block(kind: str, fields: Fields) -> AnyBlock:
    at = fields.path
    reader = _READERS.get(kind)
    if reader is not None:
        return reader(fields, at)
    if kind in KINDS:
        return read_media(KINDS[kind], fields, at)
    value = {"type": kind, **fields.rest()}
    if kind in CALLS:
        return read_call(value, at)
    if is_result(kind):
        return read_result(value, at)
    return read_opaque(kind, value, at)


def _read_text(fields: Fields, at: str) -> Text:
    cache = read_cache(fields)
    text = fields.text("text")
    citation_list = fields.maybe_list("citations")
    citations: tuple[Citation, ...] = ()
    if citation_list:
        items = fields.children(citation_list, "citations")
        citations = tuple(read_citation(item.rest(), len(text)) for item in items)
    form = build_empty_flag("citations", []) if citation_list == [] else ""
    return Text(text=text, at=at, form=form, cache=cache, citations=citations, extras=fields.rest())


def _read_tool_use(fields: Fields, at: str) -> ToolCall:
    cache = read_cache(fields)
    given = fields.raw("input")
    if given is not None and not isinstance(given, dict | str):
        raise fields.error(f"expected an object, got {json_type(given)}", "input")
    return ToolCall(
        id=fields.text("id"),
        name=fields.text("name"),
        arguments=read_arguments(given),
        at=at,
        cache=cache,
        extras=fields.rest(),
    )


def _read_tool_result(fields: Fields, at: str) -> ToolResult:
    cache = read_cache(fields)
    call_id = fields.text("tool_use_id")
    flags: list[str] = []
    is_error = fields.maybe_flag("is_error")
    if is_error is False:
        flags.append(build_empty_flag("is_error", False))
    content = fields.rest().get("content")
    blocks: tuple[AnyBlock, ...] = ()
    if content is not None:
        del fields.rest()["content"]
    if content == "" or content == []:
        flags.append(build_empty_flag("content", content))
    elif isinstance(content, str):
        flags.append(STRING)
        blocks = (Text(text=content, at=f"{at}.content"),)
    elif isinstance(content, list):
        inner = fields.children(content, "content")
        blocks = tuple(_read_block(item.text("type"), item) for item in inner)
    elif content is not None:
        raise fields.error(f"expected a string or an array of blocks, got {json_type(content)}", "content")
    return ToolResult(
        call_id=call_id,
        content=blocks,
        is_error=is_error is True,
        at=at,
        form=" ".join(flags),
        cache=cache,
        extras=fields.rest(),
    )


def _read_tool_reference(fields: Fields, at: str) -> ToolReference:
    return ToolReference(name=fields.text("tool_name"), at=at, cache=read_cache(fields), extras=fields.rest())


def _read_tool_addition(fields: Fields, at: str) -> AnyBlock:
    """Read a tool that is defined in the conversation. A reference to a listed tool stays opaque."""
    tool = object_of(fields.rest().get("tool"))
    if tool.get("type") != "tool_definition" or not isinstance(tool.get("definition"), dict):
        return read_opaque("tool_addition", {"type": "tool_addition", **fields.rest()}, at)
    cache = read_cache(fields)
    definition = fields.object("tool").object("definition")
    return ToolDeclarations(
        tools=(read_tool(definition, definition.path),), at=at, cache=cache, extras=fields.rest()
    )


_READERS: dict[str, Callable[[Fields, str], AnyBlock]] = {
    "text": _read_text,
    "tool_use": _read_tool_use,
    "tool_reference": _read_tool_reference,
    "tool_addition": _read_tool_addition,
}
