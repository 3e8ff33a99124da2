"""`TurnWriter`: writes turns with their contents to the file. It belongs to the recorder's thread."""

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from dragoman.config.model import Config
from dragoman.exchange.record import ExchangeRecord
from dragoman.hub.errors import ConfigError
from dragoman.records.cache import MIN_CACHED, diagnose_turn
from dragoman.records.redaction import redact_content, redact_stream
from dragoman.records.segments import split_request, split_segment
from dragoman.records.sessions import find_project, find_session
from dragoman.records.store import (
    RECORDS_SCHEMA,
    BodyRow,
    Row,
    StoredBlock,
    build_block,
    count_uses,
    delete_turns,
    find_expired,
    insert_block,
    insert_turn,
    read_deletions,
)
from dragoman.records.taps import BodyTap, MetaTap, PendingBody
from dragoman.records.turns import build_details, build_row
from dragoman.storage.database import connect
from dragoman.wire.sse import Output, encode_sse

#: Turns between two checks of the limits.
CHECK_EVERY = 50
#: Segments that are remembered.
MAX_KNOWN = 20_000
#: Sessions that are remembered.
MAX_SESSIONS = 2000


class EndedTurn(NamedTuple):
    """An exchange that has ended. `now` is the date, `size` the memory that it takes about."""

    record: ExchangeRecord
    tap: MetaTap
    now: float
    size: int


