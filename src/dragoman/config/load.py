"""Reads the TOML file into a `Config`, naming the line of whatever is wrong with it."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from dragoman.config.check import Place, Source
from dragoman.config.governance import (
    read_governance_changes,
    read_model_governance,
    read_provider_governance,
)
from dragoman.config.keys import (
    DIALECTS,
    PROVIDER,
    RESPONSES,
    ROOT,
    ROUTE,
    SERVER,
    SESSIONS,
    TELEMETRY,
    TIMEOUTS,
)
from dragoman.config.kinds import listed
from dragoman.config.layers import layers_below, stated_models
from dragoman.config.learned import learned_file, read_learned
from dragoman.config.model import (
    Config,
    Models,
    Provider,
    Responses,
    Route,
    Secret,
    Server,
    Sessions,
    TargetName,
    Telemetry,
    Timeouts,
)
from dragoman.config.secrets import Environment, secret, secrets, usual_secret
from dragoman.hub.errors import ConfigError, suggest_spelling

#: A provider's name stands before a slash, in headers and in logs.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
#: Headers that follow from the request itself.
_OWN_HEADERS = frozenset({"content-length", "transfer-encoding", "connection"})

#: Dialects that only one thing speaks: its facts hold under any name.
PRESET_OF_DIALECT = {"claude_code": "claude-code"}


class Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A known provider. `key` is the variable that usually holds its key."""

    dialect: str
    base_url: str = ""
    key: str = ""
    #: About all of its models.
    facts: dict[str, object] = {}
    #: Whose file tells what is known of single models; empty: its own.
    catalogue: str = ""
    #: What is asked of its models' tool calls.
    governance: dict[str, object] = {}


@cache
def presets() -> dict[str, Preset]:
    """The known providers, by name."""
    text = files("dragoman.providers").joinpath("presets.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, Preset])


def load_file(path: str, variables: Mapping[str, str], *, secrets_needed: bool = True) -> Config:
    text = _read(path)
    beside = learned_file(path)
    learned = read_learned(_read(str(beside)), str(beside)) if beside.is_file() else {}
    return load(text, path, variables, secrets_needed=secrets_needed, learned=learned)


def _read(path: str) -> str:
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
    learned: Mapping[str, Models] | None = None,
) -> Config:
    """The configuration in `text`; `variables` answer the `env:NAME` references.

    Whoever calls nobody can do without the secrets that are missing. `learned` are facts by provider.
    """
    environment = Environment(variables, secrets_needed)
    root = Source(text, path).root()
    root.check(ROOT)
    providers = {
        name: _provider(name, place, environment, (learned or {}).get(name, {}))
        for name, place in root.table("providers").named_tables()
    }
    return Config(
        server=_server(root.table("server"), environment),
        responses=_responses(root.table("responses")),
        telemetry=_telemetry(root.table("telemetry"), environment),
        providers=providers,
        routes=_routes(root, providers),
        default=_targets(root, "default", providers),
        path=path,
    )


#: Keys of the server whose values are taken as they are.
_PLAIN = ("host", "port", "max_body_mb", "ping", "drain", "log", "admin", "state")


def _server(place: Place, environment: Environment) -> Server:
    place.check(SERVER)
    if place.values.get("host") == "":
        raise place.error('expected an address such as "127.0.0.1"', "host")
    return msgspec.structs.replace(
        msgspec.convert(place.some(*_PLAIN), Server),
        keys=secrets(place, "keys", environment),
        hosts=tuple(host.strip().lower() for host in place.texts("hosts")),
    )


def _responses(place: Place) -> Responses:
    place.check(RESPONSES)
    return msgspec.convert(place.values, Responses)


def _telemetry(place: Place, environment: Environment) -> Telemetry:
    place.check(TELEMETRY)
    traces = place.text("traces")
    if traces:
        _check_address(place, "traces", traces)
        if urlsplit(traces).username is not None:
            raise place.error(
                "expected an address without a user name",
                "traces",
                hint="keys belong in the variable OTEL_EXPORTER_OTLP_HEADERS",
            )
    keys = secrets(place, "metrics_key", environment)
    return Telemetry(
        metrics=place.text("metrics") or Telemetry().metrics,
        metrics_key=keys[0] if keys else None,
        traces=traces,
    )


def _provider(name: str, place: Place, environment: Environment, learned: Models) -> Provider:
    if not _NAME.fullmatch(name):
        raise place.error("expected a name of letters, digits, `.`, `_` and `-`")
    place.check(PROVIDER)
    _check_authorities(place)
    preset_name, preset = _preset(name, place)
    dialect = place.text("dialect") or preset.dialect
    if not dialect:
        raise place.error(
            "expected `dialect` or `preset`",
            hint=suggest_spelling(name, presets()) or f"dialects: {listed(DIALECTS)}",
        )
    return msgspec.structs.replace(
        msgspec.convert(
            {
                "name": name,
                "dialect": dialect,
                "base_url": _base_url(place, preset, dialect),
                "timeouts": _timeouts(place),
                "models": stated_models(place),
                "sessions": _sessions(place, dialect),
                **_retries(dialect),
                **place.some("verify", "retries"),
            },
            Provider,
        ),
        governance=read_provider_governance(place, preset.governance, environment.variables),
        model_governance=read_model_governance(place),
        keys=_keys(place, preset, environment),
        headers=_headers(place, environment),
        proxy=_proxy(place, environment),
        layers=layers_below(preset_name, preset.facts, preset.catalogue or preset_name, learned),
    )


