"""The ending of a forwarded stream whose upstream broke off or reported a failure."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from dragoman.dialects.interfaces import ClientContext
from dragoman.hub.events import ReplyFailed, ReplyStarted
from dragoman.wire.sse import Frames, SseReader

if TYPE_CHECKING:
    from dragoman.dialects.dialect import Dialect


class ForwardedEnding:
    """The ending of one forwarded stream. It follows events of the upstream, so it must agree with them.

    This default is for dialects whose error event needs only the reply's identity. Its bytes are those of
    the dialect's stream writer (`_on_reply_failed`).
    """

    #: Bytes of the events that `write` must get as `last`; empty if it needs none.
    last_mark = b""

    def __init__(self, dialect: "Dialect") -> None:
        self._dialect = dialect

    def note(self, events: bytes) -> None:
        """Remember what the ending has to repeat. Called with all events that are no deltas."""

    def has_failure(self, events: bytes) -> bool:
        """Whether the upstream itself reports in these events that it failed."""
        return any(map(self.is_failure, read_payloads(events)))

    def is_failure(self, payload: dict[str, object]) -> bool:
        """Whether this payload of an event reports a failure."""
        return bool(payload.get("error")) or payload.get("type") == "error"

    def is_complete(self, events: bytes) -> bool:
        """Whether nothing has to follow a failure that these events report."""
        return True

    def write(
        self, failed: ReplyFailed, started: ReplyStarted | None, last: bytes, *, is_reported: bool = False
    ) -> Frames:
        """The ending of a failed stream. `last` are the events before it.

        `is_reported`: the upstream has reported the failure; only the closing event is missing.
        """
        writer = self._dialect.stream_writer(ClientContext(upstream=self._dialect.name))
        if started is not None:
            writer.write(started)
        return writer.write(failed)


def read_payloads(events: bytes) -> Iterator[dict[str, object]]:
    """The JSON objects in these events; Gemini may wrap one in a list."""
    for frame in SseReader().feed(events):
        try:
            payload = msgspec.json.decode(frame.data)
        except (ValueError, RecursionError):
            continue
        for each in payload if isinstance(payload, list) else (payload,):
            if isinstance(each, dict):
                yield each
