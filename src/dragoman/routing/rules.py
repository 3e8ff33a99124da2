"""Decides which rule of the configuration holds for a request.

`compile_rules` turns the rules into checks, once per configuration. `RuleTable.find_match` compares them with
the `RequestTraits` of a request. The checks of a rule are in the order of their cost: a rule that fails by a
header never reads the body. The results of the checks of the sender are kept, because agents send many
requests with the same names.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import translate
from functools import partial
from operator import attrgetter, eq, ge, gt, le, lt
from typing import Any, NamedTuple

import msgspec

from dragoman.config.rules import DAYS, Rule, RuleConditions
from dragoman.pipeline.body_search import find_pattern_word
from dragoman.routing.choose import is_pattern
from dragoman.routing.traits import RequestTraits

#: Senders whose candidates are kept, and characters of a model's name: clients choose both.
MAX_SENDERS = 1000
MAX_MODEL = 200

#: The conditions that are the same for all requests of one sender: all its requests with one name of a model.
SENDER_CONDITIONS = frozenset({"path", "model", "key", "sub_agent", "agent", "agent_version"})

Test = Callable[[RequestTraits], bool]


class ConditionCheck(NamedTuple):
    """One condition of a rule: its key in the file, its value, and its test."""

    name: str
    value: Any
    holds: Test


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
        ConditionCheck(fields[name].encode_name, value, build(value))
        for name, build in TESTS.items()
        if (value := getattr(when, name)) not in ((), "", 0, None, {}) or value is False
    )


def find_failed_check(compiled: CompiledRule, traits: RequestTraits) -> ConditionCheck | None:
    """The first condition that does not hold; None if all hold."""
    for check in compiled.checks:
        if not check.holds(traits):
            return check
    return None


class Candidate(NamedTuple):
    """A rule that a sender may match, and those of its checks that differ between requests of a sender."""

    position: int
    checks: tuple[ConditionCheck, ...]


class RuleTable:
    """The rules of one configuration. Belongs to the event loop and the threads that read large requests."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = compile_rules(rules)
        #: The candidates of each sender: path, model, key, agent.
        self._candidates: dict[tuple[object, ...], tuple[Candidate, ...]] = {}

    def find_match(self, traits: RequestTraits, first: int = 0, *, is_direct: bool = False) -> int | None:
        """The index of the first rule that holds, from index `first` on; None if none does.

        `is_direct`: the client names the provider itself. Then only rules with a condition on the name apply.
        """
        for index, checks in self._find_candidates(traits, is_direct=is_direct):
            if index < first:
                continue
            for check in checks:
                if not check.holds(traits):
                    break
            else:
                return index
        return None

    def _find_candidates(self, traits: RequestTraits, *, is_direct: bool) -> tuple[Candidate, ...]:
        model, identity = traits.model, traits.identity
        agent = identity.agent, identity.version, bool(identity.sub_agent)
        sender = (is_direct, model, traits.key, traits.path, *agent)
        found = self._candidates.get(sender)
        if found is None:
            found = tuple(self._list_candidates(traits, is_direct=is_direct))
            if len(self._candidates) >= MAX_SENDERS:
                self._candidates.clear()
            if len(model) <= MAX_MODEL:
                self._candidates[sender] = found
        return found

    def _list_candidates(self, traits: RequestTraits, *, is_direct: bool) -> Iterator[Candidate]:
        for index, (rule, checks) in enumerate(self.rules):
            if is_direct and not rule.when.model:
                continue
            if all(check.holds(traits) for check in checks if check.name in SENDER_CONDITIONS):
                rest = tuple(check for check in checks if check.name not in SENDER_CONDITIONS)
                yield Candidate(index, rest)


def build_matcher(patterns: Sequence[str]) -> Callable[[str], object]:
    """A function that returns something true for names that one of the patterns matches."""
    if not any(map(is_pattern, patterns)):
        return frozenset(patterns).__contains__
    return re.compile("|".join(map(translate, patterns))).match


