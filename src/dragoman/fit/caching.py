"""Prompt caching: marks on blocks, a key for the whole request, or nothing.

A request of another dialect that has no marks gets them where the prompts of a growing conversation end
alike: behind the tools, behind the system text, and on the last two user messages.
"""

from collections.abc import Iterator
from operator import attrgetter

import msgspec

from dragoman.fit.editing import (
    INSTRUCTING,
    edit_blocks,
    is_foreign,
    replace,
    replace_blocks,
    replace_messages,
)
from dragoman.hub.blocks import AnyBlock, CacheMark, Media, Text, ToolResult
from dragoman.hub.ids import digest
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request
from dragoman.providers.profile import TargetFacts

MAX_MARKS = 4
USER_MESSAGES = 2

#: Blocks that may have a mark.
MARKABLE = (Text, Media, ToolResult)

_get_blocks = attrgetter("blocks")
_get_cache = attrgetter("cache")

_NO_EQUIVALENT = "the target has no such way to cache prompts"


class _MarkPosition(msgspec.Struct, frozen=True):
    """What has a mark: block `index` of message number `message`, or tool `index` if `message` is -1."""

    message: int
    index: int
    at: str


def fit_caching(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Write the client's cache marks in the target's style; add marks if the client's API has none."""
    style = target.caching
    if style is None:
        return request
    if style == "breakpoints":
        return _fit_marks(request, losses) if is_foreign(request, target) else request
    if style == "key":
        if request.user and not request.cache_key:
            # Agents that send a user id keep it for a session and change it with the session.
            request = replace(request, cache_key="dgm-" + digest(request.user))
    elif request.cache_key:
        losses.add(request.path_of("cache_key"), _NO_EQUIVALENT)
        request = replace(request, cache_key="")
    return _remove_all_marks(request, target, losses)


def _iter_marks(request: Request) -> Iterator[_MarkPosition]:
    for number, blocks in enumerate((request.tools, *map(_get_blocks, request.messages)), -1):
        if any(map(_get_cache, blocks)):
            for index, block in enumerate(blocks):
                if block.cache:
                    yield _MarkPosition(number, index, block.at)


def _remove_all_marks(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Remove the marks: one loss for all of them, or none if a key has their effect."""
    marks = list(_iter_marks(request))
    if not marks and request.cache is None:
        return request
    if target.caching != "key" or not request.cache_key:
        losses.add(marks[0].at if marks else request.path_of("cache"), _NO_EQUIVALENT)
    return _remove_marks(replace(request, cache=None), marks)


def _remove_marks(request: Request, marks: list[_MarkPosition]) -> Request:
    if not marks:
        return request
    tools = list(request.tools)
    messages = list(request.messages)
    for mark in marks:
        if mark.message < 0:
            tools[mark.index] = replace(tools[mark.index], cache=None)
        else:
            blocks = list(messages[mark.message].blocks)
            blocks[mark.index] = replace(blocks[mark.index], cache=None)
            messages[mark.message] = replace_blocks(messages[mark.message], tuple(blocks))
    return replace(request, tools=tuple(tools), messages=tuple(messages))


def _fit_marks(request: Request, losses: Losses) -> Request:
    """Keep the client's own marks, of too many the last ones; add marks if the client sets none."""
    if request.cache_key:
        request = replace(request, cache_key="")
    marks = list(_iter_marks(request))
    if not marks:
        return request if request.cache is not None else _add_marks(request)
    surplus = marks[:-MAX_MARKS]
    for mark in surplus:
        losses.add(mark.at, f"the target takes no more than {MAX_MARKS} cache marks")
    return _remove_marks(request, surplus)


def _add_marks(request: Request) -> Request:
    mark = CacheMark()
    tools = request.tools
    if tools:
        tools = (*tools[:-1], replace(tools[-1], cache=mark))
    messages = list(request.messages)
    instructions = [number for number, message in enumerate(messages) if message.role in INSTRUCTING]
    users = [number for number, message in enumerate(messages) if message.role in ("user", "tool")]
    for number in (*instructions[-1:], *users[-USER_MESSAGES:]):
        messages[number] = _mark_last_block(messages[number], mark)
    return replace_messages(replace(request, tools=tools), messages)


def _mark_last_block(message: Message, mark: CacheMark) -> Message:
    last = next((block for block in reversed(message.blocks) if isinstance(block, MARKABLE)), None)

    def edit(block: AnyBlock, message: Message) -> AnyBlock:
        return replace(block, cache=mark) if block is last else block

    return message if last is None else replace_blocks(message, edit_blocks(message.blocks, message, edit))
