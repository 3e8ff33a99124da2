"""`[tools]`: the tools that the gateway runs itself, and their limits."""

from typing import Annotated, Literal

import msgspec

from dragoman.config.settings import Secret
from dragoman.config.value_kinds import TABLE, TEXT, TEXT_OR_TEXTS, integer, number
from dragoman.providers.facts import Doc

#: The group of entry points by which other packages offer tools.
ENTRY_POINTS = "dragoman.tools"
#: The tools with a table of their own, by the names of their tables.
BUILT_IN = ("image", "web_search", "web_fetch")
#: All MCP servers; with a dot and its name behind, one of them.
MCP = "mcp"


class ImageToolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[tools.image]`: pictures for models that see none."""

    target: Annotated[str, Doc("The target that looks at pictures, `provider/model`.")]


class SearchMapping(msgspec.Struct, frozen=True, kw_only=True):
    """`[tools.web_search.mapping]`: how a query is sent to an engine, and where its answer has the pages."""

    method: Annotated[
        Literal["GET", "POST"], Doc("`GET`: fields in the address. `POST`: fields as JSON.")
    ] = "GET"
    query: Annotated[str, Doc("The field of the query.")] = "q"
    count: Annotated[str, Doc("The field of the number of results; empty: none.")] = ""
    fixed: Annotated[dict[str, object], TABLE, Doc("Further fields with their values.")] = {}
    key_header: Annotated[str, Doc("The header of `api_key`; empty: none.")] = ""
    key_prefix: Annotated[str, Doc("What stands before the key in its header, such as `Bearer `.")] = ""
    items: Annotated[
        str, Doc("The path of the list of pages in the answer; empty: the answer is the list.")
    ] = "results"
    title: Annotated[str, Doc("The path of the title in a page.")] = "title"
    url: Annotated[str, Doc("The path of the address in a page.")] = "url"
    text: Annotated[str, Doc("The path of the text in a page.")] = "content"


class WebSearchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[tools.web_search]`: the web search for targets that have none."""

    engine: Annotated[
        Literal["searxng", "brave", "tavily", "exa", "json", "model"],
        Doc("The search engine; `json`: any server, with `mapping`; `model`: a model that searches."),
    ]
    address: Annotated[str, Doc("The address of the engine; needed for `searxng` and `json`.")] = ""
    api_key: Annotated[Secret | None, TEXT, Doc("The key of the engine: a literal or `env:NAME`.")] = None
    target: Annotated[str, Doc("For `model`: the target that searches, `provider/model`.")] = ""
    results: Annotated[int, integer(1, 50), Doc("The most pages of one search.")] = 8
    always: Annotated[bool, Doc("Search here even if the target has a web search of its own.")] = False
    mapping: Annotated[SearchMapping | None, TABLE, Doc("Requests and answers of an engine.")] = None


class WebFetchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[tools.web_fetch]`: pages of the public web as text."""

    max_mb: Annotated[float, number(0.001), Doc("Megabytes of a page that are read.")] = 5.0
    max_chars: Annotated[int, integer(100), Doc("Characters of a page's text for the model.")] = 40_000
    private: Annotated[
        tuple[str, ...], Doc("Hosts, or `host:port`, that may be fetched although they are not public.")
    ] = ()
    always: Annotated[bool, Doc("Fetch here even if the target can fetch pages itself.")] = False


class McpServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[tools.mcp.NAME]`: an MCP server. Every model gets its tools, unless `tools` of its route selects."""

    command: Annotated[
        tuple[str, ...], TEXT_OR_TEXTS, Doc("The program that is the server, with its arguments.")
    ] = ()
    env: Annotated[
        dict[str, Secret], TABLE, Doc("Environment variables of the program; values may be `env:NAME`.")
    ] = {}
    url: Annotated[str, Doc("The address of a server that runs elsewhere (streamable HTTP).")] = ""
    headers: Annotated[
        dict[str, Secret], TABLE, Doc("Headers of the requests to it; values may be `env:NAME`.")
    ] = {}
    tools: Annotated[tuple[str, ...], Doc("The names, or patterns, of the tools to use; default: all.")] = ()


class ToolsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[tools]`: the limits that all tools of the gateway share in one reply."""

    rounds: Annotated[
        int, integer(1, 100), Doc("How often the model may be asked again with results of these tools.")
    ] = 10
    seconds: Annotated[float, Doc("Seconds that all runs of one reply may take together.")] = 180.0
    run_seconds: Annotated[float, Doc("Seconds that one run may take.")] = 60.0
    tokens: Annotated[
        int, Doc("Tokens of all rounds of one reply, after which no further run starts; 0: no limit.")
    ] = 2_000_000
    result_chars: Annotated[int, integer(100), Doc("The longest result for the model, in characters.")] = (
        50_000
    )
    memory_mb: Annotated[
        int, integer(1), Doc("Megabytes of results that are kept for later requests of a conversation.")
    ] = 64
    image: Annotated[ImageToolSettings | None, TABLE, Doc("Pictures for models that see none.")] = None
    web_search: Annotated[WebSearchSettings | None, TABLE, Doc("The web search.")] = None
    web_fetch: Annotated[WebFetchSettings | None, TABLE, Doc("Pages of the web as text.")] = None
    mcp: Annotated[
        dict[str, McpServerSettings], TABLE, Doc("MCP servers whose tools every model gets, by name.")
    ] = {}
    search_above: Annotated[
        int, Doc("With more tools of MCP servers than this, the model gets a search for them instead.")
    ] = 30
    plugins: Annotated[
        dict[str, dict[str, object]],
        TABLE,
        Doc("Tools of other packages, by the name of their entry point, each with its own settings."),
    ] = {}

    def list_names(self) -> tuple[str, ...]:
        """The names of the configured tools, as `tools` of a route or provider selects them.

        `mcp` means all MCP servers, `mcp.NAME` one of them.
        """
        built_in = (name for name in BUILT_IN if getattr(self, name) is not None)
        servers = (f"{MCP}.{name}" for name in self.mcp)
        return (*built_in, *([MCP] if self.mcp else ()), *servers, *self.plugins)
