"""Explains which rule decides about a request, and why the others do not."""

from collections.abc import Callable, Sequence

import msgspec

from dragoman.config.config import Config
from dragoman.config.rules import Rule
from dragoman.hub.errors import DragomanError
from dragoman.routing.choose import RouteChoice, apply_rule, choose, find_direct_target
from dragoman.routing.rules import CompiledRule, ConditionCheck, find_failed_check
from dragoman.routing.traits import RequestTraits

UNREADABLE = "the body is no request of this API, so it counts as a turn without text, tools and images"
#: Runs the function of a rule: its choice, or why it decides nothing.
CallFunction = Callable[[Rule, RequestTraits], RouteChoice | str]


class RuleExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """One rule: whether it holds, why or why not, and what it leads to."""

    rule: str
    holds: bool
    reason: str
    result: str


class RouteExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about a request: the rule that wins (empty: none), the targets, and all rules."""

    model: str
    #: What was found out about the request.
    traits: dict[str, str]
    rule: str
    route: str
    targets: tuple[str, ...]
    answer: str = ""
    #: Why nothing serves the request; empty if something does.
    error: str = ""
    #: What that means for the rules, if the body cannot be read; or empty.
    unreadable: str = ""
    rules: tuple[RuleExplanation, ...] = ()


def explain_route(
    config: Config,
    rules: Sequence[CompiledRule],
    traits: RequestTraits,
    call_function: CallFunction,
) -> RouteExplanation:
    """Explain the decision for one request."""
    is_direct = find_direct_target(config, traits.model) is not None
    winner: RouteChoice | None = None
    rows = []
    for compiled in rules:
        row, choice = _explain_rule(config, compiled, traits, call_function, is_direct=is_direct)
        winner = winner or choice
        rows.append(row)
    error = ""
    if winner is None:
        try:
            winner = choose(config, traits.model)
        except DragomanError as refused:
            error = refused.message
    return RouteExplanation(
        model=traits.model,
        traits=describe_traits(traits),
        rule=winner.rule if winner else "",
        route=winner.route.match if winner else "",
        targets=tuple(map(str, winner.targets)) if winner else (),
        answer=winner.answer if winner else "",
        error=error,
        unreadable="" if traits.request is not None else UNREADABLE,
        rules=tuple(rows),
    )


def _explain_rule(
    config: Config,
    compiled: CompiledRule,
    traits: RequestTraits,
    call_function: CallFunction,
    *,
    is_direct: bool,
) -> tuple[RuleExplanation, RouteChoice | None]:
    rule = compiled.rule
    result = describe_result(config, rule)
    if is_direct and not rule.when.model:
        reason = "the model name contains its provider, and the rule has no condition on `model`"
        return RuleExplanation(rule=rule.name, holds=False, reason=reason, result=result), None
    failed = find_failed_check(compiled, traits)
    if failed is not None:
        reason = f"{failed.name} = {_write(failed.value)}, but {describe_trait(failed.name, traits)}"
        return RuleExplanation(rule=rule.name, holds=False, reason=reason, result=result), None
    choice: RouteChoice | str = (
        call_function(rule, traits)
        if rule.function
        else apply_rule(config, rule, traits.model, traits.model_tag[1] if rule.uses_tag else "")
        or "no tag names a known target"
    )
    if isinstance(choice, str):
        return RuleExplanation(rule=rule.name, holds=False, reason=choice, result=result), None
    reason = ", ".join(map(_write_condition, compiled.checks)) or "it has no conditions"
    if choice.targets:
        result = ", ".join(map(str, choice.targets))
    return RuleExplanation(rule=rule.name, holds=True, reason=reason, result=result), choice


def describe_result(config: Config, rule: Rule) -> str:
    """What a rule leads to, in words."""
    if rule.answer:
        return "an answer of the gateway"
    if rule.function:
        return f"what {rule.function} returns"
    if rule.route:
        return f"route {rule.route}"
    return ", ".join(map(str, rule.targets)) or "the model of a tag in the prompt"


def _write_condition(check: ConditionCheck) -> str:
    return f"{check.name} = {_write(check.value)}"


def _write(value: object) -> str:
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    return msgspec.json.encode(value).decode()


#: The trait that each condition is compared with, in words.
_DESCRIPTIONS: dict[str, Callable[[RequestTraits], object]] = {
    "path": lambda traits: traits.path or "no entry",
    "model": lambda traits: traits.model,
    "key": lambda traits: traits.key or "no key",
    "sub_agent": lambda traits: traits.identity.sub_agent or "the main agent",
    "agent": lambda traits: traits.identity.agent or "unknown",
    "agent_version": lambda traits: traits.identity.version or "unknown",
    "days": lambda traits: traits.time.strftime("%a").lower(),
    "hours": lambda traits: traits.time.strftime("%H:%M"),
    "tokens_over": lambda traits: f"about {traits.tokens} tokens",
    "tokens_under": lambda traits: f"about {traits.tokens} tokens",
    "class": lambda traits: traits.request_class,
    "web_search": lambda traits: traits.wants_web_search,
    "thinking": lambda traits: traits.wants_reasoning,
    "effort": lambda traits: traits.effort or "none",
    "tools": lambda traits: f"{len(traits.tools)} tools" if traits.tools else "no tools",
    "called": lambda traits: ", ".join(traits.called_tools) or "no calls",
    "images": lambda traits: "new" if traits.has_new_images else "earlier" if traits.has_images else "none",
    "role": lambda traits: ", ".join(sorted(traits.roles)) or "no role",
    "project": lambda traits: traits.project or "unknown",
    "headers": lambda traits: "other headers",
}


def describe_trait(condition: str, traits: RequestTraits) -> str:
    """The value of the request that the condition compares, as a sentence."""
    found = _DESCRIPTIONS[condition](traits)
    return f"the request has {_write(found) if isinstance(found, bool) else found}"


#: The conditions whose traits describe a request as a whole.
_SHOWN = (
    "agent",
    "agent_version",
    "sub_agent",
    "class",
    "role",
    "project",
    "tokens_over",
    "images",
    "thinking",
)


def describe_traits(traits: RequestTraits) -> dict[str, str]:
    """The traits of a request as text, by condition, for `dragoman explain`."""
    names = {"tokens_over": "tokens"}
    return {names.get(name, name): str(_DESCRIPTIONS[name](traits)) for name in _SHOWN}
