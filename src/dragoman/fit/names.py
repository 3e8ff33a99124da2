"""Tool names that the target takes, and the way back to the names that the client knows.

The map is a pure function of the client's request and the target: the way out and the way back compute
it alike, so nothing has to be remembered in between. No two of the client's tools share a name.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from dragoman.fit.editing import Change, calls_of, edit_blocks, is_foreign, replace
from dragoman.hub.content import (
    AnyBlock,
    CallKind,
    Tool,
    ToolCall,
    ToolDeclarations,
    ToolKind,
    ToolReference,
    ToolResult,
)
from dragoman.hub.errors import ConfigError
from dragoman.hub.ids import digest
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, ToolChoice, Turn, iter_declared_tools
from dragoman.providers.profile import Target

#: OpenAI's own client-run tools: they go by their kind, whatever name they carry.
BUILT_IN: frozenset[str] = frozenset({"tool_search", "local_shell", "shell", "apply_patch"})

#: The kind of a call, by the kind of its tool.
KIND_OF_CALL: dict[ToolKind, CallKind] = {
    "function": "function",
    "custom": "custom",
    "tool_search": "tool_search",
    "local_shell": "local_shell",
    "shell": "shell",
    "apply_patch": "apply_patch",
    "typed": "function",
    "hosted": "function",
}

HASH_LENGTH = 8
MAX_ATTEMPTS = 100
_MCP = "mcp__"


class Known(msgspec.Struct, frozen=True):
    """A tool as the client knows it."""

    name: str
    namespace: str = ""
    kind: CallKind = "function"


#: What tells two of the client's tools apart: a built-in kind, or the namespace and the name.
Key = tuple[str, str, str]

#: A name at the target, with its namespace where the target has namespaces.
WireName = tuple[str, str]


class NameMap:
    """The names of one request at one target; `known` leads back to the client's."""

    __slots__ = ("_homes", "_wire", "changes", "known")

    def __init__(
        self, tools: dict[Key, Known], wire: dict[Key, WireName], homes: dict[str, set[str]]
    ) -> None:
        self._wire = wire
        self._homes = homes
        self.known = {wire[key]: known for key, known in tools.items()}
        self.changes = any(
            (known.namespace, known.name) != wire_name for wire_name, known in self.known.items()
        )

    def of(self, kind: str, namespace: str, name: str) -> WireName:
        homes = self._homes.get(name, ())
        if not namespace and kind not in BUILT_IN and len(homes) == 1:
            (namespace,) = homes  # a reference may leave the namespace out
        return self._wire.get(key_of(kind, namespace, name), (namespace, name))


def key_of(kind: str, namespace: str, name: str) -> Key:
    return (kind, "", kind) if kind in BUILT_IN else ("", namespace, name)


def name_map(request: Request, target: Target) -> NameMap:
    if not is_foreign(request, target) and _takes_any_tool(target):
        return NameMap({}, {}, {})
    keeps_built_ins = target.client_tools and not is_foreign(request, target)
    tools: dict[Key, Known] = {}
    homes: dict[str, set[str]] = {}
    for tool in iter_declared_tools(request):
        # Who runs a hosted tool knows it by its type; a call of that name is somebody else's.
        if tool.kind == "hosted" or (tool.kind in BUILT_IN and keeps_built_ins):
            continue
        tools.setdefault(key_of(tool.kind, tool.namespace, tool.name), _known(tool))
        if tool.kind not in BUILT_IN:
            homes.setdefault(tool.name, set()).add(tool.namespace)
    for call in calls_of(request.turns):
        if call.kind in BUILT_IN and keeps_built_ins:
            continue
        if call.kind in BUILT_IN or call.namespace or len(homes.get(call.name, ())) != 1:
            known = Known(call.name, call.namespace, call.kind)
            tools.setdefault(key_of(call.kind, call.namespace, call.name), known)
    return NameMap(tools, _assign(tools, target), homes)


def names(request: Request, target: Target, losses: Losses) -> Request:
    """Give every tool, call, result, reference and choice the name that the target takes."""
    mapping = name_map(request, target)
    if not mapping.changes:
        return request
    request = edit_blocks(request, _renaming(mapping))
    tools = tuple(_renamed_tool(tool, mapping) for tool in request.tools)
    choice = request.tool_choice and _renamed_choice(request.tool_choice, mapping)
    return replace(request, tools=tools, tool_choice=choice)


def _takes_any_tool(target: Target) -> bool:
    kinds = target.namespaces and target.custom_tools and target.client_tools
    return kinds and target.tool_name_extra == "*" and not target.tool_name_limit


def _known(tool: Tool) -> Known:
    return Known(tool.name, tool.namespace, KIND_OF_CALL[tool.kind])


