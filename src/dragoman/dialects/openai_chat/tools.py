"""Reads and writes tool declarations and the tool choice.

Old clients send `functions` and `function_call`. They are read as tools, and written unchanged to servers of
this dialect. The vendor's web search is no entry of `tools`: the member `web_search_options` declares it.
"""

from typing import Literal

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_chat.names import NAME, add_inner, split_inner
from dragoman.dialects.search_options import LOCATION, take_location, write_location
from dragoman.hub.blocks import Location, SearchOptions, Tool, ToolGrammar
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, ToolChoice
from dragoman.providers.profile import TargetFacts
from dragoman.wire.fields import Fields

#: Forms of tools and choices.
LEGACY = "legacy"
UNTYPED = "untyped"
OPTIONS = "options"

#: OpenAI's names of hosted tools, by common name.
COMMON_NAME_OF_TYPE = {"web_search": "web_search", "web_search_preview": "web_search"}

#: The member that declares the vendor's web search, and the paths of its options.
_SEARCH = "web_search_options"
_CONTEXT_SIZE = "search_context_size"
_SEARCH_PATHS = {"location": LOCATION, "context_size": _CONTEXT_SIZE}

EMPTY_SCHEMA: Json = {"type": "object", "properties": {}}


def read_tools(body: Fields) -> tuple[Tool, ...]:
    """All declared tools in order. Empty lists stay in the extras."""
    tools: list[Tool] = []
    if body.rest().get("tools") != []:
        tools += [_read_tool(fields) for fields in body.maybe_objects("tools") or ()]
    if body.rest().get("functions") != []:
        tools += [_read_function(fields, fields, LEGACY) for fields in body.maybe_objects("functions") or ()]
    if isinstance(body.rest().get(_SEARCH), dict):
        tools.append(_read_search(body.object(_SEARCH)))
    return tuple(tools)


def _read_search(fields: Fields) -> Tool:
    values = fields.rest()
    location = values.get(LOCATION)
    inner = location.get("approximate") if isinstance(location, dict) else None
    # The places are one level deeper here than in other dialects.
    flat: Json = {LOCATION: {"type": "approximate", **inner}} if isinstance(inner, dict) else {}
    found = take_location(flat)
    if found is not None and not flat and location == _write_location(found):
        del values[LOCATION]
    else:
        found = None
    size = values.get(_CONTEXT_SIZE)
    if isinstance(size, str):
        del values[_CONTEXT_SIZE]
    return Tool(
        name="web_search",
        kind="hosted",
        common_name="web_search",
        at=_SEARCH,
        form=OPTIONS,
        search=SearchOptions(
            location=found, context_size=size if isinstance(size, str) else "", paths=_SEARCH_PATHS
        ),
        extras=values,
    )


def _write_location(location: Location) -> Json:
    places = {name: value for name, value in write_location(location).items() if name != "type"}
    return {"type": "approximate", "approximate": places}


def _write_search(tool: Tool, *, same_dialect: bool) -> Json:
    options = tool.search or SearchOptions()
    size: Json = {_CONTEXT_SIZE: options.context_size} if options.context_size else {}
    location: Json = {LOCATION: _write_location(options.location)} if options.location else {}
    return {**size, **location, **(tool.extras if same_dialect else {})}


def _read_tool(fields: Fields) -> Tool:
    kind = fields.maybe_text("type")
    if kind == "function" or (kind is None and fields.has("function")):
        return _read_function(fields, fields.object("function"), "" if kind else UNTYPED)
    if kind == "custom":
        return _read_custom(fields, fields.object("custom"))
    if kind is None:
        raise fields.error("expected a string, got nothing", "type")
    return Tool(
        name=kind,
        kind="hosted",
        common_name=COMMON_NAME_OF_TYPE.get(kind, kind),
        at=fields.path,
        extras=fields.rest(),
    )


def _read_function(fields: Fields, function: Fields, form: str) -> Tool:
    schema = function.maybe_object("parameters")
    return Tool(
        name=function.text("name"),
        description=function.maybe_text("description"),
        schema=schema.rest() if schema is not None else None,
        strict=function.maybe_flag("strict"),
        at=fields.path,
        form=form,
        extras=fields.rest() if form == LEGACY else add_inner(fields.rest(), "function", function.rest()),
    )


