"""Guard rules as values, read from configuration tables or from the ready sets in `rule_sets/*.toml`.

A rule covers some tools, checks some of their arguments, and has at most one condition: a pattern, a shell
command, shell operators, or `only` for everything outside a list of commands. A rule without a condition
matches every call of its tools.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

from dragoman.governance.guard.patterns import Pattern, PatternError
from dragoman.governance.guard.shell import SIGNS
from dragoman.hub.errors import ConfigError, suggest_spelling
from dragoman.wire.fields import json_type

VerdictKind = Literal["allow", "deny", "ask", "rewrite"]
VERDICTS: tuple[VerdictKind, ...] = ("allow", "deny", "ask", "rewrite")
#: The conditions; a rule has at most one.
CONDITIONS = ("pattern", "command", "operators", "only")
MAX_RULES = 500


class GuardRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule. Names in `tools` can contain `*`.

    `paths`: member names joined by dots, `*` for any member; empty means every text.
    `command`: a program and words that follow it in this order, each with `*` and alternatives by `|`.
    `only`: the commands that may run; the rule matches every other one.
    `replacement`: the new text, with `{value}` for the old one.
    `fold`: turn an argument list that needs a shell into `["bash", "-lc", text]`.
    """

    name: str
    verdict: VerdictKind
    tools: tuple[str, ...] = ("*",)
    paths: tuple[str, ...] = ()
    pattern: str = ""
    command: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    reason: str = ""
    replacement: str | None = None
    fold: bool = False


class RuleSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of one file of ready rules; `tools` and `paths` are defaults for its rules."""

    about: str
    tools: tuple[str, ...] = ("*",)
    paths: tuple[str, ...] = ()
    rules: tuple[dict[str, object], ...]


@cache
def load_rule_sets() -> dict[str, RuleSet]:
    """The ready sets, by name."""
    folder = files("dragoman.governance.guard.rule_sets")
    return {
        entry.name.removesuffix(".toml"): msgspec.convert(
            tomllib.loads(entry.read_text("utf-8")), RuleSet, strict=False
        )
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".toml")
    }


def read_rules(values: object, path: str) -> tuple[GuardRule, ...]:
    """The rules of a configured list. An entry is a rule, the name of a ready set, or a table with `use`."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise ConfigError(f"expected a list of rules, got {json_type(values)}", path=path)
    rules: list[GuardRule] = []
    for number, value in enumerate(values):
        place = f"{path}[{number}]"
        if isinstance(value, str):
            value = {"use": value}
        if not isinstance(value, Mapping):
            raise ConfigError(f"expected a table or the name of a set, got {json_type(value)}", path=place)
        rules += _read_set(value, place) if "use" in value else [read_rule(value, place)]
    if len(rules) > MAX_RULES:
        raise ConfigError(f"expected at most {MAX_RULES} rules, got {len(rules)}", path=path)
    return tuple(rules)


def _read_set(value: Mapping[str, object], path: str) -> list[GuardRule]:
    """The rules of the set that `use` names, with the `tools`, `paths` and `verdict` of the table."""
    known = load_rule_sets()
    name = value["use"]
    if not isinstance(name, str) or name not in known:
        raise ConfigError(
            f"expected the name of a set of rules, got {_show(name)}",
            path=f"{path}.use",
            hint=_suggest(name, known),
        )
    chosen = known[name]
    if unknown := set(value) - {"use", "tools", "paths", "verdict"}:
        raise ConfigError(
            f"unknown key {min(unknown)!r}", path=path, hint="beside `use`: tools, paths, verdict"
        )
    changes = {key: value[key] for key in ("tools", "paths", "verdict") if key in value}
    inherited = {"tools": list(chosen.tools), "paths": list(chosen.paths)}
    return [
        read_rule({**inherited, **rule, **changes, "name": f"{name}/{rule['name']}"}, path)
        for rule in chosen.rules
    ]


def read_rule(value: Mapping[str, object], path: str) -> GuardRule:
    """One rule from its table; every error that does not depend on a call is found here."""
    if unknown := set(value) - set(GuardRule.__struct_fields__):
        hint = _suggest(min(unknown), GuardRule.__struct_fields__)
        raise ConfigError(f"unknown key {min(unknown)!r}", path=path, hint=hint)
    verdict = value.get("verdict")
    if verdict not in VERDICTS:
        raise ConfigError(
            f"expected one of {', '.join(VERDICTS)}, got {_show(verdict)}",
            path=f"{path}.verdict",
            hint=suggest_spelling(str(verdict), VERDICTS),
        )
    try:
        rule = msgspec.convert({"name": path, **value}, GuardRule)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        raise ConfigError(message.lower(), path=path + place.rstrip("`")) from None
    _check_rule(rule, path)
    return rule


def _check_rule(rule: GuardRule, path: str) -> None:
    if not rule.tools or not all(rule.tools):
        raise ConfigError("expected at least one name of a tool", path=f"{path}.tools")
    if sum(bool(getattr(rule, condition)) for condition in CONDITIONS) > 1:
        raise ConfigError(f"expected one of {', '.join(CONDITIONS)}, got several", path=path)
    for word in rule.operators:
        if word not in SIGNS:
            hint = _suggest(word, sorted(SIGNS))
            raise ConfigError(f"unknown operator {word!r}", path=f"{path}.operators", hint=hint)
    if rule.pattern:
        try:
            Pattern(rule.pattern)
        except PatternError as error:
            raise ConfigError(f"not a supported pattern: {error}", path=f"{path}.pattern") from None
    if rule.only and (not rule.paths or rule.verdict not in ("deny", "ask")):
        raise ConfigError("`only` needs `paths`, and the verdict deny or ask", path=path)
    if rule.verdict != "rewrite" and (rule.fold or rule.replacement is not None):
        raise ConfigError("only the verdict rewrite has a `replacement` or a `fold`", path=path)
    if rule.verdict == "rewrite" and rule.fold == (rule.replacement is not None):
        raise ConfigError("the verdict rewrite needs either `replacement` or `fold`", path=path)


def _show(value: object) -> str:
    return repr(value) if isinstance(value, str) else json_type(value)


def _suggest(given: object, known: Iterable[str]) -> str:
    return suggest_spelling(str(given), known) or f"known: {', '.join(known)}"
