"""`Recorder`: writes the records of exchanges on a thread of its own.

The event loop only puts references into a bounded queue. If the disk is slow or full, records are lost and
counted; no exchange waits for the file. A turn is written when its exchange has ended; turns that end within
`PAUSE` share a transaction. If the process is killed, the file has all turns that ended before.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import NamedTuple

from dragoman.config.model import Config, Route
from dragoman.config.settings import RecordLevel
from dragoman.exchange.record import ExchangeRecord
from dragoman.pipeline.plan import RequestPlan
from dragoman.records.store import Row
from dragoman.records.taps import BodyTap, MetaTap, PendingBody
from dragoman.records.turn_writer import MAX_SESSIONS, EndedTurn, TurnWriter

#: Jobs and bytes that may wait for the thread. What comes on top is lost.
MAX_WAITING = 2000
MAX_WAITING_BYTES = 64 * 1024 * 1024
#: Jobs that one transaction takes.
BATCH = 256
#: Seconds between two transactions. The first turn after a pause is written at once.
PAUSE = 0.05
#: Bytes of waiting requests from which on the thread takes them before an exchange ends.
MANY_BYTES = 4 * 1024 * 1024
#: Seconds that the last records have to be written at shutdown.
CLOSE_SECONDS = 5.0


class RecorderStatus(NamedTuple):
    """What the thread has done since the start."""

    file: str
    written: int
    lost: int
    error: str
    #: Turns in which the gateway changed the beginning of a prompt, so that the provider's cache missed.
    broken_prefixes: int
    last_broken_prefix: str


def find_level(config: Config, key: str, route: Route | None) -> RecordLevel:
    """How much of an exchange is recorded: the client key decides, else the route, else the gateway."""
    settings = config.records
    return settings.keys.get(key) or (route.record if route else None) or settings.record


class Recorder:
    """Records the exchanges of one gateway in one file. `get_config` returns the current configuration.

    Call order: `start` for each exchange, `record_exchange` at its end; `close` once, at the shutdown.
    """

    def __init__(self, file: Path, get_config: Callable[[], Config], clock: Callable[[], float]) -> None:
        self.file = file
        self._get_config = get_config
        self._clock = clock
        self._queue: SimpleQueue[PendingBody | EndedTurn] = SimpleQueue()
        self._lock = Lock()
        #: Wakes the thread: something waits that cannot wait longer.
        self._wake = Event()
        self._is_closing = Event()
        self._waiting = self._waiting_bytes = 0
        self._thread: Thread | None = None
        self._sessions: OrderedDict[str, None] = OrderedDict()
        self._writer = TurnWriter(file, get_config)
        self._lost = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Called on the event loop with the row of each turn that is written.
        self.listeners: set[Callable[[Row], None]] = set()

    @property
    def status(self) -> RecorderStatus:
        writer = self._writer
        return RecorderStatus(
            str(self.file),
            writer.written,
            self._lost + writer.lost,
            writer.error,
            writer.broken_prefixes,
            writer.last_broken_prefix,
        )

    def start(self, record: ExchangeRecord, plan: RequestPlan, route: Route | None) -> MetaTap | None:
        level = find_level(self._get_config(), record.caller.name, route)
        if level == "off":
            return None
        identity, owner = plan.metadata.identity, record.caller.owner
        is_known = identity.session in self._sessions
        self._remember(identity.session)
        if level == "bodies":
            request = self._submit_body(PendingBody(plan.body, identity, owner))
            return BodyTap(plan, identity, request, self._submit_body)
        if is_known:
            return MetaTap(plan, identity, None)
        # The headers do not name the session, or this is its first turn here and may name the project.
        return MetaTap(
            plan, identity, self._submit_body(PendingBody(plan.body, identity, owner, is_stored=False))
        )

    def record_exchange(self, record: ExchangeRecord) -> None:
        """Write the turn of an exchange that has ended. Does not wait."""
        tap = record.tap
        if isinstance(tap, MetaTap):
            size = sum(call.size for call in tap.calls) * 2
            self._submit(EndedTurn(record, tap, self._clock(), size), size)

    def close(self) -> None:
        """Write what waits, for a limited time."""
        if self._thread is not None:
            self._is_closing.set()
            self._wake.set()
            self._thread.join(CLOSE_SECONDS)

    def _remember(self, session: str) -> None:
        if session:
            self._sessions[session] = None
            if len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)

    def _submit_body(self, pending: PendingBody) -> PendingBody:
        if not self._submit(pending, pending.size):
            pending.body = b""
        return pending

    def _submit(self, job: PendingBody | EndedTurn, size: int) -> bool:
        with self._lock:
            if self._waiting >= MAX_WAITING or self._waiting_bytes + size > MAX_WAITING_BYTES:
                self._lost += isinstance(job, EndedTurn)
                return False
            self._waiting += 1
            self._waiting_bytes += size
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = Thread(target=self._run, name="dragoman-records", daemon=True)
            self._thread.start()
        self._queue.put(job)
        if isinstance(job, EndedTurn) or self._waiting_bytes > MANY_BYTES:
            self._wake.set()
        return True

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            is_closing = self._is_closing.is_set()
            while jobs := self._take_jobs():
                rows = self._writer.write(jobs)
                with self._lock:
                    self._waiting -= len(jobs)
                    self._waiting_bytes -= sum(job.size for job in jobs)
                if rows and self.listeners and self._loop is not None and not self._loop.is_closed():
                    self._loop.call_soon_threadsafe(self._notify, rows)
            if is_closing:
                break
            self._is_closing.wait(PAUSE)
        self._writer.close()

    def _take_jobs(self) -> list[PendingBody | EndedTurn]:
        jobs: list[PendingBody | EndedTurn] = []
        with suppress(Empty):
            while len(jobs) < BATCH:
                jobs.append(self._queue.get_nowait())
        return jobs

    def _notify(self, rows: list[Row]) -> None:
        for row in rows:
            for listener in tuple(self.listeners):
                listener(row)
