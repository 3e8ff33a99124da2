"""The caller's tools as Claude Code sees them: an MCP server that passes their schemas on word for word.

A call waits here until the caller has answered it. Every tool says that it only reads, because Claude Code
runs the calls of one message one after another otherwise, and the caller is shown them all at once.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.upstream.claude_code.conversation import Conversation
from dragoman.upstream.claude_code.naming import SERVER
from dragoman.upstream.claude_code.sdk import Kit

Json = dict[str, Any]
Answer = Json

#: Tools are shown to the model at once, and their results as they are, however long.
META = {"anthropic/alwaysLoad": True, "anthropic/maxResultSizeChars": 100_000_000}
#: Where Claude Code says which of the model's calls this is.
_USE_ID = "claudecode/toolUseId"


class ToolSet(msgspec.Struct, frozen=True):
    """The tools that a caller declared, sorted by name so that a prompt cache holds."""

    tools: tuple[Json, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(str(tool["name"]) for tool in self.tools)

    @property
    def key(self) -> bytes:
        return msgspec.json.encode(self.tools, order="sorted")


def declared(body: Json) -> ToolSet | None:
    """The functions of a request; None if it does not speak of tools at all."""
    tools = body.get("tools")
    if not isinstance(tools, list):
        return None
    functions = [tool for tool in tools if isinstance(tool, dict) and tool.get("name")]
    return ToolSet(tuple(sorted(functions, key=lambda tool: str(tool["name"]))))


def recalled(talk: Conversation) -> ToolSet:
    """Stand-ins for the tools that a history calls, when nobody remembers what they were: an API that is
    shown calls wants to be shown tools too."""
    names = {str(atom.block.get("name")) for atom in talk.atoms if atom.kind == "call"}
    about = "Was used earlier in this conversation."
    schema = {"type": "object", "additionalProperties": True}
    return ToolSet(tuple({"name": n, "description": about, "input_schema": schema} for n in sorted(names)))


class Calls:
    """Calls that wait for their results, by id."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[Answer]] = {}

    async def result(self, call_id: str) -> Answer:
        """What the caller says to a call, whenever it does."""
        try:
            return await asyncio.shield(self._future(call_id))
        finally:
            self._waiting.pop(call_id, None)

    def _future(self, call_id: str) -> asyncio.Future[Answer]:
        found = self._waiting.get(call_id)
        if found is None:
            found = self._waiting[call_id] = asyncio.get_running_loop().create_future()
        return found

    def answer(self, call_id: str, result: Json) -> None:
        """The first answer counts."""
        future = self._future(call_id)
        if not future.done():
            future.set_result(result)

    def forget(self) -> None:
        for future in self._waiting.values():
            future.cancel()
        self._waiting.clear()


def mcp_server(kit: Kit, tools: Callable[[], ToolSet], calls: Calls) -> Any:
    """The server; it asks for the tools whenever they are listed, since a session may change them."""
    types = kit.types

    async def list_tools(context: Any, params: Any) -> Any:
        return types.ListToolsResult(tools=[_described(types, tool) for tool in tools().tools])

    async def call_tool(context: Any, params: Any) -> Any:
        call_id = str((params.meta or {}).get(_USE_ID) or "")
        if not call_id:
            return _mcp_result(types, {"content": "this version of Claude Code is too old", "is_error": True})
        return _mcp_result(types, await calls.result(call_id))

    return kit.server(SERVER, version="1", on_list_tools=list_tools, on_call_tool=call_tool)


def _described(types: Any, tool: Json) -> Any:
    return types.Tool(
        name=tool["name"],
        description=tool.get("description") or "",
        input_schema=tool.get("input_schema") or {"type": "object"},
        annotations=types.ToolAnnotations(read_only_hint=True),
        _meta=META,
    )


def _mcp_result(types: Any, result: Json) -> Any:
    """A `tool_result` block in MCP's words."""
    content = result.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": str(content or "")}]
    return types.CallToolResult(
        content=[_mcp_content(types, block) for block in blocks], is_error=bool(result.get("is_error"))
    )


def _mcp_content(types: Any, block: Json) -> Any:
    source = block.get("source") or {}
    if block.get("type") == "image" and source.get("type") == "base64":
        return types.ImageContent(type="image", data=source["data"], mime_type=source["media_type"])
    text = block.get("text") if block.get("type") == "text" else msgspec.json.encode(block).decode()
    return types.TextContent(type="text", text=str(text or ""))
