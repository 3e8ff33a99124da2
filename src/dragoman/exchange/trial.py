"""`TargetTrial`: the calls of one target with one key, with retries and healed requests."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from dragoman.exchange.context import TrialContext
from dragoman.exchange.large_bodies import run_by_size
from dragoman.exchange.pass_through import CallCredential, find_credential
from dragoman.exchange.record import AttemptRecord, ExchangeRecord
from dragoman.exchange.upstream_call import UpstreamCall
from dragoman.exchange.watchdog import Watchdog
from dragoman.hub.errors import DragomanError, Failure, UpstreamFailed
from dragoman.pipeline.target_request import TargetRequest
from dragoman.routing.health import TargetKey
from dragoman.routing.retry import KEY_KINDS, decide_retry, may_succeed

#: Of a call that is cancelled because another target answers. The target is not at fault.
TOO_SLOW = Failure(kind="cancelled", message="another target sent its first content sooner")


class TrialRace(Protocol):
    """Several trials that run at once. `hedge.HedgedTrials` implements it."""

    def grant(self, trial: "TargetTrial") -> tuple[ExchangeRecord, Watchdog]:
        """Let the trial answer the client and cancel the others. Returns what the trial uses from now on."""
        ...


class TargetTrial:
    """The calls of one target with one key. Call `run` once. `others`: the targets that may follow.

    A trial in a race has its own record and watchdog until its first content.
    """

    #: The last call, and whether it runs.
    call: UpstreamCall | None = None
    is_calling = False
    _has_lost = False
    #: When the last call began.
    _began = 0.0

    def __init__(
        self,
        context: TrialContext,
        target_key: TargetKey,
        others: Sequence[TargetKey],
        race: TrialRace | None = None,
    ) -> None:
        self._context = context
        self.target_key = target_key
        self._others = others
        self._race = race
        self._timer = context.timer
        self.record = context.record.fork() if race else context.record
        self.watchdog = context.watchdog.fork() if race else context.watchdog

    async def run(self, target_request: TargetRequest) -> UpstreamFailed | None:
        """Call the target, and retry if that may help. Returns the last error if all calls failed.

        A request that is healed after a refusal replaces the target's request in the context.
        """
        context, target = self._context, self.target_key.target
        gateway, snapshot = context.gateway, context.snapshot
        handle = snapshot.handles[target.provider]
        try:
            credential = find_credential(handle, context.plan.metadata, snapshot.config.server.keys)
        except UpstreamFailed as error:
            return error
        tries = 0
        while True:
            tries += 1
            try:
                failure = await self._call(target_request, credential)
            except UpstreamFailed as error:
                healed = await self._heal(target_request, error.failure, credential)
                now = self._record_attempt(error.failure, is_healed=healed is not None)
                if healed is not None:
                    context.requests[target] = target_request = healed
                    tries -= 1
                    continue
                helping = [each for each in self._others if may_succeed(error.failure, target, each.target)]
                decision = decide_retry(
                    error.failure,
                    tries=tries,
                    allowed=handle.provider.retries,
                    jitter=gateway.random(),
                    has_healthy_target=any(not gateway.health.is_cooling(each, now) for each in helping),
                )
                if decision.action != "retry":
                    return error
                await asyncio.sleep(decision.wait)
                continue
            context.healer.learn_corrections(target)
            gateway.note_provider(context.caller, target.provider)
            self._record_attempt(failure)
            return None

    def lose(self) -> None:
        """Another target answers: record and charge the call, if one runs. The caller cancels the task."""
        if not self.is_calling:
            return
        self._has_lost = True
        self._context.record.add_slow_call(self.record, self.watchdog.received)
        self._add_attempt(TOO_SLOW, self._timer())

    async def _call(self, target_request: TargetRequest, credential: CallCredential) -> Failure | None:
        """Call the target once. Returns why the reply failed after its first content."""
        context, record = self._context, self.record
        context.record.tries += 1
        record.target, record.lane = self.target_key.target, target_request.lane
        record.redactor = credential.redactor
        record.losses, record.reply_losses = target_request.losses, target_request.reply_losses
        self._began = self._timer()
        claim = partial(self._claim, self._race) if self._race else None
        self.call = call = UpstreamCall(
            context, self.target_key, target_request, credential, record, self.watchdog, claim
        )
        self.is_calling = True
        try:
            return await (self._run_measured(call) if context.snapshot.is_balanced else call.run())
        finally:
            self.is_calling = False

    async def _run_measured(self, call: UpstreamCall) -> Failure | None:
        """Run a call, and note how busy and how fast its target is, for the orders of all routes."""
        context, target, balancer = self._context, self.target_key.target, self._context.gateway.balancer
        balancer.start_call(target)
        try:
            failure = await call.run()
            if failure is None:
                balancer.keep_session(context.choice.route, context.session, target, self._timer())
        finally:
            # A target that lost is at least as slow as the time that it had.
            slow = self._timer() - self._began if self._has_lost else 0.0
            waited = self._began - self.watchdog.started
            balancer.end_call(target, slow or self.record.first_token_seconds - waited)
        return failure

    def _claim(self, race: TrialRace) -> tuple[ExchangeRecord, Watchdog]:
        """Win the race: cancel the other trials and use the exchange's record and watchdog from now on.

        `UpstreamCall` calls it once, before the target's first output is sent.
        """
        self.record, self.watchdog = race.grant(self)
        self._race = None
        return self.record, self.watchdog

    async def _heal(
        self, target_request: TargetRequest, failure: Failure, credential: CallCredential
    ) -> TargetRequest | None:
        """The request as the refusal asks for it; None if nothing in it can be changed."""
        context, target = self._context, self.target_key.target
        healer, plan = context.healer, context.plan
        if self.call is None or self.call.has_answered_round or not healer.may_heal(target):
            return None
        change = await run_by_size(plan.body, partial(healer.find_change, target, failure))
        if change is None:
            return None
        healer.add_correction(target, change, credential.redactor.redact(failure.message))
        try:
            healed = await context.builder.build(target, context.choice)
        except DragomanError:
            # A limit that leaves no room for the names or ids of this request.
            healer.drop_corrections(target, is_known=False)
            return None
        if not isinstance(healed, TargetRequest) or healed.body == target_request.body:
            is_read = isinstance(healed, TargetRequest) and not plan.is_unreadable
            healer.drop_corrections(target, is_known=is_read)
            return None
        healed.losses = (*healed.losses, healer.describe_corrections(target))
        return healed

    def _record_attempt(self, failure: Failure | None, *, is_healed: bool = False) -> float:
        """Note a call that has ended now, and its effect on the target's health. Returns the time.

        `is_healed`: the request was at fault and is sent again, so the failure is none of the target's.
        """
        health, now, target_key = self._context.gateway.health, self._timer(), self.target_key
        health.count_call(target_key.target, None if is_healed else failure)
        cools = False
        if failure is None:
            health.record_success(target_key)
        elif not is_healed and not self._concerns_client(failure):
            cools = health.record_failure(target_key, failure, now)
        self._add_attempt(failure, now, cools=cools)
        return now

    def _add_attempt(self, failure: Failure | None, now: float, *, cools: bool = False) -> None:
        start = self.watchdog.started
        self._context.record.attempts.append(
            AttemptRecord(self.target_key.target, self._began - start, now - start, failure, cools)
        )

    def _concerns_client(self, failure: Failure) -> bool:
        """Whether the failure concerns the client's own account, which other clients do not use."""
        provider = self._context.snapshot.config.providers[self.target_key.target.provider]
        return provider.uses_client_credential and failure.kind in KEY_KINDS
