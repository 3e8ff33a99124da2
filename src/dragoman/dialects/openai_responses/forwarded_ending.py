"""The ending of a forwarded Responses stream that fails: a numbered event that repeats all finished items."""

import re
from typing import TYPE_CHECKING

import msgspec

from dragoman.dialects.forwarded_ending import ForwardedEnding, read_payloads
from dragoman.hub.events import ReplyFailed, ReplyStarted
from dragoman.wire.sse import Frame, Frames

if TYPE_CHECKING:
    from dragoman.dialects.dialect import Dialect

#: Bytes of finished items that an ending keeps to repeat them.
MAX_KEPT = 4 * 1024 * 1024

_ITEM_DONE = "response.output_item.done"
#: Events that an ending does not repeat after the upstream has reported the failure itself.
_REPORTED = frozenset({"response.created", "error"})
_SEQUENCE_NUMBER = re.compile(rb'"sequence_number": ?(\d{1,15})')


class ResponsesEnding(ForwardedEnding):
    """Events are numbered, and the last one repeats every item that was finished."""

    last_mark = b'"sequence_number"'

    def __init__(self, dialect: "Dialect") -> None:
        super().__init__(dialect)
        self._kept: list[bytes] = []
        self._size = 0

    def note(self, events: bytes) -> None:
        if _ITEM_DONE.encode() in events and self._size < MAX_KEPT:
            self._kept.append(events)
            self._size += len(events)

    def is_failure(self, payload: dict[str, object]) -> bool:
        return super().is_failure(payload) or _is_failed_response(payload)

    def is_complete(self, events: bytes) -> bool:
        return any(map(_is_failed_response, read_payloads(events)))

    def write(
        self, failed: ReplyFailed, started: ReplyStarted | None, last: bytes, *, is_reported: bool = False
    ) -> Frames:
        numbers = _SEQUENCE_NUMBER.findall(last)
        number = int(numbers[-1]) + 1 if numbers else 0
        frames: list[Frame] = []
        for frame in super().write(failed, started, last):
            if not frame.event:
                frames.append(frame)
                continue
            if is_reported and frame.event in _REPORTED:
                continue
            payload = msgspec.json.decode(frame.data)
            payload["sequence_number"] = number
            number += 1
            if "response" in payload and frame.event != "response.created":
                payload["response"]["output"] = self._read_items()
            frames.append(Frame(frame.event, msgspec.json.encode(payload)))
        return tuple(frames)

    def _read_items(self) -> list[object]:
        payloads = read_payloads(b"".join(self._kept))
        done = (payload.get("item") for payload in payloads if payload.get("type") == _ITEM_DONE)
        return [item for item in done if isinstance(item, dict)]


def _is_failed_response(payload: dict[str, object]) -> bool:
    """Whether this is the last event of a failed response."""
    response = payload.get("response")
    status = response.get("status") if isinstance(response, dict) else None
    return status in ("failed", "cancelled") or payload.get("type") == "response.failed"
