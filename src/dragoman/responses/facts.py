"""What the gateway decides about a response, and how a finished response is taken from its frames."""

from collections.abc import Iterable

import msgspec

from dragoman.responses.stored import Members, members_of
from dragoman.wire.sse import Frame

#: The events that end a stream.
TERMINAL_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})
ITEM_DONE = "response.output_item.done"
#: Bytes of finished items that are kept; they are needed only if the last event leaves them out.
MAX_ITEMS = 16 * 1024 * 1024

_encode = msgspec.json.encode
_read_text = msgspec.json.Decoder(str).decode


class ResponseFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a response that the gateway decides, not the upstream."""

    id: str
    previous: str = ""
    store: bool = True
    background: bool = False

    def encode_members(self) -> dict[str, bytes]:
        """The members as JSON. The reply's writer, or the patch of a forwarded reply, sets them."""
        members: dict[str, object] = {
            "id": self.id,
            "previous_response_id": self.previous or None,
            "store": self.store,
            "background": self.background,
        }
        return {name: _encode(value) for name, value in members.items()}

    def apply(self, response: Members) -> Members:
        """A response that the gateway builds itself, with these members."""
        return {**response, **{name: msgspec.Raw(value) for name, value in self.encode_members().items()}}


class ResponseCollector:
    """Takes the finished response from the frames of one stream. `response` is set by the last event."""

    #: Whether other events than the last one change.
    changes_stream = False

    def __init__(self, facts: ResponseFacts) -> None:
        self.facts = facts
        self.response: Members | None = None
        self._items: list[msgspec.Raw] = []
        self._size = 0

    def process(self, frame: Frame) -> Iterable[Frame]:
        """One frame in, the frames for the client out. Only the last event can change."""
        if frame.event == ITEM_DONE:
            self._keep_item(frame)
        elif frame.event in TERMINAL_EVENTS:
            return (self._finish(frame),)
        return (frame,)

    def process_whole(self, response: Members) -> Members:
        """A response that is not streamed."""
        return complete_response(response)

    def _keep_item(self, frame: Frame) -> None:
        if self._size > MAX_ITEMS:
            return
        try:
            item = bytes(members_of(frame.data)["item"])
        except (ValueError, KeyError, RecursionError):
            return
        self._size += len(item)
        self._items.append(msgspec.Raw(item))

    def _finish(self, frame: Frame) -> Frame:
        try:
            payload = members_of(frame.data)
            response = members_of(payload["response"])
        except (ValueError, KeyError, RecursionError):
            return frame
        self.response = completed = self._complete(response)
        if completed == response:
            return frame
        payload["response"] = msgspec.Raw(_encode(completed))
        return Frame(frame.event, _encode(payload))

    def _complete(self, response: Members) -> Members:
        """Some servers send the items only while they stream, and leave them out of the last event."""
        if self._items and bytes(response.get("output", b"")) in (b"", b"[]", b"null"):
            response = {**response, "output": msgspec.Raw(_encode(self._items))}
        return complete_response(response)


def complete_response(response: Members) -> Members:
    """The response with a status, a list of items and a usage, which may be empty."""
    if bytes(response.get("output", b""))[:1] != b"[":
        response = {**response, "output": msgspec.Raw(b"[]")}
    return {**_DEFAULTS, **response}


def replace_response(frame: Frame, response: Members) -> Frame:
    """The last event with another response."""
    payload = members_of(frame.data)
    payload["response"] = msgspec.Raw(_encode(response))
    return Frame(frame.event, _encode(payload))


def read_event_name(frame: Frame, payload: Members) -> str:
    """The event's name; servers that leave out `event:` have it in the payload's `type`."""
    return frame.event or _read_text(payload["type"])


_DEFAULTS: Members = {
    name: msgspec.Raw(value)
    for name, value in (("status", b'"completed"'), ("created_at", b"0"), ("usage", b"null"))
}
