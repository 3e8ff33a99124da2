"""Edits of frozen requests. An edit that changes nothing returns the same object."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import is_

import msgspec

from dragoman.hub.blocks import AnyBlock, Text, ToolCall, ToolResult
from dragoman.hub.request import Message, Request
from dragoman.providers.profile import TargetFacts

replace = msgspec.structs.replace

#: What a block of a message becomes: itself, another block, several blocks, or none.
BlockEdit = Callable[[AnyBlock, Message], "AnyBlock | tuple[AnyBlock, ...]"]

#: The roles of messages that instruct the model instead of talking to it.
INSTRUCTING = ("system", "developer")


def is_foreign(request: Request, target: TargetFacts) -> bool:
    """Whether client and target use different dialects: the client then does not know the target's rules."""
    return request.dialect != target.dialect


def replace_messages(request: Request, messages: Sequence[Message]) -> Request:
    if len(messages) == len(request.messages) and all(map(is_, messages, request.messages)):
        return request
    return replace(request, messages=tuple(messages))


def replace_blocks(message: Message, blocks: tuple[AnyBlock, ...]) -> Message:
    """Give a message other blocks. `form` is kept only if the kinds of blocks, which it describes, stay."""
    if blocks is message.blocks:
        return message
    if list(map(type, blocks)) == list(map(type, message.blocks)):
        return replace(message, blocks=blocks)
    return replace(message, blocks=blocks, form="")


def edit_messages(request: Request, edit: BlockEdit, *, inside_results: bool = True) -> Request:
    """Edit the blocks of every message; blocks inside a result come before the result itself."""

    def edit_with_content(block: AnyBlock, message: Message) -> AnyBlock | tuple[AnyBlock, ...]:
        if type(block) is ToolResult and block.content:
            content = edit_blocks(block.content, message, edit)
            if content is not block.content:
                block = replace(block, content=content, form="", extras={})
        return edit(block, message)

    edit_one = edit_with_content if inside_results else edit
    return replace_messages(
        request,
        [
            replace_blocks(message, edit_blocks(message.blocks, message, edit_one))
            for message in request.messages
        ],
    )


def edit_blocks(blocks: tuple[AnyBlock, ...], message: Message, edit: BlockEdit) -> tuple[AnyBlock, ...]:
    """The blocks after `edit` of each; the same tuple if nothing changes."""
    edited: list[AnyBlock] | None = None
    for position, block in enumerate(blocks):
        after = edit(block, message)
        if after is block and edited is None:
            continue
        if edited is None:
            edited = list(blocks[:position])
        if isinstance(after, tuple):
            edited.extend(after)
        else:
            edited.append(after)
    return blocks if edited is None else tuple(edited)


def are_same_blocks(some: Sequence[AnyBlock], others: Sequence[AnyBlock]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))


def separate_texts(before: AnyBlock, after: AnyBlock) -> AnyBlock:
    """Return `after`; if both are texts that would run together, with a blank line before it."""
    if type(before) is not Text or type(after) is not Text:
        return after
    if before.text.endswith("\n") or after.text.startswith("\n"):
        return after
    return replace(after, text="\n\n" + after.text, form="")


def iter_calls(messages: Iterable[Message]) -> Iterator[ToolCall]:
    for message in messages:
        for block in message.blocks:
            if type(block) is ToolCall:
                yield block


def find_first_non_instruction_message(messages: Sequence[Message]) -> int:
    """The index of the first message that is no instruction; the number of messages if there is none."""
    return next((at for at, message in enumerate(messages) if message.role not in INSTRUCTING), len(messages))


@lru_cache(maxsize=64)
def build_illegal_pattern(extra: str) -> re.Pattern[str]:
    """Finds illegal characters of a name or id; `extra`: those allowed besides letters, digits, `_`, `-`."""
    return re.compile(r"(?!)" if extra == "*" else f"[^A-Za-z0-9_{re.escape(extra)}-]")