def _read_custom(fields: Fields, custom: Fields) -> Tool:
    grammar: ToolGrammar | None = None
    value = custom.rest().get("format")
    if isinstance(value, dict) and value.get("type") == "grammar" and isinstance(value.get("grammar"), dict):
        format_fields = custom.object("format")
        format_fields.raw("type")
        inner = format_fields.object("grammar")
        grammar = ToolGrammar(
            syntax=inner.text("syntax"),
            definition=inner.text("definition"),
            extras=add_inner(format_fields.rest(), "grammar", inner.rest()),
        )
    return Tool(
        name=custom.text("name"),
        kind="custom",
        description=custom.maybe_text("description"),
        grammar=grammar,
        at=fields.path,
        extras=add_inner(fields.rest(), "custom", custom.rest()),
    )


CHOICE_MODES: dict[str, Literal["auto", "required", "none"]] = {
    "auto": "auto",
    "required": "required",
    "none": "none",
}


def read_choice(body: Fields) -> ToolChoice | None:
    """Read the tool choice. An unknown choice stays in the extras."""
    for name, form in (("tool_choice", ""), ("function_call", LEGACY)):
        choice = _read_choice(body.rest().get(name), form)
        if choice is not None:
            body.raw(name)
            return choice
    return None


def _read_choice(value: object, form: str) -> ToolChoice | None:
    if isinstance(value, str):
        return ToolChoice(mode=CHOICE_MODES[value], form=form) if value in CHOICE_MODES else None
    if not isinstance(value, dict):
        return None
    if form == LEGACY:
        return _read_named(value, {}, "", form)
    outer = dict(value)
    kind = outer.pop("type", None)
    inner = outer.pop(kind, None) if isinstance(kind, str) else None
    if not isinstance(inner, dict):
        return None
    if kind in ("function", "custom"):
        return _read_named(inner, outer, kind, form)
    return _read_allowed(inner, outer) if kind == "allowed_tools" else None


def _read_named(inner: Json, outer: Json, kind: str, form: str) -> ToolChoice | None:
    rest = dict(inner)
    name = rest.pop("name", None)
    if not isinstance(name, str):
        return None
    extras = add_inner(outer, kind, rest) if kind else rest
    return ToolChoice(mode="named", name=name, kind=kind or "function", form=form, extras=extras)


def _read_allowed(inner: Json, outer: Json) -> ToolChoice | None:
    rest = dict(inner)
    mode, tools = rest.pop("mode", None), rest.pop("tools", None)
    if mode not in ("auto", "required") or not isinstance(tools, list):
        return None
    names = tuple(name for tool in tools if (name := _read_allowed_name(tool)))
    if [_write_reference(name) for name in names] != tools:
        # The list names other kinds of tools too, so it is kept unchanged.
        rest["tools"] = tools
    return ToolChoice(
        mode="allowed",
        allowed=names,
        allowed_mode="required" if mode == "required" else "auto",
        extras=add_inner(outer, "allowed_tools", rest),
    )


def _read_allowed_name(tool: object) -> str:
    kind = tool.get("type") if isinstance(tool, dict) else None
    inner = tool.get(kind) if isinstance(tool, dict) and isinstance(kind, str) else None
    name = inner.get("name") if isinstance(inner, dict) else None
    return name if isinstance(name, str) else ""


def _write_reference(name: str) -> Json:
    return {"type": "function", "function": {"name": name}}


def write_tools(request: Request, target: TargetFacts, losses: Losses) -> Json:
    """The fields of a body about tools. Without tools there are none, unless the client sent them."""
    same_dialect = request.dialect == NAME
    searches = [tool for tool in request.tools if _is_search(tool, same_dialect=same_dialect)]
    tools = [
        _write_tool(tool, losses, same_dialect=same_dialect)
        for tool in request.tools
        if tool not in searches and (not same_dialect or tool.form != LEGACY)
    ]
    functions = [
        _write_function(tool, same_dialect=same_dialect)
        for tool in request.tools
        if same_dialect and tool.form == LEGACY
    ]
    written: Json = {}
    listed = [tool for tool in tools if tool is not None]
    if listed:
        written["tools"] = listed
    if functions:
        written["functions"] = functions
    if searches:
        written[_SEARCH] = _write_search(searches[0], same_dialect=same_dialect)
    if not written and not same_dialect:
        return {}
    choice = request.tool_choice
    if choice is not None:
        spelled = _write_choice(choice, same_dialect=same_dialect)
        if spelled is None:
            losses.add(request.path_of("tool_choice"), f"a tool of kind {choice.kind!r} cannot be forced")
        else:
            written["function_call" if same_dialect and choice.form == LEGACY else "tool_choice"] = spelled
    if request.parallel_calls is not None:
        written["parallel_tool_calls"] = request.parallel_calls
    return written


