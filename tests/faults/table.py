"""The faults: what the upstream or the client does, and what the client must get.

`answer` makes the upstream's actions from its dialect and whether a stream was requested. A fault that
belongs to streams alone does the nearest thing to a whole reply.
"""

import gzip
from collections.abc import Callable, Iterable
from functools import cache
from typing import Literal

import msgspec

from tests.faults.actions import Action, Drip, Reset, Send, Silence
from tests.faults.replies import (
    ANSWER,
    chunk,
    frame,
    write_body,
    write_head,
    write_reply,
    write_stream,
)

Answer = Callable[[str, bool], Iterable[Action]]
#: `error`: never a success. `answer`: the whole answer. `either`: one of both. `left`: the client leaves.
Expected = Literal["error", "answer", "either", "left"]
#: `usual` limits no test reaches; `quick` ones end a silence soon. The others cannot be connected.
ProviderKind = Literal["usual", "quick", "refused", "unresolved", "untrusted"]


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    answer: Answer
    expected: Expected = "error"
    provider: ProviderKind = "usual"
    #: The statuses that the client may get when no head was sent before; empty: any error.
    statuses: tuple[int, ...] = ()
    #: The end marker comes before the fault, so that an error may follow a complete reply.
    is_after_end: bool = False
    #: A client of the upstream's own dialect gets the bytes as they came, this fault included.
    is_forwarded: bool = False
    #: The client leaves at once, or after the first piece of the reply.
    leaves: Literal["", "at once", "after the first piece"] = ""


def send(make: Callable[[str, bool], bytes]) -> Answer:
    """One piece of bytes, and the connection is closed."""
    return lambda dialect, is_stream: [Send(make(dialect, is_stream))]


def report(status: int, *headers: str, phrase: str = "Whatever") -> Fault:
    """An HTTP error with a JSON body that every dialect's reader understands in part."""
    body = msgspec.json.encode({"error": {"message": "no, because", "type": "some_error", "code": status}})
    answer = send(lambda dialect, is_stream: frame(False, body, *headers, status=f"{status} {phrase}"))
    return Fault(answer=answer, statuses=STATUSES.get(status, ()))


#: What clients may get for a status of the upstream. Anthropic has a status of its own for overload. A key
#: that a provider refuses is the gateway's own, so the client gets no 401 or 403.
STATUSES: dict[int, tuple[int, ...]] = {
    400: (400,),
    401: (502, 503),
    403: (502, 503),
    404: (404,),
    408: (408, 500, 502, 503, 504, 529),
    413: (413,),
    429: (429,),
    500: (500,),
    502: (500, 502, 503),
    503: (503, 529),
    529: (503, 529),
    600: (500, 502, 503),
}
HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
ERROR_INSIDE = msgspec.json.encode({"error": {"message": "out of room", "type": "server_error", "code": 503}})
#: More than a reader takes in one event or one body; a few kilobytes on the wire.
TOO_LARGE = 34 * 1024 * 1024


