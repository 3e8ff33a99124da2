"""`TurnWriter`: writes turns with their contents to the file. It belongs to the recorder's thread."""

import asyncio
import os
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic
from typing import ClassVar, NamedTuple

import msgspec

from dragoman.config.config import Config
from dragoman.dialects.forwarding import split_members
from dragoman.hub.errors import ConfigError
from dragoman.records.cache import MIN_CACHED, diagnose_turn
from dragoman.records.contents import BodyWriter
from dragoman.records.sessions import find_project, find_session
from dragoman.records.store import (
    DELETED_AT_ONCE,
    NewTurn,
    WrittenTurn,
    connect_records,
    delete_turns,
    find_expired,
    insert_turns,
    read_deletions,
    read_size,
)
from dragoman.records.stored_turn import TurnRow
from dragoman.records.taps import BodyTap, MetaTap, PendingBody
from dragoman.records.turns import build_details, build_row
from dragoman.storage.database import identify_file

#: Turns between two checks of the limits, at least.
CHECK_EVERY = 50
#: Turns between two checkpoints of the write-ahead log. One with contents counts as `CONTENTS_WEIGHT` turns.
CHECKPOINT_EVERY = 1000
CONTENTS_WEIGHT = 10
#: Bytes of the write-ahead log from which on it is copied earlier. It is cut to this size afterwards.
MAX_LOG = 32 * 1024 * 1024
#: Requests of a session that are searched for its project. Later ones have the folders of other programs.
MAX_SEARCHES = 5
#: So many times as long as it took to examine a miss of the prompt cache, no other one is examined.
DIAGNOSIS_PAUSE = 50
_ID_RANGE = "SELECT COALESCE(MIN(id), 1), COALESCE((SELECT MAX(id) FROM turns), 0) FROM turns"
#: Sessions that are remembered.
MAX_SESSIONS = 2000


class EndedTurn(NamedTuple):
    """An exchange whose reply is complete. `now` is the date, `size` the memory that it takes about.

    `is_written`: what the end of the reply waits for.
    """

    tap: MetaTap
    now: float
    size: int
    is_written: asyncio.Future[None] | None


class JournaledTurn(msgspec.Struct, frozen=True, gc=False):
    """A turn without contents that is in the journal already."""

    row: TurnRow
    details: bytes
    size: ClassVar[int] = 0
    is_written: ClassVar[None] = None


class Flush(NamedTuple):
    """A query that waits until the turns before it are written."""

    is_written: asyncio.Future[None]
    size: int = 0


Job = PendingBody | EndedTurn | JournaledTurn | Flush


