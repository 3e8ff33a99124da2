"""The keys of a governance table, which are the fields of `Governance`."""

from functools import cache

from dragoman.config.kinds import Key, Kind
from dragoman.governance.settings import KEYS

_RULES = Kind(
    "a list of rules",
    lambda value: isinstance(value, list) and all(isinstance(rule, str | dict) for rule in value),
)


@cache
def governance_keys() -> dict[str, Key]:
    keys = {name: Key(Kind(key.words, key.accepts, key.choices()), key.about) for name, key in KEYS.items()}
    return {**keys, "guard": Key(_RULES, "Which calls may pass: tables, or the names of ready sets.")}
