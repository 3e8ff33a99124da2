"""Reads `[[rules]]`, `roles` and `[[prompts]]`, and finds rules that have no effect or cannot work."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from dragoman.config.config import Config
from dragoman.config.document import TomlTable
from dragoman.config.load_provider import PRIVATE_HEADERS
from dragoman.config.load_routes import read_targets
from dragoman.config.mistakes import collect_mistakes, raise_mistakes
from dragoman.config.prompts import AT_MATCHES, UNSTABLE, PromptRule
from dragoman.config.rules import DEFAULT_ROLES, PRESETS, Rule, RuleConditions
from dragoman.config.value_kinds import TEXT_OR_TEXTS, read_keys
from dragoman.governance.guard.patterns import Pattern, PatternError
from dragoman.hub.errors import ConfigError, suggest_spelling

NamedRule = TypeVar("NamedRule", Rule, PromptRule)

#: The results of a rule. One of them is set, or the preset is `tag`.
RESULTS = ("target", "route", "answer", "function")

#: An entry: one segment, and none that begins a path of the gateway's own or of an API.
_ENTRY = re.compile(r"/[A-Za-z][A-Za-z0-9_-]*")
_RESERVED_ENTRIES = frozenset(
    {"/v1", "/v1beta", "/v1alpha", "/v2", "/admin", "/metrics", "/health", "/api", "/models", "/messages"}
    | {"/responses", "/completions", "/page", "/session", "/device", "/oauth", "/gateway"}
)
_TIME = r"(?:[01]?\d|2[0-3]):[0-5]\d"
_HOURS = re.compile(rf"({_TIME})-({_TIME}|24:00)")
_VERSION = re.compile(r"[0-9A-Za-z.*?+-]+|(?:[<>]=?|=)\s*\d[0-9A-Za-z.+-]*")
_FUNCTION = re.compile(r"(?:.+\.py|[A-Za-z_][\w.]*):[A-Za-z_]\w*")


def read_roles(root: TomlTable) -> dict[str, tuple[str, ...]]:
    """The markers of each role. A role of the file replaces the default one of the same name."""
    table = root.table("roles")
    for name, markers in table.values.items():
        if not TEXT_OR_TEXTS.accepts(markers) or not all(text.strip() for text in table.texts(name)):
            raise table.error("expected a text that the system text contains, or a list of such texts", name)
    return {**DEFAULT_ROLES, **{name: table.texts(name) for name in table.values}}


def read_named(
    root: TomlTable, key: str, read: Callable[[TomlTable, TomlTable, int], NamedRule]
) -> tuple[NamedRule, ...]:
    """The rules of an array of tables, in their order. `read` gets a table, the root and its number."""
    rules: dict[str, NamedRule] = {}
    found: list[ConfigError] = []
    for number, table in enumerate(root.tables(key), 1):
        with collect_mistakes(found):
            rule = read(table, root, number)
            if rule.name in rules:
                raise table.error(f'an earlier rule has the name "{rule.name}"', "name")
            rules[rule.name] = rule
    raise_mistakes(found)
    return tuple(rules.values())


def read_rules(root: TomlTable) -> tuple[Rule, ...]:
    """The rules of the file, in their order."""
    return read_named(root, "rules", _read_rule)


def _read_rule(table: TomlTable, root: TomlTable, number: int) -> Rule:
    table.check(read_keys(Rule))
    preset = table.text("preset")
    results = [key for key in RESULTS if table.values.get(key)]
    if preset == "tag":
        if results:
            raise table.error("the tag names the target, so there is no other result", results[0])
    elif len(results) != 1:
        what = " and ".join(f"`{key}`" for key in results) or "none"
        raise table.error(f"expected one of `target`, `route`, `answer` and `function`, got {what}")
    function = table.text("function")
    if function and not _FUNCTION.fullmatch(function):
        raise table.error("expected FILE.py:NAME or module:NAME", "function")
    if function and ".py:" in function:
        file = resolve_function_file(function, table.file)
        if not file.is_file():
            raise table.error(f"there is no file {file}", "function")
    _check_route(table, root)
    return table.build(
        Rule,
        name=table.text("name") or preset or f"rule {number}",
        when=read_conditions(table.table("when"), root, PRESETS.get(preset, RuleConditions())),
        targets=read_targets(table, "target", root.table("providers").values),
    )


def _check_route(table: TomlTable, root: TomlTable) -> None:
    route = table.text("route")
    known = [each.text("match") for each in root.tables("routes")]
    if route and route not in known:
        hint = suggest_spelling(route, known) or f"routes: {', '.join(known) or 'none'}"
        raise table.error(f'no route "{route}"', "route", hint=hint)


def resolve_function_file(function: str, config_path: str) -> Path:
    """The file of a function. A relative path is relative to the folder of the configuration."""
    return Path(config_path).absolute().parent / function.rpartition(":")[0]


def list_function_files(config: Config) -> list[Path]:
    """The Python files of the functions of all rules."""
    functions = (rule.function for rule in config.rules if ".py:" in rule.function)
    return [resolve_function_file(function, config.path) for function in functions]


def read_conditions(when: TomlTable, root: TomlTable, preset: RuleConditions) -> RuleConditions:
    """The conditions of a table, added to those of the preset."""
    keys = read_keys(RuleConditions)
    when.check(keys)
    lists = {
        field.name: when.texts(field.encode_name)
        for field in msgspec.structs.fields(RuleConditions)
        if field.encode_name in when.values and field.default == ()
    }
    for name in when.values:
        if keys[name].kind is TEXT_OR_TEXTS and not all(when.texts(name)):
            raise when.error("expected texts that are not empty", name)
    _check_texts(when, root)
    written = when.build(RuleConditions, **lists)
    changes = {
        field.name: getattr(written, field.name)
        for field in msgspec.structs.fields(RuleConditions)
        if field.encode_name in when.values
    }
    conditions = msgspec.structs.replace(preset, **changes)
    _check_tokens(when, conditions)
    return conditions


def _check_texts(when: TomlTable, root: TomlTable) -> None:
    """Check the values that are more than patterns of names."""
    roles = {**DEFAULT_ROLES, **root.table("roles").values}
    for role in when.texts("role"):
        if role not in roles:
            hint = suggest_spelling(role, roles) or f'define it: [roles] {role} = "TEXT"'
            raise when.error(f'no role "{role}"', "role", hint=hint)
    for entry in when.texts("path"):
        if not _ENTRY.fullmatch(entry) or entry in _RESERVED_ENTRIES:
            raise when.error("expected one segment that no API uses, such as /claude", "path")
    hours = when.text("hours")
    times = _HOURS.fullmatch(hours)
    if hours and (times is None or times[1] == times[2]):
        raise when.error('expected two different times, such as "22:00-06:00"', "hours")
    version = when.text("agent_version")
    if version and not _VERSION.fullmatch(version):
        raise when.error('expected a version such as "2.1.*" or ">=2.1.300"', "agent_version")
    headers = when.table("headers")
    for name, pattern in headers.values.items():
        if not isinstance(pattern, str):
            raise headers.error("expected a pattern", name)
        if name.lower() in PRIVATE_HEADERS:
            raise headers.error("rules do not see credentials", name, hint="match the `key` by its name")


def _check_tokens(when: TomlTable, conditions: RuleConditions) -> None:
    """Check the numbers of tokens, of which one may come from the preset."""
    low, high = conditions.tokens_over, conditions.tokens_under
    if when.values.get("tokens_under") == 0:
        raise when.error("no prompt has fewer tokens than 0", "tokens_under")
    if high and low >= high - 1:
        problem = f"no number of tokens is over {low} and under {high}"
        raise when.error(problem, "tokens_under" if "tokens_under" in when.values else "tokens_over")


def read_prompts(root: TomlTable) -> tuple[PromptRule, ...]:
    """The prompt rules of the file, in their order."""
    return read_named(root, "prompts", _read_prompt)


def _read_prompt(table: TomlTable, root: TomlTable, number: int) -> PromptRule:
    table.check(read_keys(PromptRule))
    when = read_conditions(table.table("when"), root, RuleConditions())
    rule = table.build(PromptRule, name=table.text("name") or f"prompt {number}", when=when)
    for key in ("find", "contains"):
        try:
            Pattern(table.text(key))
        except PatternError as error:
            raise table.error(f"not a regular expression: {error}", key) from None
    if rule.operation in AT_MATCHES and not rule.find:
        raise table.error(f"`{rule.operation}` needs `find`")
    if rule.find and rule.operation not in (*AT_MATCHES, "remove"):
        raise table.error(f"`{rule.operation}` has no `find`", "find", hint="use replace or insert_before")
    if rule.operation == "remove" and rule.text:
        raise table.error("`remove` has no `text`", "text")
    if rule.operation == "remove" and not rule.find and rule.place in ("user", "assistant"):
        raise table.error("`remove` needs `find` in messages: a conversation cannot lose its messages")
    for name in UNSTABLE:
        if getattr(when, name) not in ((), "", 0, None):
            table.warn(
                f"`{name}` can change within a conversation, so the provider's prompt cache then misses",
                *("when", "class" if name == "classes" else name),
            )
    return rule
