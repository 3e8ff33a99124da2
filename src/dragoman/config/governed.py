"""Reads the governance tables of the file, and names the line of what is wrong in them."""

import re
from collections.abc import Mapping

import msgspec

from dragoman.config.check import Place
from dragoman.config.governance import governance_keys
from dragoman.governance.rules import read_rules
from dragoman.governance.settings import Governance, read_governance, switched
from dragoman.hub.errors import ConfigError

_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def governance_of(
    provider: Place, preset: Mapping[str, object], environment: Mapping[str, str]
) -> Governance:
    """What the preset asks for, or the environment; above all what the provider's own table does."""
    usual = switched(read_governance(preset), environment)
    return msgspec.structs.replace(usual, **governance_changes(provider))


def model_governance(provider: Place) -> dict[str, dict[str, object]]:
    """What is asked of some models' calls, by name or pattern."""
    return {
        name: governance_changes(table)
        for name, table in provider.table("models").named_tables()
        if "governance" in table.values
    }


def governance_changes(owner: Place) -> dict[str, object]:
    """What the owner's table says, to the last rule: fields of `Governance` and their values."""
    place = owner.table("governance")
    if not place.values:
        return {}
    place.check(governance_keys())
    changes = dict(place.values)
    if "guard" in changes:
        try:
            changes["guard"] = read_rules(changes["guard"], "guard")
        except ConfigError as error:
            raise _placed(error, place) from None
    return changes


def _placed(error: ConfigError, place: Place) -> ConfigError:
    """The error with its line in the file."""
    keys = [int(number) if number else name for number, name in _STEP.findall(error.path)]
    return place.error(error.message.removeprefix(f"{error.path}: "), *keys, hint=error.hint)
