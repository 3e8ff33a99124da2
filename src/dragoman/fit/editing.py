"""Editing frozen requests without copying what stays.

An edit that changes nothing gives the same object back.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import is_

import msgspec

from dragoman.hub.content import AnyBlock, ToolCall, ToolResult
from dragoman.hub.request import Request, Turn
from dragoman.providers.profile import Target

replace = msgspec.structs.replace

#: What becomes of a block in its turn: itself, another block, several, or none.
Change = Callable[[AnyBlock, Turn], "AnyBlock | tuple[AnyBlock, ...]"]


def is_foreign(request: Request, target: Target) -> bool:
    """Whether the target speaks another dialect than the client, who then cannot know what it takes."""
    return request.dialect != target.dialect


def with_turns(request: Request, turns: Sequence[Turn]) -> Request:
    if len(turns) == len(request.turns) and all(map(is_, turns, request.turns)):
        return request
    return replace(request, turns=tuple(turns))


def with_blocks(turn: Turn, blocks: tuple[AnyBlock, ...]) -> Turn:
    """The turn with other blocks. Its form stays only if the blocks still are what the form speaks of."""
    if blocks is turn.blocks:
        return turn
    if list(map(type, blocks)) == list(map(type, turn.blocks)):
        return replace(turn, blocks=blocks)
    return replace(turn, blocks=blocks, form="")


def kinds_of(turns: Iterable[Turn]) -> set[type]:
    """The kinds of blocks in these turns, those inside results included."""
    kinds: set[type] = set()
    for turn in turns:
        for block in turn.blocks:
            kinds.add(type(block))
            if type(block) is ToolResult:
                kinds.update(map(type, block.content))
    return kinds


def edit_blocks(
    request: Request,
    change: Change,
    *,
    inside_results: bool = True,
    only: frozenset[type] | None = None,
) -> Request:
    """Change the blocks of every turn, and those inside results before the results themselves.

    `only`: the kinds of blocks that `change` may change. Most requests hold none of them, and looking is
    much cheaper than asking about every block.
    """
    if only is not None and only.isdisjoint(kinds_of(request.turns)):
        return request

    def change_with_content(block: AnyBlock, turn: Turn) -> AnyBlock | tuple[AnyBlock, ...]:
        if type(block) is ToolResult and block.content:
            content = edited(block.content, turn, change)
            if content is not block.content:
                block = replace(block, content=content, form="", extras={})
        return change(block, turn)

    step = change_with_content if inside_results else change
    return with_turns(request, [with_blocks(turn, edited(turn.blocks, turn, step)) for turn in request.turns])


def edited(blocks: tuple[AnyBlock, ...], turn: Turn, change: Change) -> tuple[AnyBlock, ...]:
    after: list[AnyBlock] | None = None
    for position, block in enumerate(blocks):
        changed = change(block, turn)
        if changed is block and after is None:
            continue
        if after is None:
            after = list(blocks[:position])
        if isinstance(changed, tuple):
            after.extend(changed)
        else:
            after.append(changed)
    return blocks if after is None else tuple(after)


def calls_of(turns: Iterable[Turn]) -> Iterator[ToolCall]:
    for turn in turns:
        for block in turn.blocks:
            if type(block) is ToolCall:
                yield block
