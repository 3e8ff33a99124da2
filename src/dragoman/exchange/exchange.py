"""One exchange: a client's request on its way to a model and the reply on its way back.

Until the first word of an answer has come, another target can take over without the client noticing.
After it, the client is told the truth in its own dialect.
"""

import asyncio
from collections.abc import Sequence
from itertools import count

import msgspec

from dragoman.accounts.estimates import ExchangeOutcome
from dragoman.accounts.usage import ExchangeUsage
from dragoman.config.model import TargetName
from dragoman.exchange.allowances import told
from dragoman.exchange.ask import Ask, Client
from dragoman.exchange.attempt import Attempt
from dragoman.exchange.delivery import PINGS, Delivery
from dragoman.exchange.gateway import Gateway
from dragoman.exchange.journey import Journey, Leg
from dragoman.exchange.pulse import Pulse
from dragoman.exchange.record import Record, Tried
from dragoman.hub.errors import ClientProtocolError, DragomanError, Failure, UpstreamFailed
from dragoman.routing.choose import RouteChoice, choose
from dragoman.routing.retry import decide_retry, find_step, may_succeed

#: The gateway ends while the exchange is under way; another one will listen soon.
CLOSING = Failure(
    kind="overloaded", status=503, message="the gateway is shutting down; try again", retry_after=1.0
)


