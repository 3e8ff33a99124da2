"""The endpoints of the admin API that read the records. docs/records.md describes the answers.

Each query runs on a thread with a connection of its own, so that a long one delays no exchange.
"""

import asyncio
import math
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, TypeVar

import msgspec

from dragoman.hub.errors import ClientProtocolError, DragomanError, Failure
from dragoman.records.cache import diagnose_session
from dragoman.records.changes import explain_changes
from dragoman.records.comparison import find_divergence, pair_turns
from dragoman.records.context import measure_context
from dragoman.records.filters import Condition, parse_filter
from dragoman.records.preview import preview_turn
from dragoman.records.reading import (
    GROUPS,
    MAX_INTEGER,
    MAX_ROWS,
    PartNotFound,
    find_session_id,
    list_sessions,
    list_turns,
    read_part,
    read_raw,
    read_session,
    read_turn,
    sum_turns,
)
from dragoman.records.replay import load_session
from dragoman.records.store import PARTS, delete_turns, open_records
from dragoman.records.stored_turn import Row
from dragoman.server.admin_endpoint import PREFIX, AdminEndpoint, AdminRequest
from dragoman.server.state import ServerState
from dragoman.server.status import describe_exchange
from dragoman.wire.fields import encode
from dragoman.wire.sse import Frame

#: Rows that wait for a reader of the live stream. A reader that is too slow misses some.
MAX_WAITING = 1000
#: Seconds between two lists of the open exchanges.
TICK = 1.0

_RECORDS = f"{PREFIX}/records"
_SESSION = f"{_RECORDS}/sessions/{{session}}"
_TURN = f"{_SESSION}/turns/{{number}}"

Result = TypeVar("Result")


async def query_records(request: AdminRequest, work: Callable[[sqlite3.Connection], Result]) -> Result:
    """Run the work on a thread, with a connection to the records. Raises if nothing is recorded."""
    recorder = request.state.recorder
    if recorder is None:
        raise _build_error("nothing is recorded: the gateway has no state folder")
    await _flush_all(request.state)
    return await asyncio.to_thread(open_records, recorder.file, work)


async def _flush_all(state: ServerState) -> None:
    """Wait until the turns that have ended are in the file, those of all workers, but not long."""
    waits: list[Awaitable[object]] = [state.recorder.flush()] if state.recorder is not None else []
    if state.siblings is not None:
        waits.append(state.siblings.ask("POST", f"{_RECORDS}/flush"))
    await asyncio.gather(*waits)


async def _flush(request: AdminRequest) -> object:
    await _flush_all(request.state)
    return {"flushed": True}


async def _list_sessions(request: AdminRequest) -> object:
    condition, limit = _read_filter(request), _read_number(request.query, "limit", 100)
    before = _read_number(request.query, "before", 0.0)
    work = partial(list_sessions, condition=condition, limit=int(limit), before=before)
    return {"sessions": await query_records(request, work)}


async def _get_session(request: AdminRequest) -> object:
    condition, after = _read_filter(request), int(_read_number(request.query, "after", 0))
    limit = int(_read_number(request.query, "limit", MAX_ROWS))
    is_descending = _read_number(request.query, "latest", 0) > 0

    def read(connection: sqlite3.Connection) -> Row:
        session = read_session(connection, request.path_values["session"])
        own = Condition(f"session = ? AND {condition.sql}", (session["session"], *condition.values))
        return {
            **session,
            "list": list_turns(connection, own, limit=limit, after=after, is_descending=is_descending),
        }

    return await query_records(request, read)


async def _delete_session(request: AdminRequest) -> object:
    def delete(connection: sqlite3.Connection) -> Row:
        session = find_session_id(connection, request.path_values["session"])
        turns = connection.execute("SELECT id FROM turns WHERE session = ?", (session,)).fetchall()
        delete_turns(connection, [row[0] for row in turns])
        return {"deleted": session, "turns": len(turns)}

    return await query_records(request, delete)


async def _list_turns(request: AdminRequest) -> object:
    condition, after = _read_filter(request), int(_read_number(request.query, "after", 0))
    limit = int(_read_number(request.query, "limit", 100))
    work = partial(list_turns, condition=condition, limit=limit, after=after, is_descending=True)
    return {"turns": await query_records(request, work)}


async def _get_turn(request: AdminRequest) -> object:
    session, number = _read_turn_path(request)
    return await query_records(request, partial(read_turn, session=session, number=number))


async def _get_part(request: AdminRequest) -> object:
    session, number = _read_turn_path(request)
    part = request.path_values["part"]
    if part not in PARTS:
        raise _build_error(f"a turn has the parts {', '.join(PARTS)}")
    round_ = int(_read_number(request.query, "round", -1))
    return await query_records(
        request, partial(read_part, session=session, number=number, part=part, round_=round_)
    )


