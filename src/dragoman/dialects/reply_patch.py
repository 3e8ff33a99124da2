"""Replaces a few members of a forwarded reply (the model's name, a response's id). All else stays."""

from collections.abc import Iterator, Mapping

import msgspec

from dragoman.wire.sse import Frame, SseReader, write_frame

_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.encode

#: Member names and their new values, as JSON.
Changes = Mapping[str, bytes]


class ReplyPatch:
    """Replaces members of the object that describes the reply, in whole bodies and in events.

    `path` leads to that object (`response`, `message`; empty: the payload itself). `changes` replace members
    that are present, `members` are set in any case. `mark` are bytes that every event with the object
    contains. `is_repeated`: every event has the object, and the member's name occurs nowhere else in it.
    """

    def __init__(
        self, path: str, mark: bytes, changes: Changes, members: Changes, *, is_repeated: bool = False
    ) -> None:
        self._path = path
        self._is_repeated = is_repeated
        self._mark = mark
        self._changes = {name: msgspec.Raw(value) for name, value in changes.items()}
        self._members = {name: msgspec.Raw(value) for name, value in members.items()}
        #: The changed members as the upstream wrote them last, and what they become.
        self._known: tuple[bytes, bytes] | None = None

    def apply(self, events: bytes) -> bytes:
        """Patch whole server-sent events."""
        if events.find(self._mark) < 0:
            return events
        patched: list[bytes] = []
        while self._is_repeated and self._known is None and (end := events.find(b"\n\n")) >= 0:
            # The first event with the member shows its value; the others need not be parsed.
            patched.append(self._patch_event(events[: end + 2]))
            events = events[end + 2 :]
        known = self._known
        parts = events.split(known[0]) if known is not None else ()
        if known is not None and len(parts) == events.count(self._mark) + 1:
            patched.append(known[1].join(parts))
        elif b"\r" in events:
            patched += map(self._patch_event, _split_events(events))
        else:
            patched += self._patch_marked(events)
        return b"".join(patched)

    def _patch_marked(self, events: bytes) -> Iterator[bytes]:
        """Patch the events with the mark. The bytes between them stay as they are."""
        start = 0
        while (mark := events.find(self._mark, start)) >= 0:
            begin = events.rfind(b"\n\n", start, mark) + 2
            begin = start if begin < 2 else begin
            end = events.find(b"\n\n", mark) + 2
            end = len(events) if end < 2 else end
            yield events[start:begin]
            yield self._patch_event(events[begin:end])
            start = end
        yield events[start:]

    def apply_to_body(self, body: bytes) -> bytes:
        """Patch a whole reply. A body that is no JSON object stays as it is."""
        try:
            return _encode(self._patch(_read_members(body)))
        except (ValueError, RecursionError):
            return body

    def _patch_event(self, event: bytes) -> bytes:
        if self._mark not in event:
            return event
        patched = [self._patch_frame(frame) for frame in SseReader().feed(event)]
        return b"".join([write_frame(frame.data, frame.event) for frame in patched])

    def _patch_frame(self, frame: Frame) -> Frame:
        try:
            payload = _read_members(frame.data)
            if self._path:
                if self._path in payload:
                    payload[self._path] = msgspec.Raw(
                        _encode(self._patch(_read_members(payload[self._path])))
                    )
            else:
                payload = self._patch(payload)
        except (ValueError, RecursionError):
            return frame
        return Frame(frame.event, _encode(payload))

    def _patch(self, members: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
        present = {name: value for name, value in self._changes.items() if name in members}
        if self._is_repeated and len(present) == 1 and not self._members:
            ((name, value),) = present.items()
            key = b'"%b":' % name.encode()
            self._known = (key + bytes(members[name]), key + bytes(value))
        return {**members, **present, **self._members}


def _split_events(events: bytes) -> Iterator[bytes]:
    """Each event with its blank line."""
    for event in events.replace(b"\r\n", b"\n").split(b"\n\n"):
        if event:
            yield event + b"\n\n"
