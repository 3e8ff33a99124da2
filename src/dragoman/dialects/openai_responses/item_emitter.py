"""What the emitters of all output items share: event numbers, the item's place, and templates of deltas."""

from abc import ABC, abstractmethod
from io import StringIO
from typing import NamedTuple

import msgspec

from dragoman.dialects.openai_responses.names import COMPLETED, FAILED, INCOMPLETE, omit
from dragoman.hub.blocks import Extras
from dragoman.hub.errors import UpstreamProtocolError
from dragoman.wire.fields import encode
from dragoman.wire.sse import Frame, Frames

_encode_text = msgspec.json.Encoder().encode
_encode_texts = msgspec.json.Encoder().encode_lines

#: The statuses that an upstream may give to a finished item; any other becomes `completed`.
_FINAL_STATUSES = (COMPLETED, INCOMPLETE, FAILED)
#: Members whose type clients rely on.
_MEMBER_TYPES: dict[str, type] = {"role": str, "logprobs": list}


class EventNumbering:
    """Builds the frames of one stream, with consecutive sequence numbers."""

    def __init__(self) -> None:
        self.next = 0

    def write(self, kind: str, members: Extras) -> Frames:
        return self.write_encoded(kind, encode(members, error_class=UpstreamProtocolError)[1:])

    def write_encoded(self, kind: str, members: bytes) -> Frames:
        """The frame of an event whose members, after the opening brace, are already encoded."""
        number = self.next
        self.next = number + 1
        return (Frame(kind, b'{"type":"%b","sequence_number":%d,%b' % (kind.encode(), number, members)),)


class ItemStart(NamedTuple):
    """What every item begins with. `extras`: its members, if the upstream is of this dialect."""

    events: EventNumbering
    output_index: int
    id: str
    extras: Extras


def _is_valid(name: str, value: object) -> bool:
    if name == "status":
        return value in _FINAL_STATUSES
    return isinstance(value, _MEMBER_TYPES.get(name, object))


def drop_invalid(members: Extras) -> Extras:
    """Members from an upstream of this dialect, without values that clients reject."""
    return {name: value for name, value in members.items() if _is_valid(name, value)}


class ItemEmitter:
    """What all items share."""

    def __init__(self, start: ItemStart) -> None:
        self._events, self._index, self._id, extras = start
        self.extras = drop_invalid(extras)
        #: The finished item, encoded.
        self.final = b""
        self._text = StringIO()
        self._delta_kind = ""
        self._head = self._middle = self._tail = b""

    def write_text(self, text: str) -> Frames:
        """The frame of a delta, from the template of `_start_text`."""
        self._text.write(text)
        events = self._events
        number = events.next
        events.next = number + 1
        data = b"%b%d%b%b%b" % (self._head, number, self._middle, _encode_text(text), self._tail)
        return (Frame(self._delta_kind, data),)

    def write_texts(self, texts: list[str]) -> Frames:
        """The frames of several deltas, none of them empty."""
        self._text.write("".join(texts))
        kind, head, middle, tail, events = (
            self._delta_kind,
            self._head,
            self._middle,
            self._tail,
            self._events,
        )
        first = events.next
        events.next = first + len(texts)
        values = _encode_texts(texts).split(b"\n")
        numbers = range(first, events.next)
        return tuple(
            [
                Frame(kind, b"%b%d%b%b%b" % (head, number, middle, value, tail))
                for number, value in zip(numbers, values, strict=False)
            ]
        )

    def _start_text(self, name: str, position: Extras, tail: bytes = b"}") -> None:
        kind = f"response.{name}.delta"
        self._text = StringIO()
        self._delta_kind = kind
        self._head = b'{"type":"%b","sequence_number":' % kind.encode()
        self._middle = b',%b,"delta":' % encode(self._locate(position))[1:-1]
        self._tail = tail

    def _locate(self, members: Extras) -> Extras:
        return {"item_id": self._id, "output_index": self._index, **members}

    def _write_event(self, name: str, members: Extras) -> Frames:
        """An event about this item."""
        return self._events.write(f"response.{name}", self._locate(members))

    def _write_added(self, item: Extras) -> Frames:
        return self._events.write("response.output_item.added", {"output_index": self._index, "item": item})

    def _write_done(self, item: Extras) -> Frames:
        self.final = encode(item, error_class=UpstreamProtocolError)
        members = b'"output_index":%d,"item":%b}' % (self._index, self.final)
        return self._events.write_encoded("response.output_item.done", members)


class GrowingItemEmitter(ItemEmitter, ABC):
    """An item that arrives in pieces. `open` comes first, `close` last."""

    @abstractmethod
    def open(self) -> Frames: ...

    @abstractmethod
    def build_unfinished(self) -> Extras | None:
        """The item with the content so far and the status `incomplete`; None if it cannot be shown."""

    @abstractmethod
    def close(self, extras: Extras) -> Frames:
        """The remaining events. `extras`: members of the item at its end, such as its status."""

    def close_unchanged(self, *, is_cut: bool = False) -> Frames:
        """Close the item with the members that it was opened with. `is_cut`: its status is `incomplete`."""
        members = omit(self.extras, ("status",))
        return self.close({**members, "status": INCOMPLETE} if is_cut else members)
