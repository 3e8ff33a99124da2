"""One turn on its way to the caller: what Claude Code says, until it stops or waits for results."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from dragoman.hub.errors import Failure, UpstreamFailed
from dragoman.upstream.claude_code.conversation import Conversation
from dragoman.upstream.claude_code.counters import Counters
from dragoman.upstream.claude_code.errors import crashed, permission_denied, told_by_api, too_many_turns
from dragoman.upstream.claude_code.joining import Joiner
from dragoman.upstream.claude_code.session import Ended, Session

Json = dict[str, Any]

HUNG_UP = Failure(kind="cancelled", status=499, message="the turn was interrupted")


class Turn:
    """`begin` says to Claude Code what the caller said; then `piece` after `piece` is the reply."""

    def __init__(
        self,
        session: Session,
        talk: Conversation,
        counters: Counters,
        *,
        one_at_a_time: bool,
        begin: Callable[[], Awaitable[None]],
    ) -> None:
        self.session = session
        self._talk = talk
        self._counters = counters
        self._begin: Callable[[], Awaitable[None]] | None = begin
        self._one_at_a_time = one_at_a_time
        self._joiner: Joiner | None = None
        session.mailbox.listen()
        self._told = 0
        self.is_over = False

    async def piece(self) -> bytes:
        """Some bytes of the reply; none only at its end. Raises `Ended` if Claude Code is gone."""
        if self._begin is not None:
            begin, self._begin = self._begin, None
            try:
                await begin()
            except OSError as error:
                raise Ended(str(error)) from None
        joiner = self._joiner
        if joiner is None:
            joiner = self._joiner = self._new_joiner()
        while not self.is_over:
            out = self._take(await self.session.mailbox.take(), joiner)
            if out:
                return out
        return b""

    def hang_up(self) -> None:
        """The caller is gone. Whoever waits for a piece is told."""
        if not self.is_over:
            self.is_over = True
            self._counters.interrupted += 1
            self.session.mailbox.disturb(UpstreamFailed(HUNG_UP))
            self.session.interrupt()

    def _new_joiner(self) -> Joiner:
        session = self.session
        return Joiner(
            session.model,
            allows=session.callable,
            one_at_a_time=self._one_at_a_time,
            last=session.rounds >= session.provider.sessions.max_turns,
        )

    def _take(self, message: Any, joiner: Joiner) -> bytes:
        match type(message).__name__:
            case "StreamEvent" if message.parent_tool_use_id is None:
                out = joiner.feed(message.event)
                return out + self._message_ended(joiner) if message.event["type"] == "message_stop" else out
            case "ResultMessage":
                return self._ended(message, joiner)
            case "Ended":
                raise message
        return b""

    def _message_ended(self, joiner: Joiner) -> bytes:
        session = self.session
        for call_id, name in joiner.denied[self._told :]:
            session.auth.decide(name, call_id)
            self._counters.denied += 1
        self._told = len(joiner.denied)
        if joiner.beyond:
            self._stop(too_many_turns(session.provider.sessions.max_turns))
        if joiner.calls:
            return self._over(joiner)
        if self._told >= session.provider.sessions.denials:
            self._stop(permission_denied([name for _, name in joiner.denied]))
        return b""

    def _ended(self, result: Any, joiner: Joiner) -> bytes:
        if result.is_error:
            self.is_over = True
            raise told_by_api(
                result.api_error_status, str(result.result or "") or "; ".join(result.errors or ())
            )
        return self._over(joiner)

    def _over(self, joiner: Joiner) -> bytes:
        self.is_over = True
        self.session.rest(self._talk, joiner)
        return joiner.finish()

    def _stop(self, error: UpstreamFailed) -> None:
        self.is_over = True
        self.session.interrupt()
        raise error


class TurnAnswer:
    """A turn as the port knows answers. A session that breaks before it has spoken is begun anew, once."""

    def __init__(
        self,
        turn: Turn,
        restart: Callable[[Ended], Awaitable[Turn]],
        lost: Callable[[Turn], None],
        *,
        stream: bool,
    ) -> None:
        self.status = 200
        self._turn = turn
        self._restart: Callable[[Ended], Awaitable[Turn]] | None = restart
        self._lost = lost
        self._stream = stream
        self._is_closed = False
        self.headers: Mapping[str, str] = {
            "content-type": "text/event-stream",
            "x-session-id": turn.session.id,
        }

    def pieces(self) -> "TurnAnswer":
        return self

    def __aiter__(self) -> "TurnAnswer":
        return self

    async def __anext__(self) -> bytes:
        if self._is_closed:
            raise UpstreamFailed(HUNG_UP)
        piece = await (self._next() if self._stream else self._all())
        if not piece:
            raise StopAsyncIteration
        return piece

    async def _next(self) -> bytes:
        """The next piece, from a new session if the first is gone before it said anything."""
        while True:
            try:
                piece = await self._turn.piece()
            except Ended as ended:
                self._lost(self._turn)
                if self._restart is None:
                    raise crashed(str(ended)) from None
                restart, self._restart = self._restart, None
                self._turn = await restart(ended)
                continue
            except UpstreamFailed:
                if self._turn.session.state != "settling":
                    self._lost(self._turn)
                raise
            if self._stream:
                self._restart = None
            return piece

    async def _all(self) -> bytes:
        """All of it: who has been told nothing can be told it from the beginning."""
        pieces: list[bytes] = []
        turn = self._turn
        while piece := await self._next():
            if self._turn is not turn:
                turn, pieces = self._turn, []
            pieces.append(piece)
        return b"".join(pieces)

    def close(self) -> None:
        self._is_closed = True
        self._turn.hang_up()


class FixedAnswer:
    """An answer that needs no turn: calls asked for again, or an error that names its session."""

    def __init__(self, session: str, body: bytes, error: UpstreamFailed | None = None) -> None:
        self.status = 200
        self.headers: Mapping[str, str] = {"content-type": "text/event-stream", "x-session-id": session}
        self._body = body
        self._error = error

    def pieces(self) -> "FixedAnswer":
        return self

    def __aiter__(self) -> "FixedAnswer":
        return self

    async def __anext__(self) -> bytes:
        if self._error is not None:
            raise self._error
        body, self._body = self._body, b""
        if not body:
            raise StopAsyncIteration
        return body

    def close(self) -> None:
        """Nothing is open."""
