"""Tool declarations and the choice among them, both ways.

Old clients declare `functions` and choose by `function_call`; they are read as tools and written again as
they were to servers of this dialect.
"""

from typing import Literal

from dragoman.dialects.base import Json
from dragoman.dialects.openai_chat.spelling import NAME, with_inner, without_inner
from dragoman.hub.content import Tool, ToolGrammar
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, ToolChoice
from dragoman.providers.profile import Target
from dragoman.wire.fields import Fields

#: Forms of tools and choices.
LEGACY = "legacy"
UNTYPED = "untyped"

#: OpenAI's names for tools that vendors run, by family.
FAMILY_OF_TYPE = {"web_search": "web_search", "web_search_preview": "web_search"}

EMPTY_SCHEMA: Json = {"type": "object", "properties": {}}


def read_tools(body: Fields) -> tuple[Tool, ...]:
    """All declared tools, in order. Empty lists say nothing and stay where they are."""
    tools: list[Tool] = []
    if body.rest().get("tools") != []:
        tools += [_read_tool(fields) for fields in body.maybe_objects("tools") or ()]
    if body.rest().get("functions") != []:
        tools += [_read_function(fields, fields, LEGACY) for fields in body.maybe_objects("functions") or ()]
    return tuple(tools)


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
        family=FAMILY_OF_TYPE.get(kind, kind),
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
        extras=fields.rest() if form == LEGACY else with_inner(fields.rest(), "function", function.rest()),
    )


def _read_custom(fields: Fields, custom: Fields) -> Tool:
    grammar: ToolGrammar | None = None
    told = custom.rest().get("format")
    if isinstance(told, dict) and told.get("type") == "grammar" and isinstance(told.get("grammar"), dict):
        format_fields = custom.object("format")
        format_fields.raw("type")
        inner = format_fields.object("grammar")
        grammar = ToolGrammar(
            syntax=inner.text("syntax"),
            definition=inner.text("definition"),
            extras=with_inner(format_fields.rest(), "grammar", inner.rest()),
        )
    return Tool(
        name=custom.text("name"),
        kind="custom",
        description=custom.maybe_text("description"),
        grammar=grammar,
        at=fields.path,
        extras=with_inner(fields.rest(), "custom", custom.rest()),
    )


CHOICE_WORDS: dict[str, Literal["auto", "required", "none"]] = {
    "auto": "auto",
    "required": "required",
    "none": "none",
}


def read_choice(body: Fields) -> ToolChoice | None:
    """What the client said about calling. What nobody knows stays where it is."""
    for name, form in (("tool_choice", ""), ("function_call", LEGACY)):
        choice = _choice(body.rest().get(name), form)
        if choice is not None:
            body.raw(name)
            return choice
    return None


def _choice(told: object, form: str) -> ToolChoice | None:
    if isinstance(told, str):
        return ToolChoice(mode=CHOICE_WORDS[told], form=form) if told in CHOICE_WORDS else None
    if not isinstance(told, dict):
        return None
    if form == LEGACY:
        return _named(told, {}, "", form)
    outer = dict(told)
    kind = outer.pop("type", None)
    inner = outer.pop(kind, None) if isinstance(kind, str) else None
    if not isinstance(inner, dict):
        return None
    if kind in ("function", "custom"):
        return _named(inner, outer, kind, form)
    return _allowed(inner, outer) if kind == "allowed_tools" else None


def _named(inner: Json, outer: Json, kind: str, form: str) -> ToolChoice | None:
    rest = dict(inner)
    name = rest.pop("name", None)
    if not isinstance(name, str):
        return None
    extras = with_inner(outer, kind, rest) if kind else rest
    return ToolChoice(mode="named", name=name, kind=kind or "function", form=form, extras=extras)


def _allowed(inner: Json, outer: Json) -> ToolChoice | None:
    rest = dict(inner)
    mode, tools = rest.pop("mode", None), rest.pop("tools", None)
    if mode not in ("auto", "required") or not isinstance(tools, list):
        return None
    names = tuple(name for tool in tools if (name := _allowed_name(tool)))
    if [_function_reference(name) for name in names] != tools:
        # Other kinds than functions are named beside them: the list is kept as it was.
        rest["tools"] = tools
    return ToolChoice(
        mode="allowed",
        allowed=names,
        allowed_mode="required" if mode == "required" else "auto",
        extras=with_inner(outer, "allowed_tools", rest),
    )