class TurnWriter:
    """Writes turns to the file. It belongs to the recorder's thread; only its counts are read by others."""

    def __init__(self, file: Path, get_config: Callable[[], Config]) -> None:
        self._file = file
        self._log = f"{file}-wal"
        self._get_config = get_config
        self._connection: sqlite3.Connection | None = None
        self._identity = (0, 0)
        self._contents = BodyWriter(get_config, lambda: self._connection or self._connect())
        self._projects: OrderedDict[str, str] = OrderedDict()
        #: The requests that were searched for the project of their session.
        self._searches: dict[str, int] = {}
        self._until_check = self._until_measurement = self._deletions = 0
        self._until_checkpoint = CHECKPOINT_EVERY
        #: The prompt tokens of the last turn, by session, sub-agent and target.
        self._inputs: OrderedDict[tuple[str, str, str], int] = OrderedDict()
        #: Turns whose prompt the provider should have had in its cache, and when the next one is examined.
        self._suspects: list[WrittenTurn] = []
        self._next_diagnosis = 0.0
        #: The first id of a turn, and how many of those between it and the last one are not used.
        self._first = self._gaps = 0
        self.broken_prefixes = 0
        self.last_broken_prefix = ""
        self.written = 0
        self.lost = 0
        self.error = ""

    def open(self) -> None:
        """Open the file before the first turn needs it. Raises nothing."""
        try:
            self._connect()
        except (sqlite3.Error, OSError, ConfigError) as error:
            self.error = str(error)

    def write(self, jobs: Iterable[Job]) -> list[WrittenTurn]:
        """Prepare requests and write turns. Returns the turns that are written. Raises nothing."""
        ended = []
        if self._connection is not None and self._identity != identify_file(self._file):
            # The file was deleted or replaced. What the old connection writes is in no file.
            self._forget()
        for job in jobs:
            if isinstance(job, PendingBody):
                self._prepare_safely(job)
            elif not isinstance(job, Flush):
                ended.append(job)
        if not ended:
            return []
        try:
            written = self._write_turns(ended)
        except (sqlite3.Error, OSError, ConfigError) as error:
            self.lost += len(ended)
            self.error = str(error)
            self._forget()
            return []
        except Exception as error:  # One odd turn must not end the thread, nor take others along.
            self._forget()
            if len(ended) > 1:
                return [written for turn in ended for written in self.write([turn])]
            self.lost += 1
            self.error = f"a turn cannot be recorded: {error!r}"
            return []
        self.written += len(written)
        self.error = ""
        return written

    def _prepare_safely(self, job: PendingBody) -> None:
        try:
            self._prepare(job)
        except Exception as error:  # As in `write`. The turn is then recorded without its request.
            self.error = f"a request cannot be recorded: {error!r}"

    def tidy_up(self, *, is_idle: bool) -> None:
        """Copy what was written from the write-ahead log to the file, now and then. Raises nothing.

        Called after each transaction. Unless the thread `is_idle`, only a long log is copied: jobs wait.
        """
        is_due = is_idle and self._until_checkpoint <= 0
        if self._connection is None or not (is_due or self._is_log_long()):
            return
        self._until_checkpoint = CHECKPOINT_EVERY
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.Error as error:
            self.error = str(error)

    def _is_log_long(self) -> bool:
        try:
            return os.stat(self._log).st_size > MAX_LOG
        except OSError:
            return False

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> sqlite3.Connection:
        self._connection = connection = connect_records(self._file)
        self._identity = identify_file(self._file)
        # `tidy_up` does it, when no reply waits: a checkpoint waits for the disk.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA journal_size_limit = {MAX_LOG}")
        return connection

    def _forget(self) -> None:
        """After an error: the connection and the remembered blocks may not fit the file."""
        self._contents.forget()
        try:
            self.close()
        except sqlite3.Error:
            self._connection = None

    def _prepare(self, job: PendingBody) -> None:
        """Examine and split a request. What the request before it does not have is redacted."""
        body, job.body = job.body, b""
        if job.client is not None:
            job.session = job.client.session
        else:
            job.session = job.session or find_session(job.identity, split_members(body), job.owner)
        if not job.is_stored:
            return self._find_project(job.session, body)
        new = self._contents.prepare(job, body)
        if job.client is None:
            # The first request may begin like that of another session, which has the folder then.
            self._find_project(job.session, new if job.session in self._projects else body)

    def _find_project(self, session: str, text: bytes) -> None:
        """Look for the project of a session in the new text of its first requests."""
        if self._projects.get(session) or self._searches.get(session, 0) >= MAX_SEARCHES:
            return
        self._projects[session] = find_project(text)
        self._searches[session] = self._searches.get(session, 0) + 1
        if len(self._projects) > MAX_SESSIONS:
            oldest, _ = self._projects.popitem(last=False)
            self._searches.pop(oldest, None)

    def _write_turns(self, ended: list[EndedTurn | JournaledTurn]) -> list[WrittenTurn]:
        connection = self._connection or self._connect()
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._check_deletions(connection)
            turns = [
                self._build_turn(connection, turn)
                if isinstance(turn, EndedTurn)
                else NewTurn(turn.row, turn.details, self._projects.get(turn.row.session, ""))
                for turn in ended
            ]
            written = insert_turns(connection, turns)
            self._until_check -= len(written)
            self._until_measurement -= len(written)
            self._until_checkpoint -= sum(CONTENTS_WEIGHT if turn.bodies else 1 for turn in turns)
            if self._until_check <= 0 or self._are_too_many(connection):
                self._apply_limits(connection, written[-1].row.started)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        self._suspects += [each for each, turn in zip(written, turns, strict=True) if self._is_suspect(turn)]
        return written

    def _build_turn(self, connection: sqlite3.Connection, turn: EndedTurn) -> NewTurn:
        tap = turn.tap
        request = tap.request
        session = tap.identity.session or (request.session if request else "") or tap.record.request_id
        row = build_row(tap, session, turn.now)
        bodies = self._contents.write(connection, tap) if isinstance(tap, BodyTap) else []
        is_grown = any(call.request is not None and call.request.is_grown for call in tap.calls[-1:])
        return NewTurn(row, build_details(tap), self._projects.get(session, ""), bodies, is_grown)

    def _is_suspect(self, turn: NewTurn) -> bool:
        """Whether the provider has read far less of the prompt from its cache than it could have.

        Not if it got the prompt of the turn before and more: then the gateway cannot have caused it.
        """
        if not turn.bodies:
            return False
        row = turn.row
        prompt = row.input or 0
        chain = (row.session, row.sub_agent, row.target)
        before, self._inputs[chain] = self._inputs.get(chain, 0), prompt
        if len(self._inputs) > MAX_SESSIONS:
            self._inputs.popitem(last=False)
        read = row.cache_read
        is_long = min(before, prompt) >= 2 * MIN_CACHED
        return read is not None and is_long and read <= before // 2 and not turn.is_grown

    def diagnose_misses(self) -> None:
        """Count unexpected misses of the prompt cache that the gateway caused, by a change of the prompt.

        Called when no reply waits: to compare whole prompts takes long. Some turns are left out, if there are
        so many of them that it would take more than a share of the time.
        """
        suspects, self._suspects = self._suspects, []
        for turn in suspects:
            began = monotonic()
            if self._connection is None or began < self._next_diagnosis:
                return
            try:
                self._diagnose(self._connection, turn)
            except Exception as error:  # As in `write`. A command may just have deleted the session.
                self.error = f"a miss of the prompt cache cannot be examined: {error!r}"
            ended = monotonic()
            self._next_diagnosis = ended + (ended - began) * DIAGNOSIS_PAUSE

    def _diagnose(self, connection: sqlite3.Connection, turn: WrittenTurn) -> None:
        session, number = turn.row.session, turn.number
        report = diagnose_turn(connection, session, number)
        if report is not None and report.cause == "gateway" and report.upstream_break is not None:
            self.broken_prefixes += 1
            place = f"{report.upstream_break.path}, character {report.upstream_break.position}"
            self.last_broken_prefix = f"session {session}, turn {number}: {place}"

    def _are_too_many(self, connection: sqlite3.Connection) -> bool:
        """Whether there may be more turns than the limit. It reads two ids, however many there are."""
        first, last = connection.execute(_ID_RANGE).fetchone()
        gaps = self._gaps if first == self._first else 0
        return int(last - first + 1 - gaps) > self._get_config().records.max_count

    def _apply_limits(self, connection: sqlite3.Connection, now: float) -> None:
        limits = self._get_config().records
        self._until_check = max(CHECK_EVERY, limits.max_count // 100)
        is_too_large = False
        if self._until_measurement <= 0:
            turns, size = read_size(connection)
            # It has read all rows, so it comes less often where there are many.
            self._until_measurement = max(CHECK_EVERY, turns // 10)
            is_too_large = size > limits.max_mb * 1024 * 1024
        expired = find_expired(
            connection,
            max_count=limits.max_count,
            oldest=now - limits.max_days * 86_400,
            is_too_large=is_too_large,
        )
        if expired:
            delete_turns(connection, expired)
            self._check_deletions(connection)
        if is_too_large:
            self._until_measurement = 0
        if is_too_large or len(expired) >= DELETED_AT_ONCE:
            # Look again soon: one deletion takes a limited number of turns.
            self._until_check = 1
        self._first, last = connection.execute(_ID_RANGE).fetchone()
        (count,) = connection.execute("SELECT COUNT(*) FROM turns").fetchone()
        self._gaps = last - self._first + 1 - count

    def _check_deletions(self, connection: sqlite3.Connection) -> None:
        """Forget blocks that were deleted since the last look, by this process or by a command."""
        deletions = read_deletions(connection)
        if deletions != self._deletions:
            self._contents.note_deletion()
        self._deletions = deletions
