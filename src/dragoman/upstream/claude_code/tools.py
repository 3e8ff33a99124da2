"""The caller's tools inside Claude Code: names, the MCP server that carries them, and permissions.

The MCP server passes the caller's schemas on unchanged. A call waits in it until the caller has sent its
result. Every tool is declared read-only, because Claude Code runs the calls of one message one after another
otherwise, and the caller gets all of them at once.
"""

import asyncio
import logging
import re
import secrets
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.upstream.claude_code.conversation import Conversation
from dragoman.upstream.claude_code.process import MCP_SERVER, AgentSdk

Json = dict[str, Any]

#: Prefix of the tools of the MCP server.
PREFIX = f"mcp__{MCP_SERVER}__"
#: Ids that Anthropic never repeats and that every client can carry. Other models repeat ids like `call_0`.
_UNIQUE_ID = re.compile(r"toolu_[0-9A-Za-z]{20,34}")
#: Show tools to the model at once, and do not shorten their results.
_META = {"anthropic/alwaysLoad": True, "anthropic/maxResultSizeChars": 100_000_000}
#: Member of an MCP call's metadata that names the model's tool call.
_CALL_ID = "claudecode/toolUseId"
#: The text of the tool result for a denied call.
NOT_DECLARED = "this tool is not declared by the caller"
NO_CALLS = "the caller takes no tool calls in this turn; answer without tools"
#: Decisions that a session remembers.
MAX_DECISIONS = 200

_log = logging.getLogger("dragoman.claude_code")


def write_inner_name(name: str) -> str:
    """Write the name by which Claude Code knows a tool of the caller."""
    return PREFIX + name


def read_inner_name(name: str) -> str | None:
    """Read the caller's name of a tool, or None if the tool is not the caller's."""
    return name[len(PREFIX) :] if name.startswith(PREFIX) else None


def build_public_id(inner: str) -> str:
    """Build the id by which the caller knows a call. It is unique among all conversations."""
    return inner if _UNIQUE_ID.fullmatch(inner) else f"toolu_{secrets.token_hex(12)}"


