"""The tool `mcp`: tools of MCP servers that only the gateway knows, for every client and model."""

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence

from dragoman.config.tools import McpServerSettings
from dragoman.gateway_tools.mcp_servers import McpFunction, McpServer
from dragoman.gateway_tools.tool import (
    GatewayTool,
    ToolFailed,
    ToolOffer,
    ToolOutcome,
    ToolRun,
    build_function,
)
from dragoman.hub.blocks import Tool
from dragoman.hub.ids import digest
from dragoman.hub.request import Request
from dragoman.providers.profile import TargetFacts
from dragoman.wire.fields import encode

#: Tools that one search returns.
MAX_FOUND = 8
#: Characters of a function's name, as many as all vendors accept.
MAX_NAME = 64
#: Tokens. Requests with a smaller limit are probes.
SMALLEST_ANSWER = 64

FIND = "find_tools"
CALL = "call_tool"
_FIND_FUNCTION = build_function(
    FIND,
    "Find further tools by words of their names and descriptions. Returns names, descriptions and schemas.",
    {"query": {"type": "string", "description": "What the tool should do, in a few words."}},
    "query",
)
_CALL_FUNCTION = build_function(
    CALL,
    f"Call a tool that {FIND} returned.",
    {
        "name": {"type": "string", "description": "The name of the tool."},
        "arguments": {"type": "object", "description": "The arguments, as its schema says."},
    },
    "name",
    "arguments",
)
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_WORD = re.compile(r"[a-z0-9]+")


class McpTool(GatewayTool):
    """The tools of some servers. More than `search_above` are offered by a search."""

    returns_pictures = True

    def __init__(self, servers: Mapping[str, McpServer], search_above: int) -> None:
        self._servers = servers
        self._search_above = search_above

    def select(self, names: Collection[str]) -> "McpTool":
        """A `McpTool` with only the servers whose names are in `names`. It shares their connections."""
        chosen = {name: server for name, server in self._servers.items() if name in names}
        return McpTool(chosen, self._search_above)

    async def prepare(self) -> None:
        await asyncio.gather(*(server.connect() for server in self._servers.values()))

    def offer(self, request: Request, target: TargetFacts) -> ToolOffer | None:
        functions: dict[str, McpFunction] = {}
        for each in (each for server in self._servers.values() for each in server.functions):
            functions[_build_name(each, functions)] = each
        if not functions or not _may_use_tools(request):
            return None
        if len(functions) > self._search_above:
            return ToolOffer(
                functions=(_FIND_FUNCTION, _CALL_FUNCTION), undeclared=tuple(functions), context=functions
            )
        tools = tuple(_build_tool(name, each) for name, each in functions.items())
        return ToolOffer(functions=tools, context=functions)

    async def run(self, run: ToolRun) -> ToolOutcome | str:
        functions = run.context if isinstance(run.context, dict) else {}
        if run.name == FIND:
            return _write_found(find_functions(functions, run.text("query")))
        name, arguments = run.name, run.arguments
        if run.name == CALL:
            name, inner = run.text("name"), run.arguments.get("arguments") or {}
            if not isinstance(inner, dict):
                raise ToolFailed("the argument `arguments` must be an object")
            arguments = inner
        function = functions.get(name)
        if function is None:
            raise ToolFailed(f"there is no tool {name[:100]!r}; {FIND} lists tools")
        return await self._servers[function.server].call(function.name, arguments)

    async def close(self) -> None:
        await asyncio.gather(*(server.close() for server in self._servers.values()))


def build_mcp_tool(servers: Mapping[str, McpServerSettings], search_above: int) -> McpTool:
    """The tools of all configured servers."""
    return McpTool({name: McpServer(name, settings) for name, settings in servers.items()}, search_above)


def find_functions(functions: Mapping[str, McpFunction], query: str) -> list[tuple[str, McpFunction]]:
    """The functions that have the most words of the query; words of the name count twice."""
    words = set(_WORD.findall(query.lower()))

    def rate(item: tuple[str, McpFunction]) -> int:
        name, function = item
        named, described = _list_words(name), _list_words(function.description)
        return 2 * len(words & named) + len(words & described)

    rated = sorted(functions.items(), key=lambda item: (-rate(item), item[0]))
    return [item for item in rated[:MAX_FOUND] if rate(item)]


def _list_words(text: str) -> set[str]:
    """The words of a text, also those inside of names such as `readFile`, and without a plural."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).lower().replace("_", " ")
    words = set(_WORD.findall(spaced))
    return words | {word.removesuffix("s") for word in words}


def _write_found(found: Sequence[tuple[str, McpFunction]]) -> str:
    if not found:
        return "No tool matches. Try other words."
    listed = [{"name": name, "description": each.description, "schema": each.schema} for name, each in found]
    return encode(listed).decode()


def _may_use_tools(request: Request) -> bool:
    """Whether tools make sense: not for an answer in a format, such as a title, nor for a probe."""
    if request.max_tokens is not None and request.max_tokens < SMALLEST_ANSWER:
        return False
    has_functions = any(tool.kind != "hosted" for tool in request.tools)
    return has_functions or (not request.tools and request.output is None)


def _build_name(function: McpFunction, taken: Collection[str]) -> str:
    """The function's name for models: legal, short, and not one of `taken`."""
    full = f"{function.server}__{function.name}"
    name = _ILLEGAL.sub("_", full)[:MAX_NAME]
    return name if name not in taken else f"{name[: MAX_NAME - 9]}_{digest(full, length=8)}"


def _build_tool(name: str, function: McpFunction) -> Tool:
    return Tool(name=name, description=function.description, schema=function.schema)
