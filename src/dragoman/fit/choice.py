"""What the client said about calling tools, in the terms that the target has.

A choice is downgraded only where the target leaves no other way, and never without a loss.
"""

from dragoman.fit.editing import calls_of, is_foreign, replace
from dragoman.hub.content import Tool
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, ToolChoice
from dragoman.providers.profile import Target

FORCED = ("required", "named")


def choice(request: Request, target: Target, losses: Losses) -> Request:
    if not request.tools and is_foreign(request, target):
        return _without_tools(request, losses)
    request = _parallel(request, target, losses)
    for settle in (_allowed, _none, _forced, _auto, _settled_with_reasoning):
        chosen = request.tool_choice
        if chosen is None:
            return request
        request = settle(request, chosen, target, losses)
    return request


def _without_tools(request: Request, losses: Losses) -> Request:
    chosen = request.tool_choice
    if chosen is None and request.parallel_calls is None:
        return request
    if chosen is not None and chosen.mode in FORCED:
        losses.add(request.path_of("tool_choice"), "there is no tool to call")
    return replace(request, tool_choice=None, parallel_calls=None)


def _parallel(request: Request, target: Target, losses: Losses) -> Request:
    if request.parallel_calls is None or target.parallel_control:
        return request
    if request.parallel_calls is False:
        losses.add(request.path_of("parallel_calls"), "the target cannot be kept to one call at a time")
    return replace(request, parallel_calls=None)


def _allowed(request: Request, chosen: ToolChoice, target: Target, losses: Losses) -> Request:
    """Tools that may not be called are not shown: that holds at least as well as asking."""
    if chosen.mode != "allowed" or "allowed" in target.choices:
        return request
    tools = tuple(tool for tool in request.tools if _is_among(tool, chosen.allowed))
    if not tools:
        return replace(request, tool_choice=ToolChoice(mode="none"))
    return replace(request, tools=tools, tool_choice=ToolChoice(mode=chosen.allowed_mode))


def _is_among(tool: Tool, allowed: tuple[str, ...]) -> bool:
    return tool.name in allowed or (tool.kind == "hosted" and tool.family in allowed)


def _none(request: Request, chosen: ToolChoice, target: Target, losses: Losses) -> Request:
    if chosen.mode != "none" or "none" in target.choices:
        return request
    needed = target.history_needs_tools and any(True for _ in calls_of(request.turns))
    if not needed:
        return replace(request, tools=(), tool_choice=None, parallel_calls=None)
    losses.add(request.path_of("tool_choice"), "the target cannot be forbidden to call tools")
    return replace(request, tool_choice=None)


def _auto(request: Request, chosen: ToolChoice, target: Target, losses: Losses) -> Request:
    """Choosing freely is what every target does when nothing is said."""
    return request if chosen.mode in target.choices else replace(request, tool_choice=None)


def _forced(request: Request, chosen: ToolChoice, target: Target, losses: Losses) -> Request:
    if chosen.mode not in FORCED:
        return request
    path = request.path_of("tool_choice")
    if chosen.mode == "named":
        named = tuple(tool for tool in request.tools if _is_among(tool, (chosen.name,)))
        if not named:
            if not is_foreign(request, target):
                return request
            losses.add(path, "the tool it names is not there")
            return replace(request, tool_choice=None)
        if "named" in target.choices:
            return _of_its_kind(request, chosen, named[0])
        if "required" in target.choices:
            return replace(request, tools=named, tool_choice=ToolChoice(mode="required"))
    elif "required" in target.choices:
        return request
    losses.add(path, "the target cannot be forced to call a tool")
    return replace(request, tool_choice=None)


def _of_its_kind(request: Request, chosen: ToolChoice, tool: Tool) -> Request:
    """A choice says the kind of its tool, which may have become a function."""
    if tool.kind != "function" or chosen.kind == "function":
        return request
    return replace(request, tool_choice=replace(chosen, kind="function", form="", extras={}))


def _settled_with_reasoning(request: Request, chosen: ToolChoice, target: Target, losses: Losses) -> Request:
    """Where a call cannot be forced while the model reasons, the call wins: the client counts on it."""
    wish = request.reasoning
    if target.forced_choice_while_reasoning or chosen.mode not in FORCED:
        return request
    if wish is None or wish.mode not in ("on", "adaptive"):
        return request
    losses.add(request.path_of("reasoning"), "the target does not reason when a call is forced")
    return replace(request, reasoning=replace(wish, mode="off", effort=None, budget=None))
