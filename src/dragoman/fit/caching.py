"""Wishes to cache the prompt: marks on blocks, a key for the whole, or nothing.

A client of another dialect gets marks at the places where prompts of a growing conversation end alike:
behind the tools, behind the system text, and on the last two user turns.
"""

from collections.abc import Iterator

import msgspec

from dragoman.fit.editing import edited, is_foreign, replace, with_blocks, with_turns
from dragoman.fit.system import INSTRUCTING
from dragoman.hub.content import AnyBlock, CacheMark, Media, Text, ToolResult
from dragoman.hub.ids import digest
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, Turn
from dragoman.providers.profile import Target

MAX_MARKS = 4
USER_TURNS = 2

#: What a mark may stand on.
MARKABLE = (Text, Media, ToolResult)

_NO_EQUIVALENT = "the target has no such way to cache prompts"


class _Place(msgspec.Struct, frozen=True):
    """A marked thing: the tool at `index`, or the block at `index` of the turn at `turn`."""

    turn: int
    index: int
    at: str


def caching(request: Request, target: Target, losses: Losses) -> Request:
    style = target.caching
    if style is None:
        return request
    if style == "breakpoints":
        return _marked(request, target, losses) if is_foreign(request, target) else request
    if style == "key":
        request = _keyed(request)
    elif request.cache_key:
        losses.add(request.path_of("cache_key"), _NO_EQUIVALENT)
        request = replace(request, cache_key="")
    return _unmarked(request, target, losses)


def _keyed(request: Request) -> Request:
    """The user's own id changes with the session in the agents that send one, and never within it."""
    if request.cache_key or not request.user:
        return request
    return replace(request, cache_key="dgm-" + digest(request.user))


def _marks(request: Request) -> Iterator[_Place]:
    for index, tool in enumerate(request.tools):
        if tool.cache:
            yield _Place(-1, index, tool.at)
    for number, turn in enumerate(request.turns):
        for index, block in enumerate(turn.blocks):
            if block.cache:
                yield _Place(number, index, block.at)


def _unmarked(request: Request, target: Target, losses: Losses) -> Request:
    """One loss for all, or none where a key says as much: it is one wish, however many places it names."""
    first = next(_marks(request), None)
    if first is None and request.cache is None:
        return request
    if target.caching != "key" or not request.cache_key:
        losses.add(first.at if first else request.path_of("cache"), _NO_EQUIVALENT)
    return _without(replace(request, cache=None), list(_marks(request)))


def _without(request: Request, places: list[_Place]) -> Request:
    gone = {(place.turn, place.index) for place in places}
    if not gone:
        return request
    tools = tuple(
        replace(tool, cache=None) if (-1, index) in gone else tool for index, tool in enumerate(request.tools)
    )
    turns = [
        with_blocks(
            turn,
            tuple(
                replace(block, cache=None) if (number, index) in gone else block
                for index, block in enumerate(turn.blocks)
            ),
        )
        if any(block.cache for block in turn.blocks)
        else turn
        for number, turn in enumerate(request.turns)
    ]
    return with_turns(replace(request, tools=tools), turns)


def _marked(request: Request, target: Target, losses: Losses) -> Request:
    """The client's own marks win; beyond the most that are taken, the last ones matter."""
    if request.cache_key:
        request = replace(request, cache_key="")
    present = list(_marks(request))
    if not present:
        return request if request.cache is not None else _with_own_marks(request)
    extra = present[:-MAX_MARKS]
    for place in extra:
        losses.add(place.at, f"the target takes no more than {MAX_MARKS} cache marks")
    return _without(request, extra)


def _with_own_marks(request: Request) -> Request:
    mark = CacheMark()
    tools = request.tools
    if tools:
        tools = (*tools[:-1], replace(tools[-1], cache=mark))
    turns = list(request.turns)
    front = [number for number, turn in enumerate(turns) if turn.role in INSTRUCTING]
    users = [number for number, turn in enumerate(turns) if turn.role in ("user", "tool")]
    for number in (*front[-1:], *users[-USER_TURNS:]):
        turns[number] = _with_last_marked(turns[number], mark)
    return with_turns(replace(request, tools=tools), turns)


def _with_last_marked(turn: Turn, mark: CacheMark) -> Turn:
    last = next((block for block in reversed(turn.blocks) if isinstance(block, MARKABLE)), None)

    def change(block: AnyBlock, turn: Turn) -> AnyBlock:
        return replace(block, cache=mark) if block is last else block

    return turn if last is None else with_blocks(turn, edited(turn.blocks, turn, change))
