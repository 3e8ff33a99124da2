"""Guard rules as values, read from configuration or from the ready sets in `guard_rules`.

A rule looks at calls of some tools, there at some arguments, and there for one thing: a pattern, a shell
command, or shell operators. A rule that looks for nothing applies to every call of its tools.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

from dragoman.governance.guard.pattern_syntax import PatternError
from dragoman.governance.guard.patterns import Pattern
from dragoman.governance.guard.shell import OPERATORS, UNCLOSED
from dragoman.hub.errors import ConfigError, suggest_spelling
from dragoman.wire.fields import json_type

VerdictKind = Literal["allow", "deny", "ask", "rewrite"]
VERDICTS: tuple[VerdictKind, ...] = ("allow", "deny", "ask", "rewrite")
#: What a rule may look for; one of them at a time.
CONDITIONS = ("pattern", "command", "operators")
MAX_RULES = 500


class GuardRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tools` may have `*` for anything. The first rule that allows, denies or asks decides.

    `paths`: members by their names, joined by dots, `*` for any one; none at all means every text.
    `command`: a program and words that must follow it in this order, each with `*` and alternatives by `|`.
    `replacement`: the new text, with `{value}` for the old one. `fold`: hand the command to `bash -lc`.
    """

    name: str
    verdict: VerdictKind
    tools: tuple[str, ...] = ("*",)
    paths: tuple[str, ...] = ()
    pattern: str = ""
    command: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    reason: str = ""
    replacement: str | None = None
    fold: bool = False


class RuleSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules that belong together; `tools` and `paths` hold for those that name none."""

    about: str
    tools: tuple[str, ...] = ("*",)
    paths: tuple[str, ...] = ()
    rules: tuple[dict[str, object], ...]


@cache
def rule_sets() -> dict[str, RuleSet]:
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
    """The rules of a configured list, whose tables are rules or `use` a ready set."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise ConfigError(f"expected a list of rules, got {json_type(values)}", path=path)
    rules: list[GuardRule] = []
    for number, value in enumerate(values):
        place = f"{path}[{number}]"
        if isinstance(value, str):
            value = {"use": value}
        if not isinstance(value, Mapping):
            raise ConfigError(f"expected a table or the name of a set, got {json_type(value)}", path=place)
        rules += _used(value, place) if "use" in value else [read_rule(value, place)]
    if len(rules) > MAX_RULES:
        raise ConfigError(f"expected at most {MAX_RULES} rules, got {len(rules)}", path=path)
    return tuple(rules)


def _used(value: Mapping[str, object], path: str) -> list[GuardRule]:
    """The rules of a ready set, for other tools, members or with another verdict if the table says so."""
    known = rule_sets()
    name = value["use"]
    if not isinstance(name, str) or name not in known:
        raise ConfigError(
            f"expected the name of a set of rules, got {_shown(name)}",
            path=f"{path}.use",
            hint=_nearest(name, known),
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
    """One rule, checked as far as it can be without a call."""
    if unknown := set(value) - set(GuardRule.__struct_fields__):
        hint = _nearest(min(unknown), GuardRule.__struct_fields__)
        raise ConfigError(f"unknown key {min(unknown)!r}", path=path, hint=hint)
    verdict = value.get("verdict")
    if verdict not in VERDICTS:
        raise ConfigError(
            f"expected one of {', '.join(VERDICTS)}, got {_shown(verdict)}",
            path=f"{path}.verdict",
            hint=suggest_spelling(str(verdict), VERDICTS),
        )
    try:
        rule = msgspec.convert({"name": path, **value}, GuardRule)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        raise ConfigError(message.lower(), path=path + place.rstrip("`")) from None
    _check(rule, path)
    return rule


def _check(rule: GuardRule, path: str) -> None:
    if not rule.tools or not all(rule.tools):
        raise ConfigError("expected at least one name of a tool", path=f"{path}.tools")
    if sum(bool(getattr(rule, condition)) for condition in CONDITIONS) > 1:
        raise ConfigError(f"expected one of {', '.join(CONDITIONS)}, got several", path=path)
    for word in rule.operators:
        if word not in OPERATORS and word != UNCLOSED:
            hint = _nearest(word, sorted({*OPERATORS, UNCLOSED}))
            raise ConfigError(f"unknown operator {word!r}", path=f"{path}.operators", hint=hint)
    if rule.pattern:
        try:
            Pattern(rule.pattern)
        except PatternError as error:
            raise ConfigError(f"no pattern: {error}", path=f"{path}.pattern") from None
    if rule.verdict != "rewrite" and (rule.fold or rule.replacement is not None):
        raise ConfigError("only the verdict rewrite has a `replacement` or a `fold`", path=path)
    if rule.verdict == "rewrite" and rule.fold == (rule.replacement is not None):
        raise ConfigError("the verdict rewrite needs either `replacement` or `fold`", path=path)


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str) else json_type(value)


def _nearest(given: object, known: Iterable[str]) -> str:
    return suggest_spelling(str(given), known) or f"known: {', '.join(known)}"
