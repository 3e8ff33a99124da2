"""Tools, calls and results of kinds that the target does not know become functions it can call.

Tools declared in the middle of the conversation move to the front, deferred ones are sent at once, and
tools that only their own vendor can run are left out. Names are settled before (`names`), so that a
text about a tool calls it what the model will call it.
"""

from collections.abc import Iterable
from operator import is_not

from dragoman.fit.client_tools import NEEDS_TRAINING, Description, described
from dragoman.fit.editing import (
    calls_of,
    edit_blocks,
    is_foreign,
    kinds_of,
    replace,
    with_blocks,
    with_turns,
)
from dragoman.fit.hosted import hosted
from dragoman.fit.names import BUILT_IN, Key, key_of
from dragoman.hub.content import AnyBlock, Text, Tool, ToolCall, ToolDeclarations, ToolReference, ToolResult
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, ToolChoice, Turn, iter_declared_tools
from dragoman.providers.profile import Target
from dragoman.schema import is_strict_schema
from dragoman.wire.fields import encode

#: The one member of a wrapped free-text tool's arguments.
INPUT = "input"

#: What Claude Code declares so that deferred tools are never none. It cannot be called.
PLACEHOLDER = "DeferredToolPlaceholder"

INPUT_SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {INPUT: {"type": "string", "description": "The whole input of the tool, as plain text."}},
    "required": [INPUT],
    "additionalProperties": False,
}


def tools(request: Request, target: Target, losses: Losses) -> Request:
    request = _declared_in_front(request, target, losses)
    fitted = [
        after for tool in request.tools if (after := _fitted(tool, request, target, losses)) is not None
    ]
    fitted = hosted(fitted, request, target, losses)
    if len(fitted) != len(request.tools) or any(map(is_not, fitted, request.tools)):
        request = replace(request, tools=tuple(fitted))
    return _with_stand_ins(_with_plain_calls(request, target), target)


def takes_kind(kind: str, request: Request, target: Target) -> bool:
    """Whether a tool or call of this kind can stay what it is."""
    if kind == "custom":
        return target.custom_tools
    if kind in BUILT_IN or kind == "typed":
        return target.client_tools and not is_foreign(request, target)
    return True


def _declared_in_front(request: Request, target: Target, losses: Losses) -> Request:
    """All tools at the front, each once: what comes twice is kept where it came first."""
    if target.deferred_tools and not is_foreign(request, target):
        return request
    declared: dict[Key, Tool] = {}
    unique: list[Tool] = []
    for tool in iter_declared_tools(request):
        key = key_of(tool.kind, tool.namespace, tool.name)
        first = declared.setdefault(key, tool) if tool.kind != "hosted" else tool
        if first is tool:
            unique.append(tool)
        elif not _means_the_same(first, tool):
            losses.add(tool.at, "another tool of this name was declared before")
    if ToolDeclarations in kinds_of(request.turns):
        turns = []
        for turn in request.turns:
            blocks = _without_declarations(turn)
            if blocks or not turn.blocks:
                turns.append(with_blocks(turn, blocks))
        request = with_turns(request, turns)
    if len(unique) == len(request.tools) and not any(map(is_not, unique, request.tools)):
        return request
    return replace(request, tools=tuple(unique))


def _means_the_same(one: Tool, other: Tool) -> bool:
    return (one.kind, one.description, one.schema) == (other.kind, other.description, other.schema)


def _without_declarations(turn: Turn) -> tuple[AnyBlock, ...]:
    if not any(type(block) in (ToolDeclarations, ToolResult) for block in turn.blocks):
        return turn.blocks
    after: list[AnyBlock] = []
    changed = False
    for block in turn.blocks:
        if type(block) is ToolDeclarations:
            changed = True
            continue
        if type(block) is ToolResult and any(type(inner) is ToolDeclarations for inner in block.content):
            changed = True
            content = tuple(map(_told, block.content))
            block = replace(block, content=content, form="", extras={})
        after.append(block)
    return tuple(after) if changed else turn.blocks


def _told(block: AnyBlock) -> AnyBlock:
    if not isinstance(block, ToolDeclarations):
        return block
    listed = ", ".join(tool.name for tool in block.tools)
    return Text(text=f"Tools loaded: {listed}." if listed else "No tools were found.", at=block.at)


