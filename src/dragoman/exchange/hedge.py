"""`HedgedTrials`: calls a second target if the first one is slow. The one with the first content answers.

Each of the two trials has its own record and watchdog, so that neither affects the other or the client. The
trial with the first content gets those of the exchange; from then on everything is as if it had been alone.
The other one is cancelled, and its call is charged to the key.
"""

import asyncio
from collections.abc import Sequence

from dragoman.exchange.context import TrialContext
from dragoman.exchange.record import ExchangeRecord
from dragoman.exchange.trial import TargetTrial
from dragoman.exchange.upstream_call import UpstreamCall
from dragoman.exchange.watchdog import Watchdog
from dragoman.hub.errors import DragomanError, UpstreamFailed
from dragoman.pipeline.target_request import TargetRequest
from dragoman.routing.health import TargetKey


def list_second_targets(
    context: TrialContext, first: TargetKey, others: Sequence[TargetKey]
) -> list[TargetKey]:
    """The targets that may be called besides the first one. Called if the route has `hedge`.

    A local program keeps a conversation with each caller, which must not have an answer that is not used.
    """
    providers = context.snapshot.config.providers
    if providers[first.target.provider].keeps_sessions:
        return []
    return [
        each
        for each in others
        if each.target != first.target and not providers[each.target.provider].keeps_sessions
    ]


class HedgedTrials:
    """Two trials of one exchange. Call `run` once. `second_targets`: the candidates for the second one."""

    def __init__(self, context: TrialContext, second_targets: Sequence[TargetKey]) -> None:
        self._context = context
        self._second_targets = second_targets
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[TargetTrial, asyncio.Task[UpstreamFailed | None]] = {}
        self._winner: TargetTrial | None = None

    @property
    def call(self) -> UpstreamCall | None:
        """The call that answers the client, if there is one yet."""
        return self._winner.call if self._winner else None

    async def run(
        self, first: TargetKey, target_request: TargetRequest, others: Sequence[TargetKey]
    ) -> dict[TargetKey, UpstreamFailed]:
        """Returns the errors of the targets that failed; none if one of them has answered the client."""
        self._start(first, target_request, others)
        try:
            await asyncio.wait(self._tasks.values(), timeout=self._context.choice.route.hedge)
            if self._is_waiting():
                await self._start_second(others)
            await asyncio.wait(self._tasks.values())
        except asyncio.CancelledError:
            self._charge_all()
            raise
        finally:
            await self._end_tasks()
        ended = [(trial, task.result()) for trial, task in self._tasks.items() if not task.cancelled()]
        if any(error is None for _, error in ended):
            return {}
        return {trial.target_key: error for trial, error in ended if error is not None}

    def grant(self, trial: TargetTrial) -> tuple[ExchangeRecord, Watchdog]:
        """Let the trial answer the client, and cancel the other one."""
        record, watchdog = self._context.record, self._context.watchdog
        self._winner = trial
        record.adopt(trial.record)
        watchdog.adopt(trial.watchdog)
        for other, task in self._tasks.items():
            if other is not trial and not task.done():
                other.lose()
                task.cancel()
        return record, watchdog

    def _is_waiting(self) -> bool:
        """Whether the first target still has neither answered nor failed."""
        return self._winner is None and not any(task.done() for task in self._tasks.values())

    async def _start_second(self, others: Sequence[TargetKey]) -> None:
        """Call the next target that does not cool down, if the request can be written for it."""
        health, now = self._context.gateway.health, self._loop.time()
        second = next((each for each in self._second_targets if not health.is_cooling(each, now)), None)
        if second is None:
            return
        try:
            target_request = await self._context.find_request(second.target)
        except DragomanError:
            # If the first target fails, this one is tried again, and then its error counts.
            return
        if isinstance(target_request, TargetRequest) and self._is_waiting():
            self._start(second, target_request, [each for each in others if each != second])

    def _start(
        self, target_key: TargetKey, target_request: TargetRequest, others: Sequence[TargetKey]
    ) -> None:
        trial = TargetTrial(self._context, target_key, others, self)
        self._tasks[trial] = self._loop.create_task(self._try(trial, target_request))

    async def _try(self, trial: TargetTrial, target_request: TargetRequest) -> UpstreamFailed | None:
        error = await trial.run(target_request)
        if error is not None and self._winner is None:
            self._context.record.adopt(trial.record)
        return error

    def _charge_all(self) -> None:
        """The exchange ends before any content: one call counts as its last one, others are added."""
        if self._winner is not None:
            return
        record, trials = self._context.record, list(self._tasks)
        shown, *more = [trial for trial in trials if trial.is_calling] or trials[-1:]
        record.adopt(shown.record)
        self._context.watchdog.adopt(shown.watchdog)
        for trial in more:
            record.add_slow_call(trial.record, trial.watchdog.received)

    async def _end_tasks(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._context.watchdog.forks = ()
        await asyncio.wait(self._tasks.values())
