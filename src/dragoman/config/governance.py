"""Reads the governance tables of the configuration file. Errors name the line of the wrong value."""

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from dragoman.config.value_kinds import ConfigKey, Kind
from dragoman.governance.guard.rules import read_rules
from dragoman.governance.harvest import families
from dragoman.governance.settings import KEYS, SWITCHES, Governance, apply_switches, read_governance
from dragoman.hub.errors import ConfigError, suggest_spelling

if TYPE_CHECKING:
    from dragoman.config.document import TomlTable

_RULES = Kind(
    "a list of rules",
    lambda value: isinstance(value, list) and all(isinstance(rule, str | dict) for rule in value),
)
#: Domains where a vendor, or a cloud that serves for it, runs the vendor's own models.
VENDOR_DOMAINS = (
    "openai.com",
    "anthropic.com",
    "googleapis.com",
    "azure.com",
    "amazonaws.com",
    "deepseek.com",
    "mistral.ai",
    "moonshot.ai",
    "moonshot.cn",
    "bigmodel.cn",
    "z.ai",
    "aliyuncs.com",
    "x.ai",
)
#: The default for all other servers. Complete arguments stay byte for byte; only the pieces are joined.
_OTHER_SERVERS: dict[str, object] = {"tools": "hold"}
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


@cache
def governance_keys() -> dict[str, ConfigKey]:
    """The keys of a governance table, which are the fields of `Governance`."""
    keys = {
        name: ConfigKey(Kind(key.expected, key.accepts, key.choices), key.about) for name, key in KEYS.items()
    }
    return {**keys, "guard": ConfigKey(_RULES, "Which calls may pass: tables, or the names of ready sets.")}


def read_provider_governance(
    provider: "TomlTable", preset: Mapping[str, object], base_url: str, environment: Mapping[str, str]
) -> Governance:
    """The governance of a provider: its own table, on top of the environment, on top of the default.

    The default is the preset's. Without one it depends on the address: nothing for a vendor's own API and for
    local programs, which have no address; calls are held and repaired for any other server.
    """
    usual = apply_switches(read_governance(_find_default(preset, base_url)), environment)
    return msgspec.structs.replace(usual, **read_governance_changes(provider))


def find_governance_sources(
    provider: "TomlTable", preset: Mapping[str, object], base_url: str, environment: Mapping[str, str]
) -> dict[str, str]:
    """Where each value of `read_provider_governance` comes from that is not the default of its key."""
    default = _find_default(preset, base_url)
    usual = read_governance(default)
    sources = dict.fromkeys(default, "preset" if preset else "default for a server that is no vendor's own")
    switched = apply_switches(usual, environment)
    variable = next((name for name in SWITCHES if environment.get(name, "").strip()), "")
    for name in Governance.__struct_fields__:
        if getattr(switched, name) != getattr(usual, name):
            sources[name] = f"environment variable {variable}"
    return sources | dict.fromkeys(read_governance_changes(provider), "configuration of the provider")


def _find_default(preset: Mapping[str, object], base_url: str) -> Mapping[str, object]:
    return preset if preset or not base_url or _is_vendor(base_url) else _OTHER_SERVERS


def _is_vendor(base_url: str) -> bool:
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        # The address is a mistake, which is reported by the reader of the address.
        return False
    return any(f".{host}".endswith(f".{domain}") for domain in VENDOR_DOMAINS)


def read_model_governance(provider: "TomlTable") -> dict[str, dict[str, object]]:
    """The `governance` tables of a provider's models, by model name or pattern.

    They override the provider's governance.
    """
    tables = dict(provider.table("models").named_tables())
    for table in (provider, *tables.values()):
        _check_family(table, "call_family", "the name of a family", families())
    return {
        name: read_governance_changes(table) for name, table in tables.items() if "governance" in table.values
    }


def _check_family(table: "TomlTable", key: str, expected: str, known: Collection[str]) -> None:
    """Raise an error that lists all families if the name is unknown: nothing would be harvested."""
    value = table.values.get(key)
    if isinstance(value, str) and value not in known:
        hint = suggest_spelling(value, known) or f"families: {', '.join(families())}"
        raise table.error(f'expected {expected}, got "{value}"', key, hint=hint)


def read_governance_changes(owner: "TomlTable") -> dict[str, object]:
    """The checked values of the owner's `governance` table: fields of `Governance`, with its guard rules."""
    place = owner.table("governance")
    if not place.values:
        return {}
    _check_family(place, "harvest", KEYS["harvest"].expected, KEYS["harvest"].choices())
    place.check(governance_keys())
    changes = dict(place.values)
    if "guard" in changes:
        try:
            changes["guard"] = read_rules(changes["guard"], "guard")
        except ConfigError as error:
            raise _add_line(error, place) from None
    return changes


def _add_line(error: ConfigError, place: "TomlTable") -> ConfigError:
    """The same error with the line of its path in the file."""
    keys = [int(number) if number else name for number, name in _STEP.findall(error.path)]
    return place.error(error.message.removeprefix(f"{error.path}: "), *keys, hint=error.hint)
