"""A request's body: received within a limit, decompressed within the same limit."""

import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import zstandard

from dragoman.hub.errors import ClientProtocolError, RequestTooLarge

#: Encodings of one body. Clients use one; every further one multiplies the work that a few bytes cause.
MAX_ENCODINGS = 3

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class ClientGone(Exception):
    """The client hung up; there is nobody to answer."""


async def receive_body(receive: Receive, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise RequestTooLarge(f"the request body exceeds {limit} bytes")
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces)


def decompressed(body: bytes, encoding: str, limit: int) -> bytes:
    """The body without its content-encoding; a bomb stops at the limit."""
    names = [part.strip().lower() for part in encoding.split(",") if part.strip()]
    if len(names) > MAX_ENCODINGS:
        raise ClientProtocolError(f"more than {MAX_ENCODINGS} content-encodings")
    for name in reversed(names):
        if name == "identity":
            continue
        try:
            inflate = _INFLATERS[name]
        except KeyError:
            raise ClientProtocolError(
                "unsupported content-encoding", hint=f"known: {', '.join(_INFLATERS)}"
            ) from None
        try:
            body = inflate(body, limit)
        except (zlib.error, zstandard.ZstdError):
            raise ClientProtocolError(f"the request body is not valid {name} data") from None
        if len(body) > limit:
            raise RequestTooLarge(f"the request body exceeds {limit} bytes after decompression")
    return body


def _zlib(body: bytes, limit: int, window: int) -> bytes:
    """Inflate to at most one byte too many."""
    inflater = zlib.decompressobj(window)
    inflated = inflater.decompress(body, limit + 1)
    if len(inflated) <= limit and (not inflater.eof or inflater.unused_data):
        raise zlib.error("cut short, or followed by something else")
    return inflated


def _gzip(body: bytes, limit: int) -> bytes:
    return _zlib(body, limit, 31)


def _deflate(body: bytes, limit: int) -> bytes:
    """Both kinds that go by this name: with zlib's frame, as it should be, and without."""
    try:
        return _zlib(body, limit, 15)
    except zlib.error:
        return _zlib(body, limit, -15)


def _zstd(body: bytes, limit: int) -> bytes:
    announced = zstandard.frame_content_size(body)
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
    with decompressor.stream_reader(body, read_across_frames=True) as reader:
        inflated = reader.read(limit + 1)
    if len(inflated) < min(announced, limit + 1):
        raise zstandard.ZstdError("cut short")
    return inflated


#: What a stranger may make us allocate before a single byte is out.
ZSTD_WINDOW = 2**27

_INFLATERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "zstd": _zstd,
}
