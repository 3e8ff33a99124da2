"""Reads and writes tool declarations and `tool_choice`.

A namespace becomes one tool per member. The first member keeps (under `NAMESPACE` in its extras) the other
members of the namespace's own object, so that the same list can be written again.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Literal, assert_never

import msgspec

from dragoman.dialects.openai_responses.hosted import read_search, write_search
from dragoman.dialects.openai_responses.names import (
    CALL_OF_KIND,
    drop_none,
    get_object,
    omit,
    take_flag,
    take_text,
)
from dragoman.dialects.search_options import LOCATION
from dragoman.hub.blocks import PRIVATE, Extras, Tool, ToolGrammar, ToolKind
from dragoman.hub.loss import Losses
from dragoman.hub.request import ToolChoice
from dragoman.wire.fields import Fields

NAMESPACE = PRIVATE + "namespace"
_PRIVATE_EXTRAS = frozenset({NAMESPACE, PRIVATE + LOCATION})

#: The common name of each type of hosted tool that has another name in other dialects or versions.
COMMON_NAME_OF_TYPE: dict[str, str] = {
    "web_search": "web_search",
    "web_search_2025_08_26": "web_search",
    "web_search_preview": "web_search",
    "web_search_preview_2025_03_11": "web_search",
    "file_search": "file_search",
    "code_interpreter": "code_execution",
    "image_generation": "image_generation",
    "computer": "computer",
    "computer_use": "computer",
    "computer_use_preview": "computer",
    "mcp": "mcp",
}

#: Hosted tools that need no settings, so that clients of other dialects can use them.
HOSTED_BY_COMMON_NAME: dict[str, Extras] = {
    "web_search": {"type": "web_search"},
    "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
    "image_generation": {"type": "image_generation"},
}

EMPTY_SCHEMA: Extras = {"type": "object", "properties": {}}

_MODES: dict[str, Literal["auto", "none", "required"]] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
}
#: Types of a choice that must name the tool.
NAMED_TYPES = ("function", "custom")


# Reading declarations


def read_tools(fields: Fields, name: str) -> tuple[Tool, ...]:
    """Take the tools of an array. An empty array stays in the object."""
    entries = fields.maybe_objects(name)
    if entries is None:
        return ()
    if not entries:
        fields.rest()[name] = []
    return tuple(tool for entry in entries for tool in _read_entry(entry))


def require_tools(fields: Fields) -> tuple[Tool, ...]:
    """Take the tools of an item that must have the member `tools`."""
    if not fields.has("tools"):
        raise fields.error("expected an array, got nothing", "tools")
    return read_tools(fields, "tools")


def _read_entry(fields: Fields) -> list[Tool]:
    tool_type = fields.text("type")
    if tool_type != "namespace":
        return [_read_tool(fields, tool_type)]
    name = fields.text("name")
    if not name:
        raise fields.error("expected a name", "name")
    members = fields.objects("tools")
    about = {"name": name, **fields.rest()}
    if not members:
        # There is nothing to call, but the list must be written as it was received.
        at = fields.path
        return [
            Tool(name=name, kind="hosted", common_name="namespace", form="namespace", at=at, extras=about)
        ]
    tools = [_read_tool(member, member.text("type")) for member in members]
    tools = [msgspec.structs.replace(tool, namespace=name) for tool in tools]
    tools[0] = msgspec.structs.replace(tools[0], extras={**tools[0].extras, NAMESPACE: about})
    return tools


def _read_tool(fields: Fields, tool_type: str) -> Tool:
    reader = _READERS.get(tool_type)
    if reader is not None:
        return reader(fields)
    # The vendor runs every tool of another type.
    common_name = COMMON_NAME_OF_TYPE.get(tool_type, tool_type)
    return Tool(
        name=tool_type,
        kind="hosted",
        common_name=common_name,
        search=read_search(fields.rest()) if common_name == "web_search" else None,
        form=tool_type,
        at=fields.path,
        extras=fields.rest(),
    )


def _read_schema(fields: Fields) -> Extras | None:
    parameters = fields.maybe_object("parameters")
    return None if parameters is None else parameters.rest()


def _read_function(fields: Fields) -> Tool:
    return Tool(
        name=fields.text("name"),
        description=fields.maybe_text("description"),
        schema=_read_schema(fields),
        strict=fields.maybe_flag("strict"),
        deferred=take_flag(fields, "defer_loading"),
        at=fields.path,
        extras=fields.rest(),
    )


def _read_custom(fields: Fields) -> Tool:
    grammar = None
    form = ""
    layout = fields.maybe_object("format")
    if layout is not None:
        form = layout.text("type")
        if form == "grammar":
            grammar = ToolGrammar(
                syntax=layout.text("syntax"), definition=layout.text("definition"), extras=layout.rest()
            )
        elif layout.rest() or not form:
            fields.rest()["format"] = {"type": form, **layout.rest()}
    return Tool(
        name=fields.text("name"),
        kind="custom",
        description=fields.maybe_text("description"),
        grammar=grammar,
        deferred=take_flag(fields, "defer_loading"),
        form=form,
        at=fields.path,
        extras=fields.rest(),
    )


def _read_tool_search(fields: Fields) -> Tool:
    kind: ToolKind = "hosted"
    if fields.rest().get("execution") == "client":
        fields.raw("execution")
        kind = "tool_search"
    return Tool(
        name="tool_search",
        kind=kind,
        common_name="tool_search",
        description=fields.maybe_text("description"),
        schema=_read_schema(fields),
        form="tool_search",
        at=fields.path,
        extras=fields.rest(),
    )


def _read_shell(fields: Fields) -> Tool:
    """The client runs the shell, unless the declaration names a container of the vendor."""
    environment = fields.rest().get("environment")
    where = environment.get("type") if isinstance(environment, dict) else "local"
    kind: ToolKind = "shell" if where == "local" else "hosted"
    return Tool(
        name="shell", kind=kind, common_name="shell", form="shell", at=fields.path, extras=fields.rest()
    )


def _read_client_tool(fields: Fields, kind: ToolKind) -> Tool:
    return Tool(name=kind, kind=kind, at=fields.path, extras=fields.rest())


_READERS: dict[str, Callable[[Fields], Tool]] = {
    "function": _read_function,
    "custom": _read_custom,
    "tool_search": _read_tool_search,
    "shell": _read_shell,
    "local_shell": partial(_read_client_tool, kind="local_shell"),
    "apply_patch": partial(_read_client_tool, kind="apply_patch"),
}


# Writing declarations


def write_tools(tools: Iterable[Tool], losses: Losses, *, same_dialect: bool) -> list[Extras]:
    """The array of declarations. Neighbours of the same namespace become one entry."""
    entries: list[Extras] = []
    functions: list[Extras] = []
    namespace = ""
    for tool in tools:
        written = _write_tool(tool, losses, same_dialect=same_dialect)
        if written is None:
            continue
        if not tool.namespace:
            entries.append(written)
        elif tool.namespace == namespace and not (same_dialect and NAMESPACE in tool.extras):
            functions.append(written)
        else:
            functions = [written]
            entries.append(_write_namespace(tool, functions, same_dialect=same_dialect))
        namespace = tool.namespace
    return entries


def _write_namespace(first: Tool, functions: list[Extras], *, same_dialect: bool) -> Extras:
    about = get_object(first.extras, NAMESPACE) if same_dialect else {}
    about = about or {"name": first.namespace, "description": ""}
    return {"type": "namespace", **about, "name": first.namespace, "tools": functions}


def _write_tool(tool: Tool, losses: Losses, *, same_dialect: bool) -> Extras | None:
    entry: Extras | None
    match tool.kind:
        case "function":
            entry = _write_function(tool, same_dialect=same_dialect)
        case "custom":
            entry = _write_custom(tool, same_dialect=same_dialect)
        case "tool_search":
            entry = {"type": tool.kind, "execution": "client", **_write_details(tool)}
        case "local_shell" | "shell" | "apply_patch":
            entry = {"type": tool.kind}
        case "typed" | "hosted":
            entry = _write_hosted(tool, same_dialect=same_dialect)
        case _:
            assert_never(tool.kind)
    if entry is None:
        losses.add(tool.at, f"OpenAI Responses has no {tool.common_name or tool.kind} tool")
        return None
    if same_dialect:
        entry |= omit(tool.extras, _PRIVATE_EXTRAS)
    return entry | write_search(tool, same_dialect=same_dialect)


def _write_details(tool: Tool) -> Extras:
    """The description and the schema, as far as the tool has them."""
    return drop_none({"description": tool.description, "parameters": tool.schema})


def _write_function(tool: Tool, *, same_dialect: bool) -> Extras:
    entry: Extras = {"type": "function", "name": tool.name, **_write_details(tool)}
    if not same_dialect:
        entry.setdefault("parameters", EMPTY_SCHEMA)
    if tool.strict is not None or not same_dialect:
        # OpenAI's default is true.
        entry["strict"] = bool(tool.strict)
    if tool.deferred:
        entry["defer_loading"] = True
    return entry


def _write_custom(tool: Tool, *, same_dialect: bool) -> Extras:
    entry: Extras = {"type": "custom", "name": tool.name}
    if tool.description is not None:
        entry["description"] = tool.description
    if tool.grammar is not None:
        entry["format"] = {
            "type": "grammar",
            "syntax": tool.grammar.syntax,
            "definition": tool.grammar.definition,
            **(tool.grammar.extras if same_dialect else {}),
        }
    elif same_dialect and tool.form:
        entry["format"] = {"type": tool.form}
    if tool.deferred:
        entry["defer_loading"] = True
    return entry


def _write_hosted(tool: Tool, *, same_dialect: bool) -> Extras | None:
    if not same_dialect:
        known = HOSTED_BY_COMMON_NAME.get(tool.common_name)
        return None if known is None else dict(known)
    entry: Extras = {"type": tool.form or tool.name}
    if tool.form == "namespace":
        entry["tools"] = []
    return entry | _write_details(tool)


# The choice


def read_choice(fields: Fields) -> ToolChoice | None:
    """Take `tool_choice`: a mode, a tool by name, a hosted tool by type, or an array of allowed tools."""
    value = fields.rest().get("tool_choice")
    if value is None:
        return None
    if isinstance(value, str):
        if value not in _MODES:
            raise fields.error("expected auto, none, required or an object", "tool_choice")
        fields.raw("tool_choice")
        return ToolChoice(mode=_MODES[value])
    choice = fields.object("tool_choice")
    choice_type = choice.text("type")
    if choice_type == "allowed_tools":
        return _read_allowed(choice)
    name = choice.text("name") if choice_type in NAMED_TYPES else choice.maybe_text("name")
    return ToolChoice(
        mode="named",
        kind=choice_type,
        name=choice_type if name is None else name,
        namespace=take_text(choice, "namespace"),
        form="" if name is None else "name",
        extras=choice.rest(),
    )


def _read_allowed(choice: Fields) -> ToolChoice:
    is_required = choice.maybe_text("mode") == "required"
    entries = choice.items("tools")
    tools = [entry.rest() for entry in choice.children(entries, "tools")]
    names = [tool.get("name", tool.get("type")) for tool in tools]
    return ToolChoice(
        mode="allowed",
        allowed=tuple(name for name in names if isinstance(name, str)),
        allowed_mode="required" if is_required else "auto",
        extras={"tools": entries, **choice.rest()},
    )


def write_choice(choice: ToolChoice, tools: Sequence[Tool], *, same_dialect: bool) -> object:
    """The value of `tool_choice`: a mode, or an object that names tools."""
    if choice.mode == "allowed":
        return _write_allowed(choice, tools, same_dialect=same_dialect)
    if choice.mode != "named":
        return choice.mode
    if not same_dialect:
        return _write_named(choice.name, tools)
    written: Extras = {"type": choice.kind}
    if choice.form == "name" or choice.kind in NAMED_TYPES:
        written["name"] = choice.name
    if choice.namespace:
        written["namespace"] = choice.namespace
    return {**written, **choice.extras}


def _write_named(name: str, tools: Sequence[Tool]) -> Extras:
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None:
        return {"type": "function", "name": name}
    if tool.kind == "hosted":
        return {"type": HOSTED_BY_COMMON_NAME.get(tool.common_name, {}).get("type", tool.name)}
    call = CALL_OF_KIND.get(tool.kind, CALL_OF_KIND["function"])
    written: Extras = {"type": call.kind}
    if not call.name:
        written["name"] = name
    if tool.namespace:
        written["namespace"] = tool.namespace
    return written


def _write_allowed(choice: ToolChoice, tools: Sequence[Tool], *, same_dialect: bool) -> Extras:
    written: Extras = {"type": "allowed_tools", "mode": choice.allowed_mode}
    if same_dialect and "tools" in choice.extras:
        return {**written, **choice.extras}
    return {**written, "tools": [_write_named(name, tools) for name in choice.allowed]}
