"""Tool names: legal and unique at the target, and in the reply again the names that the client knows.

The map between both is a pure function of the client's request and the target. The request and the reply
compute it independently, so no state is kept between them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import assert_never

import msgspec

from dragoman.fit.client_tools import INPUT
from dragoman.fit.editing import (
    BlockEdit,
    build_illegal_pattern,
    edit_messages,
    is_foreign,
    replace,
)
from dragoman.hub.blocks import (
    AnyBlock,
    CallKind,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    Tool,
    ToolCall,
    ToolDeclarations,
    ToolKind,
    ToolReference,
    ToolResult,
)
from dragoman.hub.errors import ConfigError
from dragoman.hub.events import DELTAS, ArgumentsDelta, BlockClosed, BlockOpened, ReplyEvent
from dragoman.hub.ids import digest
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request, ToolChoice
from dragoman.providers.profile import TargetFacts
from dragoman.wire.partial_json import StringMember

#: OpenAI's own tools that the client runs. Their kind identifies them; their name does not matter.
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
#: Characters between the parts of a tool's name.
_SEPARATORS = "_.:/-"


class ClientToolName(msgspec.Struct, frozen=True):
    """The name, namespace and kind by which the client knows a tool."""

    name: str
    namespace: str = ""
    kind: CallKind = "function"


#: Identifies a tool of the client: (built-in kind, "", kind), or ("", namespace, name).
ToolKey = tuple[str, str, str]

#: Namespace and name of a tool at the target; the namespace is empty where the target has none.
TargetToolName = tuple[str, str]


class NameMap:
    """The tool names of one request at one target; `client_names` leads back to the client's."""

    __slots__ = ("_namespaces", "_target_names", "client_names", "has_changes", "restored_names")

    def __init__(
        self,
        tools: dict[ToolKey, ClientToolName],
        target_names: dict[ToolKey, TargetToolName],
        namespaces: dict[str, set[str]],
    ) -> None:
        self._target_names = target_names
        #: The namespaces that each name is declared in.
        self._namespaces = namespaces
        self.client_names = {target_names[key]: tool for key, tool in tools.items()}
        self.has_changes = any(
            (tool.namespace, tool.name) != name for name, tool in self.client_names.items()
        )
        #: The tools that the client knows by another name or kind than the target.
        self.restored_names = {
            name: tool
            for name, tool in self.client_names.items()
            if name != (tool.namespace, tool.name) or tool.kind != "function"
        }

    def has_tool_of(self, call: ToolCall) -> bool:
        """Whether the tool of a call is in the map. A call of any other tool would change the map."""
        is_named = call.kind not in BUILT_IN and not call.namespace
        if is_named and len(self._namespaces.get(call.name, ())) == 1:
            return True
        return build_tool_key(call.kind, call.namespace, call.name) in self._target_names

    def find(self, kind: str, namespace: str, name: str) -> TargetToolName:
        """The name at the target, for a tool with this kind, namespace and name at the client."""
        namespaces = self._namespaces.get(name, ())
        if not namespace and kind not in BUILT_IN and len(namespaces) == 1:
            (namespace,) = namespaces  # a reference may omit the namespace
        return self._target_names.get(build_tool_key(kind, namespace, name), (namespace, name))


def build_tool_key(kind: str, namespace: str, name: str) -> ToolKey:
    return (kind, "", kind) if kind in BUILT_IN else ("", namespace, name)


class RequestToolNames:
    """The tools that a request declares or calls, in the order in which it names them first."""

    def __init__(self, *, keeps_built_ins: bool) -> None:
        self._keeps_built_ins = keeps_built_ins
        self.names: dict[ToolKey, ClientToolName] = {}
        #: The namespaces that each name is declared in.
        self.namespaces: dict[str, set[str]] = {}

    def declare(self, tools: Sequence[Tool]) -> None:
        for tool in tools:
            # A hosted tool is identified by its type; a call with its name is a call of another tool.
            if tool.kind == "hosted" or (tool.kind in BUILT_IN and self._keeps_built_ins):
                continue
            name = ClientToolName(tool.name, tool.namespace, KIND_OF_CALL[tool.kind])
            self.names.setdefault(build_tool_key(tool.kind, tool.namespace, tool.name), name)
            if tool.kind not in BUILT_IN:
                self.namespaces.setdefault(tool.name, set()).add(tool.namespace)

    def add_call(self, call: ToolCall) -> None:
        """Add the tool of a call, unless it is declared."""
        if call.kind in BUILT_IN and self._keeps_built_ins:
            return
        if call.kind in BUILT_IN or call.namespace or len(self.namespaces.get(call.name, ())) != 1:
            name = ClientToolName(call.name, call.namespace, call.kind)
            self.names.setdefault(build_tool_key(call.kind, call.namespace, call.name), name)


