"""The governance settings of a route, a model or a provider. By default everything is off.

`read_governance` reads a plain table. `apply_switches` applies the environment variables, which change only
defaults: a key in a table has priority.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Literal, NamedTuple

import msgspec

from dragoman.governance.guard.rules import GuardRule, read_rules
from dragoman.governance.harvest import AUTO, families
from dragoman.hub.errors import ConfigError, suggest_spelling
from dragoman.wire.fields import json_type

Mode = Literal["live", "hold", "auto"]
OnUnrepairable = Literal["diagnose", "error", "raw"]
OnDenied = Literal["model", "client"]
ChoicePolicy = Literal["", "auto", "required"]

OFF = "off"
#: The family that the catalogue states for the model; `auto` if it states none.
OF_MODEL = "model"
#: The family in whose format the text contract asks for calls.
CONTRACT_FAMILY = "hermes"

#: Variables that switch holding and repair on or off; the first one that is set counts.
SWITCHES = ("DRAGOMAN_TOOL_ENHANCE", "RCC_TOOL_ENHANCE")
_SWITCH_VALUES = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}


class Governance(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The settings; `KEYS` describes each field."""

    tools: Mode = "live"
    repair: bool = True
    on_unrepairable: OnUnrepairable = "diagnose"
    raw_key: str = "text"
    harvest: str = OFF
    choice: ChoicePolicy = ""
    exit: bool = True
    contract: bool = False
    guard: tuple[GuardRule, ...] = ()
    on_denied: OnDenied = "client"
    rename: bool = False
    dedupe: bool = False
    validate: bool = False
    hold_bytes: int = 4 * 1024 * 1024
    hold_seconds: float = 0.0
    snapshots: bool = False

    def __post_init__(self) -> None:
        """Refuse an unknown family. The library can build this object without `read_governance`."""
        if self.harvest != OFF:
            _check_value("harvest", self.harvest, "")

    @property
    def family(self) -> str:
        """The family to harvest. A contract needs a harvest, because its calls arrive as text."""
        return CONTRACT_FAMILY if self.contract and self.harvest == OFF else self.harvest

    def with_model_family(self, family: str) -> "Governance":
        """The same settings, with `harvest = "model"` resolved to this family or to `auto`."""
        if self.harvest != OF_MODEL:
            return self
        return msgspec.structs.replace(self, harvest=family if family in families() else AUTO)

    @cached_property
    def is_off(self) -> bool:
        """Whether requests and replies pass unchanged."""
        return (
            self.tools == "live"
            and self.family == OFF
            and not (self.choice or self.contract or self.guard)
            and not (self.rename or self.dedupe or self.validate)
        )

    def is_idle(self, *, has_tools: bool) -> bool:
        """Whether governance cannot change this request or its reply.

        It is off, or there are no tools and harvest is off.
        """
        return self.is_off or (not has_tools and self.family == OFF)


class SettingKey(NamedTuple):
    """One key of a governance table: the values that it accepts, in words and as a test, and its meaning."""

    expected: str
    accepts: Callable[[object], bool]
    about: str
    #: All accepted texts, if the key accepts nothing else.
    choices: Callable[[], tuple[str, ...]] = tuple


def _one_of(*choices: str, about: str) -> SettingKey:
    words = "one of " + ", ".join(f'"{choice}"' for choice in choices)
    return SettingKey(words, lambda value: value in choices, about, lambda: choices)


def _list_harvests() -> tuple[str, ...]:
    return (OFF, AUTO, OF_MODEL, *families())


_FLAG = ("true or false", lambda value: type(value) is bool)
_TEXT = ("a text", lambda value: isinstance(value, str) and bool(value))

