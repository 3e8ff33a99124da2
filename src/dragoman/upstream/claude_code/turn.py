"""One turn: the messages of Claude Code on their way to the caller, until it stops or waits for results."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from dragoman.hub.errors import Failure, UpstreamFailed
from dragoman.upstream.claude_code.conversation import Conversation
from dragoman.upstream.claude_code.errors import (
    api_failed,
    permission_denied,
    process_crashed,
    too_many_turns,
)
from dragoman.upstream.claude_code.reply_joiner import ReplyJoiner
from dragoman.upstream.claude_code.session import ClaudeSession, ProcessEnded
from dragoman.upstream.claude_code.session_pool import SessionCounters

INTERRUPTED = Failure(kind="cancelled", status=499, message="the turn was interrupted")


class SessionTurn:
    """One turn of a session. `begin` sends the input; then call `read_piece` until it returns nothing."""

    def __init__(
        self,
        session: ClaudeSession,
        conversation: Conversation,
        counters: SessionCounters,
        *,
        one_at_a_time: bool,
        begin: Callable[[], Awaitable[None]],
    ) -> None:
        self.session = session
        self._conversation = conversation
        self._counters = counters
        self._one_at_a_time = one_at_a_time
        self._begin: Callable[[], Awaitable[None]] | None = begin
        self._joiner: ReplyJoiner | None = None
        #: Number of denied calls that the permissions have recorded.
        self._denials = 0
        self._sent: list[bytes] = []
        self._is_over = False
        session.queue.open()

    async def read_piece(self) -> bytes:
        """Return some bytes of the reply, or nothing at its end. Raises `ProcessEnded`."""
        if self._begin is not None:
            begin, self._begin = self._begin, None
            try:
                await begin()
            except OSError as error:
                raise ProcessEnded(str(error)) from None
        joiner = self._joiner
        if joiner is None:
            session = self.session
            joiner = self._joiner = ReplyJoiner(
                session.settings.model,
                allowed=session.allowed_tools,
                one_at_a_time=self._one_at_a_time,
                is_last=session.call_groups >= session.provider.sessions.max_turns,
            )
        while not self._is_over:
            out = self._read_message(await self.session.queue.take(), joiner)
            if out:
                self._sent.append(out)
                return out
        return b""

    def interrupt(self) -> None:
        """The caller is gone. A task that waits in `read_piece` gets `UpstreamFailed`."""
        if not self._is_over:
            self._is_over = True
            self._counters.interrupted += 1
            self.session.queue.fail(UpstreamFailed(INTERRUPTED))
            self.session.interrupt()

    def _read_message(self, message: Any, joiner: ReplyJoiner) -> bytes:
        match type(message).__name__:
            case "StreamEvent" if message.parent_tool_use_id is None:
                out = joiner.feed(message.event)
                return self._end_message(joiner, out) if message.event["type"] == "message_stop" else out
            case "ResultMessage":
                if message.is_error:
                    self._is_over = True
                    text = str(message.result or "") or "; ".join(message.errors or ())
                    raise api_failed(message.api_error_status, text)
                return self._finish(joiner)
            case "ProcessEnded":
                raise message
        return b""

    def _end_message(self, joiner: ReplyJoiner, out: bytes) -> bytes:
        """Handle the end of a model's message. If it calls the caller's tools, end the reply too."""
        session = self.session
        for call_id, name in joiner.denied[self._denials :]:
            session.permissions.decide(name, call_id)
            self._counters.denied += 1
        self._denials = len(joiner.denied)
        if joiner.excess_calls:
            self._fail(too_many_turns(session.provider.sessions.max_turns))
        if joiner.calls:
            return self._finish(joiner, out)
        if self._denials >= session.provider.sessions.denials:
            self._fail(permission_denied([name for _, name in joiner.denied]))
        return out

    def _finish(self, joiner: ReplyJoiner, last: bytes = b"") -> bytes:
        """End the turn. `last` is the output that comes before the end of the reply."""
        self._is_over = True
        end = joiner.finish()
        self.session.mark_idle(self._conversation, joiner, b"".join((*self._sent, last, end)))
        return last + end

    def _fail(self, error: UpstreamFailed) -> None:
        self._is_over = True
        self.session.interrupt()
        raise error


class TurnReply:
    """The reply of a turn, as the port knows it.

    If the process ends before the caller has received anything, `restart` begins the turn again in a new
    session, once. `drop` removes a session that cannot be used any more. `wait_until_parked` waits until
    other gateways know the calls of a reply.
    """

    def __init__(
        self,
        turn: SessionTurn,
        restart: Callable[[], Awaitable[SessionTurn]],
        drop: Callable[[ClaudeSession], None],
        *,
        stream: bool,
        wait_until_parked: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.status = 200
        self.headers: Mapping[str, str] = _build_headers(turn.session.id)
        self._turn = turn
        self._restart: Callable[[], Awaitable[SessionTurn]] | None = restart
        self._drop = drop
        self._stream = stream
        self._wait_until_parked = wait_until_parked
        self._is_closed = False

    async def pieces(self) -> AsyncIterator[bytes]:
        if self._is_closed:
            raise UpstreamFailed(INTERRUPTED)
        while piece := await (self._read_piece() if self._stream else self._read_all()):
            yield piece

    async def _read_piece(self) -> bytes:
        while True:
            try:
                piece = await self._turn.read_piece()
            except ProcessEnded as ended:
                self._drop(self._turn.session)
                if self._restart is None:
                    raise process_crashed(str(ended)) from None
                restart, self._restart = self._restart, None
                self._turn = await restart()
                continue
            except UpstreamFailed:
                if self._turn.session.state != "settling":
                    self._drop(self._turn.session)
                raise
            if self._stream:
                self._restart = None
            if self._wait_until_parked is not None and self._turn.session.state == "parked":
                # The result may come to another gateway as soon as the caller has the end of the reply.
                await self._wait_until_parked()
            return piece

    async def _read_all(self) -> bytes:
        """Read the whole reply. After a restart it begins from the start."""
        pieces: list[bytes] = []
        turn = self._turn
        while piece := await self._read_piece():
            if self._turn is not turn:
                turn, pieces = self._turn, []
            pieces.append(piece)
        return b"".join(pieces)

    def close(self) -> None:
        self._is_closed = True
        self._turn.interrupt()


class FixedReply:
    """A reply without a turn: the bytes of a reply, or an error that names its session."""

    def __init__(self, session: str, body: bytes, error: UpstreamFailed | None = None) -> None:
        self.status = 200
        self.headers: Mapping[str, str] = _build_headers(session)
        self._body = body
        self._error = error

    async def pieces(self) -> AsyncIterator[bytes]:
        if self._error is not None:
            raise self._error
        body, self._body = self._body, b""
        if body:
            yield body

    def close(self) -> None:
        """Nothing is open."""


def _build_headers(session: str) -> dict[str, str]:
    return {"content-type": "text/event-stream", "x-session-id": session}
