"""Background responses: queued, polled, followed, cancelled.

A run belongs to the process that started it. If that process has died, the run has failed; the next request
for it finds that out and stores it.

Events are numbered from 0 without gaps, so that a client can ask for those after the last one it has.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import msgspec

from dragoman.accounts.keys import check_model
from dragoman.dialects.openai_responses.response_object import build_started_response
from dragoman.exchange.client import Client, DirectConnection
from dragoman.exchange.exchange import CLOSING, Exchange
from dragoman.exchange.gateway import Gateway
from dragoman.exchange.large_bodies import run_by_size
from dragoman.hub.errors import ClientProtocolError, DragomanError, Failure
from dragoman.pipeline.transports import SSE, SSE_HEADERS
from dragoman.responses.collector import TERMINAL_EVENTS, ResponseCollector
from dragoman.responses.members import Members, encode_json, read_members, read_text
from dragoman.responses.service import ResponsesService, build_collector
from dragoman.responses.stored_response import UNFINISHED, StoredResponse, build_not_found, build_stored
from dragoman.responses.turn import ResponseTurn
from dragoman.routing.choose import choose
from dragoman.storage.processes import build_process_name, is_process_gone
from dragoman.wire.fields import encode
from dragoman.wire.sse import Frame, Output, RawEvents, encode_sse

MAX_RUNNING = 32
MAX_WAITING = 256
#: Bytes that are kept of one reply; a longer one is ended.
MAX_BYTES = 64 * 1024 * 1024
#: Seconds between two heartbeats of a process, and those after which it counts as dead.
HEARTBEAT_INTERVAL = 10.0
DEAD_AFTER = 45.0
#: Seconds between two looks for runs that were cancelled through another gateway, between two looks for the
#: end of such a run, and those after which the client gets the response as it is.
CANCEL_INTERVAL = 0.5
END_INTERVAL = 0.1
MAX_CANCEL = 30.0

DONE = Frame("", b"[DONE]")
#: Events about the beginning: a run writes its own.
_START_EVENTS = frozenset({"response.created", "response.queued", "response.in_progress"})

TOO_LONG = Failure(kind="server", status=502, message=f"the reply is longer than {MAX_BYTES} bytes")
CANCELLED = Failure(kind="cancelled", status=499, message="the response was cancelled", code="cancelled")
FULL = Failure(
    kind="rate_limit",
    status=429,
    message="too many background responses are waiting; try again later",
    retry_after=10.0,
)
PROCESS_DIED = "the gateway ended while it made this response; send the request again"
NO_ENDING = "the reply ended without a last event"


class BackgroundRun:
    """One run. `response` is what a client gets that asks now; `events` are all events so far."""

    def __init__(self, turn: ResponseTurn, response: Members) -> None:
        self.turn = turn
        self.response = response
        self.events: list[Frame] = []
        self.size = 0
        self.exchange: Exchange | None = None
        self.is_cancelled = False
        self.is_over = False
        #: Set, and replaced by another, at every new event.
        self.changed = asyncio.Event()
        self.over = asyncio.Event()

    @property
    def id(self) -> str:
        return self.turn.facts.id

    def encode_response(self) -> bytes:
        return encode_json(self.response)

    def build_event(self, name: str, fields: Mapping[str, object]) -> Frame:
        """The next event. It is not added yet."""
        return Frame(name, encode_json({"type": name, **fields, "sequence_number": len(self.events)}))

    def add_event(self, event: Frame) -> None:
        self.events.append(event)
        self.size += len(event.data)
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def set_status(self, status: str, *events: str) -> None:
        """Change the status and add the events that report it."""
        self.response = {**self.response, "status": msgspec.Raw(encode_json(status))}
        for name in events:
            self.add_event(self.build_event(name, {"response": self.response}))

    def build_failed(self, code: str, message: str) -> Members:
        """The response object of a run that failed before the upstream gave one."""
        return {**self.response, **_build_failed_members(code, message)}


FinishRun = Callable[[BackgroundRun, Members], Awaitable[None]]


class RunClient:
    """The client of a background exchange. `finish` stores the response before its end becomes visible."""

    transport = SSE

    def __init__(self, run: BackgroundRun, collector: ResponseCollector, finish: FinishRun) -> None:
        self._run = run
        self._collector = collector
        self._finish = finish
        self.direct: DirectConnection | None = None

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """A run has no head."""

    async def send(self, output: Output) -> None:
        run = self._run
        for frame in output:
            for processed in self._collector.process(frame):
                await self._add(processed)
        if run.size > MAX_BYTES and run.exchange is not None:
            run.exchange.stop(TOO_LONG)

    async def end(self, output: Output = ()) -> None:
        await self.send(output)

    async def ping(self, data: bytes) -> None:
        """A run needs no pings."""

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Finish the run as failed: a run is streamed, so a whole response is always an error."""
        if not self._run.is_over:
            error = msgspec.json.decode(body)["error"]
            code = error.get("code") or error.get("type") or "server_error"
            await self._finish(self._run, self._run.build_failed(code, error["message"]))

    def abort(self, *, at_once: bool = False) -> None:
        """Do nothing: a background run has no connection."""

    async def _add(self, frame: Frame) -> None:
        run = self._run
        if frame.data[:1] != b"{" or run.is_over:
            return
        try:
            payload = read_members(frame.data)
            # Servers that leave out `event:` have the name in the payload's `type`.
            name = frame.event or read_text(payload["type"])
        except (ValueError, KeyError, RecursionError):
            return
        if name in TERMINAL_EVENTS and self._collector.response is not None:
            await self._finish(run, self._collector.response)
        elif name not in _START_EVENTS:
            run.add_event(run.build_event(name, payload))