def cut(data: bytes, mark: bytes) -> bytes:
    """The data up to a place inside the last occurrence of the mark."""
    place = data.rindex(mark)
    return data[: place + max(1, len(mark) // 2)]


def cut_event(dialect: str, is_stream: bool) -> bytes:
    return cut(write_reply(dialect, is_stream), ANSWER[-6:].encode())


def cut_call(dialect: str, is_stream: bool) -> bytes:
    """Within the arguments. Gemini sends calls whole, so that the cut is within their event."""
    return cut(write_reply(dialect, is_stream, "call"), b"notes" if dialect == "gemini" else b"pat")


def drop_end(dialect: str, is_stream: bool) -> bytes:
    """Everything before the event that has the end marker."""
    if not is_stream:
        return write_body(dialect)[:-2]
    data = write_stream(dialect)
    mark = {
        "anthropic": b"event: message_delta",
        "openai_chat": b'"finish_reason":"stop"',
        "openai_responses": b"event: response.completed",
        "gemini": b'"finishReason"',
    }[dialect]
    before = data[: data.index(mark)]
    return before[: before.rindex(b"\n\n") + 2]


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def add_garbage(dialect: str, is_stream: bool) -> bytes:
    """A frame that is no JSON between good ones."""
    if not is_stream:
        return b"\x00garbage" + write_body(dialect)
    events = write_stream(dialect).split(b"\n\n")
    return b"\n\n".join([*events[:4], b"data: {garbage", *events[4:]])


@cache
def pack_too_large(is_stream: bool) -> bytes:
    filling = b'data: {"x":"' + b"a" * TOO_LARGE if is_stream else b'{"x":"' + b"a" * TOO_LARGE + b'"}'
    return frame(is_stream, gzip.compress(filling, 1), "content-encoding: gzip")


def begin(dialect: str, is_stream: bool) -> bytes:
    """The head and the first half of a reply, in legal framing."""
    data = half(write_reply(dialect, is_stream))
    if is_stream:
        return write_head(True, "transfer-encoding: chunked") + chunk(data)
    return write_head(False, f"content-length: {2 * len(data)}") + data


def lose_after_end(dialect: str, is_stream: bool) -> bytes:
    """A stream whose connection is closed after its end marker, before the end of its body."""
    data = write_reply(dialect, is_stream)
    closing = {"anthropic": b"event: message_stop", "openai_chat": b"data: [DONE]"}.get(dialect)
    if not is_stream:
        return frame(is_stream, data)
    data = data[: data.index(closing)] if closing else data
    return write_head(True, "transfer-encoding: chunked") + chunk(data)


def compress_half(dialect: str, is_stream: bool) -> bytes:
    packed = gzip.compress(write_reply(dialect, is_stream))
    return frame(is_stream, packed[: len(packed) * 2 // 3], "content-encoding: gzip")


def break_chunks(dialect: str, is_stream: bool) -> bytes:
    data = half(write_reply(dialect, is_stream))
    return write_head(is_stream, "transfer-encoding: chunked") + chunk(data) + b"zz\r\nno size"


def declare_length(factor: float) -> Answer:
    """A content-length that does not fit the body."""

    def make(dialect: str, is_stream: bool) -> bytes:
        body = write_reply(dialect, is_stream)
        return write_head(is_stream, f"content-length: {int(len(body) * factor)}") + body

    return send(make)


def swap_forms(dialect: str, is_stream: bool) -> bytes:
    """A whole reply where a stream was requested, and a stream where a whole reply was."""
    return frame(not is_stream, write_reply(dialect, not is_stream))


OTHER = {
    "anthropic": "gemini",
    "openai_chat": "anthropic",
    "openai_responses": "openai_chat",
    "gemini": "openai_responses",
}

FAULTS: dict[str, Fault] = {
    "none": Fault(answer=send(lambda d, s: frame(s, write_reply(d, s))), expected="answer"),
    "connection-refused": Fault(answer=lambda d, s: (), provider="refused"),
    "name-unknown": Fault(answer=lambda d, s: (), provider="unresolved"),
    "certificate-untrusted": Fault(answer=lambda d, s: (), provider="untrusted"),
    "closed-before-head": Fault(answer=lambda d, s: ()),
    "reset-before-head": Fault(answer=lambda d, s: [Reset()]),
    "closed-in-head": Fault(answer=send(lambda d, s: b"HTTP/1.1 200 OK\r\ncontent-ty")),
    "garbage-for-head": Fault(answer=send(lambda d, s: b"\x00\x01garbage\r\n\r\n")),
    **{f"status-{status}": report(status) for status in (400, 401, 403, 404, 408, 413)},
    "status-429-retry-after": report(429, "retry-after: 120"),
    **{f"status-{status}": report(status) for status in (500, 502, 503, 529, 600)},
    "html-error-page": Fault(
        answer=send(lambda d, s: frame(False, HTML, "content-type: text/html", status="502 Bad Gateway")),
        statuses=STATUSES[502],
    ),
    "html-page-with-200": Fault(answer=send(lambda d, s: frame(s, HTML, "content-type: text/html"))),
    "empty-body": Fault(answer=send(lambda d, s: frame(s, b"") if not s else write_head(s) + b"")),
    "error-inside-200": Fault(answer=send(lambda d, s: frame(False, ERROR_INSIDE))),
    "wrong-content-type": Fault(
        answer=send(lambda d, s: frame(s, write_reply(d, s), "content-type: text/plain")), expected="either"
    ),
    "other-form": Fault(answer=send(swap_forms), expected="either"),
    "whole-reply-named-a-stream": Fault(
        answer=send(lambda d, s: frame(True, write_reply(d, False))), expected="answer"
    ),
    "lost-after-end": Fault(answer=send(lose_after_end), expected="answer"),
    "other-dialect": Fault(answer=send(lambda d, s: frame(s, write_reply(OTHER[d], s)))),
    "gzip-truncated": Fault(answer=send(compress_half)),
    "chunks-broken": Fault(answer=send(break_chunks)),
    "length-too-long": Fault(answer=declare_length(1.5), expected="either", is_after_end=True),
    "length-too-short": Fault(answer=declare_length(0.5)),
    "cut-in-event": Fault(answer=send(lambda d, s: frame(s, cut_event(d, s)))),
    "cut-in-call": Fault(answer=send(lambda d, s: frame(s, cut_call(d, s)))),
    "reset-in-event": Fault(
        answer=lambda d, s: [Send(begin(d, s)), Reset()],
    ),
    "end-marker-missing": Fault(answer=send(lambda d, s: frame(s, drop_end(d, s)))),
    "error-in-reply": Fault(
        answer=send(lambda d, s: frame(s, write_stream(d, "failed") if s else ERROR_INSIDE))
    ),
    "garbage-in-reply": Fault(
        answer=send(lambda d, s: frame(s, add_garbage(d, s))), expected="either", is_forwarded=True
    ),
    "silence-at-start": Fault(answer=lambda d, s: [Silence()], provider="quick"),
    "silence-after-head": Fault(
        answer=lambda d, s: [Send(write_head(s, "transfer-encoding: chunked")), Silence()], provider="quick"
    ),
    "silence-in-reply": Fault(answer=lambda d, s: [Send(begin(d, s)), Silence()], provider="quick"),
    "slow-drip": Fault(
        answer=lambda d, s: [Drip(frame(s, write_reply(d, s)), 40)],
        expected="answer",
    ),
    "reply-too-large": Fault(answer=send(lambda d, s: pack_too_large(s))),
    "client-leaves-at-start": Fault(answer=lambda d, s: [Silence()], expected="left", leaves="at once"),
    "client-leaves-in-reply": Fault(
        answer=lambda d, s: [Send(begin(d, s)), Silence()], expected="left", leaves="after the first piece"
    ),
}
