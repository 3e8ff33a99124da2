"""Reads and writes `tool_choice`."""

from collections.abc import Sequence
from typing import Literal

from dragoman.dialects.openai_responses.tools import HOSTED_OF_FAMILY, find_tool_kind
from dragoman.dialects.openai_responses.vocabulary import CALL_OF_KIND, take_text
from dragoman.hub.content import Extras, Tool
from dragoman.hub.request import ToolChoice
from dragoman.wire.fields import Fields

MODES: tuple[Literal["auto", "none", "required"], ...] = ("auto", "none", "required")
NAMED_TYPES = ("function", "custom")


def read_choice(fields: Fields) -> ToolChoice | None:
    """Read a mode, one tool by name, one hosted tool by type, or a list of allowed tools."""
    value = fields.rest().get("tool_choice")
    if value is None:
        return None
    if isinstance(value, str):
        fields.raw("tool_choice")
        for mode in MODES:
            if value == mode:
                return ToolChoice(mode=mode)
        raise fields.error("expected auto, none, required or an object", "tool_choice")
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
    required = choice.rest().get("mode") == "required"
    choice.maybe_text("mode")
    entries = choice.items("tools")
    names: list[str] = []
    for index, entry in enumerate(entries):
        tool = choice.child(entry, "tools", index).rest()
        name = tool.get("name", tool.get("type"))
        if isinstance(name, str):
            names.append(name)
    return ToolChoice(
        mode="allowed",
        allowed=tuple(names),
        allowed_mode="required" if required else "auto",
        extras={"tools": entries, **choice.rest()},
    )


def write_choice(choice: ToolChoice, tools: Sequence[Tool], *, own: bool) -> object:
    if choice.mode == "allowed":
        return _write_allowed(choice, tools, own=own)
    if choice.mode != "named":
        return choice.mode
    if own:
        written: Extras = {"type": choice.kind}
        if choice.form == "name" or choice.kind in NAMED_TYPES:
            written["name"] = choice.name
        if choice.namespace:
            written["namespace"] = choice.namespace
        return {**written, **choice.extras}
    return _write_tool(choice.name, tools)


def _write_tool(name: str, tools: Sequence[Tool]) -> Extras:
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is not None and tool.kind == "hosted":
        hosted = HOSTED_OF_FAMILY.get(tool.family)
        return {"type": hosted["type"] if hosted else tool.name}
    kind = find_tool_kind(name, tools)
    written: Extras = {"type": kind}
    if not CALL_OF_KIND[kind].name:
        written["name"] = name
    if tool is not None and tool.namespace:
        written["namespace"] = tool.namespace
    return written


def _write_allowed(choice: ToolChoice, tools: Sequence[Tool], *, own: bool) -> Extras:
    mode = {"type": "allowed_tools", "mode": choice.allowed_mode}
    if own and "tools" in choice.extras:
        return {**mode, **choice.extras}
    return {**mode, "tools": [_write_tool(name, tools) for name in choice.allowed]}
