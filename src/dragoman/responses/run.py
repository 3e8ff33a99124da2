"""One response that is made while nobody waits for it: its events so far, and how it stands.

Events are numbered from 0 without gaps, so that a reader can ask for those after the last one it saw.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from dragoman.exchange.ask import Ask
from dragoman.exchange.exchange import Exchange
from dragoman.hub.errors import Failure
from dragoman.responses.labels import LAST_WORDS, Labelling
from dragoman.responses.stored import Members, members_of
from dragoman.responses.turn import Turn
from dragoman.wire.sse import SseReader, write_frame

#: What is kept of one reply, in bytes; a longer one is ended.
MOST_BYTES = 64 * 1024 * 1024
TOO_LONG = Failure(kind="server", status=502, message=f"the reply is longer than {MOST_BYTES} bytes")
CANCELLED = Failure(kind="cancelled", status=499, message="the response was cancelled", code="cancelled")

#: Events about the beginning: a run tells its own.
_BEGINNINGS = frozenset({"response.created", "response.queued", "response.in_progress"})

_encode = msgspec.json.encode
_text = msgspec.json.Decoder(str).decode

Finish = Callable[["Run", Members], Awaitable[None]]


class Run:
    """`response` is what a client is told that asks now."""

    def __init__(self, turn: Turn, response: Members) -> None:
        self.turn = turn
        self.response = response
        self.events: list[bytes] = []
        self.size = 0
        self.exchange: Exchange | None = None
        self.is_cancelled = False
        self.is_over = False
        #: Set, and replaced by another, whenever something was said.
        self.news = asyncio.Event()
        self.over = asyncio.Event()

    @property
    def ask(self) -> Ask:
        return self.turn.ask

    def told(self) -> bytes:
        return _encode(self.response)

    def event(self, kind: str, fields: Mapping[str, object]) -> bytes:
        """The next event, not yet said."""
        named = {"type": kind, **fields, "sequence_number": len(self.events)}
        return write_frame(_encode(named), kind)

    def say(self, event: bytes) -> None:
        self.events.append(event)
        self.size += len(event)
        news, self.news = self.news, asyncio.Event()
        news.set()

    def stand(self, status: str, *kinds: str) -> None:
        """Where it stands now, and the events that tell of it."""
        self.response = {**self.response, "status": msgspec.Raw(_encode(status))}
        for kind in kinds:
            self.say(self.event(kind, {"response": self.response}))

    def failed(self, code: str, message: str) -> Members:
        """The response of a run that ends without one of its upstream's."""
        error = {"code": code, "message": message}
        return {
            **self.response,
            "status": msgspec.Raw(b'"failed"'),
            "error": msgspec.Raw(_encode(error)),
        }


class RunClient:
    """What an exchange takes for its client. `finish` keeps the response before anybody hears of its end."""

    line = None

    def __init__(self, run: Run, labelling: Labelling, finish: Finish) -> None:
        self._run = run
        self._labelling = labelling
        self._finish = finish
        self._status = 200

    async def head(self, status: int, headers: Mapping[str, str]) -> None:
        self._status = status

    async def send(self, data: bytes) -> None:
        run = self._run
        for frame in SseReader().feed(self._labelling.feed(data)):
            if frame.data[:1] != b"{" or run.is_over:
                continue
            try:
                payload = members_of(frame.data)
                kind = frame.event or _text(payload["type"])
            except (ValueError, KeyError, RecursionError):
                continue
            if kind in LAST_WORDS and self._labelling.last is not None:
                await self._finish(run, self._labelling.last)
            elif kind not in _BEGINNINGS:
                run.say(run.event(kind, payload))
        if run.size > MOST_BYTES and run.exchange is not None:
            run.exchange.stop(TOO_LONG)

    async def end(self, data: bytes = b"") -> None:
        if self._status == 200:
            await self.send(data)
        elif not self._run.is_over:
            error = msgspec.json.decode(data)["error"]
            code = error.get("code") or error.get("type") or "server_error"
            await self._finish(self._run, self._run.failed(code, error["message"]))

    def break_off(self, *, at_once: bool = False) -> None:
        """There is nobody to hang up on."""