def _preset(name: str, place: Place) -> tuple[str, Preset]:
    """What to start from: the named preset, or that of the provider's own name if no dialect is given."""
    wanted = place.text("preset")
    if wanted and wanted not in presets():
        known = suggest_spelling(wanted, presets()) or f"known presets: {', '.join(presets())}"
        raise place.error(f'no preset "{wanted}"', "preset", hint=known)
    if not wanted:
        wanted = PRESET_OF_DIALECT.get(place.text("dialect"), "") if "dialect" in place.values else name
    return wanted, presets().get(wanted, Preset(dialect=""))


def _base_url(place: Place, preset: Preset, dialect: str) -> str:
    url = place.text("base_url") or preset.base_url
    if dialect == "embedded":
        if unused := place.some("base_url", "api_key", "headers", "proxy"):
            raise place.error("the embedded model is called by no address and no key", next(iter(unused)))
        return ""
    if not url and dialect == "claude_code":
        return ""
    if not url:
        raise place.error("expected `base_url`", hint='for example base_url = "http://127.0.0.1:8000/v1"')
    _check_address(place, "base_url", url)
    if urlsplit(url).username is not None:
        raise place.error("expected an address without a user name; keys belong in `api_key`", "base_url")
    return url.rstrip("/")


def _check_address(place: Place, key: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fits = False
    if not fits or not url.isascii() or not url.isprintable() or " " in url:
        raise place.error('expected an address such as "https://api.example.com/v1"', key)
    if parts.query or parts.fragment:
        raise place.error("expected an address without `?` and `#`", key)


def _keys(place: Place, preset: Preset, environment: Environment) -> tuple[Secret, ...]:
    """The provider's keys. The usual variable's goes to the usual address and nowhere else."""
    if "api_key" in place.values:
        return secrets(place, "api_key", environment)
    if not preset.key or "base_url" in place.values or "headers" in place.values:
        return ()
    return (usual_secret(preset.key, place, environment),)


def _headers(place: Place, environment: Environment) -> dict[str, Secret]:
    table = place.table("headers")
    headers = {}
    for name, value in table.values.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OWN_HEADERS:
            raise table.error("expected the name of a header that may be set", name)
        if not isinstance(value, str):
            raise table.error("expected a string", name)
        headers[name.lower()] = secret(value, table, name, environment=environment)
    return headers


def _proxy(place: Place, environment: Environment) -> str:
    """A proxy's address may hold a password, so it may come from the environment."""
    if "proxy" not in place.values:
        return ""
    address = secret(place.text("proxy"), place, "proxy", environment=environment).reveal()
    if address:
        _check_address(place, "proxy", address)
    return address


def _check_authorities(place: Place) -> None:
    """The file of trusted certificates is looked for now, not at the first call."""
    file = place.values.get("verify")
    if isinstance(file, str) and not Path(file).is_file():
        raise place.error("expected true, false or a file of certificates; there is no such file", "verify")


def _timeouts(place: Place) -> Timeouts:
    timeouts = place.table("timeouts")
    timeouts.check(TIMEOUTS)
    return msgspec.convert(timeouts.values, Timeouts)


def _sessions(place: Place, dialect: str) -> Sessions:
    if "sessions" in place.values and dialect != "claude_code":
        raise place.error('only a provider of dialect "claude_code" has sessions', "sessions")
    table = place.table("sessions")
    table.check(SESSIONS)
    return msgspec.convert(table.values, Sessions)


def _retries(dialect: str) -> dict[str, int]:
    """Claude Code tries again by itself, and a broken session is begun anew by the upstream."""
    return {"retries": 0} if dialect == "claude_code" else {}


def _routes(root: Place, providers: Mapping[str, Provider]) -> tuple[Route, ...]:
    routes: dict[str, Route] = {}
    for place in root.tables("routes"):
        place.check(ROUTE)
        match = place.text("match")
        if not match:
            raise place.error("expected `match`: the model's name as the client says it, or a pattern")
        if match in routes:
            raise place.error("an earlier route has the same name, so this one is never taken", "match")
        targets = _targets(place, "target", providers)
        if not targets:
            raise place.error("expected `target`", hint='for example target = "provider/model"')
        routes[match] = Route(
            match=match,
            targets=targets,
            strict=bool(place.values.get("strict")),
            governance=read_governance_changes(place),
        )
    return tuple(routes.values())


def _targets(place: Place, key: str, providers: Mapping[str, Provider]) -> tuple[TargetName, ...]:
    targets = []
    for name in place.texts(key):
        provider, slash, model = name.partition("/")
        if provider not in providers:
            known = suggest_spelling(provider, providers) or f"providers: {', '.join(providers) or 'none'}"
            raise place.error(f'no provider "{provider}"', key, hint=known)
        if slash and not model:
            raise place.error("expected a model after the slash", key)
        targets.append(TargetName(provider, model or "*"))
    return tuple(targets)
