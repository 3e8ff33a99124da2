"""Tools, calls and results: kinds that the target does not know become functions that it can call.

Tools declared inside the conversation move to the tools of the request. Deferred tools are sent at once.
Tools that only their own vendor can run are removed. `names` runs before, so that a text about a tool uses
the name that the model knows.
"""

from collections.abc import Sequence
from operator import is_not

from dragoman.fit.client_tools import INPUT, INPUT_SCHEMA, NEEDS_TRAINING, ToolDescription, describe
from dragoman.fit.editing import (
    edit_messages,
    is_foreign,
    iter_calls,
    replace,
    replace_blocks,
    replace_messages,
)
from dragoman.fit.names import BUILT_IN, ToolKey, build_tool_key
from dragoman.fit.vendor_fields import BOOKKEEPING, report_extras
from dragoman.hub.blocks import (
    AnyBlock,
    SearchOptions,
    Text,
    Tool,
    ToolCall,
    ToolDeclarations,
    ToolReference,
    ToolResult,
)
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request, ToolChoice, list_blocks, list_declared_tools
from dragoman.providers.facts import SEARCH_OPTIONS
from dragoman.providers.profile import TargetFacts
from dragoman.schema import make_strict
from dragoman.wire.fields import encode

#: Claude Code declares this tool so that there is always a deferred one. It cannot be called.
PLACEHOLDER = "DeferredToolPlaceholder"

#: Settings of hosted tools that equal their default: without them nothing is lost.
HOSTED_DEFAULTS: dict[str, tuple[object, ...]] = {
    "context_size": ("medium",),
    "live": (True,),
    "container": ("auto", {"type": "auto"}),
}

_NO_OPTIONS = SearchOptions()