async def _get_changes(request: AdminRequest) -> object:
    """The differences of the client's request and the upstream's, with what made them."""
    session, number = _read_turn_path(request)
    round_ = int(_read_number(request.query, "round", -1))

    def read(connection: sqlite3.Connection) -> tuple[Row, bytes | None, bytes | None]:
        turn = read_turn(connection, session, number)
        client = read_raw(connection, turn["id"], "client_request")
        return turn, client, read_raw(connection, turn["id"], "upstream_request", round_)

    turn, client, upstream = await query_records(request, read)
    if client is None or upstream is None:
        raise PartNotFound(turn, "client_request" if client is None else "upstream_request")
    explain = partial(
        explain_changes,
        request.state.gateway.config,
        client,
        upstream,
        client=turn["client"],
        upstream=turn["upstream"],
        model=turn["model"],
        target=turn["target"],
        losses=turn["loss_list"],
    )
    return msgspec.to_builtins(await asyncio.to_thread(explain))


async def _get_context(request: AdminRequest) -> object:
    """What fills the context window in a recorded request of a client."""
    session, number = _read_turn_path(request)

    def read(connection: sqlite3.Connection) -> tuple[Row, bytes | None]:
        turn = read_turn(connection, session, number)
        return turn, read_raw(connection, turn["id"], "client_request")

    turn, body = await query_records(request, read)
    if body is None:
        raise PartNotFound(turn, "client_request")
    names = {name: turn[name] for name in ("client", "model", "target")}
    measure = partial(measure_context, request.state.gateway.config, body, **names)
    return msgspec.to_builtins(await asyncio.to_thread(measure))


async def _get_preview(request: AdminRequest) -> object:
    """What the prompt rules of the present configuration make of a recorded request."""
    session, number = _read_turn_path(request)
    config = request.state.gateway.config
    work = partial(preview_turn, session=session, number=number, config=config)
    return msgspec.to_builtins(await query_records(request, work))


async def _get_cache(request: AdminRequest) -> object:
    session, prices = request.path_values["session"], request.state.gateway.snapshot.prices
    reports = await query_records(request, partial(diagnose_session, session=session, prices=prices))
    return {"turns": [msgspec.to_builtins(report) for report in reports]}


async def _get_comparison(request: AdminRequest) -> object:
    """Two sessions turn by turn, and the first turn where they part."""
    names = [request.query.get(name, "") for name in ("first", "second")]
    if not all(names):
        raise ClientProtocolError("expected the names of two sessions: first and second", path="first")
    first, second = [await query_records(request, partial(load_session, session=name)) for name in names]
    pairs = await asyncio.to_thread(pair_turns, first, second)
    divergence = await asyncio.to_thread(find_divergence, first, second)
    return {"pairs": msgspec.to_builtins(pairs), "divergence": msgspec.to_builtins(divergence)}


async def _get_sums(request: AdminRequest) -> object:
    by = request.query.get("by", "")
    if by and by not in GROUPS:
        raise ClientProtocolError(f"expected one of {', '.join(GROUPS)}", path="by")
    step = _read_number(request.query, "step", 0.0)
    return {
        "sums": await query_records(
            request, partial(sum_turns, condition=_read_filter(request), by=by, step=step)
        )
    }


async def _get_now(request: AdminRequest) -> object:
    return {"exchanges": await _list_all_open(request.state)}


async def _get_live(request: AdminRequest) -> object:
    return stream_live(request.state)


async def stream_live(state: ServerState) -> AsyncIterator[Frame]:
    """Events: `turn` for each turn that is written, `now` with the open exchanges, once a second if any."""
    was_idle = False
    async with aclosing(_follow_file(state) if state.siblings else _follow_recorder(state)) as turns:
        async for rows in turns:
            for row in rows:
                yield Frame("turn", encode(row))
            exchanges = await _list_all_open(state)
            if exchanges or not was_idle:
                yield Frame("now", encode({"exchanges": exchanges}))
            was_idle = not exchanges


async def _follow_recorder(state: ServerState) -> AsyncGenerator[Sequence[Row], None]:
    """The turns that this process writes, as they are written, and nothing at least every `TICK` seconds."""
    queue: asyncio.Queue[Row] = asyncio.Queue(MAX_WAITING)

    def add(row: Row) -> None:
        if not queue.full():
            queue.put_nowait(row)

    listeners = state.recorder.listeners if state.recorder is not None else set()
    listeners.add(add)
    try:
        yield ()
        while not state.exchanges.is_closing:
            rows: list[Row] = []
            with suppress(TimeoutError):
                rows = [await asyncio.wait_for(queue.get(), TICK)]
            while not queue.empty():
                rows.append(queue.get_nowait())
            yield rows
    finally:
        listeners.discard(add)


