"""Good replies of every dialect, whole and streamed, and their HTTP framing: what the faults spoil."""

from functools import cache
from typing import Literal

import msgspec

from dragoman.dialects.interfaces import ClientContext
from dragoman.dialects.registry import dialect_named
from dragoman.hub.blocks import Text, ToolCall
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    TextDelta,
    UsageReported,
)
from dragoman.hub.ids import IdSource
from dragoman.hub.usage import Usage
from tests.sse import read_frames, write_sse

ANSWER = "This is the whole answer, in several pieces."
ARGUMENTS = '{"path":"notes.txt","lines":[1,2,3]}'

TEXT_EVENTS: tuple[ReplyEvent, ...] = (
    ReplyStarted(id="reply_1", model="m"),
    BlockOpened(0, Text(text="")),
    *(TextDelta(0, ANSWER[start : start + 9]) for start in range(0, len(ANSWER), 9)),
    BlockClosed(0),
    UsageReported(Usage(input=10, output=5)),
    ReplyFinished(cause="end"),
)
CALL_EVENTS: tuple[ReplyEvent, ...] = (
    ReplyStarted(id="reply_1", model="m"),
    BlockOpened(0, ToolCall(id="call_0abcdefgh", name="read")),
    *(ArgumentsDelta(0, ARGUMENTS[start : start + 9]) for start in range(0, len(ARGUMENTS), 9)),
    BlockClosed(0),
    UsageReported(Usage(input=10, output=5)),
    ReplyFinished(cause="tool_calls"),
)
FAILED = ReplyFailed("failed", Failure(kind="overloaded", message="the model ran out of room", status=503))
Content = Literal["text", "call", "failed"]
EVENTS: dict[Content, tuple[ReplyEvent, ...]] = {
    "text": TEXT_EVENTS,
    "call": CALL_EVENTS,
    "failed": (*TEXT_EVENTS[:4], FAILED),
}


@cache
def write_stream(dialect: str, content: Content = "text") -> bytes:
    """The reply as an upstream of this dialect streams it."""
    context = ClientContext(upstream="elsewhere", model="m", ids=IdSource("up"))
    return write_sse(dialect_named(dialect).stream_writer(context), *EVENTS[content])


@cache
def write_body(dialect: str, content: Content = "text") -> bytes:
    """The same reply in one piece."""
    return msgspec.json.encode(dialect_named(dialect).collect(read_frames(write_stream(dialect, content))))


def write_reply(dialect: str, is_stream: bool, content: Content = "text") -> bytes:
    return write_stream(dialect, content) if is_stream else write_body(dialect, content)


def write_head(is_stream: bool, *headers: str, status: str = "200 OK") -> bytes:
    kind = "text/event-stream" if is_stream else "application/json"
    named = any(header.startswith("content-type") for header in headers)
    lines = [f"HTTP/1.1 {status}", *headers, *(() if named else (f"content-type: {kind}",))]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def frame(is_stream: bool, body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """A whole HTTP response: chunked if it is a stream, with its length otherwise."""
    if is_stream:
        return (
            write_head(True, "transfer-encoding: chunked", *headers, status=status) + chunk(body) + LAST_CHUNK
        )
    return write_head(False, f"content-length: {len(body)}", *headers, status=status) + body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"
