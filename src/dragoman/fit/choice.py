"""The tool choice and parallel calls, as the target can express them.

A choice becomes weaker only where the target has no equivalent, and that is always a loss.
"""

from dragoman.fit.editing import is_foreign, iter_calls, replace
from dragoman.hub.blocks import Tool
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, ToolChoice
from dragoman.providers.profile import TargetFacts

FORCED = ("required", "named")


def fit_choice(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Fit the choice in steps: each handles one mode and returns the request that the next one gets."""
    if not request.tools and is_foreign(request, target):
        return _fit_without_tools(request, losses)
    request = _fit_parallel(request, target, losses)
    for step in (_fit_allowed, _fit_none, _fit_forced, _fit_auto, _fit_while_reasoning):
        chosen = request.tool_choice
        if chosen is None:
            return request
        request = step(request, chosen, target, losses)
    return request


def _fit_without_tools(request: Request, losses: Losses) -> Request:
    """Remove the choice from a request without tools: vendors refuse one."""
    chosen = request.tool_choice
    if chosen is None and request.parallel_calls is None:
        return request
    if chosen is not None and chosen.mode in FORCED:
        losses.add(request.path_of("tool_choice"), "there is no tool to call")
    return replace(request, tool_choice=None, parallel_calls=None)


def _fit_parallel(request: Request, target: TargetFacts, losses: Losses) -> Request:
    if request.parallel_calls is None or target.parallel_control:
        return request
    if request.parallel_calls is False:
        losses.add(request.path_of("parallel_calls"), "the target cannot be kept to one call at a time")
    return replace(request, parallel_calls=None)


def _fit_allowed(request: Request, chosen: ToolChoice, target: TargetFacts, losses: Losses) -> Request:
    """Remove the tools that are not allowed, so that the model cannot call them."""
    if chosen.mode != "allowed" or "allowed" in target.choices:
        return request
    tools = tuple(tool for tool in request.tools if _is_among(tool, chosen.allowed))
    if not tools:
        return replace(request, tool_choice=ToolChoice(mode="none"))
    return replace(request, tools=tools, tool_choice=ToolChoice(mode=chosen.allowed_mode))


def _is_among(tool: Tool, allowed: tuple[str, ...]) -> bool:
    return tool.name in allowed or (tool.kind == "hosted" and tool.common_name in allowed)


def _fit_none(request: Request, chosen: ToolChoice, target: TargetFacts, losses: Losses) -> Request:
    if chosen.mode != "none" or "none" in target.choices:
        return request
    is_needed = target.history_needs_tools and any(True for _ in iter_calls(request.messages))
    if not is_needed:
        return replace(request, tools=(), tool_choice=None, parallel_calls=None)
    losses.add(request.path_of("tool_choice"), "the target cannot be forbidden to call tools")
    return replace(request, tool_choice=None)


def _fit_auto(request: Request, chosen: ToolChoice, target: TargetFacts, losses: Losses) -> Request:
    """Remove `auto` if the target does not know it: it is the default of every target."""
    return request if chosen.mode in target.choices else replace(request, tool_choice=None)


def _fit_forced(request: Request, chosen: ToolChoice, target: TargetFacts, losses: Losses) -> Request:
    if chosen.mode not in FORCED:
        return request
    path = request.path_of("tool_choice")
    if chosen.mode == "named":
        named = tuple(tool for tool in request.tools if _is_among(tool, (chosen.name,)))
        if not named:
            if not is_foreign(request, target):
                return request
            losses.add(path, "the tool that it names is not declared")
            return replace(request, tool_choice=None)
        if "named" in target.choices:
            return _fit_kind(request, chosen, named[0])
        if "required" in target.choices:
            return replace(request, tools=named, tool_choice=ToolChoice(mode="required"))
    elif "required" in target.choices:
        return request
    losses.add(path, "the target cannot be forced to call a tool")
    return replace(request, tool_choice=None)


def _fit_kind(request: Request, chosen: ToolChoice, tool: Tool) -> Request:
    """The kind of the named tool, which may have become a function."""
    if tool.kind != "function" or chosen.kind == "function":
        return request
    return replace(request, tool_choice=replace(chosen, kind="function", form="", extras={}))


def _fit_while_reasoning(
    request: Request, chosen: ToolChoice, target: TargetFacts, losses: Losses
) -> Request:
    """Switch reasoning off if it prevents a forced call: the client expects the call."""
    wanted = request.reasoning
    if target.forced_choice_while_reasoning or chosen.mode not in FORCED:
        return request
    if wanted is None or wanted.mode not in ("on", "adaptive"):
        return request
    losses.add(request.path_of("reasoning"), "the target does not reason when a call is forced")
    return replace(request, reasoning=replace(wanted, mode="off", effort=None, budget=None))
