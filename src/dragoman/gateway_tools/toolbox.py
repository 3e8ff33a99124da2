"""`Toolbox`: the tools of one configuration."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points

from dragoman.config.config import Config
from dragoman.config.tools import ENTRY_POINTS, MCP, ToolsSettings
from dragoman.gateway_tools.image import ImageTool
from dragoman.gateway_tools.mcp import McpTool, build_mcp_tool
from dragoman.gateway_tools.memory import ToolMemory
from dragoman.gateway_tools.target_tools import TargetTools, is_leaving
from dragoman.gateway_tools.tool import AskModel, GatewayTool
from dragoman.gateway_tools.web_fetch import WebFetchTool
from dragoman.gateway_tools.web_search import WebSearchTool
from dragoman.hub.errors import ConfigError

LOGGER = logging.getLogger("dragoman")


class Toolbox:
    """The configured tools by name. `snapshots` counts the configurations that use it."""

    def __init__(self, settings: ToolsSettings, tools: Mapping[str, GatewayTool]) -> None:
        self.settings = settings
        self.snapshots = 0
        self._tools = tools

    async def build_target_tools(
        self,
        names: Sequence[str] | None,
        memory: ToolMemory,
        *,
        owner: str,
        ask_model: AskModel,
        has_budget: Callable[[], bool],
    ) -> TargetTools | None:
        """The tools of these names for one request; None if there are none. None as names: all tools."""
        tools = [tool for name in self._tools if (tool := self._select(name, names)) is not None]
        if not tools:
            return None
        for tool in list(tools):
            try:
                await tool.prepare()
            except asyncio.CancelledError:
                if is_leaving():
                    raise
                LOGGER.warning("the tool %s is left out: it failed (CancelledError)", type(tool).__name__)
                tools.remove(tool)
            except (Exception, SystemExit) as error:  # A tool of a third party must not break the request.
                kind = type(error).__name__
                LOGGER.warning("the tool %s is left out: it failed (%s)", type(tool).__name__, kind)
                tools.remove(tool)
        return TargetTools(
            tools, self.settings, memory, owner=owner, ask_model=ask_model, has_budget=has_budget
        )

    def _select(self, name: str, names: Sequence[str] | None) -> GatewayTool | None:
        """The tool of a name, as far as it is selected; None if it is not."""
        tool = self._tools[name]
        if names is None or name in names:
            return tool
        servers = [each.partition(".")[2] for each in names if each.startswith(f"{MCP}.")]
        return tool.select(servers) if servers and name == MCP and isinstance(tool, McpTool) else None

    async def close(self) -> None:
        await asyncio.gather(*(tool.close() for tool in self._tools.values()), return_exceptions=True)


def build_toolbox(config: Config) -> Toolbox | None:
    """The tools of a configuration; None if it has none."""
    settings = config.tools
    tools: dict[str, GatewayTool] = {}
    if settings.image is not None:
        tools["image"] = ImageTool(settings.image)
    # These two come before the search, which removes the declaration of the hosted search that they look for.
    if settings.mcp:
        tools[MCP] = build_mcp_tool(settings.mcp, settings.search_above)
    if settings.web_fetch is not None:
        search = settings.web_search
        tools["web_fetch"] = WebFetchTool(
            settings.web_fetch,
            with_search=search is not None,
            always_search=search is not None and search.always,
        )
    if settings.web_search is not None:
        tools["web_search"] = WebSearchTool(settings.web_search)
    tools |= {name: _build_plugin(name, values) for name, values in settings.plugins.items()}
    return Toolbox(settings, tools) if tools else None


def _build_plugin(name: str, settings: dict[str, object]) -> GatewayTool:
    """The tool of an entry point, which is a class or a function that takes the settings."""
    points = entry_points(group=ENTRY_POINTS, name=name)
    if not points:
        raise ConfigError(f"tools.plugins.{name}: no installed package has a tool of this name")
    tool: object = next(iter(points)).load()(settings)
    if not isinstance(tool, GatewayTool):
        raise ConfigError(f"tools.plugins.{name}: expected a GatewayTool")
    return tool
