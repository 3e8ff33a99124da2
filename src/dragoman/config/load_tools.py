"""Reads `[tools]` and its tables, and the key `tools` of routes and providers."""

from importlib.metadata import entry_points

from dragoman.config.document import TomlTable
from dragoman.config.key_kinds import read_keys
from dragoman.config.tools import ENTRY_POINTS, ToolsSettings
from dragoman.hub.errors import suggest_spelling


def read_tools(table: TomlTable) -> ToolsSettings:
    """The settings of the gateway's own tools."""
    table.check(read_keys(ToolsSettings))
    return table.build(ToolsSettings, plugins=_read_plugins(table.table("plugins")))


def _read_plugins(table: TomlTable) -> dict[str, dict[str, object]]:
    """The settings of each plugin. An entry point that is not installed is an error now, not at a request."""
    installed = {point.name for point in entry_points(group=ENTRY_POINTS)}
    plugins = {}
    for name, settings in table.named_tables():
        if name not in installed:
            hint = suggest_spelling(name, installed) or f"installed: {', '.join(sorted(installed)) or 'none'}"
            raise table.error(
                f"no installed package has a tool of this name ({ENTRY_POINTS})", name, hint=hint
            )
        plugins[name] = settings.values
    return plugins


def check_selections(root: TomlTable, tools: ToolsSettings) -> None:
    """Raise if the key `tools` of a route or provider names a tool that is not configured."""
    for table in root.tables("routes"):
        _check_selection(table, tools)
    for _, table in root.table("providers").named_tables():
        _check_selection(table, tools)


def _check_selection(table: TomlTable, tools: ToolsSettings) -> None:
    for name in table.texts("tools"):
        if name not in tools.list_names():
            known = ", ".join(tools.list_names()) or "none"
            raise table.error(
                f'no tool "{name}" is configured in [tools]', "tools", hint=f"there are: {known}"
            )
