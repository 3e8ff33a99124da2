"""Decides which rule of the configuration holds for a request.

`compile_rules` turns the rules into checks, once per configuration. `find_match` compares them with the
`RequestTraits` of a request. The checks of a rule are in the order of their cost: a rule that fails by a
header never reads the body.
"""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import msgspec

from dragoman.config.rules import DAYS, Rule, RuleConditions
from dragoman.routing.traits import RequestTraits


class ConditionCheck(NamedTuple):
    """One condition of a rule: its key in the file, its value, and its test."""

    name: str
    value: Any
    holds: Callable[[Any, RequestTraits], bool]


class CompiledRule(NamedTuple):
    """A rule and its checks, the cheapest first."""

    rule: Rule
    checks: tuple[ConditionCheck, ...]


def compile_rules(rules: Sequence[Rule]) -> tuple[CompiledRule, ...]:
    """The rules with the checks of the conditions that are set."""
    return tuple(CompiledRule(rule, build_checks(rule.when)) for rule in rules)


def build_checks(when: RuleConditions) -> tuple[ConditionCheck, ...]:
    """The checks of the conditions that are set, the cheapest first."""
    fields = {field.name: field for field in msgspec.structs.fields(when)}
    return tuple(
        ConditionCheck(fields[name].encode_name, value, test)
        for name, test in TESTS.items()
        if (value := getattr(when, name)) not in ((), "", 0, None, {}) or value is False
    )


def find_failed_check(compiled: CompiledRule, traits: RequestTraits) -> ConditionCheck | None:
    """The first condition that does not hold; None if all hold."""
    return next((check for check in compiled.checks if not check.holds(check.value, traits)), None)


def find_match(
    rules: Sequence[CompiledRule], traits: RequestTraits, first: int = 0, *, is_direct: bool = False
) -> int | None:
    """The index of the first rule that holds, from index `first` on; None if none does.

    `is_direct`: the client names the provider itself. This wins over all rules that do not ask for the name.
    """
    for index in range(first, len(rules)):
        if is_direct and not rules[index].rule.when.model:
            continue
        if find_failed_check(rules[index], traits) is None:
            return index
    return None


def _matches(patterns: Sequence[str], *names: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _is_project(patterns: Sequence[str], traits: RequestTraits) -> bool:
    project = traits.project
    return bool(project) and _matches(patterns, project, re.split(r"[/\\]", project)[-1])


_COMPARISON = re.compile(r"([<>]=?|=)?\s*(.+)")


def _is_version(wanted: str, traits: RequestTraits) -> bool:
    version = traits.identity.version
    found = _COMPARISON.fullmatch(wanted)
    if not version or found is None:
        return False
    operator, other = found[1], found[2]
    if operator is None:
        return fnmatchcase(version, other)
    left, right = _split_version(version), _split_version(other)
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}.get(
        operator, left == right
    )


def _split_version(version: str) -> tuple[int, ...]:
    """The numbers of a version, without zeros at the end."""
    numbers = [int(digits[:9]) for digits in re.findall(r"\d+", version)[:8]]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _is_hour(hours: str, traits: RequestTraits) -> bool:
    begin, _, end = hours.partition("-")
    now = _count_minutes(traits.time)
    first, last = _read_minutes(begin), _read_minutes(end)
    return first <= now < last if first <= last else now >= first or now < last


def _count_minutes(time: datetime) -> int:
    return time.hour * 60 + time.minute


def _read_minutes(time: str) -> int:
    hour, _, minute = time.partition(":")
    return int(hour) * 60 + int(minute)


def _has_headers(headers: dict[str, str], traits: RequestTraits) -> bool:
    return all(fnmatchcase(traits.headers.get(name.lower(), ""), value) for name, value in headers.items())


_IMAGES: dict[str, Callable[[RequestTraits], bool]] = {
    "new": lambda traits: traits.has_new_images,
    "any": lambda traits: traits.has_images,
    "none": lambda traits: not traits.has_images,
}

#: The test of each condition, in the order of the costs: first those that do not read the body.
TESTS: dict[str, Callable[[Any, RequestTraits], bool]] = {
    "path": lambda value, traits: traits.path in value,
    "model": lambda value, traits: _matches(value, traits.model),
    "key": lambda value, traits: _matches(value, traits.key),
    "sub_agent": lambda value, traits: traits.identity.is_sub_agent is value,
    "agent": lambda value, traits: _matches(value, traits.identity.agent),
    "agent_version": _is_version,
    "headers": _has_headers,
    "days": lambda value, traits: DAYS[traits.time.weekday()] in value,
    "hours": _is_hour,
    # A token is at least one byte, so a short body need not be read.
    "tokens_over": lambda value, traits: traits.size > value and traits.tokens > value,
    "tokens_under": lambda value, traits: traits.size < value or 0 < traits.tokens < value,
    "classes": lambda value, traits: traits.request_class in value,
    "web_search": lambda value, traits: traits.wants_web_search is value,
    "thinking": lambda value, traits: traits.wants_reasoning is value,
    "effort": lambda value, traits: traits.effort in value,
    "tools": lambda value, traits: any(_matches(value, name) for name in traits.tools),
    "called": lambda value, traits: any(_matches(value, name) for name in traits.called_tools),
    "images": lambda value, traits: _IMAGES[value](traits),
    "role": lambda value, traits: not traits.roles.isdisjoint(value),
    "project": _is_project,
}
