"""Reads the TOML file into a `Config`. Errors name the line of the wrong key or value.

`load_file` reads the file and the learned file beside it; `load` takes the text. Both check every key.
"""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from dragoman.config.agents import read_managed_settings, read_session_limits, read_sign_in
from dragoman.config.config import Config
from dragoman.config.document import TomlDocument, TomlTable
from dragoman.config.load_provider import check_address, read_provider
from dragoman.config.load_routes import read_routes, read_targets, warn_about_routes
from dragoman.config.load_rules import read_prompts, read_roles, read_rules
from dragoman.config.load_tools import check_selections, check_step_names, read_steps, read_tools
from dragoman.config.mistakes import collect_mistakes, raise_mistakes, read_each
from dragoman.config.model_facts import learned_path, read_learned
from dragoman.config.provider import FactsByModel, Provider
from dragoman.config.rule_warnings import warn_about_rules
from dragoman.config.secrets import Environment, read_secrets
from dragoman.config.settings import (
    RecordSettings,
    ResponsesSettings,
    ServerSettings,
    StateSettings,
    TelemetrySettings,
)
from dragoman.config.value_kinds import read_keys
from dragoman.hub.errors import ConfigError


def load_file(path: str, variables: Mapping[str, str], *, secrets_needed: bool = True) -> Config:
    """The configuration in a file, with the learned facts beside it."""
    text = _read_text(path)
    beside = learned_path(path)
    learned = read_learned(_read_text(str(beside)), str(beside)) if beside.is_file() else {}
    return load(text, path, variables, secrets_needed=secrets_needed, learned=learned)


def find_line(path: str, *keys: str) -> int:
    """The line of a key in a file; 0 if the file does not have the key."""
    return TomlDocument(_read_text(path), path).find_line(keys)


def _read_text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8")
    except IsADirectoryError:
        raise ConfigError(
            f"{path} is a folder", hint=f"name the file in it: {Path(path) / 'dragoman.toml'}"
        ) from None
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}", hint="`dragoman setup` writes a configuration"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: expected UTF-8 text, byte {error.start} is not") from None


def load(
    text: str,
    path: str,
    variables: Mapping[str, str],
    *,
    secrets_needed: bool = True,
    learned: Mapping[str, FactsByModel] | None = None,
) -> Config:
    """The configuration in `text`. `variables` resolve `env:NAME`, `learned` are facts by provider.

    Raises all mistakes together. A provider whose variables are not set has an `obstacle`. With
    `secrets_needed=False` the variables of client keys may be unset too, for commands that serve nothing.
    """
    environment = Environment(variables, secrets_needed)
    document = TomlDocument(text, path)
    root = document.root()
    found: list[ConfigError] = []
    with collect_mistakes(found):
        root.check(read_keys(Config))
    providers: dict[str, Provider] = {}
    with collect_mistakes(found):
        for name, table in root.table("providers").named_tables():
            with collect_mistakes(found):
                providers[name] = read_provider(name, table, environment, (learned or {}).get(name, {}))
    fields: dict[str, object] = {"providers": providers}
    with collect_mistakes(found):
        fields |= read_each(
            {
                "server": lambda: _read_server(root.table("server"), environment),
                "state": lambda: _read_state(root.table("state"), environment),
                "responses": lambda: _read_responses(root.table("responses")),
                "tools": lambda: read_tools(root.table("tools"), root.table("providers").values, environment),
                "steps": lambda: read_steps(root.table("steps")),
                "telemetry": lambda: _read_telemetry(root.table("telemetry"), environment),
                "session_limits": lambda: read_session_limits(root.table("session_limits")),
                "sign_in": lambda: read_sign_in(root.table("sign_in")),
                "managed_settings": lambda: read_managed_settings(root),
                "rules": lambda: read_rules(root),
                "prompts": lambda: read_prompts(root),
                "roles": lambda: read_roles(root),
                "records": lambda: _read_records(root.table("records")),
                "routes": lambda: read_routes(root),
                "default": lambda: read_targets(root, "default", root.table("providers").values),
            }
        )
    raise_mistakes(found)
    config = root.build(Config, path=path, **fields)
    check_selections(root, config)
    check_step_names(root, config.steps)
    warn_about_routes(root, config)
    warn_about_rules(root, config)
    warnings = sorted(document.warnings, key=lambda warning: warning.line)
    return msgspec.structs.replace(config, warnings=tuple(warnings))


def _read_server(table: TomlTable, environment: Environment) -> ServerSettings:
    table.check(read_keys(ServerSettings))
    if table.values.get("host") == "":
        raise table.error('expected an address such as "127.0.0.1"', "host")
    return table.build(
        ServerSettings,
        keys=read_secrets(table, "keys", environment),
        hosts=tuple(host.strip().lower() for host in table.texts("hosts")),
    )


def _read_state(table: TomlTable, environment: Environment) -> StateSettings:
    table.check(read_keys(StateSettings))
    urls = read_secrets(table, "url", environment)
    scheme = urls[0].reveal().partition("://")[0] if urls else ""
    if scheme and scheme not in ("postgresql", "postgres"):
        hint = "a file needs no address: server.state names its folder"
        raise table.error("expected an address of PostgreSQL, postgresql://…", "url", hint=hint)
    state: StateSettings = table.build(StateSettings, url=urls[0] if urls else None)
    if state.timeout <= 0:
        raise table.error("expected a number greater than 0", "timeout")
    return state


def _read_responses(table: TomlTable) -> ResponsesSettings:
    table.check(read_keys(ResponsesSettings))
    return table.build(ResponsesSettings)


def _read_records(table: TomlTable) -> RecordSettings:
    table.check(read_keys(RecordSettings))
    kind = read_keys(RecordSettings)["record"].kind
    for name, level in table.table("keys").values.items():
        if not kind.accepts(level):
            raise table.error(f"expected {kind.expected}", "keys", name)
    return table.build(RecordSettings)


def _read_telemetry(table: TomlTable, environment: Environment) -> TelemetrySettings:
    table.check(read_keys(TelemetrySettings))
    traces = table.text("traces")
    if traces:
        check_address(table, "traces", traces)
        if urlsplit(traces).username is not None:
            raise table.error(
                "expected an address without a user name",
                "traces",
                hint="keys belong in the variable OTEL_EXPORTER_OTLP_HEADERS",
            )
    keys = read_secrets(table, "metrics_key", environment)
    return table.build(TelemetrySettings, metrics_key=keys[0] if keys else None)
