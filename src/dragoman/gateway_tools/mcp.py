"""The tool `mcp`: tools of MCP servers that only the gateway knows, for every client and model."""

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from math import log

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
#: Names and descriptions whose words are kept: with 1,000 tools it takes 20 ms to find them.
MAX_KNOWN = 4000
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
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


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
    """The functions that fit the query best.

    A word counts more if fewer functions have it, and twice if it is in the name.
    """
    # Models write plurals, where names have singulars.
    words = {word.removesuffix("s") for word in _WORD.findall(_separate_words(query))}
    found = {
        name: (words & _list_words(name), words & _list_words(each.description))
        for name, each in functions.items()
    }
    counts = Counter(word for named, described in found.values() for word in named | described)
    weights = {word: log(1 + len(functions) / count) for word, count in counts.items()}

    def rate(name: str) -> float:
        named, described = found[name]
        return 2 * sum(map(weights.__getitem__, named)) + sum(map(weights.__getitem__, described - named))

    rated = sorted((name for name, each in found.items() if any(each)), key=lambda name: (-rate(name), name))
    return [(name, functions[name]) for name in rated[:MAX_FOUND]]


@lru_cache(maxsize=MAX_KNOWN)
def _list_words(text: str) -> frozenset[str]:
    """The words of a text, also without a plural."""
    words = _WORD.findall(_separate_words(text))
    return frozenset(words).union(word.removesuffix("s") for word in words)


def _separate_words(text: str) -> str:
    """The text in small letters, with spaces in names such as `readFile` and `read_file`."""
    return _CAMEL.sub(" ", text).lower().replace("_", " ")


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