def _assign(tools: dict[Key, Known], target: Target) -> dict[Key, WireName]:
    """Names that are legal as they are come first, so that no other tool can take one away."""
    wire: dict[Key, WireName] = {}
    taken: set[WireName] = set()
    changed: list[tuple[Key, str, str]] = []
    for key in tools:
        _, namespace, name = key
        if (not namespace or target.namespaces) and is_legal_name(name, target):
            wire[key] = (namespace, name)
            if wire[key] in taken:  # a function that is called like a built-in
                changed.append((key, namespace, name))
            taken.add(wire[key])
        elif target.namespaces:
            changed.append((key, namespace, name))
        else:
            changed.append((key, "", flattened(namespace, name)))
    short = Counter(_shortened(name) for _, _, name in changed)
    for key, namespace, name in changed:
        for candidate in _candidates(key, name, short, target):
            if (namespace, candidate) not in taken and is_legal_name(candidate, target):
                wire[key] = (namespace, candidate)
                taken.add(wire[key])
                break
    return wire


def flattened(namespace: str, name: str) -> str:
    """The name with its namespace in front, once."""
    if not namespace:
        return name
    prefix = namespace if namespace.endswith("__") else namespace + "__"
    return name if name.startswith(prefix) else prefix + name


def _shortened(name: str) -> str:
    """`mcp__server__tool` without the server, which is often most of it."""
    return _MCP + name.rpartition("__")[2] if name.startswith(_MCP) else ""


def _candidates(key: Key, name: str, short: Counter[str], target: Target) -> Iterator[str]:
    """Names to try, the nicest first; all but the first two depend on nothing but the tool itself."""
    yield name
    shortened = _shortened(name)
    if shortened and short[shortened] == 1:
        yield shortened
    clean = _illegal(target.tool_name_extra).sub("_", name) or "unnamed"
    if target.tool_name_letter_first and not _begins_well(clean):
        clean = "_" + clean
    room = target.tool_name_limit - HASH_LENGTH - 1 if target.tool_name_limit else len(clean)
    for attempt in range(MAX_ATTEMPTS):
        salt = str(attempt) if attempt else ""
        yield f"{clean[: max(room, 0)]}_{digest(*key, salt, length=HASH_LENGTH)}"
    raise ConfigError(
        f"tool names of at most {target.tool_name_limit} characters leave no room to tell tools apart"
    )


def is_legal_name(name: str, target: Target) -> bool:
    if not name:
        return target.tool_name_extra == "*"
    if target.tool_name_limit and len(name) > target.tool_name_limit:
        return False
    if target.tool_name_letter_first and not _begins_well(name):
        return False
    return not _illegal(target.tool_name_extra).search(name)


def _begins_well(name: str) -> bool:
    return name[0].isalpha() or name[0] == "_"


@lru_cache(maxsize=64)
def _illegal(extra: str) -> re.Pattern[str]:
    """What may not stand in a name."""
    return re.compile(r"(?!)" if extra == "*" else f"[^A-Za-z0-9_{re.escape(extra)}-]")


def _renaming(mapping: NameMap) -> Change:
    def rename(block: AnyBlock, turn: Turn) -> AnyBlock:
        match block:
            case ToolCall():
                wire = mapping.of(block.kind, block.namespace, block.name)
                if wire != (block.namespace, block.name):
                    return replace(block, namespace=wire[0], name=wire[1])
            case ToolResult(name=str(name)) if name:
                wire = mapping.of(block.kind, "", name)
                if wire[1] != name:
                    return replace(block, name=wire[1])
            case ToolReference():
                wire = mapping.of("function", "", block.name)
                if wire[1] != block.name:
                    return replace(block, name=wire[1])
            case ToolDeclarations():
                return replace(block, tools=tuple(_renamed_tool(tool, mapping) for tool in block.tools))
            case _:
                pass
        return block

    return rename


def _renamed_tool(tool: Tool, mapping: NameMap) -> Tool:
    if tool.kind == "hosted":
        return tool
    wire = mapping.of(tool.kind, tool.namespace, tool.name)
    if wire == (tool.namespace, tool.name):
        return tool
    return replace(tool, namespace=wire[0], name=wire[1])


def _renamed_choice(choice: ToolChoice, mapping: NameMap) -> ToolChoice:
    namespace, name = mapping.of(choice.kind, choice.namespace, choice.name)
    allowed = tuple(mapping.of("function", "", name)[1] for name in choice.allowed)
    if choice.mode != "named":
        namespace, name = choice.namespace, choice.name
    if (namespace, name, allowed) == (choice.namespace, choice.name, choice.allowed):
        return choice
    return replace(choice, namespace=namespace, name=name, allowed=allowed, extras={})
