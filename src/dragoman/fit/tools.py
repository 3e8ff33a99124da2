"""Tools, calls and results: kinds that the target does not know become functions that it can call.

Tools declared inside the conversation move to the tools of the request. Deferred tools are sent at once.
Tools that only their own vendor can run are removed. `names` runs before, so that a text about a tool uses
the name that the model knows.
"""

from operator import is_not
from typing import assert_never

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
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Refusal,
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
from dragoman.hub.request import Message, Request, ToolChoice, find_block_kinds, list_declared_tools
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
    """Declare all tools outside the messages, as kinds that the target knows. Change calls and results."""
    request = _move_declarations(request, target, losses)
    fitted = [
        after for tool in request.tools if (after := _fit_tool(tool, request, target, losses)) is not None
    ]
    fitted = _fit_hosted_tools(fitted, request, target, losses)
    if len(fitted) != len(request.tools) or any(map(is_not, fitted, request.tools)):
        request = replace(request, tools=tuple(fitted))
    return _declare_called_tools(fit_calls(request, target), target)


def _is_known_kind(kind: str, request: Request, target: TargetFacts) -> bool:
    """Whether the target knows tools and calls of this kind."""
    if kind == "custom":
        return target.custom_tools
    if kind in BUILT_IN or kind == "typed":
        return target.client_tools and not is_foreign(request, target)
    return True


def _move_declarations(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Move tools that are declared inside the conversation to `request.tools`.

    Of two with the same name the first is kept.
    """
    if target.deferred_tools and not is_foreign(request, target):
        return request
    declared: dict[ToolKey, Tool] = {}
    unique: list[Tool] = []
    for tool in list_declared_tools(request):
        key = build_tool_key(tool.kind, tool.namespace, tool.name)
        first = declared.setdefault(key, tool) if tool.kind != "hosted" else tool
        if first is tool:
            unique.append(tool)
        elif not _are_equal_tools(first, tool):
            losses.add(tool.at, "another tool of this name was declared before")
    if ToolDeclarations in find_block_kinds(request.messages):
        messages = []
        for message in request.messages:
            blocks = _remove_declarations(message)
            if blocks or not message.blocks:
                messages.append(replace_blocks(message, blocks))
        request = replace_messages(request, messages)
    if len(unique) == len(request.tools) and not any(map(is_not, unique, request.tools)):
        return request
    return replace(request, tools=tuple(unique))


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
    if not _is_known_kind(tool.kind, request, target):
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


def fit_calls(request: Request, target: TargetFacts) -> Request:
    """Change calls, results and references of kinds that the target does not know."""
    keeps_references = target.deferred_tools and not is_foreign(request, target)
    has_only_functions = all(
        block.kind == "function"
        for message in request.messages
        for block in message.blocks
        if type(block) is ToolCall or type(block) is ToolResult
    )

    def edit(block: AnyBlock, message: Message) -> AnyBlock:
        match block:
            case ToolCall() if not _is_known_kind(block.kind, request, target):
                arguments = block.arguments
                if block.kind == "custom":
                    arguments = encode({INPUT: arguments}, blame=ClientProtocolError).decode()
                return replace(block, kind="function", arguments=arguments, form="", extras={})
            case ToolResult() if not _is_known_kind(block.kind, request, target):
                return replace(block, kind="function", form="", extras={})
            case ToolReference() if not keeps_references:
                return Text(text=f"Tool {block.name} is loaded.", at=block.at)
            case ToolCall() | ToolResult() | ToolReference() | ToolDeclarations():
                return block
            case Text() | Refusal() | Reasoning() | Media() | HostedCall() | HostedResult() | Opaque():
                return block
            case _:
                assert_never(block)

    return edit_messages(request, edit, only=frozenset({ToolReference}) if has_only_functions else None)


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
