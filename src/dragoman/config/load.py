"""Reads the TOML file into a `Config`. Errors name the line of the wrong key or value.

`load_file` reads the file and the learned file beside it; `load` takes the text. Both check every key.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from dragoman.config.document import TomlDocument, TomlTable
from dragoman.config.governance import read_governance_changes
from dragoman.config.key_kinds import read_keys
from dragoman.config.load_provider import check_address, read_provider
from dragoman.config.model import (
    Config,
    FactsByModel,
    Provider,
    ResponsesSettings,
    Route,
    ServerSettings,
    TargetName,
    TelemetrySettings,
)
from dragoman.config.model_facts import learned_path, read_learned
from dragoman.config.secrets import Environment, read_secrets
from dragoman.hub.errors import ConfigError, suggest_spelling


def load_file(path: str, variables: Mapping[str, str], *, secrets_needed: bool = True) -> Config:
    """The configuration in a file, with the learned facts beside it."""
    text = _read_text(path)
    beside = learned_path(path)
    learned = read_learned(_read_text(str(beside)), str(beside)) if beside.is_file() else {}
    return load(text, path, variables, secrets_needed=secrets_needed, learned=learned)


def _read_text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}", hint="`dragoman init` writes a configuration"
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

    With `secrets_needed=False` variables may be unset, for commands that call no provider.
    """
    environment = Environment(variables, secrets_needed)
    root = TomlDocument(text, path).root()
    root.check(read_keys(Config))
    providers = {
        name: read_provider(name, table, environment, (learned or {}).get(name, {}))
        for name, table in root.table("providers").named_tables()
    }
    return root.build(
        Config,
        server=_read_server(root.table("server"), environment),
        responses=_read_responses(root.table("responses")),
        telemetry=_read_telemetry(root.table("telemetry"), environment),
        providers=providers,
        routes=_read_routes(root, providers),
        default=_read_targets(root, "default", providers),
        path=path,
    )


def _read_server(table: TomlTable, environment: Environment) -> ServerSettings:
    table.check(read_keys(ServerSettings))
    if table.values.get("host") == "":
        raise table.error('expected an address such as "127.0.0.1"', "host")
    return table.build(
        ServerSettings,
        keys=read_secrets(table, "keys", environment),
        hosts=tuple(host.strip().lower() for host in table.texts("hosts")),
    )


def _read_responses(table: TomlTable) -> ResponsesSettings:
    table.check(read_keys(ResponsesSettings))
    return table.build(ResponsesSettings)


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


def _read_routes(root: TomlTable, providers: Mapping[str, Provider]) -> tuple[Route, ...]:
    routes: dict[str, Route] = {}
    for table in root.tables("routes"):
        table.check(read_keys(Route))
        match = table.text("match")
        if not match:
            raise table.error("expected `match`: the model name that clients send, or a pattern")
        if match in routes:
            raise table.error("an earlier route has the same name, so this one is never used", "match")
        targets = _read_targets(table, "target", providers)
        if not targets:
            raise table.error("expected `target`", hint='for example target = "provider/model"')
        routes[match] = table.build(Route, targets=targets, governance=read_governance_changes(table))
    return tuple(routes.values())


def _read_targets(table: TomlTable, key: str, providers: Mapping[str, Provider]) -> tuple[TargetName, ...]:
    targets = []
    for name in table.texts(key):
        provider, slash, model = name.partition("/")
        if provider not in providers:
            known = suggest_spelling(provider, providers) or f"providers: {', '.join(providers) or 'none'}"
            raise table.error(f'no provider "{provider}"', key, hint=known)
        if slash and not model:
            raise table.error("expected a model after the slash", key)
        targets.append(TargetName(provider, model or "*"))
    return tuple(targets)