def fit_tools(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Declare each tool once, as a kind that the target knows."""
    fitted = [
        after
        for tool in _drop_repeated(request, target, losses)
        if (after := _fit_tool(tool, request, target, losses)) is not None
    ]
    fitted = _fit_hosted_tools(fitted, request, target, losses)
    if len(fitted) != len(request.tools) or any(map(is_not, fitted, request.tools)):
        request = replace(request, tools=tuple(fitted))
    return _declare_called_tools(request, target)


def _is_known_kind(kind: str, request: Request, target: TargetFacts) -> bool:
    """Whether the target knows tools and calls of this kind."""
    if kind == "custom":
        return target.custom_tools
    if kind in BUILT_IN or kind == "typed":
        return target.client_tools and not is_foreign(request, target)
    return True


def _keeps_declarations(request: Request, target: TargetFacts) -> bool:
    """Whether tools may be declared inside the conversation, as the client does it."""
    return target.deferred_tools and not is_foreign(request, target)


def move_declarations(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Move tools that are declared inside the conversation to `request.tools`."""
    if _keeps_declarations(request, target):
        return request
    tools = list_declared_tools(request)
    messages = []
    for message in request.messages:
        blocks = _remove_declarations(message)
        if blocks or not message.blocks:
            messages.append(replace_blocks(message, blocks))
    request = replace_messages(request, messages)
    return request if len(tools) == len(request.tools) else replace(request, tools=tools)


def _drop_repeated(request: Request, target: TargetFacts, losses: Losses) -> Sequence[Tool]:
    """The tools, of two with the same name the first."""
    if _keeps_declarations(request, target):
        return request.tools
    declared: dict[ToolKey, Tool] = {}
    unique: list[Tool] = []
    for tool in request.tools:
        key = build_tool_key(tool.kind, tool.namespace, tool.name)
        first = declared.setdefault(key, tool) if tool.kind != "hosted" else tool
        if first is tool:
            unique.append(tool)
        elif not _are_equal_tools(first, tool):
            losses.add(tool.at, "another tool of this name was declared before")
    return unique


def _are_equal_tools(one: Tool, other: Tool) -> bool:
    return (one.kind, one.description, one.schema) == (other.kind, other.description, other.schema)


def _remove_declarations(message: Message) -> tuple[AnyBlock, ...]:
    """The blocks of a message without declarations; inside a result a text names the tools instead."""
    if not any(type(block) in (ToolDeclarations, ToolResult) for block in message.blocks):
        return message.blocks
    after: list[AnyBlock] = []
    changed = False
    for block in message.blocks:
        if type(block) is ToolDeclarations:
            changed = True
            continue
        if type(block) is ToolResult and any(type(inner) is ToolDeclarations for inner in block.content):
            changed = True
            content = tuple(map(_name_loaded_tools, block.content))
            block = replace(block, content=content, form="", extras={})
        after.append(block)
    return tuple(after) if changed else message.blocks


def _name_loaded_tools(block: AnyBlock) -> AnyBlock:
    if not isinstance(block, ToolDeclarations):
        return block
    listed = ", ".join(tool.name for tool in block.tools)
    return Text(text=f"Tools loaded: {listed}." if listed else "No tools were found.", at=block.at)


def _fit_tool(tool: Tool, request: Request, target: TargetFacts, losses: Losses) -> Tool | None:
    if tool.kind == "hosted":
        return tool
    if tool.deferred and not target.deferred_tools:
        if tool.name == PLACEHOLDER:
            return None
        tool = replace(tool, deferred=False)
    if tool.kind != "function" and not _is_known_kind(tool.kind, request, target):
        converted = _convert_to_function(tool)
        if converted is None:
            losses.add(tool.at, f"no other model knows the tool {tool.common_name!r}")
            return None
        if tool.common_name in NEEDS_TRAINING:
            losses.add(tool.at, "only models that were trained on this tool use it well")
        tool = converted
    return _fit_flags(tool, request, target, losses)


def _convert_to_function(tool: Tool) -> Tool | None:
    """The tool as a function; None if there is no description for models that do not know it."""
    is_free_text = tool.kind == "custom"
    description = ToolDescription(_describe_input(tool), INPUT_SCHEMA) if is_free_text else describe(tool)
    if description is None:
        return None
    return replace(
        tool,
        kind="function",
        description=description.text,
        schema=description.schema,
        strict=None,
        grammar=None,
        common_name="",
        form="",
        extras={},
    )


def _describe_input(tool: Tool) -> str:
    """The description of a free-text tool as a function, with the grammar of its input."""
    paragraphs = [tool.description] if tool.description else []
    paragraphs.append(f"Give the whole input as one string in `{INPUT}`, exactly as the tool expects it.")
    if tool.grammar:
        syntax = f" {tool.grammar.syntax}" if tool.grammar.syntax else ""
        paragraphs.append(f"The input must match this{syntax} grammar:\n{tool.grammar.definition}")
    return "\n\n".join(paragraphs)


def _fit_strict(tool: Tool, target: TargetFacts, losses: Losses) -> Tool:
    """A strict tool with a schema that strict modes accept; otherwise a tool that is not strict."""
    strict = make_strict(tool.schema) if target.strict_tools else None
    if strict is not None:
        return tool if strict is tool.schema else replace(tool, schema=strict)
    reason = "the schema leaves too much open" if target.strict_tools else "the target has no strict tools"
    losses.add(f"{tool.at}.strict" if tool.at else "strict", reason)
    return replace(tool, strict=None)


def _fit_flags(tool: Tool, request: Request, target: TargetFacts, losses: Losses) -> Tool:
    """Fit `strict` and `description`. Strict is never switched on: it makes optional members required."""
    if tool.kind != "function":
        return tool
    foreign = is_foreign(request, target)
    if tool.strict and (foreign or not target.strict_tools):
        tool = _fit_strict(tool, target, losses)
    if not foreign:
        return tool
    if tool.strict is False and not target.strict_tools:
        tool = replace(tool, strict=None)
    if tool.strict is None and target.strict_by_default:
        tool = replace(tool, strict=False)
    if not tool.description and (tool.description is None) == target.tool_description_required:
        tool = replace(tool, description="" if target.tool_description_required else None)
    return tool


def fit_calls(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Write calls and results of kinds that the target does not know as those of functions."""
    kinds = {
        block.kind
        for block in list_blocks(request.messages)
        if type(block) is ToolCall or type(block) is ToolResult
    }
    unknown = {kind for kind in kinds if not _is_known_kind(kind, request, target)}
    if not unknown:
        return request

    def edit(block: AnyBlock, message: Message) -> AnyBlock:
        if type(block) is ToolCall and block.kind in unknown:
            arguments = block.arguments
            if block.kind == "custom":
                arguments = encode({INPUT: arguments}, error_class=ClientProtocolError).decode()
            return replace(block, kind="function", arguments=arguments, form="", extras={})
        if type(block) is ToolResult and block.kind in unknown:
            return replace(block, kind="function", form="", extras={})
        return block

    return edit_messages(request, edit, inside_results=False)


def fit_references(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Write references to loaded tools as text, where all tools are declared outside the messages."""
    if _keeps_declarations(request, target):
        return request

    def edit(block: AnyBlock, message: Message) -> AnyBlock:
        if type(block) is not ToolReference:
            return block
        return Text(text=f"Tool {block.name} is loaded.", at=block.at)

    return edit_messages(request, edit)


def _declare_called_tools(request: Request, target: TargetFacts) -> Request:
    """Declare the tools of the calls in the history if the request declares none.

    Agents send such requests when they ask for a summary; some targets refuse calls without tools.
    """
    if not target.history_needs_tools or request.tools:
        return request
    called = dict.fromkeys(call.name for call in iter_calls(request.messages))
    if not called:
        return request
    schema: dict[str, object] = {"type": "object", "properties": {}}
    substitutes = tuple(
        Tool(name=name, description="Not available any more.", schema=schema) for name in called
    )
    return replace(request, tools=substitutes, tool_choice=ToolChoice(mode="none"))


def _fit_hosted_tools(tools: list[Tool], request: Request, target: TargetFacts, losses: Losses) -> list[Tool]:
    """Keep the hosted tools that the target runs too, with the settings that it knows."""
    kept: list[Tool] = []
    # If the target refuses both together, the functions stay: the client waits for their calls.
    has_functions = any(tool.kind != "hosted" for tool in tools)
    for tool in tools:
        if tool.kind != "hosted":
            kept.append(tool)
            continue
        common_name = tool.common_name or tool.name
        if target.hosted_tools is not None and common_name not in target.hosted_tools:
            losses.add(tool.at, f"the target does not run the tool {common_name!r} itself")
        elif has_functions and not target.hosted_beside_functions:
            losses.add(tool.at, f"the target does not run the tool {common_name!r} beside functions")
        else:
            kept.append(_fit_hosted_tool(tool, request, target, losses))
    return kept


def _fit_hosted_tool(tool: Tool, request: Request, target: TargetFacts, losses: Losses) -> Tool:
    if is_foreign(request, target):
        defaults = {name for name, value in tool.extras.items() if value in HOSTED_DEFAULTS.get(name, ())}
        report_extras(tool.at, tool.extras, losses, BOOKKEEPING | defaults)
    return _fit_search_options(tool, target, losses)


def _fit_search_options(tool: Tool, target: TargetFacts, losses: Losses) -> Tool:
    """Remove the search options that the target's tool does not have."""
    options = tool.search
    if options is None:
        return tool
    unknown: dict[str, object] = {}
    for name in sorted(SEARCH_OPTIONS - target.search_options):
        value, default = getattr(options, name), getattr(_NO_OPTIONS, name)
        if value == default:
            continue
        unknown[name] = default
        if value not in HOSTED_DEFAULTS.get(name, ()):
            path = options.paths.get(name, name)
            losses.add(f"{tool.at}.{path}", f"the target's own {tool.common_name} has no such option")
    return replace(tool, search=replace(options, **unknown)) if unknown else tool
