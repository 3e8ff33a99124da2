"""Tool declarations and the choice among tools, both ways.

A tool with a schema is a function. Typed tools are run by the client and known to the model by their type;
all other types are run by Anthropic. The exact type, which names a version, is the form.
"""

import re

from dragoman.dialects.anthropic.hosted import family_of
from dragoman.dialects.anthropic.spelling import add_common, read_cache
from dragoman.dialects.base import Json
from dragoman.hub.content import Tool
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, ToolChoice
from dragoman.wire.fields import Fields

_TYPED = re.compile(r"((?:bash|text_editor|memory|computer|browser)(?:_toolset)?)(?:_\d{8})?")

#: The oldest version of each server tool that models of all generations take, and its fixed name.
HOSTED: dict[str, tuple[str, str]] = {
    "web_search": ("web_search_20250305", "web_search"),
    "web_fetch": ("web_fetch_20250910", "web_fetch"),
    "code_execution": ("code_execution_20250825", "code_execution"),
}

EMPTY_SCHEMA: Json = {"type": "object", "properties": {}}


def read_tool(fields: Fields, at: str) -> Tool:
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
    return Tool(
        name=fields.text_or("name", ""),
        kind="typed" if typed else "hosted",
        family=typed[1] if typed else family_of(kind_name),
        at=at,
        form=kind_name,
        cache=cache,
        deferred=deferred,
        extras=fields.rest(),
    )


def write_tool(tool: Tool, losses: Losses, *, own: bool) -> Json | None:
    """None: a tool that Anthropic does not know, which is a loss."""
    if own and tool.kind in ("typed", "hosted") and tool.form:
        written: Json = {"type": tool.form}
        if tool.name:
            written["name"] = tool.name
    elif tool.kind == "function":
        written = _write_function(tool, own=own)
    elif tool.kind == "hosted" and tool.family in HOSTED:
        kind_name, name = HOSTED[tool.family]
        written = {"type": kind_name, "name": name}
    else:
        losses.add(tool.at, f"Anthropic has no tool of kind {tool.kind!r} like this one")
        return None
    if tool.deferred:
        written["defer_loading"] = True
    return add_common(written, tool.cache, tool.extras, own=own)


def _write_function(tool: Tool, *, own: bool) -> Json:
    written: Json = {"name": tool.name}
    if own and tool.form:
        written["type"] = tool.form
    if tool.description is not None:
        written["description"] = tool.description
    if tool.schema is not None:
        written["input_schema"] = (
            tool.schema if own or "type" in tool.schema else {**EMPTY_SCHEMA, **tool.schema}
        )
    elif not own:
        written["input_schema"] = EMPTY_SCHEMA
    if tool.strict is not None:
        written["strict"] = tool.strict
    return written


_MODES: dict[str, ToolChoice] = {
    "auto": ToolChoice(mode="auto"),
    "any": ToolChoice(mode="required"),
    "none": ToolChoice(mode="none"),
}
_WORDS = {"auto": "auto", "required": "any", "none": "none", "named": "tool", "allowed": "auto"}


def read_choice(fields: Fields) -> tuple[ToolChoice | None, bool | None]:
    """The choice, and whether parallel calls are allowed. A choice of unknown type stays in the rest."""
    choice = fields.rest().get("tool_choice")
    if choice is None:
        return None, None
    told = fields.child(choice, "tool_choice")
    word = told.rest().get("type")
    if word == "tool":
        parallel = _read_parallel(told)
        name = told.text("name")
        del told.rest()["type"], fields.rest()["tool_choice"]
        return ToolChoice(mode="named", name=name, extras=told.rest()), parallel
    known = _MODES.get(word) if isinstance(word, str) else None
    if known is None:
        return None, None
    del told.rest()["type"], fields.rest()["tool_choice"]
    parallel = _read_parallel(told)
    return ToolChoice(mode=known.mode, extras=told.rest()), parallel


def _read_parallel(told: Fields) -> bool | None:
    disabled = told.maybe_flag("disable_parallel_tool_use")
    return None if disabled is None else not disabled


def write_choice(request: Request, losses: Losses, *, own: bool) -> Json | None:
    """The `tool_choice`, which also holds the wish for one call at a time."""
    choice, parallel = request.tool_choice, request.parallel_calls
    if not own and not request.tools:
        return None
    if choice is None:
        return {"type": "auto", "disable_parallel_tool_use": True} if parallel is False else None
    written: Json = {"type": _WORDS[choice.mode]}
    if choice.mode == "named":
        written["name"] = choice.name
    elif choice.mode == "allowed":
        losses.add(
            request.path_of("tool_choice"), "Anthropic cannot restrict the choice to some of the tools"
        )
        if choice.allowed_mode == "required":
            written["type"] = "any"
    if own and parallel is not None:
        written["disable_parallel_tool_use"] = not parallel
    elif parallel is False and choice.mode != "none":
        written["disable_parallel_tool_use"] = True
    return add_common(written, None, choice.extras, own=own)
