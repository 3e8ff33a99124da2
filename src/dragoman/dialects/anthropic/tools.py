"""Reads and writes tool declarations and the tool choice.

A tool with a schema is a function. The client runs typed tools, which the model knows by their type;
Anthropic runs all other types. The form keeps the exact type, which includes a version.
"""

import re

from dragoman.dialects.anthropic.hosted import find_common_name
from dragoman.dialects.anthropic.names import add_common, read_cache
from dragoman.dialects.interfaces import Json
from dragoman.dialects.search_options import LOCATION, take_domains, take_location, write_location
from dragoman.hub.blocks import PRIVATE, SearchOptions, Tool
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, ToolChoice
from dragoman.wire.fields import Fields

_TYPED = re.compile(r"((?:bash|text_editor|memory|computer|browser)(?:_toolset)?)(?:_\d{8})?")

#: For each common name the type with the oldest version, which models of all generations accept, and its
#: fixed name.
HOSTED: dict[str, tuple[str, str]] = {
    "web_search": ("web_search_20250305", "web_search"),
    "web_fetch": ("web_fetch_20250910", "web_fetch"),
    "code_execution": ("code_execution_20250825", "code_execution"),
}

#: Common names of tools that accept search options.
SEARCHING = frozenset({"web_search", "web_fetch"})

EMPTY_SCHEMA: Json = {"type": "object", "properties": {}}


def read_tool(fields: Fields, at: str) -> Tool:
    """A declared tool: a function with its schema, or a tool of Anthropic with a `type`."""
    cache = read_cache(fields)
    kind_name = fields.text_or("type", "")
    deferred = fields.rest().get("defer_loading") is True
    if deferred:
        del fields.rest()["defer_loading"]
    if kind_name in ("", "custom") or fields.has("input_schema"):
        schema = fields.maybe_object("input_schema")
        return Tool(
            name=fields.text("name"),
            at=at,
            form=kind_name,
            cache=cache,
            description=fields.maybe_text("description"),
            schema=None if schema is None else schema.rest(),
            strict=fields.maybe_flag("strict"),
            deferred=deferred,
            extras=fields.rest(),
        )
    typed = _TYPED.fullmatch(kind_name)
    common_name = typed[1] if typed else find_common_name(kind_name)
    return Tool(
        name=fields.text_or("name", ""),
        kind="typed" if typed else "hosted",
        common_name=common_name,
        search=_read_search(fields.rest()) if common_name in SEARCHING else None,
        at=at,
        form=kind_name,
        cache=cache,
        deferred=deferred,
        extras=fields.rest(),
    )


def _read_search(rest: Json) -> SearchOptions | None:
    uses = rest.get("max_uses")
    if type(uses) is int:
        del rest["max_uses"]
    options = SearchOptions(
        allowed_domains=take_domains(rest, "allowed_domains"),
        blocked_domains=take_domains(rest, "blocked_domains"),
        location=take_location(rest),
        max_uses=uses if type(uses) is int else None,
        paths={"location": LOCATION},
    )
    return None if options == SearchOptions(paths=options.paths) else options


def _write_search(tool: Tool, losses: Losses, *, same_dialect: bool) -> Json:
    options = tool.search
    if options is None:
        return {}
    written: Json = {}
    if options.max_uses is not None:
        written["max_uses"] = options.max_uses
    if options.allowed_domains:
        written["allowed_domains"] = list(options.allowed_domains)
    if options.blocked_domains and (same_dialect or not options.allowed_domains):
        written["blocked_domains"] = list(options.blocked_domains)
    elif options.blocked_domains:
        path = options.paths.get("blocked_domains", "blocked_domains")
        losses.add(f"{tool.at}.{path}", "Anthropic either allows domains or blocks them")
    if options.location is not None:
        kept = tool.extras.get(PRIVATE + LOCATION) if same_dialect else None
        written[LOCATION] = kept or write_location(options.location)
    return written


