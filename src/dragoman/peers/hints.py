"""`SharedHints`: gateways report to each other which targets cool down, and how fast targets are.

Best effort: nothing waits for it, and without the state each gateway knows what it has seen by itself. Once a
second it reads the hints of the others, and writes its own if they have changed.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from dragoman.config.provider import TargetName
from dragoman.hub.errors import ConfigError
from dragoman.peers.store import PEERS_SCHEMA, Hint, read_hints, write_hints
from dragoman.routing.balancing import LoadBalancer
from dragoman.routing.health import TargetHealth, TargetKey
from dragoman.storage.port import StateStorage, Transaction
from dragoman.storage.processes import build_process_name

LOGGER = logging.getLogger("dragoman")

#: Seconds between two looks at the hints of the others.
INTERVAL = 1.0
#: Seconds for which a time to the first word counts, and after which it is written again.
WORD_SECONDS = 60.0
RENEW_SECONDS = 20.0
#: Hints of one gateway. The oldest targets are left out.
MAX_HINTS = 200
LOCK = "hints"


class SharedHints:
    """The hints of one gateway process. `clock` gives the date by the clock of the state."""

    def __init__(
        self, storage: StateStorage, clock: Callable[[], float], health: TargetHealth, balancer: LoadBalancer
    ) -> None:
        storage.add_schema(PEERS_SCHEMA)
        self._storage = storage
        self._clock = clock
        self._health = health
        self._balancer = balancer
        self._gateway = build_process_name()
        #: What was written last, and when, by the loop's clock.
        self._written: list[tuple[object, ...]] = []
        self._written_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Exchange hints from now on, until `close`."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop the exchange of hints, and delete the hints of this gateway: it renews them no more."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait((self._task,))
        if self._written:
            with suppress(ConfigError):
                await self._write([])

    async def exchange(self) -> None:
        """Write its own hints if they have changed, and take over those of the others."""
        now, date = asyncio.get_running_loop().time(), self._clock()
        hints = self._collect(now, date)
        # The dates differ a little each time, although nothing has changed.
        changed: list[tuple[object, ...]] = [
            (*hint[:5], round(hint.expires)) if hint.kind == "cooldown" else hint[:5] for hint in hints
        ]
        is_due = bool(hints) and now - self._written_at >= RENEW_SECONDS
        if changed != self._written or is_due:
            others = await self._write(hints)
            self._written, self._written_at = changed, now
        else:
            others = await self._storage.read(lambda each: read_hints(each, self._gateway, date))
        self._health.set_hints(
            {
                TargetKey(TargetName(hint.provider, hint.model), hint.key): now + hint.expires - date
                for hint in others
                if hint.kind == "cooldown"
            }
        )
        self._balancer.set_hints(
            {
                TargetName(hint.provider, hint.model): hint.value
                for hint in others
                if hint.kind == "first_word"
            }
        )

    async def _run(self) -> None:
        has_failed = False
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                await self.exchange()
                has_failed = False
            except ConfigError as error:
                if not has_failed:
                    LOGGER.warning("hints of other gateways cannot be read: %s", error)
                has_failed = True

    async def _write(self, hints: list[Hint]) -> list[Hint]:
        date = self._clock()

        async def work(transaction: Transaction) -> list[Hint]:
            await write_hints(transaction, self._gateway, hints, date)
            return await read_hints(transaction, self._gateway, date)

        return await self._storage.run(work, locks=(LOCK,))

    def _collect(self, now: float, date: float) -> list[Hint]:
        cooldowns = [
            Hint(
                "cooldown",
                target.provider,
                target.model,
                key,
                float(cooldown.failures),
                date + cooldown.until - now,
            )
            for (target, key), cooldown in self._health.list_cooldowns(now).items()
        ]
        words = [
            # Two digits: a mean that hardly changes is not written again.
            Hint("first_word", target.provider, target.model, 0, float(f"{seconds:.2g}"), date + WORD_SECONDS)
            for target, seconds in self._balancer.list_first_words().items()
        ]
        return [*cooldowns[-MAX_HINTS:], *words[-MAX_HINTS:]]
