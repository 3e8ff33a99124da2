"""Selects the targets of a request: the first rule that holds, else the route of the model's name.

Then it orders them: by the route's order, and those that cool down last.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from dragoman.config.config import Config, Route
from dragoman.config.provider import TargetName
from dragoman.config.rules import Rule
from dragoman.exchange.config_snapshot import ConfigSnapshot
from dragoman.exchange.context_windows import BYTES_PER_TOKEN, find_fitting_targets, may_overflow
from dragoman.exchange.gateway import Gateway
from dragoman.exchange.large_bodies import run_by_size
from dragoman.exchange.record import ExchangeRecord
from dragoman.exchange.rule_functions import RuleFunctionFailed
from dragoman.governance.interventions import Intervention
from dragoman.hub.errors import ClientProtocolError, DragomanError
from dragoman.pipeline.plan import RequestPlan
from dragoman.prompts.rules import apply_prompts
from dragoman.routing.choose import RouteChoice, apply_rule, find_direct_target
from dragoman.routing.health import TargetKey
from dragoman.routing.traits import RequestTraits
from dragoman.tokens.tokenizers import find_tokenizer

_log = logging.getLogger("dragoman")


def build_traits(config: Config, plan: RequestPlan, key: str, clock: Callable[[], float]) -> RequestTraits:
    """The traits of a request. `key` is the name of the client key, `clock` gives the date in seconds."""
    return RequestTraits(plan, key=key, roles=config.roles, clock=lambda: datetime.fromtimestamp(clock()))


async def choose_targets(
    gateway: Gateway, snapshot: ConfigSnapshot, plan: RequestPlan, record: ExchangeRecord
) -> RouteChoice:
    """The targets of the request of an exchange, by the rules and the model's name."""
    traits = build_traits(snapshot.config, plan, record.caller.name, gateway.clock)
    choice = await select_route(snapshot, plan, traits)
    if snapshot.has_roles and not traits.has_roles:
        await run_by_size(plan.body, lambda: traits.roles)
    record.rule, record.traits = choice.rule, traits.list_known()
    return choice


async def select_route(snapshot: ConfigSnapshot, plan: RequestPlan, traits: RequestTraits) -> RouteChoice:
    """The choice for a request whose model is known. Raises `ModelNotFound` if nothing serves it.

    A tag in the prompt that decides is removed from the request.
    """
    table = snapshot.rules
    is_direct = find_direct_target(snapshot.config, traits.model) is not None
    index: int | None = -1
    while index is not None:
        index = await run_by_size(
            plan.body, partial(table.find_match, traits, index + 1, is_direct=is_direct)
        )
        if index is None:
            break
        rule = table.rules[index].rule
        choice = await _apply(snapshot, rule, plan, traits)
        if choice is not None:
            return choice
    return snapshot.choose(plan.model)


def change_prompt(
    gateway: Gateway,
    snapshot: ConfigSnapshot,
    plan: RequestPlan,
    record: ExchangeRecord,
    choice: RouteChoice,
) -> None:
    """Apply the prompt rules to the request. What they change is reported for the first target."""
    traits = build_traits(snapshot.config, plan, record.caller.name, gateway.clock)
    target = choice.targets[0]
    dialect = snapshot.config.providers[target.provider].wire_dialect

    def report(intervention: Intervention) -> None:
        record.interventions.reporter(target, dialect)(intervention)

    plan.rewrite(lambda request: apply_prompts(request, snapshot.prompts, traits, report))


async def _apply(
    snapshot: ConfigSnapshot, rule: Rule, plan: RequestPlan, traits: RequestTraits
) -> RouteChoice | None:
    if rule.function:
        return await _apply_function(snapshot, rule, plan, traits)
    if not rule.uses_tag:
        return apply_rule(snapshot.config, rule, traits.model)
    text, name = await run_by_size(plan.body, lambda: traits.model_tag)
    choice = apply_rule(snapshot.config, rule, traits.model, name)
    if choice is not None:
        await run_by_size(plan.body, partial(plan.remove_instruction, text))
    return choice


async def _apply_function(
    snapshot: ConfigSnapshot, rule: Rule, plan: RequestPlan, traits: RequestTraits
) -> RouteChoice | None:
    """Call the function of a rule within its time. After any failure the next rule decides."""
    # The function must not read the plan, which the exchange releases while a late function still runs.
    await run_by_size(plan.body, lambda: traits.request)
    try:
        return await snapshot.functions.choose(rule, traits.model, traits)
    except RuleFunctionFailed as error:
        _log.warning("rule %s: the function decides nothing: %s", rule.name, error)
        return None


async def select_fitting_targets(
    config: Config, plan: RequestPlan, choice: RouteChoice
) -> tuple[TargetName, ...]:
    """The targets whose window can hold the request, else those for long requests. Raises if none can."""
    try:
        return await _select_fitting(config, plan, choice.targets)
    except ClientProtocolError as error:
        if error.failure.kind != "context_overflow" or not choice.route.on_overflow:
            raise
    return await _select_fitting(config, plan, choice.route.on_overflow)


async def _select_fitting(
    config: Config, plan: RequestPlan, targets: tuple[TargetName, ...]
) -> tuple[TargetName, ...]:
    if not may_overflow(config, plan, targets):
        return targets
    return await run_by_size(plan.body, partial(find_fitting_targets, config, plan, targets))


async def order_targets(
    gateway: Gateway,
    snapshot: ConfigSnapshot,
    plan: RequestPlan,
    route: Route,
    targets: Sequence[TargetName],
    now: float,
) -> tuple[Sequence[TargetKey], int]:
    """The targets in the order of the route, each with its keys, and the number of the session.

    Targets that cool down come last. Called if the order of the targets or of their keys depends on the
    session.
    """
    session = await run_by_size(plan.body, plan.hash_session)
    if route.order != "listed" and len(targets) > 1:
        tokens = (
            await run_by_size(plan.body, partial(_estimate_tokens, plan)) if route.order == "cheapest" else 0
        )
        targets = gateway.balancer.order(
            route,
            targets,
            session=session,
            now=now,
            random=gateway.random,
            tokens=tokens,
            cost=snapshot.prices.cost,
        )
    return gateway.health.order_targets(targets, snapshot.keys, session, now), session


def _estimate_tokens(plan: RequestPlan) -> int:
    try:
        return plan.estimate_tokens(find_tokenizer(plan.model, plan.metadata.dialect))
    except DragomanError:
        # Whether the request can be sent at all is decided for each target.
        return len(plan.body) // BYTES_PER_TOKEN
