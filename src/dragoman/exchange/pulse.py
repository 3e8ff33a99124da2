"""One heartbeat for all open replies: signs of life for waiting clients, and limits on silence.

A timer per event would cost more than the event; so the pieces only leave their time, and one task
looks around every half second.
"""

import asyncio
from collections.abc import Callable

from dragoman.config.model import Timeouts

BEAT = 0.5


class Pulse:
    """The times of one open reply. `expired` says which limit ended it."""

    def __init__(
        self,
        now: float,
        *,
        ping_every: float,
        ping: Callable[[], None],
    ) -> None:
        self.started = now
        self.heard = now
        self.told = now
        self.first = True
        self.expired = ""
        self._ping_every = ping_every
        self._ping = ping
        self._timeouts: Timeouts | None = None
        self._hang_up: Callable[[], None] | None = None

    def listen(self, timeouts: Timeouts, hang_up: Callable[[], None], now: float) -> None:
        """An upstream is answering; `hang_up` ends it."""
        self._timeouts, self._hang_up = timeouts, hang_up
        self.heard = now
        self.first = True

    def stop_listening(self) -> None:
        self._timeouts = self._hang_up = None

    def beat(self, now: float) -> None:
        if self._ping_every and now - self.told >= self._ping_every:
            self.told = now
            self._ping()
        limits = self._timeouts
        if limits is None or self._hang_up is None or self.expired:
            return
        silence = limits.first_byte if self.first else limits.idle
        if silence and now - self.heard >= silence:
            self.expired = f"nothing came for {silence:g} s"
        elif limits.total and now - self.started >= limits.total:
            self.expired = f"the reply took longer than {limits.total:g} s"
        if self.expired:
            self._hang_up()


class Heart:
    """Beats for every pulse that is registered."""

    def __init__(self) -> None:
        self._pulses: set[Pulse] = set()
        self._task: asyncio.Task[None] | None = None

    def add(self, pulse: Pulse) -> None:
        self._pulses.add(pulse)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="dragoman-heart")

    def remove(self, pulse: Pulse) -> None:
        self._pulses.discard(pulse)

    @property
    def open(self) -> int:
        return len(self._pulses)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._pulses:
            await asyncio.sleep(BEAT)
            now = loop.time()
            for pulse in tuple(self._pulses):
                pulse.beat(now)
        self._task = None
