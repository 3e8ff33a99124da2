"""Reads `[tools]` and `[steps]`, and checks the keys `tools` and `steps` of routes and providers."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import entry_points
from importlib.util import find_spec

from dragoman.config.config import Config
from dragoman.config.document import TomlTable
from dragoman.config.load_provider import check_address, read_headers
from dragoman.config.load_routes import read_targets
from dragoman.config.mistakes import read_each
from dragoman.config.provider import Provider
from dragoman.config.secrets import Environment, read_secret, read_secrets
from dragoman.config.settings import Secret
from dragoman.config.steps import BUILT_IN_STEPS, STEP_ENTRY_POINTS, StepSettings
from dragoman.config.tools import (
    ENTRY_POINTS,
    ImageToolSettings,
    McpServerSettings,
    SearchMapping,
    ToolsSettings,
    WebFetchSettings,
    WebSearchSettings,
)
from dragoman.config.value_kinds import read_keys
from dragoman.hub.errors import suggest_spelling


def read_tools(table: TomlTable, providers: Mapping[str, object], environment: Environment) -> ToolsSettings:
    """The settings of the gateway's own tools. `providers` are the known names."""
    table.check(read_keys(ToolsSettings))
    readers: dict[str, Callable[[TomlTable], object]] = {
        "image": lambda inner: _read_image(inner, providers),
        "web_search": lambda inner: _read_web_search(inner, providers, environment),
        "web_fetch": _read_web_fetch,
        "mcp": lambda inner: _read_servers(inner, environment),
    }
    fields = read_each(
        {
            "plugins": lambda: _read_plugins(table.table("plugins")),
            **{
                name: partial(read, table.table(name))
                for name, read in readers.items()
                if name in table.values
            },
        }
    )
    return table.build(ToolsSettings, **fields)


def _read_image(table: TomlTable, providers: Mapping[str, object]) -> ImageToolSettings:
    table.check(read_keys(ImageToolSettings))
    return ImageToolSettings(target=_read_target(table, providers, needed=True))


def _read_web_search(
    table: TomlTable, providers: Mapping[str, object], environment: Environment
) -> WebSearchSettings:
    table.check(read_keys(WebSearchSettings))
    engine, address = table.text("engine"), table.text("address")
    if not engine:
        raise table.error("expected `engine`", hint='for example engine = "searxng"')
    if engine in ("searxng", "json") and not address:
        raise table.error(f"the engine {engine} needs `address`", hint='for example "http://127.0.0.1:8080"')
    if address:
        check_address(table, "address", address)
    target = _read_target(table, providers, needed=engine == "model")
    keys = read_secrets(table, "api_key", environment._replace(is_needed=False))
    fields: dict[str, object] = {"target": target, "api_key": keys[0] if keys else None}
    if "mapping" in table.values:
        mapping = table.table("mapping")
        mapping.check(read_keys(SearchMapping))
        fields["mapping"] = mapping.build(SearchMapping)
    return table.build(WebSearchSettings, **fields)


def _read_web_fetch(table: TomlTable) -> WebFetchSettings:
    table.check(read_keys(WebFetchSettings))
    return table.build(WebFetchSettings, private=tuple(host.lower() for host in table.texts("private")))


def _read_servers(table: TomlTable, environment: Environment) -> dict[str, McpServerSettings]:
    """The MCP servers by name."""
    if find_spec("mcp") is None:
        hint = "install dragoman with the extra mcp: pip install 'dragoman[mcp]'"
        table.warn("the extra mcp is not installed, so these tools are not offered", hint=hint)
    return {name: _read_server(inner, environment) for name, inner in table.named_tables()}


def _read_server(table: TomlTable, environment: Environment) -> McpServerSettings:
    table.check(read_keys(McpServerSettings))
    url, command = table.text("url"), table.texts("command")
    if bool(url) == bool(command):
        raise table.error(
            "expected either `command` or `url`", hint='for example command = ["npx", "server"]'
        )
    if url:
        check_address(table, "url", url)
    # A server whose variables are not set fails alone.
    optional = environment._replace(is_needed=False)
    return table.build(
        McpServerSettings,
        command=command,
        env=_read_secret_table(table.table("env"), optional),
        headers=read_headers(table, optional),
    )


def _read_secret_table(table: TomlTable, environment: Environment) -> dict[str, Secret]:
    values = {}
    for name, value in table.values.items():
        if not isinstance(value, str):
            raise table.error("expected a string", name)
        values[name] = read_secret(value, table, name, environment=environment)
    return values


def _read_target(table: TomlTable, providers: Mapping[str, object], *, needed: bool) -> str:
    """The key `target`: a model at a provider."""
    found = read_targets(table, "target", providers)
    if any(target.model == "*" for target in found) or (needed and not found):
        raise table.error(
            "expected `target`, a model that answers", hint='for example target = "provider/model"'
        )
    return str(found[0]) if found else ""


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


def check_selections(root: TomlTable, config: Config) -> None:
    """Raise if the key `tools` of a route or provider names a tool that is not configured.

    Warns if no target of it can get tools.
    """
    for table, route in zip(root.tables("routes"), config.routes, strict=True):
        _check_selection(table, config.tools)
        _warn_about_programs(table, [config.providers[target.provider] for target in route.targets])
    for name, table in root.table("providers").named_tables():
        _check_selection(table, config.tools)
        _warn_about_programs(table, [config.providers[name]])


def _warn_about_programs(table: TomlTable, providers: Sequence[Provider]) -> None:
    """Warn about a selection that has no effect: local programs keep conversations of their own."""
    if table.texts("tools") and all(provider.keeps_sessions for provider in providers):
        names = ", ".join(dict.fromkeys(provider.name for provider in providers))
        hint = "give these tools to the agent or the application itself"
        table.warn(f"the provider {names} gets no tools of the gateway: it is a program", "tools", hint=hint)


def _check_selection(table: TomlTable, tools: ToolsSettings) -> None:
    for name in table.texts("tools"):
        if name not in tools.list_names():
            known = ", ".join(tools.list_names()) or "none"
            raise table.error(
                f'no tool "{name}" is configured in [tools]', "tools", hint=f"there are: {known}"
            )


def read_steps(table: TomlTable) -> dict[str, StepSettings]:
    """The steps by name. A step that is not installed is an error now, not at a request."""
    installed = _list_installed()
    steps = {}
    for name, inner in table.named_tables():
        inner.check(read_keys(StepSettings))
        used = inner.text("use") or name
        if used not in installed:
            hint = suggest_spelling(used, installed) or f"installed: {', '.join(installed)}"
            message = f'no installed package has a step "{used}" ({STEP_ENTRY_POINTS})'
            raise table.error(message, name, hint=hint)
        steps[name] = inner.build(StepSettings, settings=inner.table("settings").values)
    return steps


def check_step_names(root: TomlTable, steps: Mapping[str, StepSettings]) -> None:
    """Raise if the key `steps` of a route or provider names a step that does not exist."""
    known = tuple(dict.fromkeys((*steps, *_list_installed())))
    tables = [*root.tables("routes"), *(table for _, table in root.table("providers").named_tables())]
    for table in tables:
        for name in table.texts("steps"):
            if name not in known:
                hint = suggest_spelling(name, known) or f"there are: {', '.join(known)}"
                raise table.error(f'there is no step "{name}"', "steps", hint=hint)


def _list_installed() -> tuple[str, ...]:
    """The steps that need no table."""
    return (*BUILT_IN_STEPS, *sorted(point.name for point in entry_points(group=STEP_ENTRY_POINTS)))