class TurnWriter:
    """Writes turns to the file. It belongs to the recorder's thread; only its counts are read by others."""

    def __init__(self, file: Path, get_config: Callable[[], Config]) -> None:
        self._file = file
        self._get_config = get_config
        self._connection: sqlite3.Connection | None = None
        #: The blocks of each known segment, by the hash of the segment before redaction.
        self._known: OrderedDict[bytes, tuple[int, ...]] = OrderedDict()
        #: The redacted blocks of segments that are not in the file yet, by the same hash.
        self._new: dict[bytes, list[StoredBlock]] = {}
        self._projects: OrderedDict[str, str] = OrderedDict()
        self._until_check = self._deletions = 0
        #: The prompt tokens of the last turn, by session, sub-agent and target.
        self._inputs: OrderedDict[tuple[str, str, str], int] = OrderedDict()
        self.broken_prefixes = 0
        self.last_broken_prefix = ""
        self.written = 0
        self.lost = 0
        self.error = ""

    def write(self, jobs: Iterable[PendingBody | EndedTurn]) -> list[Row]:
        """Prepare requests and write turns. Returns the rows of the turns. Raises nothing."""
        ended = []
        try:
            if self._connection is not None:
                self._check_deletions(self._connection)
        except sqlite3.Error as error:
            self.error = str(error)
            self._forget()
        for job in jobs:
            if isinstance(job, PendingBody):
                self._prepare(job)
            else:
                ended.append(job)
        if not ended:
            return []
        try:
            rows = self._write_turns(ended)
        except (sqlite3.Error, OSError, ConfigError) as error:
            self.lost += len(ended)
            self.error = str(error)
            self._forget()
            return []
        self.written += len(rows)
        self.error = ""
        return rows

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _forget(self) -> None:
        """After an error: the connection and the remembered blocks may not fit the file."""
        self._known.clear()
        try:
            self.close()
        except sqlite3.Error:
            self._connection = None

    def _prepare(self, job: PendingBody) -> None:
        """Examine and split a request. The blocks of unknown segments are redacted and compressed."""
        body, job.body = job.body, b""
        if job.identity is not None:
            job.session = find_session(job.identity, body, job.owner)
            job.project = self._projects.get(job.session, "") or find_project(body)
            self._projects[job.session] = job.project
            if len(self._projects) > MAX_SESSIONS:
                self._projects.popitem(last=False)
        if not job.is_stored:
            return
        job.segments = []
        if len(self._new) > MAX_KNOWN:
            self._new.clear()
        for segment in split_request(body):
            key = blake2b(segment, digest_size=16).digest()
            job.segments.append(key)
            if key not in self._known and key not in self._new:
                content = redact_content(segment, self._list_secrets())
                self._new[key] = [build_block(part) for part in split_segment(content)]

    def _list_secrets(self) -> list[bytes]:
        config = self._get_config()
        values = [key for provider in config.providers.values() for key in provider.keys]
        values += config.server.keys
        return [value.reveal().encode() for value in values if len(value.reveal()) >= 6]

    def _write_turns(self, ended: list[EndedTurn]) -> list[Row]:
        if self._connection is None:
            self._connection = connect(self._file, RECORDS_SCHEMA)
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._check_deletions(connection)
            rows = [self._write_turn(connection, turn) for turn in ended]
            self._until_check -= len(rows)
            if self._until_check <= 0:
                self._until_check = CHECK_EVERY
                self._apply_limits(connection, ended[-1].now)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        self._new = {key: blocks for key, blocks in self._new.items() if key not in self._known}
        return rows

    def _write_turn(self, connection: sqlite3.Connection, turn: EndedTurn) -> Row:
        record, tap, now, _ = turn
        request = tap.request
        session = tap.identity.session or (request.session if request else "") or record.request_id
        project = self._projects.get(session, "")
        row = build_row(record, tap, session, project, now)
        bodies = list(self._write_bodies(connection, tap)) if isinstance(tap, BodyTap) else []
        row = insert_turn(connection, row, build_details(record, tap), bodies)
        if bodies:
            self._check_prefix(connection, row)
        return row

    def _check_prefix(self, connection: sqlite3.Connection, row: Row) -> None:
        """After an unexpected miss of the prompt cache: did the gateway itself change the prompt?"""
        lane = (row["session"], row["sub_agent"], row["target"])
        before, self._inputs[lane] = self._inputs.get(lane, 0), row["input"] or 0
        if len(self._inputs) > MAX_SESSIONS:
            self._inputs.popitem(last=False)
        read = row["cache_read"]
        if read is None or min(before, row["input"] or 0) < 2 * MIN_CACHED or read > before // 2:
            return
        report = diagnose_turn(connection, row["session"], row["number"])
        if report is not None and report.cause == "gateway" and report.upstream_break is not None:
            self.broken_prefixes += 1
            place = f"{report.upstream_break.path}, character {report.upstream_break.position}"
            self.last_broken_prefix = f"session {row['session']}, turn {row['number']}: {place}"

    def _write_bodies(self, connection: sqlite3.Connection, tap: BodyTap) -> Iterator[BodyRow]:
        requests = [("client_request", 0, tap.request)]
        requests += [("upstream_request", number, call.request) for number, call in enumerate(tap.calls)]
        for part, number, request in requests:
            blocks = self._write_request(connection, request)
            if blocks:
                yield BodyRow(part, number, blocks, ())
        for number, call in enumerate(tap.calls):
            if call.pieces:
                yield self._write_stream(connection, "upstream_reply", number, tap.started_at, call.pieces)
        if tap.client is not None and tap.client.outputs:
            pieces = [(at, _encode(output)) for at, output in tap.client.outputs]
            yield self._write_stream(connection, "client_reply", 0, tap.started_at, pieces)

    def _write_request(self, connection: sqlite3.Connection, request: PendingBody | None) -> list[int]:
        """The blocks of a request; none if a part of it is lost."""
        blocks: list[int] = []
        for key in (request.segments if request else None) or ():
            known = self._known.get(key)
            if known is None:
                if key not in self._new:
                    return []
                known = tuple(insert_block(connection, block) for block in self._new[key])
                self._known[key] = known
                if len(self._known) > MAX_KNOWN:
                    self._known.popitem(last=False)
            blocks += known
        count_uses(connection, blocks)
        return blocks

    def _write_stream(
        self,
        connection: sqlite3.Connection,
        part: str,
        number: int,
        started_at: float,
        pieces: Sequence[tuple[float, bytes]],
    ) -> BodyRow:
        content = redact_stream(b"".join([piece for _, piece in pieces]), self._list_secrets())
        blocks = [insert_block(connection, build_block(content))]
        count_uses(connection, blocks)
        times = [(round((at - started_at) * 1000), len(piece)) for at, piece in pieces]
        return BodyRow(part, number, blocks, times)

    def _apply_limits(self, connection: sqlite3.Connection, now: float) -> None:
        limits = self._get_config().records
        expired = find_expired(
            connection,
            max_count=limits.max_count,
            max_bytes=limits.max_mb * 1024 * 1024,
            oldest=now - limits.max_days * 86_400,
        )
        if expired:
            delete_turns(connection, expired)
            # Look again soon: one deletion takes a limited number of turns.
            self._until_check = 1

    def _check_deletions(self, connection: sqlite3.Connection) -> None:
        """Forget blocks that were deleted since the last look, by this process or by a command."""
        deletions = read_deletions(connection)
        if deletions != self._deletions and self._known:
            alive = {row[0] for row in connection.execute("SELECT id FROM blocks")}
            for key in [key for key, blocks in self._known.items() if not alive.issuperset(blocks)]:
                del self._known[key]
        self._deletions = deletions


def _encode(output: Output | bytes) -> bytes:
    return output if isinstance(output, bytes) else encode_sse(output)
