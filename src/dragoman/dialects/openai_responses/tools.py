"""Reads and writes tool declarations.

A namespace becomes one tool per member. The first member keeps the fields of the namespace (under
`NAMESPACE` in its extras), so that the same list can be written again.
"""

from collections.abc import Callable, Iterable

import msgspec

from dragoman.dialects.openai_responses.search import read_search, write_search
from dragoman.dialects.openai_responses.vocabulary import CALL_OF_KIND, take_flag
from dragoman.dialects.search_options import LOCATION, NOTE
from dragoman.hub.content import Extras, Tool, ToolGrammar, ToolKind
from dragoman.hub.loss import Losses
from dragoman.wire.fields import Fields

NAMESPACE = NOTE + "namespace"
NOTES = frozenset({NAMESPACE, NOTE + LOCATION})

FAMILY_OF_TYPE: dict[str, str] = {
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

#: Hosted tools that need no options, for clients of other dialects.
HOSTED_OF_FAMILY: dict[str, Extras] = {
    "web_search": {"type": "web_search"},
    "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
    "image_generation": {"type": "image_generation"},
}

EMPTY_SCHEMA: Extras = {"type": "object", "properties": {}}


def read_tools(fields: Fields, name: str) -> tuple[Tool, ...]:
    """Read a list of tools. An empty or missing list stays in the extras."""
    entries = fields.maybe_objects(name)
    if entries is None:
        return ()
    if not entries:
        fields.rest()[name] = []
    return tuple(tool for entry in entries for tool in _read_entry(entry))


def read_required_tools(fields: Fields) -> tuple[Tool, ...]:
    """Read the tools of an item that must have some."""
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
    at = fields.path
    members = fields.objects("tools")
    about = {"name": name, **fields.rest()}
    if not members:
        # There is nothing to call, but the same list must be written again.
        return [Tool(name=name, kind="hosted", family="namespace", form="namespace", at=at, extras=about)]
    tools = [_read_tool(member, member.text("type")) for member in members]
    tools = [msgspec.structs.replace(tool, namespace=name) for tool in tools]
    tools[0] = msgspec.structs.replace(tools[0], extras={**tools[0].extras, NAMESPACE: about})
    return tools


def _read_tool(fields: Fields, tool_type: str) -> Tool:
    reader = READERS.get(tool_type)
    if reader is not None:
        return reader(fields)
    # OpenAI runs all tools of other types; the types above are those that the client runs.
    family = FAMILY_OF_TYPE.get(tool_type, tool_type)
    return Tool(
        name=tool_type,
        kind="hosted",
        family=family,
        search=read_search(fields.rest()) if family == "web_search" else None,
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
        family="tool_search",
        description=fields.maybe_text("description"),
        schema=_read_schema(fields),
        form="tool_search",
        at=fields.path,
        extras=fields.rest(),
    )


def _read_shell(fields: Fields) -> Tool:
    """Read a shell. The client runs it unless it names a container of OpenAI."""
    environment = fields.rest().get("environment")
    where = environment.get("type") if isinstance(environment, dict) else "local"
    kind: ToolKind = "shell" if where == "local" else "hosted"
    return Tool(name="shell", kind=kind, family="shell", form="shell", at=fields.path, extras=fields.rest())


def _read_local_shell(fields: Fields) -> Tool:
    return Tool(name="local_shell", kind="local_shell", at=fields.path, extras=fields.rest())


def _read_apply_patch(fields: Fields) -> Tool:
    return Tool(name="apply_patch", kind="apply_patch", at=fields.path, extras=fields.rest())


READERS: dict[str, Callable[[Fields], Tool]] = {
    "function": _read_function,
    "custom": _read_custom,
    "tool_search": _read_tool_search,
    "shell": _read_shell,
    "local_shell": _read_local_shell,
    "apply_patch": _read_apply_patch,
}


def write_tools(tools: Iterable[Tool], losses: Losses, *, own: bool) -> list[Extras]:
    """Write the list of declarations, with the tools of one namespace together."""
    entries: list[Extras] = []
    members: list[Extras] = []
    namespace = ""
    for tool in tools:
        written = _write_tool(tool, losses, own=own)
        if written is None:
            continue
        if not tool.namespace:
            entries.append(written)
        elif tool.namespace == namespace and not (own and NAMESPACE in tool.extras):
            members.append(written)
        else:
            members = [written]
            entries.append(_write_namespace(tool, members, own=own))
        namespace = tool.namespace
    return entries


def _write_namespace(first: Tool, members: list[Extras], *, own: bool) -> Extras:
    about = first.extras.get(NAMESPACE) if own else None
    namespace_json: Extras = (
        about if isinstance(about, dict) else {"name": first.namespace, "description": ""}
    )
    return {"type": "namespace", **namespace_json, "name": first.namespace, "tools": members}


def _write_tool(tool: Tool, losses: Losses, *, own: bool) -> Extras | None:
    entry: Extras | None
    match tool.kind:
        case "function":
            entry = _write_function(tool, own=own)
        case "custom":
            entry = _write_custom(tool, own=own)
        case "tool_search" | "local_shell" | "shell" | "apply_patch":
            entry = _write_client_tool(tool, own=own)
        case _:
            entry = _write_hosted(tool, own=own)
    if entry is None:
        losses.add(tool.at, f"OpenAI Responses has no {tool.family or tool.kind} tool")
        return None
    if own:
        entry |= {name: value for name, value in tool.extras.items() if name not in NOTES}
    return entry | write_search(tool, own=own)


def _write_function(tool: Tool, *, own: bool) -> Extras:
    entry: Extras = {"type": "function", "name": tool.name}
    if tool.description is not None:
        entry["description"] = tool.description
    if tool.schema is not None or not own:
        entry["parameters"] = EMPTY_SCHEMA if tool.schema is None else tool.schema
    if tool.strict is not None or not own:
        # Its default is true.
        entry["strict"] = bool(tool.strict)
    if tool.deferred:
        entry["defer_loading"] = True
    return entry


def _write_custom(tool: Tool, *, own: bool) -> Extras:
    entry: Extras = {"type": "custom", "name": tool.name}
    if tool.description is not None:
        entry["description"] = tool.description
    if tool.grammar is not None:
        entry["format"] = {
            "type": "grammar",
            "syntax": tool.grammar.syntax,
            "definition": tool.grammar.definition,
            **(tool.grammar.extras if own else {}),
        }
    elif own and tool.form:
        entry["format"] = {"type": tool.form}
    if tool.deferred:
        entry["defer_loading"] = True
    return entry


def _write_client_tool(tool: Tool, *, own: bool) -> Extras:
    entry: Extras = {"type": tool.kind}
    if tool.kind == "tool_search":
        entry["execution"] = "client"
        if tool.description is not None:
            entry["description"] = tool.description
        if tool.schema is not None:
            entry["parameters"] = tool.schema
    return entry


def _write_hosted(tool: Tool, *, own: bool) -> Extras | None:
    if not own:
        known = HOSTED_OF_FAMILY.get(tool.family)
        return None if known is None else dict(known)
    entry: Extras = {"type": tool.form or tool.name}
    if tool.form == "namespace":
        entry["tools"] = []
    if tool.description is not None:
        entry["description"] = tool.description
    if tool.schema is not None:
        entry["parameters"] = tool.schema
    return entry


def find_tool_kind(name: str, tools: Iterable[Tool]) -> str:
    """The type of a named tool in a choice."""
    found = next((tool for tool in tools if tool.name == name), None)
    if found is None or found.kind not in CALL_OF_KIND:
        return "function"
    return found.kind