def build_name_map(request: Request, target: TargetFacts) -> NameMap:
    """The names of all tools that the request declares or calls.

    The tools before the conversation are named together. Those that only the conversation declares or calls
    follow one by one, so that a later message never changes a name in the prompt before it.
    """
    if not is_foreign(request, target) and _takes_any_tool(target):
        return NameMap({}, {}, {})
    tools = RequestToolNames(keeps_built_ins=target.client_tools and not is_foreign(request, target))
    tools.declare(request.tools)
    target_names: dict[ToolKey, TargetToolName] = {}
    _assign(tools.names, target_names, target)
    for block in _iter_calls_and_declarations(request.messages):
        if isinstance(block, ToolCall):
            tools.add_call(block)
        else:
            tools.declare(block.tools)
    for key in tuple(tools.names)[len(target_names) :]:
        _assign((key,), target_names, target)
    return NameMap(tools.names, target_names, tools.namespaces)


def _iter_calls_and_declarations(messages: Iterable[Message]) -> Iterator[ToolCall | ToolDeclarations]:
    for message in messages:
        for block in message.blocks:
            if type(block) is ToolCall or type(block) is ToolDeclarations:
                yield block
            elif type(block) is ToolResult:
                for inner in block.content:
                    if type(inner) is ToolDeclarations:
                        yield inner


