"""Reads one `[providers.NAME]` table into a `Provider`."""

import re
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from dragoman.config.document import TomlTable
from dragoman.config.governance import (
    find_governance_sources,
    read_model_governance,
    read_provider_governance,
)
from dragoman.config.load_payload import read_payload
from dragoman.config.mistakes import collect_mistakes, raise_mistakes, read_each
from dragoman.config.model_facts import build_layers, read_models
from dragoman.config.provider import FactsByModel, Provider, list_dialects
from dragoman.config.secrets import PREFIX, Environment, read_preset_secret, read_secret, read_secrets
from dragoman.config.settings import ClaudeCodeSessions, Secret, Timeouts, is_loopback
from dragoman.config.value_kinds import quote_choices, read_keys
from dragoman.dialects.registry import DIALECTS
from dragoman.hub.errors import ConfigError, suggest_spelling
from dragoman.providers.local_programs import LOCAL_PROGRAMS, LocalProgram
from dragoman.providers.presets import Preset, load_presets

#: A provider's name is part of `provider/model`, of headers and of log lines.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PORT = re.compile(r":\d+$")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
#: Headers whose values are credentials.
PRIVATE_HEADERS = frozenset({"authorization", "x-api-key", "x-goog-api-key", "cookie", "proxy-authorization"})
#: The HTTP client sets these headers.
_RESERVED_HEADERS = frozenset({"content-length", "transfer-encoding", "connection"})


def read_provider(name: str, table: TomlTable, environment: Environment, learned: FactsByModel) -> Provider:
    """The provider of this name. `learned` are the facts that the doctor stored about its models."""
    if not _NAME.fullmatch(name):
        raise table.error("expected a name of letters, digits, `.`, `_` and `-`")
    # The gateway also serves if the secrets of one provider are not set.
    environment = environment._replace(is_needed=False)
    _check_keys(table)
    preset_name, preset = _find_preset(name, table)
    dialect = table.text("dialect") or preset.dialect
    if not dialect:
        raise table.error(
            "expected `dialect` or `preset`",
            hint=suggest_spelling(name, load_presets()) or f"dialects: {quote_choices(list_dialects())}",
        )
    program = LOCAL_PROGRAMS.get(dialect)
    url = "" if program else table.text("base_url") or preset.base_url
    governed = (table, preset.governance, url, environment.variables)
    fields = read_each(
        {
            "verify": lambda: _read_certificates(table),
            "base_url": lambda: _read_base_url(table, preset, dialect),
            "timeouts": lambda: _read_timeouts(table),
            "models": lambda: read_models(table),
            "sessions": lambda: _read_sessions(table, program),
            "governance": lambda: read_provider_governance(*governed),
            "model_governance": lambda: read_model_governance(table),
            "keys": lambda: _read_keys(table, preset, environment),
            "headers": lambda: read_headers(table, environment),
            "proxy": lambda: _read_proxy(table, environment),
            "payload": lambda: read_payload(table),
        }
    )
    fields["governance_sources"] = find_governance_sources(*governed)
    _check_program(program, table)
    _check_client_credential(table, program, str(fields["base_url"]))
    if program and "retries" not in table.values:
        fields["retries"] = program.retries
    provider = table.build(
        Provider, name=name, dialect=dialect, layers=build_layers(preset_name, preset, learned), **fields
    )
    return msgspec.structs.replace(provider, obstacle=_find_obstacle(provider, table))


def _check_keys(table: TomlTable) -> None:
    """Raise for keys and values that a provider does not accept, and for its address."""
    found: list[ConfigError] = []
    with collect_mistakes(found):
        table.check(read_keys(Provider))
    if found and (url := table.text("base_url")):
        # Without a mistake the address is checked later, with the dialect.
        with collect_mistakes(found):
            check_address(table, "base_url", url)
    raise_mistakes(found)


def _find_obstacle(provider: Provider, table: TomlTable) -> str:
    """Why requests to the provider cannot succeed; empty if nothing is known against it."""
    unset = [header.variable for header in provider.headers.values() if not header]
    if provider.keys and not any(provider.keys):
        unset += [key.variable for key in provider.keys]
    if "proxy" in table.values and not provider.proxy:
        unset.append(table.text("proxy").removeprefix(PREFIX).strip())
    return f"the environment variable {unset[0]} is not set" if unset else ""


