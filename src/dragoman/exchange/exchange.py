"""`Exchange`: one client request and its reply, end to end.

Until a target's first output is sent, another target can take over and the client does not notice. After
that a failure is sent to the client in its own dialect. `UpstreamCall` decides when the output is sent.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

import msgspec

from dragoman.accounts.keys import ANONYMOUS, Caller
from dragoman.accounts.usage import ExchangeUsage
from dragoman.config.provider import TargetName
from dragoman.exchange.client import Client
from dragoman.exchange.client_failure import build_client_failure, choose_error
from dragoman.exchange.context import TrialContext
from dragoman.exchange.gateway import Gateway
from dragoman.exchange.healer import RequestHealer
from dragoman.exchange.hedge import HedgedTrials, list_second_targets
from dragoman.exchange.large_bodies import is_large, run_by_size
from dragoman.exchange.record import ExchangeRecord, build_outcome
from dragoman.exchange.selection import (
    change_prompt,
    choose_targets,
    order_targets,
    select_fitting_targets,
)
from dragoman.exchange.sender import ResponseSender
from dragoman.exchange.sessions import check_session_limits, count_session, find_session_limits
from dragoman.exchange.tap import start_tap
from dragoman.exchange.target_requests import TargetRequestBuilder
from dragoman.exchange.tools import ExchangeTools
from dragoman.exchange.trial import TargetTrial
from dragoman.exchange.watchdog import Watchdog
from dragoman.hub.errors import ClientProtocolError, DragomanError, Failure, UpstreamFailed
from dragoman.pipeline.own_answer import OwnAnswer
from dragoman.pipeline.plan import RequestPlan
from dragoman.routing.balancing import find_failure_targets
from dragoman.routing.choose import RouteChoice
from dragoman.routing.health import TargetKey
from dragoman.routing.retry import find_retry_action, may_succeed

#: Sent to clients of exchanges that are open when the gateway shuts down.
CLOSING = Failure(
    kind="overloaded", status=503, message="the gateway is shutting down; try again", retry_after=1.0
)


class Exchange:
    """One client request and its reply. Call `run` once; then `record` is complete."""

    _task: asyncio.Task[object] | None = None
    _stop_reason: Failure | None = None
    _is_abandoned = False
    _is_settled = False
    _trial: TargetTrial | HedgedTrials | None = None
    _tools: ExchangeTools | None = None

    def __init__(
        self,
        gateway: Gateway,
        plan: RequestPlan,
        client: Client,
        caller: Caller = ANONYMOUS,
        *,
        choice: RouteChoice | None = None,
    ) -> None:
        """`choice`: the targets of an inner exchange, which a tool of the gateway needs."""
        self._gateway = gateway
        self._snapshot = gateway.snapshot
        self._plan = plan
        self._caller = caller
        self._timer = asyncio.get_running_loop().time
        self.record = ExchangeRecord(plan.metadata, caller)
        self._watchdog = Watchdog(
            self._timer(),
            ping_every=self._snapshot.config.server.ping if plan.dialect.stream_writer.ping else 0.0,
            ping=self._ping,
            abandon=self._abandon_client,
        )
        self._sender = ResponseSender(plan.dialect, client, self.record, self._watchdog, self._settle)
        self._usage = ExchangeUsage(
            gateway.accounts, caller, self._snapshot.config, self._snapshot.prices, len(plan.body)
        )
        self._healer = RequestHealer(self._snapshot.config, plan, gateway.learned, gateway.refused_seals)
        self._choice = choice
        if self._snapshot.toolbox is not None and choice is None:
            run_inner = partial(_run_inner, gateway, caller)
            self._tools = ExchangeTools(gateway, self._snapshot.toolbox, self.record, self._usage, run_inner)
        plan.histories = gateway.find_histories(caller)
        self._requests = TargetRequestBuilder(
            plan, self._snapshot, self._healer, self.record, self._tools, self._timer
        )

    @property
    def started(self) -> float:
        """The time of the beginning, by the event loop's clock."""
        return self._watchdog.started

    async def run(self) -> None:
        """Answer the client in any case. Raises only a cancellation that came from outside."""
        self._task = asyncio.current_task()
        self._gateway.watchdogs.add(self._watchdog)
        self._snapshot.open += 1
        try:
            try:
                await self._answer()
            except DragomanError as error:
                await self._refuse(error.failure)
        except asyncio.CancelledError:
            await self._handle_cancellation()
        finally:
            self._gateway.leave(self._snapshot)
            self._close()

    def abandon(self) -> None:
        """Stop without sending anything. Called when the client is gone."""
        self._is_abandoned = True
        if self._task is not None:
            self._task.cancel()

    def stop(self, reason: Failure) -> None:
        """End the exchange now, and send the reason to the client."""
        self._stop_reason = reason
        if self._task is not None:
            self._task.cancel()

    def _close(self) -> None:
        """Release everything, settle the usage and inform the observers."""
        self._sender.close()
        self._gateway.watchdogs.remove(self._watchdog)
        self._watchdog.close()
        self._settle()
        if self.record.interventions.is_governed:
            self._gateway.intervention_counts.add(self.record)
        count_session(self._gateway.sessions, self.record)
        for observe in self._gateway.observers:
            observe(self.record)

    def _settle(self) -> None:
        """Complete the record with its usage: before the end of the reply is sent, or if none is sent."""
        record, watchdog = self.record, self._watchdog
        record.seconds = self._timer() - watchdog.started
        if not self._is_settled:
            self._is_settled = True
            charge = self._usage.settle(build_outcome(record, watchdog.received))
            record.used, record.cost, record.saved = charge

    async def _answer(self) -> None:
        """Choose the targets, reserve what the request may use, and call the targets.

        Most requests need few of the checks here. A check that is not needed must not cost a coroutine.
        """
        gateway, snapshot, plan, record = self._gateway, self._snapshot, self._plan, self.record
        if is_large(plan.body):
            await asyncio.to_thread(plan.peek)
        else:
            plan.peek()
        record.model, record.stream = plan.model, plan.stream
        has_key = self._caller is not ANONYMOUS
        if has_key:
            await self._usage.check_model(plan.model)
        choice = self._choice
        if choice is None:
            choice = await self._choose_by_rules() if snapshot.config.rules else snapshot.choose(plan.model)
        route, targets = choice.route, choice.targets
        record.route, record.has_alternatives = route.match, len(targets) > 1
        start_tap(gateway.recorder, record, plan, route, self._sender)
        if choice.answer:
            return await self._answer_here(choice.answer)
        if snapshot.prompts:
            await run_by_size(plan.body, partial(change_prompt, gateway, snapshot, plan, record, choice))
        if snapshot.has_session_limits or (has_key and self._caller.limits.counts_sessions):
            session_limits = find_session_limits(snapshot.config, route)
            await check_session_limits(session_limits, gateway.sessions, plan, record)
        self._healer.is_on = route.heal
        if not gateway.learned.is_loaded:
            await gateway.learned.load()
        facts = snapshot.find_facts(targets)
        if len(plan.body) > facts.certain_size:
            targets = await select_fitting_targets(snapshot.config, plan, choice)
            facts = snapshot.find_facts(targets)
        session, now = 0, self._timer()
        if facts.has_several_keys or (route.order != "listed" and len(targets) > 1):
            target_keys, session = await order_targets(gateway, snapshot, plan, route, targets, now)
        else:
            target_keys = gateway.health.sort_by_cooldown(facts.target_keys, now)
        context = self._build_context(choice, session)
        if has_key and self._usage.has_limits:
            await self._reserve(targets, target_keys[0].target, context)
        return await self._try_targets(target_keys, context)

    async def _choose_by_rules(self) -> RouteChoice:
        """The targets of the request, by the rules and the model's name."""
        choice = await choose_targets(self._gateway, self._snapshot, self._plan, self.record)
        if choice.tag:
            # The client chose the target by a tag in its prompt, so its key must allow it.
            await self._usage.check_model(choice.tag)
        return choice

    def _build_context(self, choice: RouteChoice, session: int) -> TrialContext:
        return TrialContext(
            gateway=self._gateway,
            snapshot=self._snapshot,
            plan=self._plan,
            caller=self._caller,
            choice=choice,
            session=session,
            sender=self._sender,
            watchdog=self._watchdog,
            record=self.record,
            healer=self._healer,
            builder=self._requests,
            tools=self._tools,
            timer=self._timer,
            requests={},
        )

    async def _answer_here(self, text: str) -> None:
        """Answer with a text of the configuration."""
        answer = OwnAnswer(self._plan, text)
        self.record.tally = answer.tally
        if self._plan.stream:
            await self._sender.finish(answer.frames)
        else:
            await self._sender.respond(answer.build_body())

    async def _reserve(self, targets: Sequence[TargetName], first: TargetName, context: TrialContext) -> None:
        """Reserve what the request may use. Meanwhile the request for the first target is built.

        Nothing is sent before the reservation is stored. A refusal counts more than an error of the request.
        The key's rate limits become response headers in any case.
        """
        calls = 2 if context.choice.route.hedge else 1
        estimate = partial(self._usage.estimate, lambda: self._plan.request, targets, calls)
        request = await run_by_size(self._plan.body, estimate)
        interventions = self.record.interventions.copy()
        try:
            # A cancellation cancels both: a reservation that is stored nevertheless is given back.
            results = await asyncio.gather(
                self._usage.reserve(request), self._build_early(first, context), return_exceptions=True
            )
        finally:
            self._sender.set_limits(self._usage.rate_limits, self._usage.budgets, self._gateway.clock())
        reserved, built = results
        if reserved is not None:
            # The request is not sent, so what was changed in it does not matter.
            self.record.interventions = interventions
            raise reserved
        if isinstance(built, BaseException):
            raise built

    async def _build_early(self, target: TargetName, context: TrialContext) -> None:
        """Build a request while its reservation is being stored."""
        # Tools may call other servers, which must not happen before the reservation is stored.
        if self._tools is None:
            # Two steps of the loop start the transaction: building may occupy the loop for a while.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await context.find_request(target)

    async def _try_targets(self, left: Sequence[TargetKey], context: TrialContext) -> None:
        """Call the targets in order, each with its keys, until one answers. Raises if none does.

        With `hedge`, two of them may be called at once.
        """
        errors: list[DragomanError] = []
        hedge = context.choice.route.hedge
        while left:
            target_key, *left = left
            target_request = await context.find_request(target_key.target)
            if isinstance(target_request, ClientProtocolError):
                errors.append(target_request)
                continue
            if hedge and (second_targets := list_second_targets(context, target_key, left)):
                self._trial = hedged = HedgedTrials(context, second_targets)
                failed = await hedged.run(target_key, target_request, left)
                if not failed:
                    return
            else:
                self._trial = trial = TargetTrial(context, target_key, left)
                error = await trial.run(target_request)
                if error is None:
                    return
                failed = {target_key: error}
            left = [each for each in left if each not in failed]
            for (target, _), error in failed.items():
                provider = self._snapshot.handles[target.provider].provider
                errors.append(UpstreamFailed(build_client_failure(error.failure, provider, target)))
                left = [each for each in left if may_succeed(error.failure, target, each.target)]
            stopping = [each.failure for each in failed.values() if find_retry_action(each.failure) == "stop"]
            if stopping:
                left = self._list_failure_targets(stopping[0], context)
        raise choose_error(errors)

    def _list_failure_targets(self, failure: Failure, context: TrialContext) -> Sequence[TargetKey]:
        """The targets that the route has for a request that is too long or that a model refuses."""
        listed = find_failure_targets(failure, context.choice.route)
        targets = [target for target in listed if target not in context.requests]
        keys = self._snapshot.keys
        return self._gateway.health.order_targets(targets, keys, context.session, self._timer())

    async def _refuse(self, failure: Failure) -> None:
        """No target answered: an error response, or the dialect's error event if the head is already sent."""
        self.record.refused = failure
        start_tap(self._gateway.recorder, self.record, self._plan, None, self._sender)
        # The client sees our request id, which the log has too; the upstream's id goes to the log only.
        self.record.upstream_id = failure.request_id or self.record.upstream_id
        failure = msgspec.structs.replace(failure, request_id=self._plan.metadata.request_id)
        if self._sender.is_committed:
            await self._sender.finish(self._plan.write_failure(failure), failed=True)
        else:
            await self._sender.refuse(failure)

    async def _handle_cancellation(self) -> None:
        reason = self._stop_reason
        if self._is_abandoned or reason is None:
            self.record.is_cancelled = True
            if not self._is_abandoned:
                raise asyncio.CancelledError
            _uncancel()
            return
        _uncancel()
        call = self._trial.call if self._trial else None
        if call is not None and self._sender.is_target_fixed:
            await call.fail(reason)
        else:
            await self._refuse(reason)

    def _ping(self) -> None:
        if self._plan.stream:
            self._sender.ping()

    def _abandon_client(self) -> None:
        self._sender.abort()
        self.abandon()


async def _run_inner(
    gateway: Gateway, caller: Caller, plan: RequestPlan, client: Client, choice: RouteChoice
) -> None:
    """Run an exchange that a tool of the gateway needs."""
    await Exchange(gateway, plan, client, caller, choice=choice).run()


def _uncancel() -> None:
    """Clear the cancellation of this task. It was only a signal to stop waiting: the task still has work."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
