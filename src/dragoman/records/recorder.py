"""`Recorder`: writes the records of exchanges on a thread of its own.

The event loop only puts references into a bounded queue. If the process is killed, no turn is lost whose end
a client has seen: a turn without contents is appended to the journal before that, a turn with contents is
written by the thread, and the end of the reply waits for it. If the disk is slow, no client waits longer than
`MAX_DELAY`; if it is full, records are lost and counted.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from dragoman.config.config import Config, Route
from dragoman.config.settings import RecordLevel
from dragoman.exchange.large_bodies import is_large
from dragoman.exchange.record import ExchangeRecord
from dragoman.pipeline.plan import RequestPlan
from dragoman.records.journal import Journal, JournalEntry
from dragoman.records.sessions import find_session
from dragoman.records.store import Row
from dragoman.records.taps import BodyTap, MetaTap, PendingBody
from dragoman.records.turn_writer import MAX_SESSIONS, EndedTurn, Flush, Job, JournaledTurn, TurnWriter
from dragoman.records.turns import build_row, encode_details

#: Jobs and bytes that may wait for the thread. What comes on top is lost.
MAX_WAITING = 2000
MAX_WAITING_BYTES = 64 * 1024 * 1024
#: Jobs that one transaction takes.
BATCH = 256
#: Seconds between two transactions, unless a reply or a query waits: many turns cost less than one by one.
PAUSE = 0.5
#: Seconds that the end of a reply waits for the file at most. After that no reply waits until the thread has
#: written everything.
MAX_DELAY = 2.0
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

    Call order: `start` for each exchange, whose tap stores the turn before the end of the reply;
    `record_exchange` at the end of the exchange; `flush` before a query; `close` once, at the shutdown.
    """

    def __init__(self, file: Path, get_config: Callable[[], Config], clock: Callable[[], float]) -> None:
        self.file = file
        self._get_config = get_config
        self._clock = clock
        self._queue: SimpleQueue[Job] = SimpleQueue()
        self._journal = Journal(file.parent, clock)
        self._lock = Lock()
        #: Wakes the thread: there is work. True: it cannot wait for more. An event takes ten times as long.
        self._signals: SimpleQueue[bool] = SimpleQueue()
        #: The thread has a signal, or two, that it has not seen yet.
        self._is_woken = self._is_hurried = False
        self._is_closing = False
        self._waiting = self._waiting_bytes = 0
        self._thread: Thread | None = None
        self._sessions: OrderedDict[str, None] = OrderedDict()
        self._writer = TurnWriter(file, get_config)
        self._lost = 0
        #: A reply has waited too long for the thread, which still has work.
        self._is_late = False
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
        """The tap of a new exchange; None if the configuration does not record it."""
        level = find_level(self._get_config(), record.caller.name, route)
        if level == "off":
            return None
        identity, owner = plan.metadata.identity, record.caller.owner
        if not identity.session and not is_large(plan.body):
            # The body is split already. A turn of a known session can be in the journal, without contents.
            identity = replace(identity, session=find_session(identity, plan.parts.split(), owner))
        is_known = identity.session in self._sessions
        self._remember(identity.session)
        store = partial(self._store, record)
        if level == "meta" and is_known:
            return MetaTap(plan, identity, None, store)
        # Without contents: this is the session's first turn here and may name the project, or the session has
        # no name yet.
        pending = partial(PendingBody, plan.body, identity, owner, headers=plan.metadata.headers)
        request = self._submit_body(pending(is_stored=level == "bodies"))
        if level == "meta":
            return MetaTap(plan, identity, request, store)
        return BodyTap(plan, identity, request, store, self._submit_body)

    def record_exchange(self, record: ExchangeRecord) -> None:
        """Write the turn of an exchange that has ended, unless that was done before the end of its reply."""
        self._submit_turn(record)
        # The tap refers to the record.
        record.tap = None

    async def _store(self, record: ExchangeRecord) -> None:
        """Keep the turn of an exchange whose reply is complete. May wait for the thread, but not long."""
        if self._write_journal(record):
            return
        is_written = None if self._is_late else asyncio.get_running_loop().create_future()
        if self._submit_turn(record, is_written) and is_written is not None:
            await self._wait_for(is_written)

    async def flush(self) -> None:
        """Wait until the turns that have ended are in the file, but not long. Called before a query."""
        is_written = asyncio.get_running_loop().create_future()
        if self._waiting and not self._is_late and self._submit(Flush(is_written), is_urgent=True):
            await self._wait_for(is_written)

    async def _wait_for(self, is_written: "asyncio.Future[None]") -> None:
        timer = asyncio.get_running_loop().call_later(MAX_DELAY, self._give_up, is_written)
        await is_written
        timer.cancel()

    def _write_journal(self, record: ExchangeRecord) -> bool:
        """Write a turn that needs nothing of its request to the journal."""
        tap = record.tap
        if not isinstance(tap, MetaTap) or tap.request is not None or tap.is_submitted:
            return False
        row = build_row(record, tap, tap.identity.session, "", self._clock())
        entry = JournalEntry(row, Raw(encode_details(record, tap)))
        tap.is_submitted = self._journal.append(entry)
        if tap.is_submitted:
            self._submit(JournaledTurn(entry), is_turn=True)
        return tap.is_submitted

    def _give_up(self, is_written: "asyncio.Future[None]") -> None:
        """A reply or a query has waited too long."""
        self._is_late = True
        _resolve(is_written)

    def _submit_turn(self, record: ExchangeRecord, is_written: "asyncio.Future[None] | None" = None) -> bool:
        """Hand the turn to the thread, once. `is_written` gets a result when the file has it."""
        tap = record.tap
        if not isinstance(tap, MetaTap) or tap.is_submitted:
            return False
        tap.is_submitted = True
        size = sum(call.size for call in tap.calls) * 2
        turn = EndedTurn(record, tap, self._clock(), size, is_written)
        return self._submit(turn, size, is_turn=True, is_urgent=is_written is not None)

    def close(self) -> None:
        """Write what waits, for a limited time."""
        if self._thread is not None:
            self._is_closing = True
            self._signals.put(True)
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

    def _submit(self, job: Job, size: int = 0, *, is_turn: bool = False, is_urgent: bool = False) -> bool:
        """Hand a job to the thread: a turn that has ended, a query, or else a request. False: it is lost."""
        with self._lock:
            if self._waiting >= MAX_WAITING or self._waiting_bytes + size > MAX_WAITING_BYTES:
                self._lost += is_turn
                return False
            self._waiting += 1
            self._waiting_bytes += size
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = Thread(target=self._run, name="dragoman-records", daemon=True)
            self._thread.start()
        self._queue.put(job)
        if is_urgent or self._waiting >= BATCH or self._waiting_bytes > MANY_BYTES:
            if not self._is_hurried:
                self._is_woken = self._is_hurried = True
                self._signals.put(True)
        elif is_turn and not self._is_woken:
            self._is_woken = True
            self._signals.put(False)
        return True

    def _wait_for_work(self) -> None:
        """Return when the jobs in the queue are to be written."""
        is_urgent = self._signals.get()
        if not is_urgent:
            with suppress(Empty):
                self._signals.get(timeout=PAUSE)
        # Before the queue is read: what comes later wakes the thread again.
        self._is_woken = self._is_hurried = False

    def _run(self) -> None:
        self._writer.open()
        while True:
            self._wait_for_work()
            is_closing = self._is_closing
            while jobs := self._take_jobs():
                rows = self._writer.write(jobs)
                with self._lock:
                    self._waiting -= len(jobs)
                    self._waiting_bytes -= sum(job.size for job in jobs)
                waiters = (job.is_written for job in jobs if isinstance(job, EndedTurn | Flush))
                waiting = [is_written for is_written in waiters if is_written is not None]
                if waiting or (rows and self.listeners):
                    self._call_loop(rows, waiting)
                # Here too: the queue of a busy gateway may never be empty.
                self._writer.tidy_up(is_idle=False)
                self._writer.diagnose_misses()
            self._is_late = False
            self._writer.tidy_up(is_idle=True)
            if not self._writer.error:
                self._journal.replace_if_long()
            if is_closing:
                break
        self._writer.close()
        if not self._writer.error:
            self._journal.close()

    def _call_loop(self, rows: list[Row], waiting: "list[asyncio.Future[None]]") -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._notify, rows, waiting)

    def _take_jobs(self) -> list[Job]:
        jobs: list[Job] = []
        with suppress(Empty):
            while len(jobs) < BATCH:
                jobs.append(self._queue.get_nowait())
        return jobs

    def _notify(self, rows: list[Row], waiting: "list[asyncio.Future[None]]") -> None:
        """On the event loop: the rows are written, and the replies can end."""
        for is_written in waiting:
            _resolve(is_written)
        for row in rows:
            for listener in tuple(self.listeners):
                listener(row)


def _resolve(is_written: "asyncio.Future[None]") -> None:
    if not is_written.done():
        is_written.set_result(None)
