"""Reads one `[providers.NAME]` table into a `Provider`."""

import re
from pathlib import Path
from urllib.parse import urlsplit

from dragoman.config.document import TomlTable
from dragoman.config.governance import read_model_governance, read_provider_governance
from dragoman.config.key_kinds import quote_choices, read_keys
from dragoman.config.model import (
    FactsByModel,
    Provider,
    Secret,
    SessionSettings,
    Timeouts,
    list_dialects,
)
from dragoman.config.model_facts import build_layers, read_models
from dragoman.config.secrets import Environment, read_preset_secret, read_secret, read_secrets
from dragoman.hub.errors import suggest_spelling
from dragoman.providers.local_programs import LOCAL_PROGRAMS, LocalProgram
from dragoman.providers.presets import Preset, load_presets

#: A provider's name is part of `provider/model`, of headers and of log lines.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
#: The HTTP client sets these headers.
_RESERVED_HEADERS = frozenset({"content-length", "transfer-encoding", "connection"})


def read_provider(name: str, table: TomlTable, environment: Environment, learned: FactsByModel) -> Provider:
    """The provider of this name. `learned` are the facts that the doctor stored about its models."""
    if not _NAME.fullmatch(name):
        raise table.error("expected a name of letters, digits, `.`, `_` and `-`")
    table.check(read_keys(Provider))
    _check_certificates(table)
    preset_name, preset = _find_preset(name, table)
    dialect = table.text("dialect") or preset.dialect
    if not dialect:
        raise table.error(
            "expected `dialect` or `preset`",
            hint=suggest_spelling(name, load_presets()) or f"dialects: {quote_choices(list_dialects())}",
        )
    program = LOCAL_PROGRAMS.get(dialect)
    base_url = _read_base_url(table, preset, dialect)
    own_defaults = {"retries": program.retries} if program and "retries" not in table.values else {}
    return table.build(
        Provider,
        name=name,
        dialect=dialect,
        base_url=base_url,
        timeouts=_read_timeouts(table),
        models=read_models(table),
        sessions=_read_sessions(table, program),
        governance=read_provider_governance(
            table, preset.governance, "" if program else base_url, environment.variables
        ),
        model_governance=read_model_governance(table),
        keys=_read_keys(table, preset, environment),
        headers=_read_headers(table, environment),
        proxy=_read_proxy(table, environment),
        layers=build_layers(preset_name, preset, learned),
        **own_defaults,
    )


def _find_preset(name: str, table: TomlTable) -> tuple[str, Preset]:
    """The named preset, else that of the local program. Without `dialect`, that of the provider's name."""
    wanted = table.text("preset")
    presets = load_presets()
    if wanted and wanted not in presets:
        known = suggest_spelling(wanted, presets) or f"known presets: {', '.join(presets)}"
        raise table.error(f'no preset "{wanted}"', "preset", hint=known)
    if not wanted and "dialect" in table.values:
        program = LOCAL_PROGRAMS.get(table.text("dialect"))
        wanted = program.preset if program else ""
    elif not wanted:
        wanted = name
    return wanted, presets.get(wanted, Preset(dialect=""))


def _read_base_url(table: TomlTable, preset: Preset, dialect: str) -> str:
    program = LOCAL_PROGRAMS.get(dialect)
    url = table.text("base_url") or preset.base_url
    if program and not program.takes_address:
        if unused := table.pick("base_url", "api_key", "headers", "proxy"):
            raise table.error(
                f'a provider of dialect "{dialect}" has no address and no key', next(iter(unused))
            )
        return ""
    if not url and program:
        return ""
    if not url:
        raise table.error("expected `base_url`", hint='for example base_url = "http://127.0.0.1:8000/v1"')
    check_address(table, "base_url", url)
    if urlsplit(url).username is not None:
        raise table.error("expected an address without a user name; keys belong in `api_key`", "base_url")
    return url.rstrip("/")


def check_address(table: TomlTable, key: str, url: str) -> None:
    """Raise `ConfigError` unless the value is an HTTP address without query and fragment."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not url.isascii() or not url.isprintable() or " " in url:
        raise table.error('expected an address such as "https://api.example.com/v1"', key)
    if parts.query or parts.fragment:
        raise table.error("expected an address without `?` and `#`", key)


def _check_certificates(table: TomlTable) -> None:
    """A missing file of certificates is an error now, not at the first request."""
    file = table.values.get("verify")
    if isinstance(file, str) and not Path(file).is_file():
        raise table.error("expected true, false or a file of certificates; there is no such file", "verify")


def _read_keys(table: TomlTable, preset: Preset, environment: Environment) -> tuple[Secret, ...]:
    """The provider's keys. The preset's variable is used only with the preset's address and headers.

    Otherwise the key of one vendor could go to another server.
    """
    if "api_key" in table.values:
        return read_secrets(table, "api_key", environment)
    if not preset.key or "base_url" in table.values or "headers" in table.values:
        return ()
    return (read_preset_secret(preset.key, table, environment),)


def _read_headers(table: TomlTable, environment: Environment) -> dict[str, Secret]:
    """The further headers, with names in lower case."""
    headers_table = table.table("headers")
    headers = {}
    for name, value in headers_table.values.items():
        if not _HEADER.fullmatch(name) or name.lower() in _RESERVED_HEADERS:
            raise headers_table.error("expected the name of a header that may be set", name)
        if not isinstance(value, str):
            raise headers_table.error("expected a string", name)
        headers[name.lower()] = read_secret(value, headers_table, name, environment=environment)
    return headers


def _read_proxy(table: TomlTable, environment: Environment) -> str:
    """The proxy's address. It may contain a password, so it may come from the environment."""
    if "proxy" not in table.values:
        return ""
    address = read_secret(table.text("proxy"), table, "proxy", environment=environment).reveal()
    if address:
        check_address(table, "proxy", address)
    return address


def _read_timeouts(table: TomlTable) -> Timeouts:
    timeouts = table.table("timeouts")
    timeouts.check(read_keys(Timeouts))
    return timeouts.build(Timeouts)


def _read_sessions(table: TomlTable, program: LocalProgram | None) -> SessionSettings:
    if "sessions" in table.values and not (program and program.has_sessions):
        known = tuple(dialect for dialect, program in LOCAL_PROGRAMS.items() if program.has_sessions)
        raise table.error(f"only a provider of dialect {quote_choices(known)} has sessions", "sessions")
    sessions = table.table("sessions")
    sessions.check(read_keys(SessionSettings))
    return sessions.build(SessionSettings)
