"""`Recorder`: writes the records of exchanges on a thread of its own.

The event loop only puts references into a bounded queue. If the process is killed, no turn is lost whose end
a client has seen: a turn without contents is appended to the journal before that, a turn with contents is
written by the thread, and the end of the reply waits for it. If the disk is slow, no client waits longer than
`MAX_DELAY`; if it is full, records are lost and counted.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
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
from dragoman.records.store import WrittenTurn
from dragoman.records.stored_turn import Row
from dragoman.records.taps import BodyTap, MetaTap, PendingBody
from dragoman.records.turn_writer import MAX_SESSIONS, EndedTurn, Flush, Job, JournaledTurn, TurnWriter
from dragoman.records.turns import build_details, build_row

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

    Call order: `start` for each exchange, whose tap keeps the turn before the end of the reply;
    `record_exchange` at the end of the exchange; `flush` before a query; `close` once, at the shutdown.
    """

    def __init__(self, file: Path, get_config: Callable[[], Config], clock: Callable[[], float]) -> None:
        self.file = file
        self._get_config = get_config
        self._clock = clock
        self._queue: SimpleQueue[Job] = SimpleQueue()
        self._journal = Journal(file.parent, monotonic)
        #: Wakes the thread: there is work. True: it cannot wait for more. An event takes ten times as long.
        self._signals: SimpleQueue[bool] = SimpleQueue()
        #: The thread has a signal, or two, that it has not seen yet.
        self._is_woken = self._is_hurried = False
        self._is_closing = False
        #: Jobs and bytes that were handed to the thread, which the event loop counts, and that it has done.
        self._submitted = self._submitted_bytes = 0
        self._done = self._done_bytes = 0
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
        if not is_known:
            self._remember(identity.session)
        if level == "meta" and is_known:
            return MetaTap(record, plan, identity, None, self._keep_turn)
        # Without contents: this is the session's first turn here and may name the project, or the session has
        # no name yet.
        is_stored, headers = level == "bodies", plan.metadata.headers
        request = self._submit_body(
            PendingBody(plan.body, identity, owner, is_stored=is_stored, headers=headers)
        )
        if not is_stored:
            return MetaTap(record, plan, identity, request, self._keep_turn)
        return BodyTap(record, plan, identity, request, self._keep_turn, self._submit_body)

    def record_exchange(self, record: ExchangeRecord) -> None:
        """Write the turn of an exchange that has ended, unless that was done before the end of its reply."""
        tap = record.tap
        if isinstance(tap, MetaTap) and not tap.is_kept:
            self._submit_turn(tap)
        # The tap refers to the record.
        record.tap = None

    def _keep_turn(self, tap: MetaTap) -> Awaitable[None] | None:
        """Keep the turn of an exchange whose reply is complete. The end of the reply waits for the result.

        A turn that needs nothing of its request goes to the journal, which takes no waiting.
        """
        if tap.is_kept or (tap.request is None and self._write_journal(tap)):
            return None
        is_written = None if self._is_late else asyncio.get_running_loop().create_future()
        if self._submit_turn(tap, is_written) and is_written is not None:
            return self._wait_for(is_written)
        return None

    async def flush(self) -> None:
        """Wait until the turns that have ended are in the file, but not long. Called before a query."""
        is_written = asyncio.get_running_loop().create_future()
        if (
            self._submitted > self._done
            and not self._is_late
            and self._submit(Flush(is_written), is_urgent=True)
        ):
            await self._wait_for(is_written)

    async def _wait_for(self, is_written: "asyncio.Future[None]") -> None:
        timer = asyncio.get_running_loop().call_later(MAX_DELAY, self._give_up, is_written)
        await is_written
        timer.cancel()

    def _write_journal(self, tap: MetaTap) -> bool:
        row, details = build_row(tap, tap.identity.session, self._clock()), build_details(tap)
        tap.is_kept = self._journal.append(JournalEntry(row, Raw(details)))
        if tap.is_kept:
            self._submit(JournaledTurn(row, details), is_turn=True)
        return tap.is_kept

    def _give_up(self, is_written: "asyncio.Future[None]") -> None:
        """A reply or a query has waited too long."""
        self._is_late = True
        _resolve(is_written)

    def _submit_turn(self, tap: MetaTap, is_written: "asyncio.Future[None] | None" = None) -> bool:
        """Hand the turn to the thread. `is_written` gets a result when the file has it."""
        tap.is_kept = True
        size = sum(call.size for call in tap.calls) * 2
        turn = EndedTurn(tap, self._clock(), size, is_written)
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
        waiting = self._submitted - self._done
        waiting_bytes = self._submitted_bytes - self._done_bytes + size
        if waiting >= MAX_WAITING or waiting_bytes > MAX_WAITING_BYTES:
            self._lost += is_turn
            return False
        self._submitted += 1
        self._submitted_bytes += size
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = Thread(target=self._run, name="dragoman-records", daemon=True)
            self._thread.start()
        self._queue.put(job)
        if is_urgent or waiting >= BATCH or waiting_bytes > MANY_BYTES:
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
                written = self._writer.write(jobs)
                self._done += len(jobs)
                self._done_bytes += sum([job.size for job in jobs])
                waiting = [job.is_written for job in jobs if job.is_written is not None]
                if waiting or (written and self.listeners):
                    self._call_loop(written, waiting)
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

    def _call_loop(self, written: Sequence[WrittenTurn], waiting: "list[asyncio.Future[None]]") -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._notify, written, waiting)

    def _take_jobs(self) -> list[Job]:
        jobs: list[Job] = []
        with suppress(Empty):
            while len(jobs) < BATCH:
                jobs.append(self._queue.get_nowait())
        return jobs

    def _notify(self, written: Sequence[WrittenTurn], waiting: "list[asyncio.Future[None]]") -> None:
        """On the event loop: the turns are written, and the replies can end."""
        for is_written in waiting:
            _resolve(is_written)
        for listener in tuple(self.listeners):
            for turn in written:
                listener(turn.show())


def _resolve(is_written: "asyncio.Future[None]") -> None:
    if not is_written.done():
        is_written.set_result(None)
