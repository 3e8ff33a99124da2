"""Forwarding: a stream of one dialect passes to a client of the same dialect without being rewritten.

`Forwarding` holds the rules of a dialect and has no state. `ForwardedEnding` belongs to one stream: it
writes the ending of a stream whose upstream broke off. `ReplyPatch` belongs to one reply: it replaces a few
members (the model's name, a response's id) in events that otherwise stay as they are.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from dragoman.dialects.interfaces import ClientContext
from dragoman.hub.events import ReplyFailed, ReplyStarted
from dragoman.hub.seal import PREFIX
from dragoman.wire.sse import Frame, Frames, SseReader, write_frame

if TYPE_CHECKING:
    from dragoman.dialects.dialect import Dialect

_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.encode

#: Member names and their new values, as JSON.
Changes = Mapping[str, bytes]


class RequestPeek(msgspec.Struct, frozen=True):
    """What forwarding must know of a request that is not read otherwise."""

    model: str
    stream: bool
    #: The client's stream must not contain the usage, although the upstream is asked for it.
    hides_usage: bool = False


class _Peeked(msgspec.Struct):
    model: object = ""
    stream: object = False
    stream_options: object = None


_peek = msgspec.json.Decoder(_Peeked).decode


def peek_members(body: bytes) -> tuple[str, bool, object] | None:
    """The members `model`, `stream` and `stream_options`; None if the dialect's reader must judge them."""
    try:
        peeked = _peek(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(peeked.model, str) and isinstance(peeked.stream, bool):
        return peeked.model, peeked.stream, peeked.stream_options
    return None


def replace_members(body: bytes, changes: Changes) -> bytes:
    """The JSON object with other values for these members. The bytes of all other values stay the same."""
    members = _read_members(body)
    members.update({name: msgspec.Raw(value) for name, value in changes.items()})
    return _encode(members)


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
        if self._mark not in events:
            return events
        patched: list[bytes] = []
        while self._is_repeated and self._known is None and (end := events.find(b"\n\n")) >= 0:
            # The first event with the member shows its value; the others need not be parsed.
            patched.append(self._patch_event(events[: end + 2]))
            events = events[end + 2 :]
        known = self._known
        if known is not None and events.count(known[0]) == events.count(self._mark):
            patched.append(events.replace(*known))
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


class ForwardedEnding:
    """The ending of one forwarded stream. It follows events of the upstream, so it must agree with them.

    This default is for dialects whose error event needs only the reply's identity. Its bytes are those of
    the dialect's stream writer (`_on_reply_failed`).
    """

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


class Forwarding:
    """The rules of one dialect. Subclasses override what differs; the defaults forward everything."""

    #: Bytes of the event that closes a complete stream, and that event, for upstreams that leave it out.
    closing_mark = b""
    closing_event = b""
    #: The member of an event's payload that holds the object with the reply's id and model.
    reply_path = ""
    #: Bytes that every event with that object contains.
    reply_mark = b'"model"'
    model_member = "model"
    #: Every event repeats the model's name, and that member's name can occur nowhere else in it.
    repeats_model = False
    #: How an envelope with foreign seals begins. A history that contains one cannot be forwarded.
    envelope_mark = PREFIX.encode()

    def peek(self, body: bytes) -> RequestPeek | None:
        """The model and `stream` of a request; None if the dialect's reader must judge the body."""
        found = peek_members(body)
        return RequestPeek(found[0], found[1]) if found else None

    def rename_model(self, body: bytes, model: str) -> bytes:
        """The request for another model; the bytes of all other values stay the same."""
        return replace_members(body, {"model": _encode(model)})

    def request_usage(self, body: bytes) -> bytes:
        """The request, which also asks for the usage, where the API needs to be asked."""
        return body

    def is_delta_run(self, events: bytes) -> bool:
        """Whether these whole events are deltas only, so that reading them would give nothing to record.

        A quote or a line end inside a JSON string is escaped, so no text of a model can imitate the marks.
        """
        return False

    def select(self, events: bytes, *, hides_usage: bool) -> bytes:
        """The events that a client of this dialect may receive."""
        return events

    def add_closing_event(self, last: bytes) -> bytes:
        """The closing event, if the `last` events of a complete stream lack it."""
        return b"" if self.closing_mark in last else self.closing_event

    def build_ending(self, dialect: "Dialect") -> ForwardedEnding:
        return ForwardedEnding(dialect)

    def build_patch(self, changes: Changes, members: Changes) -> ReplyPatch:
        """`changes` replace members of the reply's object that are present, `members` are always set."""
        return ReplyPatch(self.reply_path, self.reply_mark, changes, members, is_repeated=self.repeats_model)


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