class ToolSet(msgspec.Struct, frozen=True):
    """The tools that a caller declares, sorted by name so that prompt caches hold."""

    tools: tuple[Json, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(str(tool["name"]) for tool in self.tools)

    @property
    def key(self) -> bytes:
        """Bytes that are equal exactly if the tool sets are equal."""
        return msgspec.json.encode(self.tools, order="sorted")


def read_tools(body: Json) -> ToolSet | None:
    """Read the tools of a Messages request. None if it has no member `tools`."""
    tools = body.get("tools")
    if not isinstance(tools, list):
        return None
    functions = [tool for tool in tools if isinstance(tool, dict) and tool.get("name")]
    return ToolSet(tuple(sorted(functions, key=lambda tool: str(tool["name"]))))


def build_placeholder_tools(conversation: Conversation) -> ToolSet:
    """Build placeholders for the tools that a history calls, if their declarations are not known.

    An API refuses a history with calls if the request declares no tools.
    """
    names = {str(item.block.get("name")) for item in conversation.items if item.kind == "call"}
    description = "Was used earlier in this conversation."
    schema = {"type": "object", "additionalProperties": True}
    return ToolSet(
        tuple({"name": name, "description": description, "input_schema": schema} for name in sorted(names))
    )


class PendingResults:
    """Results that Claude Code waits for, by Claude Code's id of the call."""

    def __init__(self) -> None:
        self._futures: dict[str, asyncio.Future[Json]] = {}

    async def wait(self, call_id: str) -> Json:
        """Wait for the `tool_result` block of a call."""
        try:
            return await asyncio.shield(self._find(call_id))
        finally:
            self._futures.pop(call_id, None)

    def _find(self, call_id: str) -> asyncio.Future[Json]:
        future = self._futures.get(call_id)
        if future is None:
            future = self._futures[call_id] = asyncio.get_running_loop().create_future()
        return future

    def resolve(self, call_id: str, result: Json) -> None:
        """Deliver a result, also before Claude Code waits for it. Only the first result of a call counts."""
        future = self._find(call_id)
        if not future.done():
            future.set_result(result)

    def cancel(self) -> None:
        """Cancel all calls that wait."""
        for future in self._futures.values():
            future.cancel()
        self._futures.clear()


def build_mcp_server(sdk: AgentSdk, read_set: Callable[[], ToolSet], results: PendingResults) -> Any:
    """Build the MCP server of a session. `read_set` gives the current tools, which may change."""
    types = sdk.types

    async def list_tools(context: Any, params: Any) -> Any:
        return types.ListToolsResult(tools=[_write_tool(types, tool) for tool in read_set().tools])

    async def call_tool(context: Any, params: Any) -> Any:
        call_id = str((params.meta or {}).get(_CALL_ID) or "")
        if not call_id:
            return _write_result(
                types, {"content": "this version of Claude Code is too old", "is_error": True}
            )
        return _write_result(types, await results.wait(call_id))

    return sdk.server(MCP_SERVER, version="1", on_list_tools=list_tools, on_call_tool=call_tool)


def _write_tool(types: Any, tool: Json) -> Any:
    return types.Tool(
        name=tool["name"],
        description=tool.get("description") or "",
        input_schema=tool.get("input_schema") or {"type": "object"},
        annotations=types.ToolAnnotations(read_only_hint=True),
        _meta=_META,
    )


def _write_result(types: Any, result: Json) -> Any:
    """Write a `tool_result` block as a result of MCP."""
    content = result.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": str(content or "")}]
    return types.CallToolResult(
        content=[_write_content(types, block) for block in blocks], is_error=bool(result.get("is_error"))
    )


def _write_content(types: Any, block: Json) -> Any:
    source = block.get("source") or {}
    if block.get("type") == "image" and source.get("type") == "base64":
        return types.ImageContent(type="image", data=source["data"], mime_type=source["media_type"])
    text = block.get("text") if block.get("type") == "text" else msgspec.json.encode(block).decode()
    return types.TextContent(type="text", text=str(text or ""))


class PermissionDecision(msgspec.Struct, frozen=True, kw_only=True):
    """One decision about a call. Without the arguments, which may contain anything."""

    tool: str
    call: str
    allowed: bool


class ToolPermissions:
    """The permissions of one session: exactly the tools that the caller declares. Keeps an audit log.

    Claude Code asks before each call (`build_callback`). It refuses calls of tools that do not exist without
    asking; the turn records those here too.
    """

    def __init__(self, session: str, read_names: Callable[[], frozenset[str]]) -> None:
        self.session = session
        self._read_names = read_names
        self._decisions: deque[PermissionDecision] = deque(maxlen=MAX_DECISIONS)
        self._public_ids: dict[str, str] = {}

    def decide(self, name: str, call: str) -> bool:
        """Decide about a call, by Claude Code's name and id. The first decision about a call is logged."""
        is_allowed = read_inner_name(name) in self._read_names()
        if all(decision.call != call for decision in self._decisions):
            self._decisions.append(PermissionDecision(tool=name[:200], call=call, allowed=is_allowed))
            _log.log(
                logging.INFO if is_allowed else logging.WARNING,
                "session %s: %s %s",
                self.session,
                "allowed" if is_allowed else "denied",
                name[:200],
            )
        return is_allowed

    def set_public_id(self, inner_id: str, public_id: str) -> None:
        """Record the id by which the caller knows a call."""
        self._public_ids[inner_id] = public_id
        if len(self._public_ids) > MAX_DECISIONS:
            del self._public_ids[next(iter(self._public_ids))]

    def list_decisions(self) -> list[dict[str, object]]:
        """List the decisions with the ids that the caller knows."""
        return [
            {
                "tool": decision.tool,
                "call": self._public_ids.get(decision.call, decision.call),
                "allowed": decision.allowed,
            }
            for decision in self._decisions
        ]

    def build_callback(self, sdk: AgentSdk) -> Any:
        """Build the function that Claude Code calls before each tool call."""

        async def can_use_tool(name: str, arguments: Any, context: Any) -> Any:
            if self.decide(name, context.tool_use_id or ""):
                return sdk.allow()
            is_forbidden = not self._read_names()
            return sdk.deny(message=NO_CALLS if is_forbidden else NOT_DECLARED)

        return can_use_tool
