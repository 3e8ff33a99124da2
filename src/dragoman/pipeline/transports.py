"""Transports: how the frames of a reply become the bytes of an HTTP body.

WebSockets and background runs take frames directly, so they have no transport here.
"""

from typing import Protocol

from dragoman.wire.fields import encode
from dragoman.wire.sse import Output, encode_sse, is_whole_payload

JSON_HEADERS = {"content-type": "application/json"}
SSE_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}


class Transport(Protocol):
    """Encodes the output of one streamed reply as body bytes.

    `encode_end` is called once, with the last output.
    """

    headers: dict[str, str]

    def encode(self, output: Output) -> bytes: ...

    def encode_end(self, output: Output) -> bytes: ...

    def encode_error(self, error: object) -> bytes:
        """The body of an error that is sent instead of a stream."""
        ...


class SseTransport:
    """Server-sent events."""

    headers = SSE_HEADERS

    encode = staticmethod(encode_sse)
    encode_end = staticmethod(encode_sse)

    def encode_error(self, error: object) -> bytes:
        return encode(error)


class JsonArrayTransport:
    """Gemini's stream without `alt=sse`: one JSON array with a chunk per element."""

    headers = JSON_HEADERS

    def __init__(self) -> None:
        self._before = b"["

    def encode(self, output: Output) -> bytes:
        parts: list[bytes] = []
        for frame in output:
            # One broken element would make the whole array unreadable.
            if is_whole_payload(frame.data):
                parts += (self._before, frame.data)
                self._before = b",\r\n"
        return b"".join(parts)

    def encode_end(self, output: Output) -> bytes:
        elements = self.encode(output)
        return elements + (b"[]" if self._before == b"[" else b"]")

    def encode_error(self, error: object) -> bytes:
        return encode([error])


SSE = SseTransport()
