"""What the gateway says about a response in place of the upstream: its id, and what is kept of it.

Only the few events that carry the whole response are touched; all others pass as they are.
"""

import msgspec

from dragoman.hub.errors import DragomanError
from dragoman.responses.stored import Members, members_of
from dragoman.wire.sse import Frame, SseReader, write_frame

#: The events that end a stream.
LAST_WORDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
#: No text of an answer can look like these: a quote inside a JSON text is escaped.
_CARRIES_RESPONSE = b'"response"'
_ITEM_DONE = b"response.output_item.done"
_BETWEEN = b"\n\n"
#: What is kept of finished items, in bytes; they matter only if the last event leaves them out.
MAX_ITEMS = 16 * 1024 * 1024

_encode = msgspec.json.encode
_text = msgspec.json.Decoder(str).decode


class Label(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    previous: str = ""
    store: bool = True
    background: bool = False

    def on(self, response: Members) -> Members:
        """The response with what the gateway has to say about it."""
        said = {
            "id": self.id,
            "previous_response_id": self.previous or None,
            "store": self.store,
            "background": self.background,
        }
        return {**response, **{name: msgspec.Raw(_encode(value)) for name, value in said.items()}}


class Labelling:
    """Labels one stream. `last` is the response of its last event, once that has passed."""

    def __init__(self, label: Label) -> None:
        self.label = label
        self.last: Members | None = None
        self._items: list[msgspec.Raw] = []
        self._size = 0

    def feed(self, events: bytes) -> bytes:
        """Whole events in, whole events out. A fast upstream gives many at once, and few of them matter."""
        response, item = events.find(_CARRIES_RESPONSE), events.find(_ITEM_DONE)
        if response < 0 and item < 0:
            return events
        if b"\r" in events:
            return self._events(events)
        told: list[bytes] = []
        at = 0
        while response >= 0 or item >= 0:
            mark = min(place for place in (response, item) if place >= 0)
            before = events.rfind(_BETWEEN, at, mark)
            begins = at if before < 0 else before + len(_BETWEEN)
            told.append(events[at:begins])
            ends = events.find(_BETWEEN, mark)
            at = len(events) if ends < 0 else ends + len(_BETWEEN)
            told.append(self._events(events[begins:at]))
            if 0 <= response < at:
                response = events.find(_CARRIES_RESPONSE, at)
            if 0 <= item < at:
                item = events.find(_ITEM_DONE, at)
        told.append(events[at:])
        return b"".join(told)

    def _events(self, events: bytes) -> bytes:
        reader = SseReader()
        try:
            frames = [*reader.feed(events), *reader.close()]
        except DragomanError:
            return events
        return b"".join(self._frame(frame) for frame in frames)

    def whole(self, response: Members) -> Members:
        """A response that comes all at once."""
        return _sound(self.label.on(response))

    def _frame(self, frame: Frame) -> bytes:
        try:
            payload = members_of(frame.data)
            kind = frame.event or _text(payload["type"])
            if kind == _ITEM_DONE.decode():
                self._note(payload["item"])
            elif "response" in payload:
                response = self.label.on(members_of(payload["response"]))
                if kind in LAST_WORDS:
                    self.last = response = self._whole(response)
                payload["response"] = msgspec.Raw(_encode(response))
                return write_frame(_encode(payload), frame.event)
        except (ValueError, KeyError, RecursionError):
            pass
        return write_frame(frame.data, frame.event)

    def _note(self, item: msgspec.Raw) -> None:
        self._size += len(item)
        if self._size <= MAX_ITEMS:
            self._items.append(msgspec.Raw(bytes(item)))

    def _whole(self, response: Members) -> Members:
        """Some servers tell the items only while they stream."""
        if self._items and bytes(response.get("output", b"")) in (b"", b"[]", b"null"):
            response = {**response, "output": msgspec.Raw(_encode(self._items))}
        return _sound(response)


def _sound(response: Members) -> Members:
    """What is kept has a status, a list of items and a usage, be they empty."""
    if bytes(response.get("output", b""))[:1] != b"[":
        response = {**response, "output": msgspec.Raw(b"[]")}
    return {**_MISSING, **response}


_MISSING: Members = {
    name: msgspec.Raw(value)
    for name, value in (("status", b'"completed"'), ("created_at", b"0"), ("usage", b"null"))
}
