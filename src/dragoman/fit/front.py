"""The front of a request: its settings and tools, fitted once for all requests of a conversation.

A conversation grows, and its settings and tools stay. `fit_front` runs the passes that read the tools,
without the conversation. `fit_continued` then fits a request with some messages of the conversation alone.
The result is that of `fit` if `can_continue` and `FittedFront.covers` are true for the whole conversation.
`fit_with_front` fits a whole request so, if it has such a front.
"""

from collections.abc import Callable, Iterable

import msgspec

from dragoman.fit.editing import replace
from dragoman.fit.names import NameMap, build_name_map, rename_messages
from dragoman.fit.passes import PASSES, fit, list_needed_passes
from dragoman.hub.blocks import AnyBlock, Tool, ToolCall, ToolDeclarations, ToolResult
from dragoman.hub.loss import Loss, Losses
from dragoman.hub.request import Message, OutputFormat, Request, ToolChoice
from dragoman.providers.profile import TargetFacts


class FittedFront(msgspec.Struct, frozen=True, kw_only=True):
    """What the passes made of the tools, and of the settings that refer to tools."""

    names: NameMap
    tools: tuple[Tool, ...]
    tool_choice: ToolChoice | None
    output: OutputFormat | None
    losses: tuple[Loss, ...]

    def covers(self, messages: Iterable[Message]) -> bool:
        """Whether the messages declare no tools and call no undeclared ones: that would change the front."""
        return all(self._covers_block(block) for message in messages for block in message.blocks)

    def _covers_block(self, block: AnyBlock) -> bool:
        if type(block) is ToolCall:
            return self.names.has_tool_of(block)
        if type(block) is ToolResult:
            return not any(type(inner) is ToolDeclarations for inner in block.content)
        return type(block) is not ToolDeclarations


def _use_front(request: Request, front: FittedFront, target: TargetFacts) -> Request:
    return replace(request, tools=front.tools, tool_choice=front.tool_choice, output=front.output)


#: The passes that fit the front, and what each does with a request whose front is fitted.
_CONTINUED: dict[str, Callable[[Request, FittedFront, TargetFacts], Request]] = {
    "extras of the tools": lambda request, front, target: request,
    "names": lambda request, front, target: rename_messages(request, front.names),
    "tools": lambda request, front, target: request,
    "schemas": _use_front,
}


def fit_front(request: Request, target: TargetFacts) -> FittedFront:
    """Fit the tools of a request as if it had no conversation."""
    losses = Losses()
    front = replace(request, messages=())
    names = build_name_map(front, target)
    for each in PASSES:
        if each.name in _CONTINUED:
            front = each.apply(front, target, losses)
    return FittedFront(
        names=names,
        tools=front.tools,
        tool_choice=front.tool_choice,
        output=front.output,
        losses=losses.as_tuple(),
    )


def can_continue(front: FittedFront, target: TargetFacts) -> bool:
    """Whether no pass asks if the conversation contains any call at all.

    `tools` and `tool choice` do: some targets refuse calls in the history without tools.
    """
    is_forbidden = front.tool_choice is not None and front.tool_choice.mode == "none"
    return not target.history_needs_tools or (bool(front.tools) and not is_forbidden)


def fit_with_front(
    request: Request, front: FittedFront | None, target: TargetFacts, losses: Losses
) -> Request:
    """`fit` for a request with this front, if there is one that can be continued and covers the request."""
    if front is None:
        return fit(request, target, losses)
    for loss in front.losses:
        losses.add(loss.path, loss.reason)
    return fit_continued(request, front, target, losses)


def fit_continued(request: Request, front: FittedFront, target: TargetFacts, losses: Losses) -> Request:
    """Fit a request whose front was fitted before. The losses of the front are not added again."""
    for each in list_needed_passes(request.messages):
        continued = _CONTINUED.get(each.name)
        if continued is not None:
            request = continued(request, front, target)
        else:
            request = each.apply(request, target, losses)
    return request