class Exchange:
    """Runs once. `record` tells afterwards what happened."""

    def __init__(self, gateway: Gateway, ask: Ask, client: Client) -> None:
        self._gateway = gateway
        self._view = gateway.view
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] | None = None
        self._why_stopped: Failure | None = None
        self._is_abandoned = False
        self.record = Record(ask)
        ping_every = self._view.config.server.ping if ask.dialect in PINGS else 0.0
        self._pulse = Pulse(
            self._loop.time(), ping_every=ping_every, ping=self._ping, give_up=self._give_up_on_client
        )
        self._delivery = Delivery(ask, client, self.record, self._pulse)
        self._usage = ExchangeUsage(
            gateway.accounts, ask.caller, self._view.config, self._view.prices, len(ask.body)
        )
        self._journey: Journey | None = None
        self._attempt: Attempt | None = None

    @property
    def started(self) -> float:
        """By the loop's clock."""
        return self._pulse.started

    async def run(self) -> None:
        """Answer the client, whatever happens. Only a cancellation from outside is raised."""
        self._task = asyncio.current_task()
        self._gateway.heart.add(self._pulse)
        try:
            with self._gateway.using(self._view):
                await self._answer_or_refuse()
        except asyncio.CancelledError:
            await self._cancelled()
        finally:
            self._delivery.close()
            self._gateway.heart.remove(self._pulse)
            self._pulse.rest()
            self.record.seconds = self._loop.time() - self._pulse.started
            self._gateway.tool_counts.add(self.record)
            outcome = _build_outcome(self.record, self._pulse.heard)
            self.record.used, self.record.cost = self._usage.settle(outcome)
            for tell in self._gateway.witnesses:
                tell(self.record)

    def abandon(self) -> None:
        """The client is gone: stop, wherever it is, and tell nobody."""
        self._is_abandoned = True
        if self._task is not None:
            self._task.cancel()

    def stop(self, why: Failure) -> None:
        """End it now and tell the client why."""
        self._why_stopped = why
        if self._task is not None:
            self._task.cancel()

    async def _answer_or_refuse(self) -> None:
        try:
            await self._answer()
        except DragomanError as error:
            await self._refuse(error.failure)

    async def _answer(self) -> None:
        gateway, view, record = self._gateway, self._view, self.record
        self._journey = journey = Journey(self._ask, clock=gateway.clock, timer=self._loop.time)
        record.model, record.stream = journey.model, journey.stream
        await self._usage.check_model(journey.model)
        choice = choose(view.config, journey.model)
        record.route, record.has_alternatives = choice.route, len(choice.targets) > 1
        await self._reserve(journey, choice.targets)
        has_choice_of_keys = any(view.keys[target.provider] > 1 for target in choice.targets)
        session = journey.session() if has_choice_of_keys else 0
        places = gateway.health.order_targets(choice.targets, view.keys, session, self._loop.time())
        await self._try_all(journey, places, choice)

    async def _reserve(self, journey: Journey, targets: Sequence[TargetName]) -> None:
        """Whether the caller's limits allow it; what is left of them is told either way."""
        try:
            await self._usage.reserve(lambda: journey.request, targets)
        finally:
            if self._usage.rate_limits:
                self._delivery.own_allowances = told(
                    self._usage.rate_limits, self._ask.dialect, self._gateway.clock()
                )

    async def _try_all(
        self, journey: Journey, places: list[tuple[TargetName, int]], choice: RouteChoice
    ) -> None:
        legs: dict[TargetName, Leg | ClientProtocolError] = {}
        errors: list[DragomanError] = []
        left = places
        while left:
            (target, key), *left = left
            leg = legs.get(target) or self._leg(journey, target, choice)
            legs[target] = leg
            if isinstance(leg, ClientProtocolError):
                errors.append(leg)
                continue
            error = await self._try_place(leg, key, left)
            if error is None:
                return
            errors.append(error)
            if find_step(error.failure) == "stop":
                break
            left = [place for place in left if may_succeed(error.failure, target, place[0])]
        raise _most_telling(errors)

    def _leg(self, journey: Journey, target: TargetName, choice: RouteChoice) -> Leg | ClientProtocolError:
        """The way there; what cannot be said to one target may be said to the next."""
        provider = self._view.config.providers[target.provider]
        governance = provider.find_governance(target.model, choice.governance)
        try:
            if governance.is_off:
                return journey.leg(provider, target, strict=choice.strict)
            report = self.record.interventions.reporter(target, provider.wire_dialect)
            return journey.leg(provider, target, strict=choice.strict, governance=governance, report=report)
        except ClientProtocolError as error:
            return error

    async def _try_place(
        self, leg: Leg, key: int, others: list[tuple[TargetName, int]]
    ) -> UpstreamFailed | None:
        """Try one target with one key, as often as makes sense; the last error, if none was answered."""
        gateway, record = self._gateway, self.record
        contact = self._view.contacts[leg.target.provider]
        record.target, record.lane = leg.target, leg.lane
        record.losses, record.reply_losses = leg.losses, leg.reply_losses
        for tries in count(1):
            record.tries += 1
            began = self._loop.time()
            self._attempt = Attempt(gateway, contact, leg, self._delivery, self._pulse, record)
            try:
                failure = await self._attempt.run(key)
            except UpstreamFailed as error:
                now = self._judged(leg.target, key, began, error.failure)
                helping = [place for place in others if may_succeed(error.failure, leg.target, place[0])]
                step = decide_retry(
                    error.failure,
                    tries=tries,
                    allowed=leg.provider.retries,
                    jitter=gateway.dice(),
                    has_healthy_target=any(not gateway.health.is_cooling(*place, now) for place in helping),
                )
                if step.step != "retry":
                    return error
                await asyncio.sleep(step.wait)
                continue
            self._judged(leg.target, key, began, failure)
            return None
        return None

    def _judged(self, target: TargetName, key: int, began: float, failure: Failure | None) -> float:
        """Note what a try, which has ended now, says about its target."""
        health, since, now = self._gateway.health, self._pulse.started, self._loop.time()
        if failure is None:
            health.record_success(target, key)
        cools = failure is not None and health.record_failure(target, key, failure, now)
        self.record.attempts.append(Tried(target, began - since, now - since, failure, cools))
        return now

    async def _refuse(self, failure: Failure) -> None:
        """No target could answer: a true status if nothing was sent, otherwise the dialect's own error."""
        self.record.refused = failure
        # The client's id is ours, so that its error can be found in our log.
        self.record.upstream_id = failure.request_id or self.record.upstream_id
        failure = msgspec.structs.replace(failure, request_id=self._ask.request_id)
        if self._delivery.committed and self._journey is not None:
            await self._delivery.finish(self._journey.failed(failure), failed=True)
        else:
            await self._delivery.refuse(failure)

    async def _cancelled(self) -> None:
        why = self._why_stopped
        if self._is_abandoned or why is None:
            self.record.is_cancelled = True
            if not self._is_abandoned:
                raise asyncio.CancelledError
            _forgive_cancellation()
            return
        _forgive_cancellation()
        if self._attempt is not None and self._delivery.spoke:
            await self._attempt.tell_end(why)
        else:
            await self._refuse(why)

    def _ping(self) -> None:
        if self._journey is not None and self._journey.stream:
            self._delivery.ping()

    def _give_up_on_client(self) -> None:
        self._delivery.cut()
        self.abandon()


def _most_telling(errors: list[DragomanError]) -> DragomanError:
    """Of several failures, the first that may pass: it says when to come back. Otherwise the last."""
    passing = (error for error in errors if find_step(error.failure) == "retry")
    return next(passing, errors[-1])


def _build_outcome(record: Record, received_bytes: int) -> ExchangeOutcome:
    """What the accounts need to know about an exchange that has ended."""
    tally = record.tally
    is_finished = record.ending == "finished"
    is_answered = is_finished or (tally is not None and tally.has_content)
    return ExchangeOutcome(
        target=record.target,
        usage=tally.usage if tally else None,
        was_accepted=is_answered or (record.is_cancelled and record.tries > 0),
        is_finished=is_finished,
        has_failed=record.ending in ("failed", "truncated"),
        earlier_input=record.earlier_input,
        received_bytes=received_bytes,
        is_stream=record.stream,
    )


def _forgive_cancellation() -> None:
    """It has done what it was for; the task goes on to its ordinary end."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