def fit_names(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Give every tool, call, result, reference and choice a name that the target accepts."""
    mapping = build_name_map(request, target)
    if not mapping.has_changes:
        return request
    request = rename_messages(request, mapping)
    tools = tuple(_rename_tool(tool, mapping) for tool in request.tools)
    choice = request.tool_choice and _rename_choice(request.tool_choice, mapping)
    return replace(request, tools=tools, tool_choice=choice)


def rename_messages(request: Request, mapping: NameMap) -> Request:
    """The part of `fit_names` that changes the conversation."""
    return edit_messages(request, _build_renaming(mapping)) if mapping.has_changes else request


def _takes_any_tool(target: TargetFacts) -> bool:
    kinds = target.namespaces and target.custom_tools and target.client_tools
    return kinds and target.tool_name_extra == "*" and not target.tool_name_limit


def _assign(keys: Iterable[ToolKey], assigned: dict[ToolKey, TargetToolName], target: TargetFacts) -> None:
    """Assign a unique name to each tool; names that are legal already are assigned first and stay."""
    taken = set(assigned.values())
    changed: list[tuple[ToolKey, str, str]] = []
    for key in keys:
        _, namespace, name = key
        if (not namespace or target.namespaces) and is_legal_name(name, target):
            assigned[key] = (namespace, name)
            # A function with the name of a built-in tool, or with a name that another tool has got before.
            if assigned[key] in taken:
                changed.append((key, namespace, name))
            taken.add(assigned[key])
        elif target.namespaces:
            changed.append((key, namespace, name))
        else:
            changed.append((key, "", _flatten(namespace, name)))
    uses = Counter(each for _, _, name in changed for each in _list_readable(name, target))
    for key, namespace, name in changed:
        for candidate in _iter_candidates(key, name, uses, target):
            if (namespace, candidate) not in taken and is_legal_name(candidate, target):
                assigned[key] = (namespace, candidate)
                taken.add(assigned[key])
                break


def _flatten(namespace: str, name: str) -> str:
    """Namespace and name as one tool name.

    A name that begins with its namespace does not get it again: many servers repeat their name in those of
    their tools.
    """
    if not namespace:
        return name
    prefix = namespace if namespace.endswith("__") else namespace + "__"
    if name.startswith(prefix):
        return name
    group = prefix.removesuffix("__")
    for repeated in (group, group.rpartition("__")[2]):
        rest = name.removeprefix(repeated)
        if repeated and rest != name and rest[:1] in _SEPARATORS and rest.strip(_SEPARATORS):
            return prefix + rest.lstrip(_SEPARATORS)
    return prefix + name


def _shorten(name: str) -> str:
    """`mcp__server__tool` without the server, which is often most of it."""
    return _MCP + name.rpartition("__")[2] if name.startswith(_MCP) else ""


def _clean(name: str, target: TargetFacts) -> str:
    """The name with `_` for characters that the target refuses."""
    clean = build_illegal_pattern(target.tool_name_extra).sub("_", name) or "unnamed"
    return "_" + clean if target.tool_name_letter_first and not _has_legal_start(clean) else clean


def _list_readable(name: str, target: TargetFacts) -> tuple[str, ...]:
    """Names without a hash that may stand for a name, each once. They are used if no other tool has them."""
    short = _shorten(name)
    return tuple({_clean(each, target): None for each in (name, short) if each})


def _iter_candidates(key: ToolKey, name: str, uses: Counter[str], target: TargetFacts) -> Iterator[str]:
    """Names to try: the original, readable forms, then forms with a hash of the tool, which are stable."""
    yield name
    for readable in _list_readable(name, target):
        if uses[readable] == 1:
            yield readable
    clean = _clean(name, target)
    room = target.tool_name_limit - HASH_LENGTH - 1 if target.tool_name_limit else len(clean)
    for attempt in range(MAX_ATTEMPTS):
        salt = str(attempt) if attempt else ""
        yield f"{clean[: max(room, 0)]}_{digest(*key, salt, length=HASH_LENGTH)}"
    raise ConfigError(
        f"tool names of at most {target.tool_name_limit} characters leave no room to distinguish tools"
    )


def is_legal_name(name: str, target: TargetFacts) -> bool:
    if not name:
        return target.tool_name_extra == "*"
    if target.tool_name_limit and len(name) > target.tool_name_limit:
        return False
    if target.tool_name_letter_first and not _has_legal_start(name):
        return False
    return not build_illegal_pattern(target.tool_name_extra).search(name)


def _has_legal_start(name: str) -> bool:
    return name[0].isalpha() or name[0] == "_"


def _build_renaming(mapping: NameMap) -> BlockEdit:
    def rename(block: AnyBlock, message: Message) -> AnyBlock:
        match block:
            case ToolCall():
                renamed = mapping.find(block.kind, block.namespace, block.name)
                if renamed != (block.namespace, block.name):
                    return replace(block, namespace=renamed[0], name=renamed[1])
            case ToolResult(name=str(name)) if name:
                renamed = mapping.find(block.kind, "", name)
                if renamed[1] != name:
                    return replace(block, name=renamed[1])
            case ToolReference():
                renamed = mapping.find("function", "", block.name)
                if renamed[1] != block.name:
                    return replace(block, name=renamed[1])
            case ToolDeclarations():
                return replace(block, tools=tuple(_rename_tool(tool, mapping) for tool in block.tools))
            case Text() | Refusal() | Reasoning() | Media() | ToolResult():
                pass
            case HostedCall() | HostedResult() | Opaque():
                pass
            case _:
                assert_never(block)
        return block

    return rename


def _rename_tool(tool: Tool, mapping: NameMap) -> Tool:
    if tool.kind == "hosted":
        return tool
    renamed = mapping.find(tool.kind, tool.namespace, tool.name)
    if renamed == (tool.namespace, tool.name):
        return tool
    return replace(tool, namespace=renamed[0], name=renamed[1])


def _rename_choice(choice: ToolChoice, mapping: NameMap) -> ToolChoice:
    namespace, name = mapping.find(choice.kind, choice.namespace, choice.name)
    allowed = tuple(mapping.find("function", "", name)[1] for name in choice.allowed)
    if choice.mode != "named":
        namespace, name = choice.namespace, choice.name
    if (namespace, name, allowed) == (choice.namespace, choice.name, choice.allowed):
        return choice
    return replace(choice, namespace=namespace, name=name, allowed=allowed, extras={})


class NamesStage:
    """Gives calls the names, namespaces and kinds that the client declared.

    The input of a free-text tool arrives wrapped in an object and is decoded while it arrives. Bare text, or
    an object with another key, is accepted too: some models answer so.
    """

    __slots__ = ("_inputs", "_names", "_unwraps")

    unchanged_kinds = DELTAS - {ArgumentsDelta}

    def __init__(self, names: Mapping[TargetToolName, ClientToolName], *, unwraps: bool) -> None:
        self._names = names
        self._unwraps = unwraps
        self._inputs: dict[int, StringMember] = {}

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if type(event) is ArgumentsDelta:
            wrapped = self._inputs.get(event.index)
            return [event] if wrapped is None else _delta(event.index, wrapped.feed(event.text))
        if type(event) is BlockOpened and type(event.block) is ToolCall:
            return self._open(event, event.block)
        if type(event) is BlockClosed and event.index in self._inputs:
            wrapped = self._inputs.pop(event.index)
            rest = wrapped.finish()
            return [*_delta(event.index, rest if wrapped.is_found else wrapped.raw), event]
        return [event]

    def _open(self, event: BlockOpened, call: ToolCall) -> list[ReplyEvent]:
        tool = self._names.get((call.namespace, call.name))
        if tool is None:
            return [event]
        restored = replace(call, name=tool.name, namespace=tool.namespace, kind=tool.kind)
        if tool.kind != "custom" or call.kind == "custom" or not self._unwraps:
            return [BlockOpened(event.index, restored)]
        wrapped = self._inputs[event.index] = StringMember(INPUT)
        opened = BlockOpened(event.index, replace(restored, arguments=""))
        return [opened, *_delta(event.index, wrapped.feed(call.arguments))]


def _delta(index: int, text: str) -> list[ReplyEvent]:
    return [ArgumentsDelta(index, text)] if text else []
