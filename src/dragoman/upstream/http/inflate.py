"""Replies that come compressed although nobody asked for it, inflated piece by piece within bounds."""

import zlib
from collections.abc import AsyncIterator, Callable, Mapping

from dragoman.hub.errors import UpstreamFailed
from dragoman.upstream.http.connection import Reply

#: What one step may make of whatever came.
STEP = 1024 * 1024

#: zlib's name for each encoding: how large a window, and which frame around it.
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 47}


class InflatedReply:
    """A reply whose pieces are inflated on the way."""

    def __init__(self, reply: Reply, encoding: str, failed: Callable[[str], UpstreamFailed]) -> None:
        self._reply = reply
        self._failed = failed
        self._window = _WINDOWS.get(encoding.strip().lower())
        self.status = reply.status
        self.headers: Mapping[str, str] = reply.headers

    async def pieces(self) -> AsyncIterator[bytes]:
        if self._window is None:
            raise self._failed("answered in an encoding that was not asked for")
        inflater = zlib.decompressobj(self._window)
        async for piece in self._reply:
            while piece:
                try:
                    inflated = inflater.decompress(piece, STEP)
                except zlib.error:
                    raise self._failed("answered with damaged data") from None
                if inflated:
                    yield inflated
                piece = inflater.unconsumed_tail
        if not inflater.eof:
            raise self._failed("broke off")

    def close(self) -> None:
        self._reply.close()
