"""`Exchange`: one client request and its reply, end to end.

Until the first content has come, another target can take over and the client does not notice. After that a
failure is sent to the client in its own dialect.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

import msgspec

from dragoman.accounts.keys import ANONYMOUS, Caller
from dragoman.accounts.usage import ExchangeUsage
from dragoman.config.model import Route
from dragoman.config.provider import TargetName
from dragoman.exchange.client import Client
from dragoman.exchange.client_failure import build_client_failure, choose_error
from dragoman.exchange.gateway import Gateway
from dragoman.exchange.healer import RequestHealer
from dragoman.exchange.pass_through import CallCredential, find_credential
from dragoman.exchange.record import AttemptRecord, ExchangeRecord, build_outcome
from dragoman.exchange.selection import (
    change_prompt,
    choose_targets,
    compute,
    fit_targets,
    order_targets,
    run_measured,
)
from dragoman.exchange.sender import ResponseSender
from dragoman.exchange.sessions import check_session_limits, count_session
from dragoman.exchange.tap import start_tap
from dragoman.exchange.target_requests import TargetRequestBuilder
from dragoman.exchange.tools import ExchangeTools
from dragoman.exchange.upstream_call import UpstreamCall
from dragoman.exchange.watchdog import Watchdog
from dragoman.hub.errors import ClientProtocolError, DragomanError, Failure, UpstreamFailed
from dragoman.pipeline.own_answer import OwnAnswer
from dragoman.pipeline.plan import RequestPlan
from dragoman.pipeline.target_request import TargetRequest
from dragoman.routing.choose import RouteChoice
from dragoman.routing.health import TargetKey
from dragoman.routing.pools import find_escape
from dragoman.routing.retry import KEY_KINDS, decide_retry, find_step, may_succeed
from dragoman.telemetry.redaction import Redactor

#: Sent to clients of exchanges that are open when the gateway shuts down.
CLOSING = Failure(
    kind="overloaded", status=503, message="the gateway is shutting down; try again", retry_after=1.0
)

#: The request for each target, or the error that forbids to send it there.
TargetRequests = dict[TargetName, TargetRequest | ClientProtocolError]


class Exchange:
    """One client request and its reply. Call `run` once; then `record` is complete."""

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
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] | None = None
        self._stop_reason: Failure | None = None
        self._is_abandoned = False
        self.record = ExchangeRecord(plan.metadata, caller)
        self._watchdog = Watchdog(
            self._loop.time(),
            ping_every=self._snapshot.config.server.ping if plan.dialect.stream_writer.ping else 0.0,
            ping=self._ping,
            abandon=self._abandon_client,
        )
        self._sender = ResponseSender(plan.dialect, client, self.record, self._watchdog, self._settle)
        self._usage = ExchangeUsage(
            gateway.accounts, caller, self._snapshot.config, self._snapshot.prices, len(plan.body)
        )
        self._healer = RequestHealer(self._snapshot.config, plan, gateway.learned, gateway.refused_seals)
        self._is_settled = False
        self._call: UpstreamCall | None = None
        self._session = 0
        self._choice = choice
        self._tools: ExchangeTools | None = None
        if self._snapshot.toolbox is not None and choice is None:
            run_inner = partial(_run_inner, gateway, caller)
            self._tools = ExchangeTools(gateway, self._snapshot.toolbox, self.record, run_inner)
        plan.histories = gateway.find_histories(caller)
        self._requests = TargetRequestBuilder(plan, self._snapshot, self._healer, self.record, self._tools)

    @property
    def started(self) -> float:
        """The time of the beginning, by the event loop's clock."""
        return self._watchdog.started

    async def run(self) -> None:
        """Answer the client in any case. Raises only a cancellation that came from outside."""
        self._task = asyncio.current_task()
        self._gateway.watchdogs.add(self._watchdog)
        try:
            with self._gateway.use(self._snapshot):
                await self._answer_or_refuse()
        except asyncio.CancelledError:
            await self._handle_cancellation()
        finally:
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
        self._gateway.intervention_counts.add(self.record)
        count_session(self._gateway.sessions, self.record)
        for observe in self._gateway.observers:
            observe(self.record)

    def _settle(self) -> None:
        """Complete the record with its usage: before the end of the reply is sent, or if none is sent."""
        self.record.seconds = self._loop.time() - self._watchdog.started
        if not self._is_settled:
            self._is_settled = True
            outcome = build_outcome(self.record, self._watchdog.received)
            self.record.used, self.record.cost = self._usage.settle(outcome)

    async def _answer_or_refuse(self) -> None:
        try:
            await self._answer()
        except DragomanError as error:
            await self._refuse(error.failure)

    async def _answer(self) -> None:
        gateway, snapshot, plan, record = self._gateway, self._snapshot, self._plan, self.record
        await compute(plan.body, plan.peek)
        record.model, record.stream = plan.model, plan.stream
        await self._usage.check_model(plan.model)
        choice = self._choice or await choose_targets(gateway, snapshot, plan, record)
        if choice.tag:
            # The client chose the target by a tag in its prompt, so its key must allow it.
            await self._usage.check_model(choice.tag)
        record.route, record.has_alternatives = choice.route.match, len(choice.targets) > 1
        start_tap(gateway.recorder, record, plan, choice.route, self._sender)
        if choice.answer:
            return await self._answer_here(choice.answer)
        if snapshot.prompts:
            await compute(plan.body, partial(change_prompt, gateway, snapshot, plan, record, choice))
        await check_session_limits(snapshot.config, choice.route, gateway.sessions, plan, record)
        self._healer.is_on = choice.route.heal
        await gateway.learned.load()
        targets = await fit_targets(snapshot.config, plan, choice)
        await self._reserve(targets)
        target_keys, self._session = await order_targets(
            gateway, snapshot, plan, choice.route, targets, self._loop.time()
        )
        return await self._try_targets(target_keys, choice)

    async def _answer_here(self, text: str) -> None:
        """Answer with a text of the configuration."""
        answer = OwnAnswer(self._plan, text)
        self.record.tally = answer.tally
        if self._plan.stream:
            await self._sender.finish(answer.frames)
        else:
            await self._sender.respond(answer.build_body())

    async def _reserve(self, targets: Sequence[TargetName]) -> None:
        """Reserve what the request may use. The key's rate limits become response headers in any case."""
        try:
            estimate = partial(self._usage.estimate, lambda: self._plan.request, targets)
            await self._usage.reserve(await compute(self._plan.body, estimate))
        finally:
            self._sender.set_limits(self._usage.rate_limits, self._usage.budgets, self._gateway.clock())

    async def _try_targets(self, target_keys: list[TargetKey], choice: RouteChoice) -> None:
        """Call the targets in order, each with its keys, until one answers. Raises if none does."""
        requests: TargetRequests = {}
        errors: list[DragomanError] = []
        left = target_keys
        while left:
            target_key, *left = left
            target = target_key.target
            target_request = requests.get(target)
            if target_request is None:
                target_request = await self._requests.build(target, choice)
            requests[target] = target_request
            if isinstance(target_request, ClientProtocolError):
                errors.append(target_request)
                continue
            error = await self._try_target_key(target_key, target_request, requests, left, choice)
            if error is None:
                return
            handle = self._snapshot.handles[target.provider]
            errors.append(UpstreamFailed(build_client_failure(error.failure, handle.provider, target)))
            if find_step(error.failure) == "stop":
                left = self._list_escapes(error.failure, choice.route, requests)
                continue
            left = [each for each in left if may_succeed(error.failure, target, each.target)]
        raise choose_error(errors)

    def _list_escapes(self, failure: Failure, route: Route, requests: TargetRequests) -> list[TargetKey]:
        """The targets that the route has for a request that is too long or that a model refuses."""
        targets = [target for target in find_escape(failure, route) if target not in requests]
        keys = self._snapshot.keys
        return self._gateway.health.order_targets(targets, keys, self._session, self._loop.time())

    async def _try_target_key(
        self,
        target_key: TargetKey,
        target_request: TargetRequest,
        requests: TargetRequests,
        others: list[TargetKey],
        choice: RouteChoice,
    ) -> UpstreamFailed | None:
        """Call one target with one key, and retry if that may help. Returns the last error if all failed.

        A request that is healed after a refusal replaces the target's request in `requests`.
        """
        gateway, record = self._gateway, self.record
        target = target_key.target
        handle = self._snapshot.handles[target.provider]
        try:
            credential = find_credential(handle, self._plan.metadata, self._snapshot.config.server.keys)
        except UpstreamFailed as error:
            return error
        tries = 0
        while True:
            tries += 1
            record.tries += 1
            record.target, record.lane = target, target_request.lane
            record.losses, record.reply_losses = target_request.losses, target_request.reply_losses
            began = self._loop.time()
            self._call = self._build_call(target_key, target_request, credential, choice.route)
            try:
                waited = began - self._watchdog.started
                failure = await run_measured(gateway, choice.route, self._session, self._call, record, waited)
            except UpstreamFailed as error:
                healed = await self._heal(target, target_request, error.failure, choice, credential.redactor)
                now = self._record_attempt(target_key, began, error.failure, is_healed=healed is not None)
                if healed is not None:
                    requests[target] = target_request = healed
                    tries -= 1
                    continue
                helping = [each for each in others if may_succeed(error.failure, target, each.target)]
                step = decide_retry(
                    error.failure,
                    tries=tries,
                    allowed=handle.provider.retries,
                    jitter=gateway.random(),
                    has_healthy_target=any(not gateway.health.is_cooling(each, now) for each in helping),
                )
                if step.step != "retry":
                    return error
                await asyncio.sleep(step.wait)
                continue
            self._healer.end_trials(target)
            self._record_attempt(target_key, began, failure)
            return None

    def _build_call(
        self, target_key: TargetKey, target_request: TargetRequest, credential: CallCredential, route: Route
    ) -> UpstreamCall:
        target, key = target_key
        return UpstreamCall(
            self._plan,
            target_request,
            self._snapshot.handles[target.provider],
            key,
            credential,
            watches_refusal=bool(route.on_refusal),
            caller=self._caller.owner,
            sender=self._sender,
            watchdog=self._watchdog,
            record=self.record,
            now=self._gateway.clock(),
            tools=self._tools.find(target) if self._tools else None,
        )

    async def _heal(
        self,
        target: TargetName,
        target_request: TargetRequest,
        failure: Failure,
        choice: RouteChoice,
        redactor: Redactor,
    ) -> TargetRequest | None:
        """The request as the refusal asks for it; None if nothing in it can be changed."""
        healer, body = self._healer, self._plan.body
        if self._call is None or self._call.has_answered_round or not healer.may_heal(target):
            return None
        change = await compute(body, partial(healer.find_change, target, failure))
        if change is None:
            return None
        healer.start_trial(target, change, redactor.redact(failure.message))
        try:
            healed = await self._requests.build(target, choice)
        except DragomanError:
            # A limit that leaves no room for the names or ids of this request.
            healer.abandon_trial(target, is_known=False)
            return None
        if not isinstance(healed, TargetRequest) or healed.body == target_request.body:
            is_read = isinstance(healed, TargetRequest) and not self._plan.is_unreadable
            healer.abandon_trial(target, is_known=is_read)
            return None
        healed.losses = (*healed.losses, healer.describe_trial(target))
        return healed

    def _record_attempt(
        self, target_key: TargetKey, began: float, failure: Failure | None, *, is_healed: bool = False
    ) -> float:
        """Note a call that has ended now, and its effect on the target's health. Returns the time.

        `is_healed`: the request was at fault and is sent again, so the failure is none of the target's.
        """
        health, start, now = self._gateway.health, self._watchdog.started, self._loop.time()
        health.count_call(target_key.target, None if is_healed else failure)
        if failure is None:
            health.record_success(target_key)
        is_faulty = failure is not None and not is_healed and not self._concerns_client(target_key, failure)
        cools = failure is not None and is_faulty and health.record_failure(target_key, failure, now)
        self.record.attempts.append(
            AttemptRecord(target_key.target, began - start, now - start, failure, cools)
        )
        return now

    def _concerns_client(self, target_key: TargetKey, failure: Failure) -> bool:
        """Whether the failure concerns the client's own account, which other clients do not use."""
        provider = self._snapshot.config.providers[target_key.target.provider]
        return provider.uses_client_credential and failure.kind in KEY_KINDS

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
        if self._call is not None and self._sender.is_target_fixed:
            await self._call.fail(reason)
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
