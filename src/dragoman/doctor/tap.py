"""The two ends of an examination: an upstream that is listened in on, and a client that remembers."""

from collections.abc import AsyncIterator, Mapping

from dragoman.upstream.port import Upstream, UpstreamReply, UpstreamRequest

#: Enough for any answer that the doctor asks for.
MAX_HEARD = 4 * 1024 * 1024


class Tap:
    """An upstream whose last call and answer are kept. Whoever made it closes it."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self.status = 0
        self.content_type = ""
        self.sent = b""
        self.heard = bytearray()

    async def send(self, call: UpstreamRequest) -> UpstreamReply:
        self.sent, self.status, self.content_type = call.body, 0, ""
        self.heard.clear()
        answer = await self._upstream.send(call)
        self.status, self.content_type = answer.status, answer.headers.get("content-type", "")
        return TappedAnswer(answer, self.heard)

    async def close(self) -> None:
        """The gateway is done with it; the next one may not be."""


class TappedAnswer:
    def __init__(self, answer: UpstreamReply, heard: bytearray) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._answer = answer
        self._heard = heard
        self._iterator = self._run()

    def pieces(self) -> AsyncIterator[bytes]:
        return self._iterator

    async def _run(self) -> AsyncIterator[bytes]:
        async for piece in self._answer.pieces():
            if len(self._heard) + len(piece) <= MAX_HEARD:
                self._heard += piece
            yield piece

    def close(self) -> None:
        self._answer.close()


class Listener:
    """A client in memory."""

    line = None

    def __init__(self) -> None:
        self.status = 0
        self.body = bytearray()

    async def head(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status

    async def send(self, data: bytes) -> None:
        self.body += data

    async def end(self, data: bytes = b"") -> None:
        self.body += data

    def break_off(self, *, at_once: bool = False) -> None:
        """What was said has been kept."""