def _fitted(tool: Tool, request: Request, target: Target, losses: Losses) -> Tool | None:
    if tool.kind == "hosted":
        return tool
    if tool.deferred and not target.deferred_tools:
        if tool.name == PLACEHOLDER:
            return None
        tool = replace(tool, deferred=False)
    if not takes_kind(tool.kind, request, target):
        converted = _as_function(tool)
        if converted is None:
            losses.add(tool.at, f"no other model knows the tool family {tool.family!r}")
            return None
        if tool.family in NEEDS_TRAINING:
            losses.add(tool.at, "only models that were trained on this tool use it well")
        tool = converted
    return _with_settled_flags(tool, request, target, losses)


def _as_function(tool: Tool) -> Tool | None:
    if tool.kind == "custom":
        description = Description(_usage(tool), INPUT_SCHEMA)
    else:
        known = described(tool)
        if known is None:
            return None
        description = known
    return replace(
        tool,
        kind="function",
        description=description.text,
        schema=description.schema,
        strict=None,
        grammar=None,
        family="",
        form="",
        extras={},
    )


def _usage(tool: Tool) -> str:
    paragraphs = [tool.description] if tool.description else []
    paragraphs.append(f"Give the whole input as one string in `{INPUT}`, exactly as the tool expects it.")
    if tool.grammar:
        syntax = f" {tool.grammar.syntax}" if tool.grammar.syntax else ""
        paragraphs.append(f"The input must match this{syntax} grammar:\n{tool.grammar.definition}")
    return "\n\n".join(paragraphs)


def _with_settled_flags(tool: Tool, request: Request, target: Target, losses: Losses) -> Tool:
    """Strictness and description. Strict is never switched on: it would make optional members required."""
    if tool.kind != "function":
        return tool
    foreign = is_foreign(request, target)
    if tool.strict and not (target.strict_tools and (not foreign or is_strict_schema(tool.schema))):
        reason = (
            "the schema leaves too much open" if target.strict_tools else "the target has no strict tools"
        )
        losses.add(f"{tool.at}.strict" if tool.at else "strict", reason)
        tool = replace(tool, strict=None)
    if not foreign:
        return tool
    if tool.strict is False and not target.strict_tools:
        tool = replace(tool, strict=None)
    if tool.strict is None and target.strict_by_default:
        tool = replace(tool, strict=False)
    if not tool.description and (tool.description is None) == target.tool_description_required:
        tool = replace(tool, description="" if target.tool_description_required else None)
    return tool


def _with_plain_calls(request: Request, target: Target) -> Request:
    """Calls, results and references in the history follow their tools."""
    keeps_references = target.deferred_tools and not is_foreign(request, target)
    plain = all(
        block.kind == "function"
        for turn in request.turns
        for block in turn.blocks
        if type(block) is ToolCall or type(block) is ToolResult
    )

    def change(block: AnyBlock, turn: Turn) -> AnyBlock:
        match block:
            case ToolCall() if not takes_kind(block.kind, request, target):
                arguments = block.arguments
                if block.kind == "custom":
                    arguments = encode({INPUT: arguments}, blame=ClientProtocolError).decode()
                return replace(block, kind="function", arguments=arguments, form="", extras={})
            case ToolResult() if not takes_kind(block.kind, request, target):
                return replace(block, kind="function", form="", extras={})
            case ToolReference() if not keeps_references:
                return Text(text=f"Tool {block.name} is loaded.", at=block.at)
            case _:
                return block

    return edit_blocks(request, change, only=frozenset({ToolReference}) if plain else None)


def _with_stand_ins(request: Request, target: Target) -> Request:
    """A history of calls without any tools, as when an agent asks for a summary: declare what was called."""
    if not target.history_needs_tools or request.tools:
        return request
    called = _distinct(call.name for call in calls_of(request.turns))
    if not called:
        return request
    schema: dict[str, object] = {"type": "object", "properties": {}}
    stand_ins = tuple(
        Tool(name=name, description="Not available any more.", schema=schema) for name in called
    )
    return replace(request, tools=stand_ins, tool_choice=ToolChoice(mode="none"))


def _distinct(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))
