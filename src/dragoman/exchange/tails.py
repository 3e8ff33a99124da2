"""The ending that a forwarded stream gets when its upstream breaks off without one.

It stands behind events that somebody else wrote, so it must agree with them.
"""

import re
from collections.abc import Iterator

import msgspec

from dragoman.dialects.base import Audience, Dialect
from dragoman.hub.events import ReplyFailed, ReplyStarted
from dragoman.wire.sse import Frames, SseReader, encode_sse, write_frame

#: What is kept of finished items, in bytes.
MAX_KEPT = 4 * 1024 * 1024

_ITEM_DONE = "response.output_item.done"
#: The event that closes a whole reply, and how it is known.
_CLOSING = {
    "anthropic": (b'"message_stop"', write_frame(b'{"type":"message_stop"}', "message_stop")),
    "openai_chat": (b"[DONE]", write_frame(b"[DONE]")),
}
#: What stands before the last event of a response that failed.
_TOLD = frozenset({"response.created", "error"})
_SEQUENCE = re.compile(rb'"sequence_number": ?(\d{1,15})')


class Tail:
    """For dialects whose error needs to know nothing of what came before but the reply's identity."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def note(self, events: bytes) -> None:
        """Events that are no deltas pass."""

    def closing(self, last: bytes) -> bytes:
        """What must follow the `last` events of a whole reply whose upstream left out the very last."""
        mark, word = _CLOSING.get(self._dialect.name, (b"", b""))
        return b"" if mark in last else word

    def tells_failure(self, events: bytes) -> bool:
        """Whether the upstream itself says in these events that it failed."""
        return any(map(_is_failure, _payloads(events)))

    def has_last_word(self, events: bytes) -> bool:
        """Whether nothing has to follow a failure that is told in these events."""
        return True

    def write(
        self, failed: ReplyFailed, started: ReplyStarted | None, last: bytes, *, is_told: bool = False
    ) -> bytes:
        """The ending; `last` are the events before it. What `is_told` is not told twice."""
        return encode_sse(self._frames(failed, started))

    def _frames(self, failed: ReplyFailed, started: ReplyStarted | None) -> Frames:
        writer = self._dialect.stream_writer(Audience(upstream=self._dialect.name))
        if started is not None:
            writer.write(started)
        return writer.write(failed)


class ResponsesTail(Tail):
    """Responses number their events, and the last one repeats every item that was finished."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self._kept: list[bytes] = []
        self._size = 0

    def note(self, events: bytes) -> None:
        if _ITEM_DONE.encode() in events and self._size < MAX_KEPT:
            self._kept.append(events)
            self._size += len(events)

    def has_last_word(self, events: bytes) -> bool:
        return any(map(_has_failed, _payloads(events)))

    def write(
        self, failed: ReplyFailed, started: ReplyStarted | None, last: bytes, *, is_told: bool = False
    ) -> bytes:
        numbers = _SEQUENCE.findall(last)
        number = int(numbers[-1]) + 1 if numbers else 0
        said: list[bytes] = []
        for frame in self._frames(failed, started):
            if not frame.event:
                said.append(write_frame(frame.data))
                continue
            if is_told and frame.event in _TOLD:
                continue
            payload = msgspec.json.decode(frame.data)
            payload["sequence_number"] = number
            number += 1
            if "response" in payload and frame.event != "response.created":
                payload["response"]["output"] = self._items()
            said.append(write_frame(msgspec.json.encode(payload), frame.event))
        return b"".join(said)

    def _items(self) -> list[object]:
        items = []
        for frame in SseReader().feed(b"".join(self._kept)):
            try:
                payload = msgspec.json.decode(frame.data) if frame.event == _ITEM_DONE else None
            except (ValueError, RecursionError):
                continue
            if isinstance(payload, dict) and isinstance(payload.get("item"), dict):
                items.append(payload["item"])
        return items


def _payloads(events: bytes) -> Iterator[dict[str, object]]:
    """The objects in these events; Gemini may wrap one in a list."""
    for frame in SseReader().feed(events):
        try:
            payload = msgspec.json.decode(frame.data)
        except (ValueError, RecursionError):
            continue
        for each in payload if isinstance(payload, list) else (payload,):
            if isinstance(each, dict):
                yield each


def _is_failure(payload: dict[str, object]) -> bool:
    return bool(payload.get("error")) or payload.get("type") == "error" or _has_failed(payload)


def _has_failed(payload: dict[str, object]) -> bool:
    """The last event of a response that failed."""
    response = payload.get("response")
    status = response.get("status") if isinstance(response, dict) else None
    return status in ("failed", "cancelled") or payload.get("type") == "response.failed"


def tail_of(dialect: Dialect) -> Tail:
    return ResponsesTail(dialect) if dialect.name == "openai_responses" else Tail(dialect)