def _is_search(tool: Tool, *, same_dialect: bool) -> bool:
    """Whether the tool is the vendor's web search. `fit` keeps a foreign one only if the target has one."""
    is_search = tool.kind == "hosted" and tool.common_name == "web_search"
    return is_search and (tool.form == OPTIONS or not same_dialect)


def _write_tool(tool: Tool, losses: Losses, *, same_dialect: bool) -> Json | None:
    extras = tool.extras if same_dialect else {}
    if tool.kind == "function":
        outer, _ = split_inner(extras, "function")
        kind: Json = {} if same_dialect and tool.form == UNTYPED else {"type": "function"}
        return {**kind, "function": _write_function(tool, same_dialect=same_dialect), **outer}
    if tool.kind == "custom":
        outer, inner = split_inner(extras, "custom")
        return {
            "type": "custom",
            "custom": {**_write_custom(tool, same_dialect=same_dialect), **inner},
            **outer,
        }
    if same_dialect and tool.kind == "hosted":
        return {"type": tool.name, **extras}
    losses.add(tool.at, f"a tool of kind {tool.kind!r} cannot be declared in this dialect")
    return None


def _write_function(tool: Tool, *, same_dialect: bool) -> Json:
    """Write a function. Strict servers require a description and properties; other dialects may omit them."""
    function: Json = {"name": tool.name}
    if same_dialect:
        if tool.description is not None:
            function["description"] = tool.description
        if tool.schema is not None:
            function["parameters"] = tool.schema
        if tool.strict is not None:
            function["strict"] = tool.strict
        extras = tool.extras if tool.form == LEGACY else split_inner(tool.extras, "function")[1]
        return {**function, **extras}
    function["description"] = tool.description or ""
    function["parameters"] = _complete_schema(tool.schema)
    if tool.strict:
        function["strict"] = True
    return function


def _complete_schema(schema: Json | None) -> Json:
    if not schema:
        return EMPTY_SCHEMA
    if next(iter(schema)) == "type" and "$schema" not in schema and type(schema.get("properties")) is dict:
        return schema
    schema = {name: value for name, value in schema.items() if name != "$schema"}
    if schema.get("type", "object") == "object":
        schema = {"type": "object", **schema}
        if not isinstance(schema.get("properties"), dict):
            schema["properties"] = {}
    return schema


def _write_custom(tool: Tool, *, same_dialect: bool) -> Json:
    custom: Json = {"name": tool.name}
    if tool.description is not None:
        custom["description"] = tool.description
    grammar = tool.grammar
    if grammar is not None:
        outer, inner = split_inner(grammar.extras, "grammar") if same_dialect else ({}, {})
        rules: Json = {"syntax": grammar.syntax, "definition": grammar.definition, **inner}
        custom["format"] = {"type": "grammar", "grammar": rules, **outer}
    return custom


def _write_choice(choice: ToolChoice, *, same_dialect: bool) -> object:
    extras = choice.extras if same_dialect else {}
    if choice.mode == "named":
        if same_dialect and choice.form == LEGACY:
            return {"name": choice.name, **extras}
        if choice.kind not in ("function", "custom"):
            return None
        outer, inner = split_inner(extras, choice.kind)
        return {"type": choice.kind, choice.kind: {"name": choice.name, **inner}, **outer}
    if choice.mode == "allowed":
        outer, inner = split_inner(extras, "allowed_tools")
        tools = [_write_reference(name) for name in choice.allowed]
        listed: Json = {"mode": choice.allowed_mode, "tools": tools, **inner}
        return {"type": "allowed_tools", "allowed_tools": listed, **outer}
    return choice.mode
