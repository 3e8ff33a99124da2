"""What the way back needs of a request: names, ids and wishes, not the words.

A reply may stay open for an hour, and thousands of them at once; the conversation that led to it need not,
nor the schemas, which take more memory than all the rest. Who judges calls by them keeps them on purpose.
"""

from collections.abc import Iterator

import msgspec

from dragoman.hub.content import AnyBlock, Tool, ToolCall, ToolDeclarations, ToolResult
from dragoman.hub.request import Request, Turn

#: By this wish a client of the Responses API asks for seals.
SEALS = "reasoning.encrypted_content"


def outline(request: Request, *, seals: bool = False) -> Request:
    """The request without what was said in it; a reply to one is a reply to the other.

    `seals`: the reply shall carry them, whatever the client asked for.
    """
    if seals and SEALS not in request.include:
        request = msgspec.structs.replace(request, include=(*request.include, SEALS))
    kept = tuple(_kept(request.turns))
    turns = (Turn(role="assistant", blocks=kept),) if kept else ()
    return msgspec.structs.replace(request, tools=tuple(map(_bare, request.tools)), turns=turns)


def _kept(turns: tuple[Turn, ...]) -> Iterator[AnyBlock]:
    """Every call and every declaration, in order."""
    for turn in turns:
        for block in turn.blocks:
            match block:
                case ToolCall():
                    yield ToolCall(id=block.id, name=block.name, kind=block.kind, namespace=block.namespace)
                case ToolDeclarations():
                    yield _declared(block)
                case ToolResult():
                    yield from (
                        _declared(each) for each in block.content if isinstance(each, ToolDeclarations)
                    )
                case _:
                    pass


def _declared(block: ToolDeclarations) -> ToolDeclarations:
    return msgspec.structs.replace(block, tools=tuple(map(_bare, block.tools)))


def _bare(tool: Tool) -> Tool:
    return msgspec.structs.replace(tool, description=None, schema=None, grammar=None)
