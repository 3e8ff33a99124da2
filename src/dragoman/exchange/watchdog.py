"""Time limits and pings for all open replies, driven by one timer task.

A timer per reply would cost more than the reply's own work. Each `Watchdog` belongs to one exchange; the
upstream call and the sender set its counters, and `WatchdogTimer` checks all of them twice a second.
"""

import asyncio
import re
from collections.abc import Callable

from dragoman.config.settings import Timeouts
from dragoman.hub.errors import Failure

#: Seconds between two checks: the precision of every limit here.
INTERVAL = 0.5
#: Seconds that an upstream gets after its last event to end the reply, so that its connection can be reused.
END_LIMIT = 1.0
#: Seconds. A client that accepts nothing for this long is treated as gone.
CLIENT_LIMIT = 300.0

#: Lines of an event stream that are comments, or empty. A server can send them without end.
_COMMENTS = re.compile(rb"(?::[^\r\n]*+[\r\n]*+)++")


class Watchdog:
    """Watches one exchange. `expired` is the limit that ended the upstream's reply, as text."""

    #: Bytes of the upstream's reply so far, without comments.
    received = 0
    #: Something was sent to the client since the last check.
    has_sent = False
    #: Output is being sent; long if the client is slow. Pings and `send_soon` do not set it.
    is_sending = False
    expired = ""
    #: Called at every check while nothing is being sent; for replies that hold events back.
    tick: Callable[[], None] | None = None
    #: The watchdogs of upstreams that are called at once, until one of them answers.
    forks: tuple["Watchdog", ...] = ()
    _received_before = 0
    _timeouts: Timeouts | None = None
    _close_reply: Callable[[], None] | None = None
    #: When the upstream must have ended its reply, whose last event has come; 0: that has not come.
    _ends_by = 0.0

    def __init__(
        self, now: float, *, ping_every: float, ping: Callable[[], None], abandon: Callable[[], None]
    ) -> None:
        self.started = self._received_at = self._sent_at = self._blocked_at = now
        self._ping_every = ping_every
        self._ping = ping
        self._abandon = abandon

    def watch_upstream(self, timeouts: Timeouts, close_reply: Callable[[], None], now: float) -> None:
        """Begin to watch an upstream's reply. `close_reply` ends it."""
        self._timeouts, self._close_reply = timeouts, close_reply
        self.expired = ""
        self._ends_by = 0.0
        self.received = self._received_before = 0
        self._received_at = now

    def end_soon(self, now: float) -> None:
        """Give the upstream `END_LIMIT` seconds to end its reply: nothing more is needed of it."""
        self._ends_by = now + END_LIMIT

    def count_received(self, piece: bytes) -> None:
        """Count a piece of the upstream's reply. Comments of an event stream are no progress."""
        if piece[:1] != b":" or not _COMMENTS.fullmatch(piece):
            self.received += len(piece)

    def fork(self) -> "Watchdog":
        """A watchdog for one of two upstreams that are called at once. It is checked with this one."""
        forked = Watchdog(self.started, ping_every=0.0, ping=_do_nothing, abandon=_do_nothing)
        self.forks = (*self.forks, forked)
        return forked

    def adopt(self, forked: "Watchdog") -> None:
        """Continue the watch of the upstream that answers. The others are watched no longer."""
        self._timeouts, self._close_reply, self.tick = forked._timeouts, forked._close_reply, forked.tick
        self.received, self._received_before = forked.received, forked._received_before
        self._received_at, self.expired = forked._received_at, forked.expired
        self.forks = ()

    def find_cause(self, failure: Failure, provider: str) -> Failure:
        """Why the reply broke off. If its connection was closed because of a limit, that is the reason."""
        if not self.expired:
            return failure
        message = f"provider {provider} timed out: {self.expired}"
        return Failure(kind="timeout", status=504, message=message)

    def unwatch_upstream(self) -> None:
        self._timeouts = self._close_reply = self.tick = None

    def close(self) -> None:
        """Drop the callbacks: they keep the exchange alive in a reference cycle.

        Called after the end of each reply that it has watched.
        """
        self.forks = ()
        self._ping = self._abandon = _do_nothing

    def check(self, now: float) -> None:
        """Apply all limits at `now`. Called every `INTERVAL`.

        Calls `tick`, pings or abandons the client, and ends an upstream's reply that is silent or too long.
        """
        for forked in self.forks:
            forked.check(now)
        if self.tick is not None and not self.is_sending:
            self.tick()
        self._check_client(now)
        if self.received != self._received_before:
            self._received_before = self.received
            self._received_at = now
        timeouts = self._timeouts
        if timeouts is None or self._close_reply is None or self.expired or self.is_sending:
            # While something is sent the upstream is not read, so its silence means nothing.
            self._received_at = now
            return
        silence = timeouts.idle if self._received_before else timeouts.first_byte
        if self._ends_by and now >= self._ends_by:
            self.expired = f"it did not end its reply within {END_LIMIT:g} s"
        elif silence and now - self._received_at >= silence:
            self.expired = f"it sent no data for {silence:g} s"
        elif timeouts.total and now - self.started >= timeouts.total:
            self.expired = f"the reply took longer than {timeouts.total:g} s"
        if self.expired:
            self._close_reply()

    def _check_client(self, now: float) -> None:
        if self.has_sent:
            self.has_sent = False
            self._sent_at = self._blocked_at = now
        elif not self.is_sending:
            self._blocked_at = now
        if self.is_sending:
            if now - self._blocked_at >= CLIENT_LIMIT:
                self._abandon()
        elif self._ping_every and now - self._sent_at >= self._ping_every:
            self._sent_at = now
            self._ping()


def _do_nothing() -> None:
    pass


class WatchdogTimer:
    """Checks every registered watchdog. Its task runs only while there are any."""

    def __init__(self) -> None:
        self._watchdogs: set[Watchdog] = set()
        self._task: asyncio.Task[None] | None = None

    def add(self, watchdog: Watchdog) -> None:
        self._watchdogs.add(watchdog)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="dragoman-watchdogs")

    def remove(self, watchdog: Watchdog) -> None:
        self._watchdogs.discard(watchdog)

    @property
    def open(self) -> int:
        """The number of open exchanges."""
        return len(self._watchdogs)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._watchdogs:
            await asyncio.sleep(INTERVAL)
            now = loop.time()
            for watchdog in tuple(self._watchdogs):
                # A check that raises must not stop the timer for all others.
                loop.call_soon(watchdog.check, now)
        self._task = None