def _match(find: Callable[[RequestTraits], str], patterns: Sequence[str]) -> Test:
    """The test of a trait that is one name."""
    matches = build_matcher(patterns)
    return lambda traits: bool(matches(find(traits)))


def _match_any(find: Callable[[RequestTraits], Iterable[str]], patterns: Sequence[str]) -> Test:
    """The test of a trait that is several names of tools."""
    matches = build_matcher(patterns)
    words = tuple(map(find_pattern_word, patterns))
    return lambda traits: traits.may_name_tool(*words) and any(map(matches, find(traits)))


def _is_project(patterns: Sequence[str]) -> Test:
    matches = build_matcher(patterns)

    def holds(traits: RequestTraits) -> bool:
        project = traits.project
        return bool(project) and bool(matches(project) or matches(re.split(r"[/\\]", project)[-1]))

    return holds


_COMPARISON = re.compile(r"([<>]=?|=)?\s*(.+)")
_OPERATORS: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "=": eq,
}


def _is_version(wanted: str) -> Test:
    found = _COMPARISON.fullmatch(wanted)
    if found is None:
        return lambda traits: False
    if found[1] is None:
        return _match(lambda traits: traits.identity.version, (found[2],))
    compare, other = _OPERATORS[found[1]], _split_version(found[2])

    def holds(traits: RequestTraits) -> bool:
        version = traits.identity.version
        return bool(version) and compare(_split_version(version), other)

    return holds


def _split_version(version: str) -> tuple[int, ...]:
    """The numbers of a version, without zeros at the end."""
    numbers = [int(digits[:9]) for digits in re.findall(r"\d+", version)[:8]]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _is_hour(hours: str) -> Test:
    first, last = map(_read_minutes, hours.split("-", 1))

    def holds(traits: RequestTraits) -> bool:
        time = traits.time
        now = time.hour * 60 + time.minute
        return first <= now < last if first <= last else now >= first or now < last

    return holds


def _read_minutes(time: str) -> int:
    hour, _, minute = time.partition(":")
    return int(hour) * 60 + int(minute)


def _has_headers(headers: dict[str, str]) -> Test:
    matchers = [(name.lower(), build_matcher((value,))) for name, value in headers.items()]
    return lambda traits: all(matches(traits.headers.get(name, "")) for name, matches in matchers)


_IMAGES: dict[str, Test] = {
    "new": lambda traits: traits.has_new_images,
    "any": lambda traits: traits.has_images,
    "none": lambda traits: not traits.has_images,
}

#: Builds the test of each condition from its value. The order is that of the costs: first those that do not
#: read the body, then those that look at settings, then those that search texts.
TESTS: dict[str, Callable[[Any], Test]] = {
    "path": lambda value: lambda traits: traits.path in value,
    "model": partial(_match, attrgetter("model")),
    "key": partial(_match, attrgetter("key")),
    "sub_agent": lambda value: lambda traits: traits.identity.is_sub_agent is value,
    "agent": partial(_match, attrgetter("identity.agent")),
    "agent_version": _is_version,
    "headers": _has_headers,
    "days": lambda value: lambda traits: DAYS[traits.time.weekday()] in value,
    "hours": _is_hour,
    "thinking": lambda value: lambda traits: traits.wants_reasoning is value,
    "effort": lambda value: lambda traits: traits.effort in value,
    "web_search": lambda value: lambda traits: traits.wants_web_search is value,
    "called": partial(_match_any, attrgetter("called_tools")),
    "images": _IMAGES.__getitem__,
    "classes": lambda value: lambda traits: traits.request_class in value,
    "tools": partial(_match_any, attrgetter("tools")),
    "role": lambda value: lambda traits: not traits.roles.isdisjoint(value),
    "project": _is_project,
    # A token is at least one byte, so a short body need not be read.
    "tokens_over": lambda value: (
        lambda traits: traits.size > value and traits.most_tokens > value and traits.tokens > value
    ),
    "tokens_under": lambda value: lambda traits: traits.size < value or 0 < traits.tokens < value,
}
