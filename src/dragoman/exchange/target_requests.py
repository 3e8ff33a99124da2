"""Builds the request of an exchange for each target: facts, governance, and what the route changes."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from dragoman.config.config import Route
from dragoman.config.provider import Provider, TargetName
from dragoman.exchange.config_snapshot import ConfigSnapshot
from dragoman.exchange.healer import RequestHealer
from dragoman.exchange.large_bodies import collect_rarely, is_large
from dragoman.exchange.record import ExchangeRecord
from dragoman.exchange.tools import ExchangeTools
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.request import Effort, ReasoningSettings, Request
from dragoman.pipeline.plan import RequestEdit, RequestPlan
from dragoman.pipeline.target_request import TargetRequest
from dragoman.providers.profile import build_target_facts
from dragoman.routing.choose import RouteChoice
from dragoman.steps.selection import RequestSteps

_log = logging.getLogger("dragoman")


class TargetRequestBuilder:
    """Builds the requests of one exchange."""

    def __init__(
        self,
        plan: RequestPlan,
        snapshot: ConfigSnapshot,
        healer: RequestHealer,
        record: ExchangeRecord,
        tools: ExchangeTools | None,
        timer: Callable[[], float],
    ) -> None:
        self._plan = plan
        self._snapshot = snapshot
        self._healer = healer
        self._record = record
        self._tools = tools
        self._timer = timer

    async def build(self, target: TargetName, choice: RouteChoice) -> TargetRequest | ClientProtocolError:
        """The request for one target. A request that one target cannot take may suit the next."""
        # What is learned belongs to the event loop; a large request is built in a thread.
        provider = self._healer.add_facts(target)
        seals = self._healer.find_refused_seals(target)
        if self._tools is not None:
            await self._tools.open(target, provider, choice.route)
        plan = self._plan
        if is_large(plan.body):
            built = await asyncio.to_thread(self._build_large, target, provider, seals, choice)
        else:
            built = self._build(target, provider, seals, choice)
        plan.keep_history()
        if plan.mismatch:
            _log.error("%s: a continued translation differs: %s", plan.metadata.request_id, plan.mismatch)
        return built

    def _build_large(
        self, target: TargetName, provider: Provider, refused_seals: frozenset[str], choice: RouteChoice
    ) -> TargetRequest | ClientProtocolError:
        """Build the request in a thread, and what the event loop does for a smaller one later."""
        with collect_rarely():
            built = self._build(target, provider, refused_seals, choice)
            if isinstance(built, TargetRequest):
                built.prepare_reply()
                if built.is_prepared:
                    # Freeing it takes milliseconds. It is read again if another target follows.
                    self._plan.forget_request()
            return built

    def _build(
        self, target: TargetName, provider: Provider, refused_seals: frozenset[str], choice: RouteChoice
    ) -> TargetRequest | ClientProtocolError:
        # The provider without the facts that refusals have proved.
        stated = self._snapshot.config.providers[target.provider]
        model, route = target.model, choice.route
        governance = provider.find_governance(model, route.governance)
        steps = self._snapshot.steps.select(stated, model, route)
        # Most requests need none of these.
        options: dict[str, Any] = {}
        if choice.effort or steps is not None:
            options["edit"] = self._build_edit(provider, model, choice.effort, steps)
        if steps is not None and steps.changes_reply:
            options["steps"] = steps
        if not governance.is_off:
            report = self._record.interventions.reporter(target, provider.wire_dialect)
            options |= {"governance": governance, "report": report, "timer": self._timer}
        if self._tools is not None:
            options["tools"] = self._tools.find(target)
        try:
            return self._build_edited(provider, model, route, refused_seals=refused_seals, **options)
        except ClientProtocolError as error:
            if provider is stated or not self._plan.is_unreadable:
                return error
        # The server may accept what our reader does not, as it did before anything was learned.
        try:
            return self._build_edited(stated, model, route, **options)
        except ClientProtocolError as error:
            return error

    def _build_edit(
        self, provider: Provider, model: str, effort: Effort | None, steps: RequestSteps | None
    ) -> RequestEdit | None:
        """The changes of the client's request: the effort in the model's name, and the steps."""
        set_it = partial(set_effort, effort=effort) if effort else None
        if steps is None:
            return set_it
        facts = build_target_facts(provider.build_profile(model), self._plan.metadata.dialect)
        return lambda request: steps.change_request(set_it(request) if set_it else request, facts)

    def _build_edited(self, provider: Provider, model: str, route: Route, **options: Any) -> TargetRequest:
        """Build the request, and apply the payload rules of the provider and of the route to it."""
        target_request = self._plan.build_target_request(provider, model, strict=route.strict, **options)
        if provider.payload or route.payload:
            rules = provider.find_payload(model, route.payload)
            if rules:
                target_request.apply_payload(rules)
        return target_request


def set_effort(request: Request, effort: Effort) -> Request:
    """The request with another effort of reasoning."""
    settings = request.reasoning or ReasoningSettings()
    settings = msgspec.structs.replace(settings, effort=effort, budget=None, mode=None)
    return msgspec.structs.replace(request, reasoning=settings)
