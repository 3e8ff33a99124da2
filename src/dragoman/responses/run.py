"""`BackgroundRun`: one response that is made while no client waits for it.

Events are numbered from 0 without gaps, so that a client can ask for those after the last one it saw.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from dragoman.exchange.client import DirectConnection
from dragoman.exchange.exchange import Exchange
from dragoman.hub.errors import Failure
from dragoman.pipeline.transports import SSE
from dragoman.responses.facts import TERMINAL_EVENTS, ResponseCollector, read_event_name
from dragoman.responses.stored import Members, members_of
from dragoman.responses.turn import Turn
from dragoman.wire.sse import Frame, Output

#: Bytes that are kept of one reply; a longer one is ended.
MAX_BYTES = 64 * 1024 * 1024
TOO_LONG = Failure(kind="server", status=502, message=f"the reply is longer than {MAX_BYTES} bytes")
CANCELLED = Failure(kind="cancelled", status=499, message="the response was cancelled", code="cancelled")

#: Events about the beginning: a run writes its own.
_BEGINNINGS = frozenset({"response.created", "response.queued", "response.in_progress"})

_encode = msgspec.json.encode

FinishRun = Callable[["BackgroundRun", Members], Awaitable[None]]


class BackgroundRun:
    """One run. `response` is what a client gets that asks now; `events` are all events so far."""

    def __init__(self, turn: Turn, response: Members) -> None:
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

    def encode_response(self) -> bytes:
        return _encode(self.response)

    def build_event(self, name: str, fields: Mapping[str, object]) -> Frame:
        """The next event. It is not added yet."""
        return Frame(name, _encode({"type": name, **fields, "sequence_number": len(self.events)}))

    def add_event(self, event: Frame) -> None:
        self.events.append(event)
        self.size += len(event.data)
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def set_status(self, status: str, *events: str) -> None:
        """Change the status and add the events that report it."""
        self.response = {**self.response, "status": msgspec.Raw(_encode(status))}
        for name in events:
            self.add_event(self.build_event(name, {"response": self.response}))

    def build_failed(self, code: str, message: str) -> Members:
        """The response of a run that ends without a response of its upstream."""
        error = {"code": code, "message": message}
        return {
            **self.response,
            "status": msgspec.Raw(b'"failed"'),
            "error": msgspec.Raw(_encode(error)),
        }


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
        """A run is always streamed, so a whole response is an error."""
        if not self._run.is_over:
            error = msgspec.json.decode(body)["error"]
            code = error.get("code") or error.get("type") or "server_error"
            await self._finish(self._run, self._run.build_failed(code, error["message"]))

    def abort(self, *, at_once: bool = False) -> None:
        """There is no connection."""

    async def _add(self, frame: Frame) -> None:
        run = self._run
        if frame.data[:1] != b"{" or run.is_over:
            return
        try:
            payload = members_of(frame.data)
            name = read_event_name(frame, payload)
        except (ValueError, KeyError, RecursionError):
            return
        if name in TERMINAL_EVENTS and self._collector.response is not None:
            await self._finish(run, self._collector.response)
        elif name not in _BEGINNINGS:
            run.add_event(run.build_event(name, payload))
