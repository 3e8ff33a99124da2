"""Selects the targets of a request: the first rule that holds, else the route of the model's name.

Then it orders them: by the route's order, and those that cool down last.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from typing import TypeVar

import msgspec

from dragoman.config.config import Config, Route
from dragoman.config.load_rules import resolve_function_file
from dragoman.config.provider import TargetName
from dragoman.config.rules import Rule
from dragoman.exchange.config_snapshot import ConfigSnapshot
from dragoman.exchange.context_windows import BYTES_PER_TOKEN, find_fitting_targets, may_overflow
from dragoman.exchange.gateway import Gateway
from dragoman.exchange.large_bodies import run_by_size
from dragoman.exchange.record import ExchangeRecord
from dragoman.governance.interventions import Intervention
from dragoman.hub.errors import ClientProtocolError, DragomanError
from dragoman.pipeline.plan import RequestPlan
from dragoman.prompts.rules import apply_prompts
from dragoman.routing.choose import RouteChoice, apply_rule, find_direct_target
from dragoman.routing.health import TargetKey
from dragoman.routing.rules import find_match
from dragoman.routing.traits import RequestTraits
from dragoman.tokens.tokenizers import find_tokenizer

#: Functions that run at one time. One that never returns keeps its thread; the others still run.
FUNCTION_THREADS = 4
#: Seconds in which the file of a function must be imported, at its first call.
MAX_IMPORT = 10.0

Result = TypeVar("Result")
#: What a function of a rule returns: a target, several in the order of trial, or None: the next rule decides.
FunctionResult = str | Sequence[str] | None
RuleFunction = Callable[[RequestTraits], FunctionResult]

_log = logging.getLogger("dragoman")
_threads = ThreadPoolExecutor(FUNCTION_THREADS, thread_name_prefix="dragoman-rule")


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
    config, rules = snapshot.config, snapshot.rules
    is_direct = find_direct_target(config, plan.model) is not None
    index: int | None = -1
    while index is not None:
        index = await run_by_size(
            plan.body, partial(find_match, rules, traits, index + 1, is_direct=is_direct)
        )
        if index is None:
            break
        rule = rules[index].rule
        choice = await _apply(config, rule, plan, traits)
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


async def _apply(config: Config, rule: Rule, plan: RequestPlan, traits: RequestTraits) -> RouteChoice | None:
    if rule.function:
        return await _apply_function(config, rule, plan, traits)
    if not rule.uses_tag:
        return apply_rule(config, rule, plan.model)
    text, name = await run_by_size(plan.body, lambda: traits.model_tag)
    choice = apply_rule(config, rule, plan.model, name)
    if choice is not None:
        plan.remove_text(text)
    return choice


async def _apply_function(
    config: Config, rule: Rule, plan: RequestPlan, traits: RequestTraits
) -> RouteChoice | None:
    """Call the function of a rule within its time. After any failure the next rule decides."""
    # The function must not read the plan, which the exchange releases while a late function still runs.
    await run_by_size(plan.body, lambda: traits.request)
    run = asyncio.get_running_loop().run_in_executor
    try:
        async with asyncio.timeout(MAX_IMPORT):
            function = await run(_threads, call_guarded, load_function, rule.function, config.path)
        async with asyncio.timeout(rule.timeout or None):
            result = await run(_threads, call_guarded, function, traits)
    except TimeoutError:
        _log.warning("rule %s: the function took longer than %g s", rule.name, rule.timeout)
        return None
    except RuleFunctionFailed as error:
        _log.warning("rule %s: the function failed: %s", rule.name, error)
        return None
    return build_function_choice(config, rule, plan.model, result)


class RuleFunctionFailed(Exception):
    """The function of a rule, or the import of its file, raised an exception."""


def call_guarded(function: Callable[..., Result], *arguments: object) -> Result:
    """Call code of the user. Nothing that it raises, also not `SystemExit`, may end the gateway.

    Raises `RuleFunctionFailed` with the type of the exception, and with the exception as its cause.
    """
    try:
        return function(*arguments)
    except BaseException as error:
        raise RuleFunctionFailed(type(error).__name__) from error


def build_function_choice(
    config: Config, rule: Rule, model: str, result: FunctionResult
) -> RouteChoice | None:
    """The route choice for the result of a rule's Python function.

    None if the result is empty, has a wrong type, or contains what is no target and no route.
    """
    names = (result,) if isinstance(result, str) else result or ()
    if not isinstance(names, list | tuple):
        _log.warning("rule %s: the function returned a value of type %s", rule.name, type(result).__name__)
        return None
    targets: list[TargetName] = []
    for name in names:
        route = next((each for each in config.routes if each.match == name), None)
        target = find_direct_target(config, str(name))
        if route is not None and len(names) == 1:
            return apply_rule(config, msgspec.structs.replace(rule, function="", route=name), model)
        if target is None:
            _log.warning("rule %s: the function returned what is no target and no route", rule.name)
            return None
        targets.append(target)
    if not targets:
        return None
    return RouteChoice(
        targets=tuple(targets), route=Route(match=rule.name, targets=tuple(targets)), rule=rule.name
    )


@lru_cache(maxsize=64)
def load_function(function: str, config_path: str) -> RuleFunction:
    """Import the function of a rule: `FILE.py:NAME`, relative to the configuration, or `module:NAME`."""
    place, _, name = function.rpartition(":")
    if place.endswith(".py"):
        path = resolve_function_file(function, config_path)
        spec = spec_from_file_location(f"dragoman_rule_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise ImportError(place)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = import_module(place)
    found: RuleFunction = getattr(module, name)
    return found


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


def needs_session(snapshot: ConfigSnapshot, route: Route, targets: Sequence[TargetName]) -> bool:
    """Whether the order of the targets or of their keys depends on the session."""
    if route.order != "listed" and len(targets) > 1:
        return True
    if len(targets) == 1:
        return snapshot.keys[targets[0].provider] > 1
    return any(snapshot.keys[target.provider] > 1 for target in targets)


async def order_targets(
    gateway: Gateway,
    snapshot: ConfigSnapshot,
    plan: RequestPlan,
    route: Route,
    targets: Sequence[TargetName],
    now: float,
) -> tuple[list[TargetKey], int]:
    """The targets in the order of the route, each with its keys, and the number of the session.

    Targets that cool down come last. The session is 0 if nothing needs it.
    """
    is_balanced = route.order != "listed" and len(targets) > 1
    has_several_keys = any(snapshot.keys[target.provider] > 1 for target in targets)
    session = await run_by_size(plan.body, plan.hash_session) if has_several_keys or is_balanced else 0
    if is_balanced:
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
