"""What a route or a model asks of governance. The defaults ask for nothing: the reply stays the core's.

Read from a plain table with `read_governance`; what the environment switches on or off is a default that a
table's own words override (`switched`).
"""

from collections.abc import Callable, Mapping
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
#: The family that is known of the model, and what is safe to believe of any where none is.
OF_MODEL = "model"
#: The family whose format the text contract teaches.
CONTRACT_FAMILY = "hermes"

#: Variables that switch the mending of tool calls on or off; the first that is set counts.
SWITCHES = ("DRAGOMAN_TOOL_ENHANCE", "RCC_TOOL_ENHANCE")
_SWITCH_VALUES = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}


class Governance(msgspec.Struct, frozen=True, kw_only=True):
    """One route's or model's governance; `KEYS` says what each field means."""

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

    @property
    def family(self) -> str:
        """What to harvest: a contract is useless if nobody reads the answers."""
        return CONTRACT_FAMILY if self.contract and self.harvest == OFF else self.harvest

    def known(self, family: str) -> "Governance":
        """The same for a model of which this family is known, if any is."""
        if self.harvest != OF_MODEL:
            return self
        return msgspec.structs.replace(self, harvest=family if family in families() else AUTO)

    @property
    def is_off(self) -> bool:
        """Whether replies pass as they are and requests go as they came."""
        return (
            self.tools == "live"
            and self.family == OFF
            and not (self.choice or self.contract or self.guard)
            and not (self.rename or self.dedupe or self.validate)
        )


class Key(NamedTuple):
    words: str
    accepts: Callable[[object], bool]
    about: str
    #: The texts to choose from, if there are only so many.
    choices: Callable[[], tuple[str, ...]] = tuple


def _one_of(*choices: str, about: str) -> Key:
    words = "one of " + ", ".join(f'"{choice}"' for choice in choices)
    return Key(words, lambda value: value in choices, about, lambda: choices)


def _harvests() -> tuple[str, ...]:
    return (OFF, AUTO, OF_MODEL, *families())


_FLAG = ("true or false", lambda value: type(value) is bool)
_TEXT = ("a text", lambda value: isinstance(value, str) and bool(value))

#: Every key of a governance table but `guard`: what it takes, and what it means.
KEYS: dict[str, Key] = {
    "tools": _one_of(
        "live",
        "hold",
        "auto",
        about="How calls go out: `live` in pieces; `hold` whole and mended; `auto` live until they deviate.",
    ),
    "repair": Key(*_FLAG, "Arguments that are not JSON are mended, where they are held."),
    "on_unrepairable": _one_of(
        "diagnose",
        "error",
        "raw",
        about="Arguments beyond repair: shown in an object, or the reply fails, or they go out as they came.",
    ),
    "raw_key": Key(*_TEXT, "The member that shows arguments beyond repair."),
    "harvest": Key(
        '"off", "auto", "model" or the name of a family',
        lambda value: isinstance(value, str) and (value in (OFF, AUTO, OF_MODEL) or value in families()),
        "Calls written as text: `auto` (unmistakable ones), `model` (by its `call_family`), or a family.",
        _harvests,
    ),
    "choice": _one_of(
        "",
        "auto",
        "required",
        about="What to say about calling tools where the client left it open.",
    ),
    "exit": Key(*_FLAG, 'With `choice = "required"`: a further tool through which the model just answers.'),
    "contract": Key(*_FLAG, "Tools are described in words, for models that know no function calling."),
    "on_denied": _one_of(
        "model",
        "client",
        about="Who is told of a denied call: the client as text, or the model, which gets another turn.",
    ),
    "rename": Key(*_FLAG, "A call whose name differs from a tool's in nothing but case gets that name."),
    "dedupe": Key(*_FLAG, "A call that says the same as the one before it is left out."),
    "validate": Key(*_FLAG, "Arguments are checked against the tool's schema, and the outcome is recorded."),
    "hold_bytes": Key(
        "an integer from 1024 on",
        lambda value: type(value) is int and value >= 1024,
        "How much of a reply may be held back at a time.",
    ),
    "hold_seconds": Key(
        "a number from 0 on",
        lambda value: isinstance(value, int | float) and type(value) is not bool and 0 <= value <= 1e9,
        "How long a call may be held back; 0: as long as it takes.",
    ),
    "snapshots": Key(*_FLAG, "Replies that were changed are kept in files, before and after, redacted."),
}


def read_governance(
    values: Mapping[str, object], *, base: Governance | None = None, path: str = ""
) -> Governance:
    """`base` with what the table says. Errors name the key, what it takes and what came."""
    return msgspec.structs.replace(base or Governance(), **read_changes(values, path=path))


def read_changes(values: Mapping[str, object], *, path: str = "") -> dict[str, object]:
    """What a table says, checked: fields of `Governance` and their values."""
    for key, value in values.items():
        if key != "guard":
            _check(key, value, path)
    changes = dict(values)
    if "guard" in values:
        changes["guard"] = read_rules(values["guard"], f"{path}.guard" if path else "guard")
    return changes


def _check(key: str, value: object, path: str) -> None:
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
    raise ConfigError(f"expected {known.words}, got {shown}", path=place, hint=hint)


def apply_switches(governance: Governance, environment: Mapping[str, str]) -> Governance:
    """The defaults that the environment asks for: calls held and mended; or nothing at all."""
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