#: Every key of a governance table except `guard`.
KEYS: dict[str, SettingKey] = {
    "tools": _one_of(
        "live",
        "hold",
        "auto",
        about="How calls are sent: `live` in pieces; `hold` whole, repaired; `auto` live until they deviate.",
    ),
    "repair": SettingKey(*_FLAG, "Repair arguments that are not JSON, if calls are held."),
    "on_unrepairable": _one_of(
        "diagnose",
        "error",
        "raw",
        about="Arguments beyond repair: show them in an object, fail the reply, or send them as they are.",
    ),
    "raw_key": SettingKey(*_TEXT, "The member that shows arguments which cannot be repaired."),
    "harvest": SettingKey(
        '"off", "auto", "model" or the name of a family',
        lambda value: isinstance(value, str) and (value in (OFF, AUTO, OF_MODEL) or value in families()),
        "Calls written as text: `auto` (unmistakable ones), `model` (by its `call_family`), or a family.",
        _list_harvests,
    ),
    "choice": _one_of(
        "",
        "auto",
        "required",
        about="The tool choice if the client made none.",
    ),
    "exit": SettingKey(
        *_FLAG, 'With `choice = "required"`: add a tool through which the model gives a plain answer.'
    ),
    "contract": SettingKey(*_FLAG, "Describe the tools as text, for models without function calling."),
    "on_denied": _one_of(
        "model",
        "client",
        about="Who gets the denial of a call: the client as text, or the model, which answers again.",
    ),
    "rename": SettingKey(*_FLAG, "A call whose name differs from a tool's only in case gets that name."),
    "dedupe": SettingKey(*_FLAG, "Remove a call that repeats the one before it."),
    "validate": SettingKey(*_FLAG, "Check arguments against the tool's schema and record the result."),
    "hold_bytes": SettingKey(
        "an integer from 1024 on",
        lambda value: type(value) is int and value >= 1024,
        "How many bytes of a reply may be held at a time.",
    ),
    "hold_seconds": SettingKey(
        "a number from 0 on",
        lambda value: isinstance(value, int | float) and type(value) is not bool and 0 <= value <= 1e9,
        "How long a call may be held, in seconds; 0: without a limit.",
    ),
    "snapshots": SettingKey(
        *_FLAG, "Keep replies that were changed in files, before and after, without secrets."
    ),
}


def read_governance(
    values: Mapping[str, object], *, base: Governance | None = None, path: str = ""
) -> Governance:
    """The settings of a table: those of `base`, replaced by the values of the table.

    Errors name the key, the accepted values and the given one.
    """
    return msgspec.structs.replace(base or Governance(), **read_changes(values, path=path))


def read_changes(values: Mapping[str, object], *, path: str = "") -> dict[str, object]:
    """The checked values of a table, as fields of `Governance`."""
    for key, value in values.items():
        if key != "guard":
            _check_value(key, value, path)
    changes = dict(values)
    if "guard" in values:
        changes["guard"] = read_rules(values["guard"], f"{path}.guard" if path else "guard")
    return changes


def _check_value(key: str, value: object, path: str) -> None:
    known = KEYS.get(key)
    if known is None:
        names = [*KEYS, "guard"]
        hint = suggest_spelling(key, names) or f"known: {', '.join(names)}"
        raise ConfigError(f"unknown key {key!r}", path=path, hint=hint)
    if known.accepts(value):
        return
    shown = repr(value) if isinstance(value, str | int | float) else json_type(value)
    hint = suggest_spelling(value, known.choices()) if isinstance(value, str) else ""
    if key == "harvest" and not hint:
        hint = f"families: {', '.join(families())}"
    place = f"{path}.{key}" if path else key
    raise ConfigError(f"expected {known.expected}, got {shown}", path=place, hint=hint)


def apply_switches(governance: Governance, environment: Mapping[str, str]) -> Governance:
    """Apply the environment variables to the defaults: on holds and repairs calls, off turns all off."""
    for variable in SWITCHES:
        value = environment.get(variable, "").strip()
        if not value:
            continue
        wanted = _SWITCH_VALUES.get(value.lower())
        if wanted is None:
            raise ConfigError(f"expected 1, true, 0 or false, got {value!r}", path=variable)
        if not wanted:
            return Governance(repair=False)
        mode: Mode = "hold" if governance.tools == "live" else governance.tools
        return msgspec.structs.replace(governance, tools=mode, repair=True)
    return governance
