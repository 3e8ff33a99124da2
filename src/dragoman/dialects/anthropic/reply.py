"""Turns whole replies into streams and back, so that both take one path through the hub.

`collect` accumulates as Anthropic's own client does: it copies the starts, appends the deltas, and replaces
the counts of `message_start` by those of `message_delta`.
"""

from collections.abc import Callable, Iterable, Iterator

from dragoman.dialects.anthropic.errors import write_error
from dragoman.dialects.anthropic.names import build_input, list_of, object_of, text_of
from dragoman.dialects.interfaces import Json
from dragoman.hub.builder import TRUNCATED_MESSAGE
from dragoman.hub.errors import DragomanError, Failure
from dragoman.wire.fields import decode, encode
from dragoman.wire.sse import Frame, Frames, join_frames

#: Fields of a whole reply that a stream sends at its end: beside the stop reason, or beside the usage.
_TOLD_IN_DELTA = ("stop_reason", "stop_sequence", "stop_details", "container")
_TOLD_BESIDE_DELTA = ("context_management", "input_transformations")

_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")

NO_CONTENT = "the upstream's reply has no content"


def frame(payload: Json) -> Frames:
    """One event; its name repeats the payload's type."""
    return (Frame(text_of(payload.get("type")), encode(payload)),)


def explode(body: Json) -> Frames:
    """The frames of the stream that has the same content as this whole reply."""
    return join_frames(frame(payload) for payload in payloads(body))


def payloads(body: Json) -> Iterator[Json]:
    """The payloads of the stream that has the same content as this whole reply."""
    if body.get("type") == "error" or ("error" in body and "content" not in body):
        yield {**body, "type": "error"}
        return
    if not isinstance(body.get("content"), list):
        # A body without content is no reply. To treat it as an empty answer would be a false success.
        yield {"type": "error", "error": {"type": "api_error", "message": NO_CONTENT}}
        return
    yield {"type": "message_start", "message": _start(body)}
    blocks = [block for block in list_of(body.get("content")) if isinstance(block, dict)]
    for index, block in enumerate(blocks):
        yield from _block_payloads(index, block)
    delta: Json = {name: body.get(name) for name in ("stop_reason", "stop_sequence")}
    delta |= {name: body[name] for name in _TOLD_IN_DELTA if body.get(name) is not None}
    ending: Json = {"type": "message_delta", "delta": delta}
    usage = object_of(body.get("usage"))
    ending["usage"] = {name: usage[name] for name in _COUNTS if name in usage}
    ending |= {name: body[name] for name in _TOLD_BESIDE_DELTA if body.get(name) is not None}
    yield ending
    yield {"type": "message_stop"}


def _start(body: Json) -> Json:
    """The reply before its first block: fields that come later are null or absent."""
    start: Json = {}
    for name, value in body.items():
        if name == "content":
            start[name] = []
        elif name in ("stop_reason", "stop_sequence", "stop_details"):
            start[name] = None
        elif value is None or name not in (*_TOLD_IN_DELTA, *_TOLD_BESIDE_DELTA):
            start[name] = value
    return start


def block_frames(index: int, block: Json) -> Frames:
    """The frames of one block."""
    return join_frames(frame(payload) for payload in _block_payloads(index, block))


def _block_payloads(index: int, block: Json) -> Iterator[Json]:
    start = dict(block)
    deltas = list(_EXPLODERS.get(text_of(block.get("type")), _explode_whole)(start))
    yield {"type": "content_block_start", "index": index, "content_block": start}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _explode_whole(start: Json) -> Iterator[Json]:
    yield from ()


def _explode_text(start: Json) -> Iterator[Json]:
    text, citations = start.get("text"), start.get("citations")
    start["text"] = ""
    if isinstance(citations, list):
        start["citations"] = []
        yield from ({"type": "citations_delta", "citation": citation} for citation in citations)
    if text:
        yield {"type": "text_delta", "text": text}