class BackgroundRuns:
    """All background runs of this process. `run_exchange` runs an exchange to its end."""

    def __init__(
        self,
        gateway: Gateway,
        responses: ResponsesService,
        run_exchange: Callable[[Exchange], Awaitable[None]],
        *,
        max_running: int = MAX_RUNNING,
    ) -> None:
        self._gateway = gateway
        self._responses = responses
        self._run_exchange = run_exchange
        self._runner = build_process_name()
        self._slots = asyncio.Semaphore(max_running)
        self._runs: dict[str, BackgroundRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._heartbeats: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self, turn: ResponseTurn) -> BackgroundRun:
        """Store the response as queued, and queue its run."""
        if len(self._runs) >= MAX_RUNNING + MAX_WAITING:
            raise DragomanError(FULL.message, failure=FULL)
        settings = await run_by_size(turn.plan.body, turn.check)
        # A model that has no route, or that the key may not use, is refused now.
        model = str(settings.get("model") or "")
        check_model(turn.caller, model)
        choose(self._gateway.config, model)
        created = int(self._gateway.clock())
        response = turn.facts.apply(
            read_members(encode(build_started_response(settings, turn.facts.id, created, "queued")))
        )
        run = BackgroundRun(turn, response)
        if not await self._responses.store.save(self._build_row(run)):
            raise DragomanError("the response cannot be stored, so it cannot run in the background")
        run.set_status("queued", "response.created", "response.queued")
        self._runs[run.id] = run
        task = asyncio.get_running_loop().create_task(self._make(run), name="dragoman-background")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._heartbeats is None:
            self._heartbeats = asyncio.get_running_loop().create_task(self._send_heartbeats())
        if self._watching is None and self._gateway.calls.is_announced:
            self._watching = asyncio.get_running_loop().create_task(self._watch_cancelled())
        return run

    async def get(self, response_id: str, owner: str) -> BackgroundRun | StoredResponse:
        """The run of a response, or the stored response if no run of this process makes it."""
        run = self._runs.get(response_id)
        if run is not None:
            if run.turn.owner != owner:
                raise build_not_found()
            return run
        found = await self._responses.store.get(response_id, owner)
        if found.status not in UNFINISHED or self._is_made_elsewhere(found):
            return found
        return await self._store_as_failed(found)

    async def cancel(self, response_id: str, owner: str) -> bytes:
        """Cancel a run, unless it has ended. Returns the response object."""
        found = await self.get(response_id, owner)
        if isinstance(found, BackgroundRun):
            await self._cancel(found)
        elif not found.is_background:
            raise ClientProtocolError("only a response that runs in the background can be cancelled")
        elif found.status in UNFINISHED:
            found = await self._cancel_elsewhere(found)
        return found.encode_response()

    async def delete(self, response_id: str, owner: str) -> None:
        """Cancel the run, in whichever process it is, and delete the response."""
        run = self._runs.get(response_id)
        if run is not None and run.turn.owner == owner:
            await self._cancel(run)
        elif run is None and self._gateway.calls.is_announced:
            found = await self.get(response_id, owner)
            if isinstance(found, StoredResponse) and found.status in UNFINISHED:
                # Its process would store it again.
                await self._cancel_elsewhere(found)
        await self._responses.store.delete(response_id, owner)

    async def follow(
        self,
        found: BackgroundRun | StoredResponse,
        after: int,
        client: Client,
        ping: float,
        headers: Mapping[str, str],
    ) -> None:
        """Send every event whose number is greater than `after`, until the last event of the response."""
        await client.start(200, {**headers, **SSE_HEADERS})
        if isinstance(found, StoredResponse):
            return await client.end(_repeat_events(found, after))
        place = after + 1
        while True:
            changed = found.changed
            if place < len(found.events):
                events, place = found.events[place:], len(found.events)
                await client.send(events)
            elif found.over.is_set():
                return await client.end((DONE,))
            else:
                try:
                    async with asyncio.timeout(ping or None):
                        await changed.wait()
                except TimeoutError:
                    await client.ping(found.turn.plan.dialect.stream_writer.ping)

    async def close(self) -> None:
        """End the runs that are waiting, as failed. Runs that have begun are ended by their exchanges."""
        for run in tuple(self._runs.values()):
            if run.exchange is None and not run.is_over:
                await self._finish(run, run.build_failed("server_error", CLOSING.message))

    def _is_made_elsewhere(self, found: StoredResponse) -> bool:
        """Whether another process may still make the response."""
        if found.runner == self._runner or is_process_gone(found.runner):
            return False
        return self._gateway.clock() - found.seen < DEAD_AFTER

    async def _cancel(self, run: BackgroundRun) -> None:
        if not run.is_over:
            run.is_cancelled = True
            if run.exchange is None:
                await self._finish(run, run.build_failed("cancelled", CANCELLED.message))
            else:
                run.exchange.stop(CANCELLED)
        await run.over.wait()

    async def _cancel_elsewhere(self, found: StoredResponse) -> BackgroundRun | StoredResponse:
        """Let the process that makes the response cancel it, and wait for its end. Returns the response."""
        response_id, owner = found.id, found.owner
        await self._responses.store.request_cancel(response_id, owner)
        current: BackgroundRun | StoredResponse = found
        with suppress(TimeoutError):
            async with asyncio.timeout(MAX_CANCEL):
                while isinstance(current, StoredResponse) and current.status in UNFINISHED:
                    await asyncio.sleep(END_INTERVAL)
                    current = await self.get(response_id, owner)
        return current

    async def _watch_cancelled(self) -> None:
        """Cancel the runs that clients cancel through other gateways or workers."""
        while self._runs:
            await asyncio.sleep(CANCEL_INTERVAL)
            ids = tuple(self._runs)
            # The store has logged the error.
            with suppress(DragomanError):
                for name in await self._responses.store.find_cancelled(ids) if ids else ():
                    if (run := self._runs.get(name)) is not None:
                        await self._cancel(run)
        self._watching = None

    async def _make(self, run: BackgroundRun) -> None:
        try:
            async with self._slots:
                if run.is_over:
                    return
                client = RunClient(run, build_collector(run.turn), self._finish)
                run.exchange = exchange = Exchange(self._gateway, run.turn.plan, client, run.turn.caller)
                run.set_status("in_progress", "response.in_progress")
                await self._run_exchange(exchange)
        finally:
            await self._finish(run, run.build_failed("server_error", NO_ENDING))
            self._runs.pop(run.id, None)

    async def _finish(self, run: BackgroundRun, response: Members) -> None:
        """Store the response, then make its end visible. Only the first call has an effect."""
        if run.is_over:
            return
        run.is_over = True
        run.exchange = None
        name = f"response.{read_text(response['status'])}"
        last = run.build_event(name, {"response": response})
        if run.is_cancelled and name == "response.failed":
            response = {**response, "status": msgspec.Raw(b'"cancelled"'), "error": msgspec.Raw(b"null")}
        await self._responses.store_response(run.turn, response, events=encode_sse([*run.events, last]))
        run.response = response
        run.add_event(last)
        run.over.set()

    def _build_row(self, run: BackgroundRun) -> StoredResponse:
        now = self._gateway.clock()
        return msgspec.structs.replace(
            build_stored(run.turn, run.response, now), runner=self._runner, seen=now
        )

    async def _store_as_failed(self, found: StoredResponse) -> StoredResponse:
        """Store the response of a run whose process has died as failed. Returns it."""
        body = {**read_members(found.body), **_build_failed_members("server_error", PROCESS_DIED)}
        failed = msgspec.structs.replace(found, status="failed", body=encode_json(body), runner="")
        await self._responses.store.save(failed)
        return failed

    async def _send_heartbeats(self) -> None:
        while self._runs:
            await asyncio.sleep(HEARTBEAT_INTERVAL)
            # The store has logged the error.
            with suppress(DragomanError):
                await self._responses.store.record_heartbeat(self._runner)
        self._heartbeats = None


def _build_failed_members(code: str, message: str) -> Members:
    error = {"code": code, "message": message}
    return {"status": msgspec.Raw(b'"failed"'), "error": msgspec.Raw(encode_json(error))}


def _repeat_events(found: StoredResponse, after: int) -> Output:
    """The events of a response that has ended; only the last one if the others are not stored."""
    if found.events:
        # A blank line ends each event, and the gateway wrote no other blank lines.
        rest = found.events.split(b"\n\n", after + 1)[after + 1 :]
        return RawEvents(rest[0] if rest else b"", (DONE,))
    name = "response.failed" if found.status == "cancelled" else f"response.{found.status}"
    event = {"type": name, "response": msgspec.Raw(found.encode_response()), "sequence_number": after + 1}
    return Frame(name, encode_json(event)), DONE