def _allowed_name(tool: object) -> str:
    kind = tool.get("type") if isinstance(tool, dict) else None
    inner = tool.get(kind) if isinstance(tool, dict) and isinstance(kind, str) else None
    name = inner.get("name") if isinstance(inner, dict) else None
    return name if isinstance(name, str) else ""


def _function_reference(name: str) -> Json:
    return {"type": "function", "function": {"name": name}}


def write_tools(request: Request, target: Target, losses: Losses) -> Json:
    """The members of a body that speak of tools; none of them without tools, unless the client said so."""
    own = request.dialect == NAME
    tools = [_write_tool(tool, losses, own=own) for tool in request.tools if not own or tool.form != LEGACY]
    functions = [_write_function(tool, own=own) for tool in request.tools if own and tool.form == LEGACY]
    written: Json = {}
    listed = [tool for tool in tools if tool is not None]
    if listed:
        written["tools"] = listed
    if functions:
        written["functions"] = functions
    if not written and not own:
        return {}
    choice = request.tool_choice
    if choice is not None:
        spelled = _write_choice(choice, own=own)
        if spelled is None:
            losses.add(request.path_of("tool_choice"), f"a tool of kind {choice.kind!r} cannot be forced")
        else:
            written["function_call" if own and choice.form == LEGACY else "tool_choice"] = spelled
    if request.parallel_calls is not None:
        written["parallel_tool_calls"] = request.parallel_calls
    return written


def _write_tool(tool: Tool, losses: Losses, *, own: bool) -> Json | None:
    extras = tool.extras if own else {}
    if tool.kind == "function":
        outer, _ = without_inner(extras, "function")
        kind: Json = {} if own and tool.form == UNTYPED else {"type": "function"}
        return {**kind, "function": _write_function(tool, own=own), **outer}
    if tool.kind == "custom":
        outer, inner = without_inner(extras, "custom")
        return {"type": "custom", "custom": {**_write_custom(tool, own=own), **inner}, **outer}
    if own and tool.kind == "hosted":
        return {"type": tool.name, **extras}
    losses.add(tool.at, f"a tool of kind {tool.kind!r} cannot be declared in this dialect")
    return None


def _write_function(tool: Tool, *, own: bool) -> Json:
    """A function. Foreign ones get what strict servers expect: a description and an object's properties."""
    function: Json = {"name": tool.name}
    if own:
        if tool.description is not None:
            function["description"] = tool.description
        if tool.schema is not None:
            function["parameters"] = tool.schema
        if tool.strict is not None:
            function["strict"] = tool.strict
        extras = tool.extras if tool.form == LEGACY else without_inner(tool.extras, "function")[1]
        return {**function, **extras}
    function["description"] = tool.description or ""
    function["parameters"] = _foreign_schema(tool.schema)
    if tool.strict:
        function["strict"] = True
    return function


def _foreign_schema(schema: Json | None) -> Json:
    if not schema:
        return EMPTY_SCHEMA
    schema = {name: value for name, value in schema.items() if name != "$schema"}
    if schema.get("type", "object") == "object":
        schema = {"type": "object", **schema}
        if not isinstance(schema.get("properties"), dict):
            schema["properties"] = {}
    return schema


def _write_custom(tool: Tool, *, own: bool) -> Json:
    custom: Json = {"name": tool.name}
    if tool.description is not None:
        custom["description"] = tool.description
    grammar = tool.grammar
    if grammar is not None:
        outer, inner = without_inner(grammar.extras, "grammar") if own else ({}, {})
        rules: Json = {"syntax": grammar.syntax, "definition": grammar.definition, **inner}
        custom["format"] = {"type": "grammar", "grammar": rules, **outer}
    return custom


def _write_choice(choice: ToolChoice, *, own: bool) -> object:
    extras = choice.extras if own else {}
    if choice.mode == "named":
        if own and choice.form == LEGACY:
            return {"name": choice.name, **extras}
        if choice.kind not in ("function", "custom"):
            return None
        outer, inner = without_inner(extras, choice.kind)
        return {"type": choice.kind, choice.kind: {"name": choice.name, **inner}, **outer}
    if choice.mode == "allowed":
        outer, inner = without_inner(extras, "allowed_tools")
        tools = [_function_reference(name) for name in choice.allowed]
        listed: Json = {"mode": choice.allowed_mode, "tools": tools, **inner}
        return {"type": "allowed_tools", "allowed_tools": listed, **outer}
    return choice.mode
