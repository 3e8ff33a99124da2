"""Tools that the vendor runs: those that the target has too, set up as far as it can be."""

from dragoman.fit.editing import is_foreign, replace
from dragoman.fit.extras import BOOKKEEPING, tell
from dragoman.hub.content import SearchOptions, Tool
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.providers.facts import SEARCH_OPTIONS
from dragoman.providers.profile import Target

#: What holds when nothing is said, so that leaving it out takes nothing away.
USUAL: dict[str, tuple[object, ...]] = {
    "context_size": ("medium",),
    "live": (True,),
    "container": ("auto", {"type": "auto"}),
}

_NOTHING = SearchOptions()


def hosted(tools: list[Tool], request: Request, target: Target, losses: Losses) -> list[Tool]:
    """The tools with what the vendor runs fitted; the client's own are settled already."""
    kept: list[Tool] = []
    # Where both cannot be, the client's tools stay: it waits for their calls.
    has_functions = any(tool.kind != "hosted" for tool in tools)
    for tool in tools:
        if tool.kind != "hosted":
            kept.append(tool)
            continue
        family = tool.family or tool.name
        if target.hosted_tools is not None and family not in target.hosted_tools:
            losses.add(tool.at, f"the target does not run the tool {family!r} itself")
        elif has_functions and not target.hosted_beside_functions:
            losses.add(tool.at, f"the target does not run the tool {family!r} beside functions")
        else:
            kept.append(_set_up(tool, request, target, losses))
    return kept


def _set_up(tool: Tool, request: Request, target: Target, losses: Losses) -> Tool:
    if is_foreign(request, target):
        usual = {name for name, value in tool.extras.items() if value in USUAL.get(name, ())}
        tell(tool.at, tool.extras, losses, BOOKKEEPING | usual)
    return _with_known_options(tool, target, losses)


def _with_known_options(tool: Tool, target: Target, losses: Losses) -> Tool:
    options = tool.search
    if options is None:
        return tool
    unknown: dict[str, object] = {}
    for name in sorted(SEARCH_OPTIONS - target.search_options):
        value, default = getattr(options, name), getattr(_NOTHING, name)
        if value == default:
            continue
        unknown[name] = default
        if value not in USUAL.get(name, ()):
            path = options.paths.get(name, name)
            losses.add(f"{tool.at}.{path}", f"the target's own {tool.family} cannot be told this")
    return replace(tool, search=replace(options, **unknown)) if unknown else tool