def _check_program(program: LocalProgram | None, table: TomlTable) -> None:
    """Warn if a package that the local program needs is missing: every request to it would fail."""
    if program and program.module and find_spec(program.module) is None:
        hint = f"install dragoman with the extra {program.extra}"
        table.warn(f"the extra {program.extra} is not installed", hint=hint)


def _check_client_credential(table: TomlTable, program: LocalProgram | None, url: str) -> None:
    """Refuse settings that contradict `auth = "client"`, or would show the client's credential to others."""
    if table.text("auth") != "client":
        return
    if program:
        raise table.error("a local program takes no credential of a client", "auth")
    if "api_key" in table.values:
        raise table.error('with auth = "client" the client\'s credential is sent, not this key', "api_key")
    private = [name for name in table.table("headers").values if name.lower() in PRIVATE_HEADERS]
    if private:
        raise table.error('with auth = "client" this header is the client\'s', "headers", private[0])
    address = urlsplit(url)
    if address.scheme == "http" and not is_loopback(address.hostname or ""):
        raise table.error(
            "the client's credential would cross the network unprotected; expected https://", "base_url"
        )
    if address.scheme == "http" and table.text("proxy"):
        # Only https passes through a proxy unread.
        raise table.error("the proxy would read the client's credential; expected https://", "base_url")


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
    url = url.rstrip("/")
    if not program:
        _check_endpoint(table, url, dialect)
    return url


def _check_endpoint(table: TomlTable, url: str, dialect: str) -> None:
    """Raise if the address ends in the path of an endpoint, of any API: the gateway adds that path."""
    path = urlsplit(url).path
    tails = {name: row.http_api.find_endpoint(path) for name, row in DIALECTS.items()}
    tail = tails[dialect] or max(tails.values(), key=len)
    if not tail:
        return
    owners = [name for name, found in tails.items() if found == tail]
    hint = f'base_url = "{url.removesuffix(tail)}"'
    if dialect not in owners:
        hint += f', and dialect = "{owners[0]}"'
    raise table.error(f"expected the root of the API, without the endpoint {tail}", "base_url", hint=hint)


def check_address(table: TomlTable, key: str, url: str) -> None:
    """Raise `ConfigError` unless the value is an HTTP address without query and fragment."""
    hint = "" if url.startswith(("http://", "https://")) else "it begins with http:// or https://"
    try:
        parts = urlsplit(url)
        if _PORT.search(parts.netloc) and not 0 < int(parts.netloc.rpartition(":")[2]) < 65536:
            raise table.error("expected a port from 1 to 65535 in the address", key)
        is_valid = parts.scheme in ("http", "https") and parts.hostname
    except ValueError:
        is_valid = False
    if not is_valid or not url.isascii() or not url.isprintable() or " " in url:
        raise table.error('expected an address such as "https://api.example.com/v1"', key, hint=hint)
    if parts.query or parts.fragment:
        raise table.error("expected an address without `?` and `#`", key)


def _read_certificates(table: TomlTable) -> bool | str:
    """`verify`. A missing file of certificates is an error now, not at the first request."""
    file = table.values.get("verify", True)
    if isinstance(file, str) and not Path(file).is_file():
        raise table.error("expected true, false or a file of certificates; there is no such file", "verify")
    return file if isinstance(file, str) else bool(file)


def _read_keys(table: TomlTable, preset: Preset, environment: Environment) -> tuple[Secret, ...]:
    """The provider's keys. The preset's variable is used only with the preset's address and headers.

    Otherwise the key of one vendor could go to another server.
    """
    if "api_key" in table.values:
        keys = read_secrets(table, "api_key", environment)
        # Of several keys those that are set are used.
        return tuple(filter(None, keys)) or keys
    is_own = table.text("auth") != "client" and not table.pick("base_url", "headers")
    if not preset.key or not is_own:
        return ()
    return (read_preset_secret(preset.key, table, environment),)


def read_headers(table: TomlTable, environment: Environment) -> dict[str, Secret]:
    """The headers of the table `headers`, which every request gets. Names in lower case.

    Raises for reserved names.
    """
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


def _read_sessions(table: TomlTable, program: LocalProgram | None) -> ClaudeCodeSessions:
    if "sessions" in table.values and not (program and program.has_sessions):
        known = tuple(dialect for dialect, program in LOCAL_PROGRAMS.items() if program.has_sessions)
        raise table.error(f"only a provider of dialect {quote_choices(known)} has sessions", "sessions")
    sessions = table.table("sessions")
    sessions.check(read_keys(ClaudeCodeSessions))
    return sessions.build(ClaudeCodeSessions)
