"""A recorded reply as events with times. The page shows the upstream's beside the client's."""

import re
from collections.abc import Sequence

import msgspec

from dragoman.wire.sse import RawEvents

#: Events that are listed.
MAX_EVENTS = 20_000

_EVENT_END = re.compile(rb"\r?\n\r?\n|\r\r")


class TimedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event. `at`: milliseconds from the beginning of the exchange to its last byte."""

    at: int
    event: str
    data: object


def list_events(content: bytes, pieces: Sequence[tuple[int, int]]) -> list[TimedEvent]:
    """The events of a stream, or one event for a whole reply. `pieces`: time and length of each."""
    if content.lstrip()[:1] in (b"{", b"["):
        return [TimedEvent(at=pieces[-1][0] if pieces else 0, event="", data=decode(content))]
    found: list[TimedEvent] = []
    start, arrived, piece = 0, 0, 0
    ends = [match.end() for match in _EVENT_END.finditer(content)]
    for end in [*ends, len(content)] if not ends or ends[-1] < len(content) else ends:
        while piece < len(pieces) and arrived < end:
            arrived += pieces[piece][1]
            piece += 1
        at = pieces[piece - 1][0] if piece else 0
        frames = list(RawEvents(content[start:end] + (b"" if end in ends else b"\n\n")))
        found += [TimedEvent(at=at, event=frame.event, data=decode(frame.data)) for frame in frames]
        start = end
        if len(found) >= MAX_EVENTS:
            break
    return found


def decode(content: bytes) -> object:
    """The JSON value, or the text if it is none."""
    try:
        return msgspec.json.decode(content)
    except (ValueError, RecursionError):
        return content.decode("utf-8", "replace")
