"""One heartbeat for all open replies: signs of life for waiting clients, and limits on silence.

A timer per event would cost more than the event; so the pieces only leave a mark, and one task looks
around twice a second.
"""

import asyncio
from collections.abc import Callable

from dragoman.config.model import Timeouts

#: Seconds between two looks around, and so the precision of every limit here.
BEAT = 0.5
#: A client that takes nothing for this long is gone in all but name.
CLIENT_PATIENCE = 300.0


class Pulse:
    """The signs of one open reply. `expired` says which limit ended it."""

    __slots__ = (
        "_blocked_at",
        "_give_up",
        "_hang_up",
        "_heard_at",
        "_heard_before",
        "_limits",
        "_ping",
        "_ping_every",
        "_told_at",
        "expired",
        "heard",
        "sending",
        "started",
        "tick",
        "told",
    )

    def __init__(
        self, now: float, *, ping_every: float, ping: Callable[[], None], give_up: Callable[[], None]
    ) -> None:
        #: Bytes of the reply; whoever hears from the upstream adds to it.
        self.heard = 0
        #: Raised by whoever tells the client something; lowered at each beat.
        self.told = False
        #: The client is being told something and takes its time.
        self.sending = False
        self.started = now
        self.expired = ""
        #: Wants to know that time passes while the client is told nothing.
        self.tick: Callable[[], None] | None = None
        self._heard_at = now
        self._heard_before = 0
        self._told_at = now
        self._blocked_at = now
        self._ping_every = ping_every
        self._ping = ping
        self._give_up = give_up
        self._limits: Timeouts | None = None
        self._hang_up: Callable[[], None] | None = None

    def listen(self, limits: Timeouts, hang_up: Callable[[], None], now: float) -> None:
        """An upstream is answering; `hang_up` ends it."""
        self._limits, self._hang_up = limits, hang_up
        self.expired = ""
        self.heard = self._heard_before = 0
        self._heard_at = now

    def stop_listening(self) -> None:
        self._limits = self._hang_up = self.tick = None

    def rest(self) -> None:
        """The reply is over. What the pulse would call holds the pulse, and all of the exchange with it."""
        self.stop_listening()
        self._ping = self._give_up = _do_nothing

    def beat(self, now: float) -> None:
        if self.tick is not None and not self.sending:
            self.tick()
        self._look_at_client(now)
        if self.heard != self._heard_before:
            self._heard_before = self.heard
            self._heard_at = now
        limits = self._limits
        if limits is None or self._hang_up is None or self.expired or self.sending:
            # While the client is slow nobody listens, so silence says nothing about the upstream.
            self._heard_at = now
            return
        silence = limits.idle if self._heard_before else limits.first_byte
        if silence and now - self._heard_at >= silence:
            self.expired = f"nothing came for {silence:g} s"
        elif limits.total and now - self.started >= limits.total:
            self.expired = f"the reply took longer than {limits.total:g} s"
        if self.expired:
            self._hang_up()

    def _look_at_client(self, now: float) -> None:
        if self.told:
            self.told = False
            self._told_at = self._blocked_at = now
        elif not self.sending:
            self._blocked_at = now
        if self.sending:
            if now - self._blocked_at >= CLIENT_PATIENCE:
                self._give_up()
        elif self._ping_every and now - self._told_at >= self._ping_every:
            self._told_at = now
            self._ping()


def _do_nothing() -> None:
    pass


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
        """An idle gateway sleeps."""
        loop = asyncio.get_running_loop()
        while self._pulses:
            await asyncio.sleep(BEAT)
            now = loop.time()
            for pulse in tuple(self._pulses):
                # One that fails must not stop the heart for all others.
                loop.call_soon(pulse.beat, now)
        self._task = None