def write_tool(tool: Tool, losses: Losses, *, same_dialect: bool) -> Json | None:
    """Write a tool; None, with a loss, if Anthropic has no such tool."""
    if same_dialect and tool.kind in ("typed", "hosted") and tool.form:
        written: Json = {"type": tool.form, **_write_search(tool, losses, same_dialect=same_dialect)}
        if tool.name:
            written["name"] = tool.name
    elif tool.kind == "function":
        written = _write_function(tool, same_dialect=same_dialect)
    elif tool.kind == "hosted" and tool.common_name in HOSTED:
        kind_name, name = HOSTED[tool.common_name]
        written = {"type": kind_name, "name": name, **_write_search(tool, losses, same_dialect=same_dialect)}
    else:
        losses.add(tool.at, f"Anthropic has no tool of kind {tool.kind!r} like this one")
        return None
    if tool.deferred:
        written["defer_loading"] = True
    return add_common(written, tool.cache, tool.extras, same_dialect=same_dialect)


def _write_function(tool: Tool, *, same_dialect: bool) -> Json:
    written: Json = {"name": tool.name}
    if same_dialect and tool.form:
        written["type"] = tool.form
    if tool.description is not None:
        written["description"] = tool.description
    if tool.schema is not None:
        written["input_schema"] = (
            tool.schema if same_dialect or "type" in tool.schema else {**EMPTY_SCHEMA, **tool.schema}
        )
    elif not same_dialect:
        written["input_schema"] = EMPTY_SCHEMA
    if tool.strict is not None:
        written["strict"] = tool.strict
    return written


_MODES: dict[str, ToolChoice] = {
    "auto": ToolChoice(mode="auto"),
    "any": ToolChoice(mode="required"),
    "none": ToolChoice(mode="none"),
}
_TYPES = {"auto": "auto", "required": "any", "none": "none", "named": "tool", "allowed": "auto"}


def read_choice(fields: Fields) -> tuple[ToolChoice | None, bool | None]:
    """The choice, and whether parallel calls are allowed. A choice of unknown type stays in the extras."""
    choice = fields.rest().get("tool_choice")
    if choice is None:
        return None, None
    choice_fields = fields.child(choice, "tool_choice")
    kind = choice_fields.rest().get("type")
    if kind == "tool":
        parallel = _read_parallel(choice_fields)
        name = choice_fields.text("name")
        del choice_fields.rest()["type"], fields.rest()["tool_choice"]
        return ToolChoice(mode="named", name=name, extras=choice_fields.rest()), parallel
    known = _MODES.get(kind) if isinstance(kind, str) else None
    if known is None:
        return None, None
    del choice_fields.rest()["type"], fields.rest()["tool_choice"]
    parallel = _read_parallel(choice_fields)
    return ToolChoice(mode=known.mode, extras=choice_fields.rest()), parallel


def _find_name(name: str, tools: tuple[Tool, ...]) -> str:
    """The name to write in `tool_choice`: Anthropic's fixed name for a hosted tool, otherwise `name`."""
    named = next((tool for tool in tools if tool.name == name), None)
    hosted = HOSTED.get(named.common_name) if named is not None and named.kind == "hosted" else None
    return hosted[1] if hosted else name


def _read_parallel(choice_fields: Fields) -> bool | None:
    disabled = choice_fields.maybe_flag("disable_parallel_tool_use")
    return None if disabled is None else not disabled


def write_choice(request: Request, losses: Losses, *, same_dialect: bool) -> Json | None:
    """The `tool_choice`, which also allows or forbids parallel calls."""
    choice, parallel = request.tool_choice, request.parallel_calls
    if not same_dialect and not request.tools:
        return None
    if choice is None:
        return {"type": "auto", "disable_parallel_tool_use": True} if parallel is False else None
    written: Json = {"type": _TYPES[choice.mode]}
    if choice.mode == "named":
        written["name"] = choice.name if same_dialect else _find_name(choice.name, request.tools)
    elif choice.mode == "allowed":
        losses.add(
            request.path_of("tool_choice"), "Anthropic cannot restrict the choice to some of the tools"
        )
        if choice.allowed_mode == "required":
            written["type"] = "any"
    if same_dialect and parallel is not None:
        written["disable_parallel_tool_use"] = not parallel
    elif parallel is False and choice.mode != "none":
        written["disable_parallel_tool_use"] = True
    return add_common(written, None, choice.extras, same_dialect=same_dialect)
