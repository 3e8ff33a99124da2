"""The outline of a request: the parts that translating its reply needs.

A reply may stay open for an hour, and thousands of them at once. So the pipeline drops the conversation and
the tools' schemas, which take the most memory, and keeps names, ids and settings. Governance keeps the
schemas that it validates calls with, and the texts that a harvested reply may repeat.
"""

from collections.abc import Iterable, Iterator

import msgspec

from dragoman.hub.blocks import AnyBlock, Tool, ToolCall, ToolDeclarations, ToolResult
from dragoman.hub.request import Message, Request

#: The value of `include` by which a client of the Responses API asks for seals.
SEALS = "reasoning.encrypted_content"


def ask_for_seals(request: Request) -> Request:
    """The request of a client that asks for the seals of the reply."""
    if SEALS in request.include:
        return request
    return msgspec.structs.replace(request, include=(*request.include, SEALS))


def build_outline(request: Request) -> Request:
    """The request without its texts and schemas. A reply to it is translated like a reply to the request."""
    return replace_history(request, strip_tools(request.tools), tuple(outline_blocks(request.messages)))


def replace_history(request: Request, tools: tuple[Tool, ...], blocks: tuple[AnyBlock, ...]) -> Request:
    """The request with the tools and blocks of an outline."""
    messages = (Message(role="assistant", blocks=blocks),) if blocks else ()
    return msgspec.structs.replace(request, tools=tools, messages=messages)


def strip_tools(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """The tools without descriptions and schemas."""
    return tuple(map(_strip_tool, tools))


def outline_blocks(messages: Iterable[Message]) -> Iterator[AnyBlock]:
    """Every call and every declaration of tools, in order."""
    for message in messages:
        for block in message.blocks:
            if type(block) is ToolCall:
                yield ToolCall(id=block.id, name=block.name, kind=block.kind, namespace=block.namespace)
            elif type(block) is ToolDeclarations:
                yield _strip_declarations(block)
            elif type(block) is ToolResult:
                for each in block.content:
                    if type(each) is ToolDeclarations:
                        yield _strip_declarations(each)


def _strip_declarations(block: ToolDeclarations) -> ToolDeclarations:
    return msgspec.structs.replace(block, tools=strip_tools(block.tools))


def _strip_tool(tool: Tool) -> Tool:
    return msgspec.structs.replace(tool, description=None, schema=None, grammar=None)