async def _follow_file(state: ServerState) -> AsyncGenerator[Sequence[Row], None]:
    """The turns that all workers write, every `TICK` seconds."""
    file = state.recorder.file if state.recorder is not None else None
    last = 0
    if file is not None:
        latest = partial(list_turns, condition=Condition("1"), limit=1, is_descending=True)
        last = max((row["id"] for row in await asyncio.to_thread(open_records, file, latest)), default=0)
    yield ()
    while not state.exchanges.is_closing:
        await asyncio.sleep(TICK)
        if file is None:
            yield ()
            continue
        later = partial(list_turns, condition=Condition("id > ?", (last,)), limit=MAX_WAITING)
        rows = await asyncio.to_thread(open_records, file, later)
        last = max((row.pop("id") for row in rows), default=last)
        yield rows


async def _list_all_open(state: ServerState) -> list[Mapping[str, Any]]:
    """The open exchanges of all workers, the oldest first."""
    found = _list_open(state)
    if state.siblings is not None:
        for other in await state.siblings.ask_json("GET", f"{_RECORDS}/now"):
            found += other["exchanges"]
        found.sort(key=lambda exchange: -exchange["seconds"])
    return found


def _list_open(state: ServerState) -> list[Mapping[str, Any]]:
    """The open exchanges of this process with their sessions, the oldest first."""
    found: list[Mapping[str, Any]] = []
    for exchange in sorted(state.exchanges, key=lambda exchange: exchange.started):
        tap = exchange.record.tap
        identity = tap.identity if tap is not None else None
        found.append(
            {
                **describe_exchange(exchange),
                "session": identity.session if identity else "",
                "sub_agent": identity.sub_agent if identity else "",
                "agent": identity.agent if identity else "",
            }
        )
    return found


def _read_filter(request: AdminRequest) -> Condition:
    return parse_filter(request.query.get("filter", ""))


def _read_number(query: Mapping[str, str], name: str, default: float) -> float:
    try:
        number = float(query.get(name, default))
    except ValueError:
        number = math.nan
    if not abs(number) <= MAX_INTEGER // 2:
        raise ClientProtocolError("expected a number", path=name)
    return number


def _read_turn_path(request: AdminRequest) -> tuple[str, int]:
    number = request.path_values["number"]
    if not number.isdecimal():
        raise ClientProtocolError("expected the number of a turn", path="turns")
    return request.path_values["session"], int(number)


def _build_error(message: str) -> DragomanError:
    failure = Failure(kind="not_found", status=404, message=message, code="record_not_found")
    return DragomanError(message, failure=failure)


RECORD_ENDPOINTS: tuple[AdminEndpoint, ...] = (
    AdminEndpoint("GET", f"{_RECORDS}/sessions", _list_sessions, "The recorded sessions."),
    AdminEndpoint("GET", _SESSION, _get_session, "One recorded session with its turns."),
    AdminEndpoint("DELETE", _SESSION, _delete_session, "Delete a recorded session."),
    AdminEndpoint("GET", f"{_RECORDS}/turns", _list_turns, "The recorded turns of all sessions."),
    AdminEndpoint("GET", _TURN, _get_turn, "One turn with its details."),
    AdminEndpoint("GET", f"{_TURN}/parts/{{part}}", _get_part, "One content of a turn."),
    AdminEndpoint("GET", f"{_TURN}/changes", _get_changes, "How the gateway changed a request."),
    AdminEndpoint("GET", f"{_TURN}/context", _get_context, "What fills the context window in a request."),
    AdminEndpoint("GET", f"{_TURN}/prompts", _get_preview, "What the prompt rules make of a request."),
    AdminEndpoint("GET", f"{_SESSION}/cache", _get_cache, "What the prompt cache did in each turn."),
    AdminEndpoint("GET", f"{_RECORDS}/comparison", _get_comparison, "Two sessions, turn by turn."),
    AdminEndpoint("GET", f"{_RECORDS}/sums", _get_sums, "Sums over turns, by a column and by time."),
    AdminEndpoint("POST", f"{_RECORDS}/flush", _flush, "Write the turns that have ended to the records."),
    AdminEndpoint("GET", f"{_RECORDS}/now", _get_now, "The open exchanges with their sessions."),
    AdminEndpoint("GET", f"{_RECORDS}/live", _get_live, "New turns and open exchanges, as an event stream."),
)
