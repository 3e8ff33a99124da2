"""Responses that are made in the background: queued, polled, followed, cancelled.

They run in this process and nowhere else. One whose process has died is told as failed to whoever asks next.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import msgspec

from dragoman.accounts.keys import check_model
from dragoman.dialects.openai_responses.response_object import build_started_response
from dragoman.exchange.client import Client
from dragoman.exchange.exchange import CLOSING, Exchange
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import ClientProtocolError, DragomanError, Failure
from dragoman.pipeline.transports import SSE_HEADERS
from dragoman.responses.run import CANCELLED, BackgroundRun, RunClient
from dragoman.responses.service import ResponsesService, build_collector
from dragoman.responses.stored import OPEN, Members, Stored, members_of, not_found
from dragoman.responses.storing import build_stored
from dragoman.responses.turn import Turn, read_checked_body
from dragoman.routing.choose import choose
from dragoman.storage.processes import build_process_name, is_process_gone
from dragoman.wire.fields import encode
from dragoman.wire.sse import Frame, SseReader, encode_sse

MOST_AT_ONCE = 32
MOST_WAITING = 256
#: Seconds between two signs of life of a process, and those after which it is taken for dead.
SIGN_EVERY = 10.0
DEAD_AFTER = 45.0

KEEP_ALIVE = b": keep-alive\n\n"
DONE = Frame("", b"[DONE]")

FULL = Failure(
    kind="rate_limit",
    status=429,
    message="too many responses wait in the background; try again later",
    retry_after=10.0,
)
DIED = "the gateway ended while it made this response; ask again"


class Background:
    """`carry` runs an exchange to its end."""

    def __init__(
        self,
        gateway: Gateway,
        responses: ResponsesService,
        carry: Callable[[Exchange], Awaitable[None]],
        *,
        at_once: int = MOST_AT_ONCE,
    ) -> None:
        self._gateway = gateway
        self._responses = responses
        self._carry = carry
        self._runner = build_process_name()
        self._slots = asyncio.Semaphore(at_once)
        self._runs: dict[str, BackgroundRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._signs: asyncio.Task[None] | None = None

    async def begin(self, turn: Turn) -> BackgroundRun:
        """Queue it. It is known to the store before its client hears of it."""
        if len(self._runs) >= MOST_AT_ONCE + MOST_WAITING:
            raise DragomanError(FULL.message, failure=FULL)
        body = read_checked_body(turn)
        # A model that nobody serves is told at once, and one that is not for the key.
        model = str(body.get("model") or "")
        check_model(turn.caller, model)
        choose(self._gateway.config, model)
        created = int(self._gateway.clock())
        response = turn.facts.apply(
            members_of(encode(build_started_response(body, turn.facts.id, created, "queued")))
        )
        run = BackgroundRun(turn, response)
        if not await self._responses.store.put(self._row(run)):
            raise DragomanError("the response cannot be stored, so it cannot run in the background")
        run.set_status("queued", "response.created", "response.queued")
        self._runs[turn.facts.id] = run
        task = asyncio.get_running_loop().create_task(self._make(run), name="dragoman-background")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._signs is None:
            self._signs = asyncio.get_running_loop().create_task(self._give_signs())
        return run

    async def get(self, response_id: str, owner: str) -> BackgroundRun | Stored:
        run = self._runs.get(response_id)
        if run is not None:
            if run.turn.owner != owner:
                raise not_found()
            return run
        found = await self._responses.store.get(response_id, owner)
        if found.status not in OPEN or self._is_made_elsewhere(found):
            return found
        return await self._buried(found)

    def _is_made_elsewhere(self, found: Stored) -> bool:
        """Whether another process may still be making it."""
        if found.runner == self._runner or is_process_gone(found.runner):
            return False
        return self._gateway.clock() - found.seen < DEAD_AFTER

    async def cancel(self, response_id: str, owner: str) -> bytes:
        """The response as it stands after it was cancelled, or had ended before."""
        found = await self.get(response_id, owner)
        if isinstance(found, BackgroundRun):
            await self._cancel(found)
            return found.encode_response()
        if not is_background(found):
            raise ClientProtocolError("only a response that runs in the background can be cancelled")
        return found.encode_response()

    async def delete(self, response_id: str, owner: str) -> None:
        run = self._runs.get(response_id)
        if run is not None and run.turn.owner == owner:
            await self._cancel(run)
        await self._responses.store.delete(response_id, owner)

    async def follow(
        self,
        found: BackgroundRun | Stored,
        after: int,
        client: Client,
        ping: float,
        headers: Mapping[str, str],
    ) -> None:
        """Tell every event after that number: those that were, then those to come."""
        await client.start(200, {**headers, **SSE_HEADERS})
        if isinstance(found, Stored):
            return await client.end([*_repeat_events(found, after), DONE])
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
                    await client.ping(KEEP_ALIVE)

    async def close(self) -> None:
        """Nothing new begins: what waits is told so."""
        for run in tuple(self._runs.values()):
            if run.exchange is None and not run.is_over:
                await self._finish(run, run.build_failed("server_error", CLOSING.message))

    async def _cancel(self, run: BackgroundRun) -> None:
        if not run.is_over:
            run.is_cancelled = True
            if run.exchange is None:
                await self._finish(run, run.build_failed("cancelled", CANCELLED.message))
            else:
                run.exchange.stop(CANCELLED)
        await run.over.wait()

    async def _make(self, run: BackgroundRun) -> None:
        try:
            async with self._slots:
                if run.is_over:
                    return
                client = RunClient(run, build_collector(run.turn), self._finish)
                run.exchange = exchange = Exchange(self._gateway, run.turn.plan, client, run.turn.caller)
                run.set_status("in_progress", "response.in_progress")
                await self._carry(exchange)
        finally:
            await self._finish(run, run.build_failed("server_error", "the reply ended without a last word"))
            self._runs.pop(run.turn.facts.id, None)

    async def _finish(self, run: BackgroundRun, response: Members) -> None:
        """Keep the response, then let it be known."""
        if run.is_over:
            return
        run.is_over = True
        run.exchange = None
        kind = f"response.{msgspec.json.decode(response['status'])}"
        last = run.build_event(kind, {"response": response})
        if run.is_cancelled and kind == "response.failed":
            response = {**response, "status": msgspec.Raw(b'"cancelled"'), "error": msgspec.Raw(b"null")}
        await self._responses.keep(run.turn, response, events=encode_sse([*run.events, last]))
        run.response = response
        run.add_event(last)
        run.over.set()

    def _row(self, run: BackgroundRun) -> Stored:
        row = build_stored(run.turn, run.response, self._gateway.clock())
        return msgspec.structs.replace(row, runner=self._runner, seen=self._gateway.clock())

    async def _buried(self, found: Stored) -> Stored:
        error = encode({"code": "server_error", "message": DIED})
        body = {
            **members_of(found.body),
            "status": msgspec.Raw(b'"failed"'),
            "error": msgspec.Raw(error),
        }
        failed = msgspec.structs.replace(found, status="failed", body=msgspec.json.encode(body), runner="")
        await self._responses.store.put(failed)
        return failed

    async def _give_signs(self) -> None:
        while self._runs:
            await asyncio.sleep(SIGN_EVERY)
            # A store that does not work says so itself.
            with suppress(DragomanError):
                await self._responses.store.touch(self._runner)
        self._signs = None


def is_background(found: Stored) -> bool:
    return bytes(members_of(found.body).get("background", b"")) == b"true"


def _repeat_events(found: Stored, after: int) -> list[Frame]:
    """The events of a response that has ended; of one whose events are lost, the last one."""
    frames = SseReader().feed(found.events)
    if frames:
        return frames[after + 1 :]
    kind = "response.failed" if found.status == "cancelled" else f"response.{found.status}"
    event = {"type": kind, "response": msgspec.Raw(found.encode_response()), "sequence_number": after + 1}
    return [Frame(kind, msgspec.json.encode(event))]