def _explode_thinking(start: Json) -> Iterator[Json]:
    thinking, signature = start.get("thinking"), start.get("signature")
    start |= {"thinking": "", "signature": ""}
    if thinking:
        yield {"type": "thinking_delta", "thinking": thinking}
    if signature:
        yield {"type": "signature_delta", "signature": signature}


def _explode_call(start: Json) -> Iterator[Json]:
    given = start.get("input")
    start["input"] = {}
    yield {"type": "input_json_delta", "partial_json": ""}
    if given:
        text = given if isinstance(given, str) else encode(given).decode()
        yield {"type": "input_json_delta", "partial_json": text}


def _explode_compaction(start: Json) -> Iterator[Json]:
    fields: Json = {name: start[name] for name in ("content", "encrypted_content") if name in start}
    start |= dict.fromkeys(fields)
    yield {"type": "compaction_delta", **fields}


_EXPLODERS: dict[str, Callable[[Json], Iterator[Json]]] = {
    "text": _explode_text,
    "thinking": _explode_thinking,
    "tool_use": _explode_call,
    "server_tool_use": _explode_call,
    "mcp_tool_use": _explode_call,
    "compaction": _explode_compaction,
}


def collect(frames: Iterable[Frame]) -> Json:
    """The whole reply that a client accumulates from this stream, or an error body if the stream failed."""
    collector = _Collector()
    for received in frames:
        try:
            payload = decode(received.data)
        except DragomanError:
            continue
        if isinstance(payload, dict):
            collector.feed(payload)
    return collector.body()


#: For each type of delta its field, and the field of the block that it extends.
_GROWING: dict[str, tuple[str, str]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "input"),
}


class _Collector:
    """Builds a whole message body from the event payloads of one stream: `feed` each, then `body`."""

    def __init__(self) -> None:
        self._message: Json = {}
        self._content: list[Json] = []
        #: The pieces of each field that grows, joined at the end: joining each at once takes quadratic time.
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._error: Json | None = None
        self._stopped = False

    def feed(self, payload: Json) -> None:
        handler = _COLLECTORS.get(text_of(payload.get("type")))
        if handler is not None and self._error is None:
            handler(self, payload)

    def body(self) -> Json:
        if self._error is not None:
            return self._error
        if not self._stopped:
            return write_error(Failure(kind="overloaded", message=TRUNCATED_MESSAGE))
        for (index, name), pieces in self._pieces.items():
            block, text = self._content[index], "".join(pieces)
            if name != "input":
                block[name] = text_of(block.get(name)) + text
            elif text:
                block[name] = build_input(text)
        return {**self._message, "content": self._content}

    def _start(self, payload: Json) -> None:
        self._message = object_of(payload.get("message"))

    def _open(self, payload: Json) -> None:
        self._content.append(object_of(payload.get("content_block")))

    def _grow(self, payload: Json) -> None:
        index, delta = payload.get("index"), object_of(payload.get("delta"))
        if type(index) is not int or not 0 <= index < len(self._content):
            return
        kind = text_of(delta.pop("type", None))
        if kind in _GROWING:
            delta_field, block_field = _GROWING[kind]
            self._pieces.setdefault((index, block_field), []).append(text_of(delta.get(delta_field)))
        elif kind == "citations_delta":
            block = self._content[index]
            block["citations"] = citations = list_of(block.get("citations"))
            citations.append(delta.get("citation"))
        else:
            self._content[index] |= delta

    def _end(self, payload: Json) -> None:
        usage = {**object_of(self._message.get("usage")), **object_of(payload.get("usage"))}
        self._message |= object_of(payload.get("delta"))
        self._message["usage"] = usage
        self._message |= {name: payload[name] for name in _TOLD_BESIDE_DELTA if name in payload}

    def _stop(self, payload: Json) -> None:
        self._stopped = True

    def _fail(self, payload: Json) -> None:
        self._error = payload


_COLLECTORS: dict[str, Callable[[_Collector, Json], None]] = {
    "message_start": _Collector._start,
    "content_block_start": _Collector._open,
    "content_block_delta": _Collector._grow,
    "message_delta": _Collector._end,
    "message_stop": _Collector._stop,
    "error": _Collector._fail,
}
