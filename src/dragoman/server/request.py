"""`HttpRequest`: one HTTP request as ASGI gives it. Its body is received and decompressed within a limit."""

import asyncio
import os
import zlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from itertools import repeat
from typing import Any
from urllib.parse import quote, unquote

import zstandard

from dragoman.dialects.registry import dialect_named
from dragoman.hub.errors import ClientProtocolError, RequestTooLarge
from dragoman.pipeline.plan import RequestMetadata
from dragoman.pipeline.transports import JsonArrayTransport
from dragoman.server.client import AsgiClient, Scope, Send
from dragoman.server.paths import ENTRY, Endpoint, find_client_dialect, find_endpoint, find_error_dialect
from dragoman.wire.json_values import MAX_VALUES, MIN_SCANNED, has_too_many_values

#: The encoding of headers, for each of them.
_LATIN = repeat("latin-1")

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

#: Bytes, before and after decompression. More would block the event loop for too long, so a thread does it.
MAX_INLINE = 256 * 1024
#: Encodings of one body. Clients use one; every further one multiplies the work that a few bytes cause.
MAX_ENCODINGS = 3
#: The largest memory that a zstd frame may request before a single byte is out.
ZSTD_WINDOW = 2**27


class ClientDisconnected(Exception):
    """The client closed the connection before its request was complete."""


class HttpRequest:
    """One request. Its body is not received yet."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._scope = scope
        self.endpoint = find_endpoint(self.path)
        self.headers = _read_headers(scope["headers"])
        self.query: str = scope["query_string"].decode("latin-1")
        self.id = "req_" + os.urandom(12).hex()
        self.receive = receive
        self.client = AsgiClient(scope, send)

    @property
    def dialect(self) -> str:
        """The dialect of error responses."""
        endpoint = self.endpoint
        return find_client_dialect(endpoint, self.headers) if endpoint else find_error_dialect(self.path)

    @property
    def peer(self) -> str:
        """The client's address."""
        client = self._scope.get("client")
        return client[0] if client else ""

    @property
    def raw_path(self) -> str:
        """The path as the client encoded it. An encoded `/` is part of a value, and not a separator."""
        raw: str = (self._scope.get("raw_path") or b"").partition(b"?")[0].decode("latin-1")
        # The path of an entry is removed from the decoded path only.
        return raw if unquote(raw) == self.path else quote(self.path)

    @property
    def id_headers(self) -> dict[str, str]:
        """The response header with the request's id."""
        return {dialect_named(self.dialect).http_api.request_id_header: self.id}

    async def respond_json(self, body: object) -> None:
        await self.client.respond_json(200, body, self.id_headers)

    async def receive_body(self, limit: int) -> bytes:
        """The decompressed body, of at most `limit` bytes and `MAX_VALUES` JSON values."""
        announced = self.headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:18]) > limit:
            raise RequestTooLarge(f"the request body exceeds {limit} bytes")
        body = await receive_body(self.receive, limit)
        encoding = self.headers.get("content-encoding", "")
        if encoding:
            body = await _decompress(body, encoding, limit)
        if len(body) >= MIN_SCANNED and await asyncio.to_thread(has_too_many_values, body):
            raise RequestTooLarge(f"the request body has more than {MAX_VALUES} JSON values")
        return body

    def build_metadata(self, endpoint: Endpoint) -> RequestMetadata:
        """What the pipeline must know beside the body. Also selects the transport of a stream."""
        is_stream = endpoint.name == "stream"
        if is_stream and dialect_named(endpoint.dialect).http_api.wants_json_array(self.query):
            self.client.transport = JsonArrayTransport()
        return RequestMetadata(
            dialect=endpoint.dialect,
            headers=self.headers,
            model=endpoint.model,
            stream=is_stream,
            request_id=self.id,
            entry=self._scope.get(ENTRY, ""),
        )

    async def wait_for_disconnect(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass


def _read_headers(raw: list[tuple[bytes, bytes]]) -> Mapping[str, str]:
    """Headers by names in lower case. A header that comes twice becomes one with both values."""
    if not raw:
        return {}
    names, encoded = zip(*raw, strict=True)
    pairs = list(zip(map(str, names, _LATIN), map(str, encoded, _LATIN), strict=True))
    headers = dict(pairs)
    if len(headers) < len(raw):
        values: dict[str, list[str]] = {}
        for name, value in pairs:
            values.setdefault(name, []).append(value)
        headers = {name: ", ".join(several) for name, several in values.items()}
    return headers


async def receive_body(receive: Receive, limit: int) -> bytes:
    """The whole body. Raises if it is larger than `limit` bytes or the client disconnects."""
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise RequestTooLarge(f"the request body exceeds {limit} bytes")
        if not message.get("more_body"):
            return b"".join((*pieces, piece)) if pieces else piece
        pieces.append(piece)


async def _decompress(body: bytes, encoding: str, limit: int) -> bytes:
    """The body without its content-encoding. A large one is decompressed in a thread."""
    if len(body) <= MAX_INLINE:
        with suppress(RequestTooLarge):
            return decompress_body(body, encoding, min(MAX_INLINE, limit))
    return await asyncio.to_thread(decompress_body, body, encoding, limit)


def decompress_body(body: bytes, encoding: str, limit: int) -> bytes:
    """The body without its content-encoding. A decompression bomb stops at the limit."""
    names = [part.strip().lower() for part in encoding.split(",") if part.strip()]
    if len(names) > MAX_ENCODINGS:
        raise ClientProtocolError(f"more than {MAX_ENCODINGS} content-encodings")
    for name in reversed(names):
        if name == "identity":
            continue
        try:
            decompress = _DECOMPRESSORS[name]
        except KeyError:
            raise ClientProtocolError(
                "unsupported content-encoding", hint=f"known: {', '.join(_DECOMPRESSORS)}"
            ) from None
        try:
            body = decompress(body, limit)
        except (zlib.error, zstandard.ZstdError):
            raise ClientProtocolError(f"the request body is not valid {name} data") from None
        if len(body) > limit:
            raise RequestTooLarge(f"the request body exceeds {limit} bytes after decompression")
    return body


def _decompress_zlib(body: bytes, limit: int, window: int) -> bytes:
    """Decompress to at most one byte more than the limit."""
    decompressor = zlib.decompressobj(window)
    data = decompressor.decompress(body, limit + 1)
    if len(data) <= limit and (not decompressor.eof or decompressor.unused_data):
        raise zlib.error("cut short, or followed by something else")
    return data


def _decompress_gzip(body: bytes, limit: int) -> bytes:
    return _decompress_zlib(body, limit, 31)


def _decompress_deflate(body: bytes, limit: int) -> bytes:
    """With zlib's header, as the standard requires, or without, as some clients send it."""
    try:
        return _decompress_zlib(body, limit, 15)
    except zlib.error:
        return _decompress_zlib(body, limit, -15)


def _decompress_zstd(body: bytes, limit: int) -> bytes:
    announced = zstandard.frame_content_size(body)
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
    with decompressor.stream_reader(body, read_across_frames=True) as reader:
        data = reader.read(limit + 1)
    if len(data) < min(announced, limit + 1):
        raise zstandard.ZstdError("cut short")
    return data


_DECOMPRESSORS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _decompress_gzip,
    "x-gzip": _decompress_gzip,
    "deflate": _decompress_deflate,
    "zstd": _decompress_zstd,
}
