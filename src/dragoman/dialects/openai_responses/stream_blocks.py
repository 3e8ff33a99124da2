"""Writes the events of output items, one class for each kind of item.

An item is added, grows by deltas, and is written whole when it is done. Its id and its position never
change. Clients act on completed items, so an item that is cut short is written as incomplete, or never as
done.
"""

from abc import ABC, abstractmethod
from io import StringIO
from typing import Final

import msgspec

from dragoman.dialects.openai_responses.citations import write_citation
from dragoman.dialects.openai_responses.names import CallFormat, build_arguments
from dragoman.dialects.openai_responses.reasoning import (
    PART_TYPE,
    read_texts,
    write_encrypted,
    write_texts,
)
from dragoman.hub.content import Citation, Extras
from dragoman.hub.errors import UpstreamProtocolError
from dragoman.hub.seal import Seal
from dragoman.wire.fields import encode
from dragoman.wire.sse import Frame, Frames, join_frames

_encode_text = msgspec.json.Encoder().encode

IN_PROGRESS: Final = "in_progress"
INCOMPLETE: Final = "incomplete"
COMPLETED: Final = "completed"


class EventNumbering:
    """Builds the frames of one stream, with consecutive sequence numbers."""

    def __init__(self) -> None:
        self.sequence = 0

    def build_event(self, kind: str, fields: Extras) -> Frames:
        return self.build_frame(kind, encode(fields, blame=UpstreamProtocolError)[1:])

    def build_frame(self, kind: str, members: bytes) -> Frames:
        """The frame of an event whose fields, after the opening brace, are already encoded."""
        name = kind.encode()
        number = self.sequence
        self.sequence = number + 1
        return (Frame(kind, b'{"type":"%b","sequence_number":%d,%b' % (name, number, members)),)


#: The statuses that an upstream may give to a finished item; any other becomes `completed`.
ENDS = (COMPLETED, INCOMPLETE, "failed")
#: Fields whose type clients rely on.
MEMBER_TYPES: dict[str, type] = {"role": str, "logprobs": list}


def drop_invalid_fields(extras: Extras) -> Extras:
    """The fields of an item from an upstream of this dialect, without values that clients reject."""
    kept: Extras = {}
    for name, value in extras.items():
        expected = MEMBER_TYPES.get(name)
        if name == "status":
            if value in ENDS:
                kept[name] = value
        elif expected is None or isinstance(value, expected):
            kept[name] = value
    return kept


class ItemEmitter:
    """What all items share. `extras` are the item's fields when it was added, from this dialect."""

    def __init__(self, events: EventNumbering, index: int, item_id: str, extras: Extras) -> None:
        self.events = events
        self.index = index
        self.id = item_id
        self.extras = drop_invalid_fields(extras)
        #: The finished item, encoded.
        self.final = b""
        self._text = StringIO()
        self._length = 0
        self._kind = ""
        self._head = b""
        self._middle = b""
        self._tail = b""

    def write_text(self, text: str) -> Frames:
        """The frame of a delta, from the template of `_start_text`."""
        self._text.write(text)
        self._length += len(text)
        events = self.events
        number = events.sequence
        events.sequence = number + 1
        data = b"%b%d%b%b%b" % (self._head, number, self._middle, _encode_text(text), self._tail)
        return (Frame(self._kind, data),)

    def _start_text(self, kind: str, extra: Extras, tail: bytes = b"}") -> None:
        name = kind.encode()
        self._text = StringIO()
        self._length = 0
        self._kind = kind
        self._head = b'{"type":"%b","sequence_number":' % name
        self._middle = b',%b,"delta":' % encode({**self._build_place(), **extra})[1:-1]
        self._tail = tail

    def _build_place(self) -> Extras:
        return {"item_id": self.id, "output_index": self.index}

    @property
    def is_empty(self) -> bool:
        return not self._length

    def _build_added(self, item: Extras) -> Frames:
        return self.events.build_event(
            "response.output_item.added", {"output_index": self.index, "item": item}
        )

    def _build_done(self, item: Extras) -> Frames:
        self.final = encode(item, blame=UpstreamProtocolError)
        members = b'"output_index":%d,"item":%b}' % (self.index, self.final)
        return self.events.build_frame("response.output_item.done", members)


class GrowingItemEmitter(ItemEmitter, ABC):
    """An item that arrives in pieces."""

    @abstractmethod
    def snapshot(self) -> Extras | None:
        """The item so far; None if it was never added."""

    @abstractmethod
    def close(self, extras: Extras) -> Frames:
        """The remaining events. `extras`: fields of the item at its end, such as its status."""


class MessageEmitter(GrowingItemEmitter):
    """A message: parts one after another, each a text or a refusal."""

    def __init__(self, events: EventNumbering, index: int, item_id: str, extras: Extras) -> None:
        super().__init__(events, index, item_id, extras)
        self._content: list[Extras] = []
        self._annotations: list[Extras | None] = []
        self._part_type = ""

    def _build_item(self, status: str, extras: Extras, content: list[Extras]) -> Extras:
        shape: Extras = {"type": "message", "status": status, "role": "assistant"}
        return {"id": self.id, **shape, **extras, "content": content}

    def open(self) -> Frames:
        item = self._build_item(IN_PROGRESS, self.extras, [])
        return self._build_added({**item, "id": self.id, "status": IN_PROGRESS})

    def open_part(self, part_type: str) -> Frames:
        self._part_type = part_type
        self._annotations = []
        place: Extras = {"content_index": len(self._content)}
        if part_type == "refusal":
            self._start_text("response.refusal.delta", place)
        else:
            self._start_text("response.output_text.delta", place, b',"logprobs":[]}')
        return self.events.build_event(
            "response.content_part.added", {**self._build_place(), **place, "part": self._build_part({})}
        )

    def write_part(self, part: Extras) -> Frames:
        """The events of a part that only this dialect knows."""
        place = {**self._build_place(), "content_index": len(self._content)}
        self._content.append(part)
        return self.events.build_event(
            "response.content_part.added", {**place, "part": part}
        ) + self.events.build_event("response.content_part.done", {**place, "part": part})

    def cite(self, citation: Citation, *, own: bool) -> Frames | None:
        """The event of a citation; None if this dialect cannot express it."""
        annotation = write_citation(citation, self._length, own=own)
        if annotation is None:
            return None
        self._annotations.append(annotation)
        place: Extras = {**self._build_place(), "content_index": len(self._content)}
        place["annotation_index"] = len(self._annotations) - 1
        return self.events.build_event(
            "response.output_text.annotation.added", {**place, "annotation": annotation}
        )

    def _build_part(self, extras: Extras) -> Extras:
        if self._part_type == "refusal":
            return {"type": "refusal", "refusal": self._text.getvalue(), **extras}
        shape: Extras = {"type": "output_text", "annotations": self._annotations, "logprobs": []}
        return {**shape, "text": self._text.getvalue(), **extras}

    def close_part(self, extras: Extras) -> Frames:
        part = self._build_part(drop_invalid_fields(extras))
        place: Extras = {**self._build_place(), "content_index": len(self._content)}
        self._content.append(part)
        self._part_type = ""
        if part["type"] == "refusal":
            frames = self.events.build_event("response.refusal.done", {**place, "refusal": part["refusal"]})
        else:
            frames = self.events.build_event(
                "response.output_text.done", {**place, "text": part["text"], "logprobs": part["logprobs"]}
            )
        return frames + self.events.build_event("response.content_part.done", {**place, "part": part})

    def close(self, extras: Extras) -> Frames:
        return self._build_done(
            {**self._build_item(COMPLETED, drop_invalid_fields(extras), self._content), "id": self.id}
        )

    def snapshot(self) -> Extras:
        content = [*self._content, self._build_part({})] if self._part_type else self._content
        return {**self._build_item(INCOMPLETE, self.extras, content), "id": self.id, "status": INCOMPLETE}


#: The names of parts and events, for summaries and for thoughts themselves.
PART_INDEX = {"summary": "summary_index", "content": "content_index"}
PART_EVENT = {"summary": "reasoning_summary_part", "content": "content_part"}
TEXT_EVENT = {"summary": "reasoning_summary_text", "content": "reasoning_text"}


class ReasoningEmitter(GrowingItemEmitter):
    """A thought in parts: summaries, or the thought itself if it comes from this dialect."""

    def __init__(
        self, events: EventNumbering, index: int, item_id: str, extras: Extras, *, raw: bool
    ) -> None:
        super().__init__(events, index, item_id, extras)
        self._field = "content" if raw else "summary"
        self._texts: dict[str, list[str]] = {"summary": [], "content": []}
        self._part = -1
        self.redacted = False
        self.is_foreign = False
        self.with_seal = True
        self.seal: Seal | None = None

    def _build_item(self, extras: Extras, *, unfinished: str = "") -> Extras:
        item: Extras = {"id": self.id, "type": "reasoning", **extras, "summary": []}
        for field, texts in self._texts.items():
            more = [unfinished] if unfinished and field == self._field else []
            if texts or more or (field == self._field == "content"):
                item[field] = write_texts([*texts, *more], PART_TYPE[field])
        return {**item, "id": self.id}

    def open(self) -> Frames:
        return self._build_added(self._build_item(self.extras))

    def write_thought(self, part: int, text: str) -> Frames:
        if part == self._part:
            return self.write_text(text)
        return self.close_part() + self._open_part(part) + self.write_text(text)

    def _build_index(self) -> Extras:
        return {PART_INDEX[self._field]: len(self._texts[self._field])}

    def _open_part(self, part: int) -> Frames:
        self._part = part
        self._start_text(f"response.{TEXT_EVENT[self._field]}.delta", self._build_index())
        part_json = {"type": PART_TYPE[self._field], "text": ""}
        kind = f"response.{PART_EVENT[self._field]}.added"
        return self.events.build_event(
            kind, {**self._build_place(), **self._build_index(), "part": part_json}
        )

    def close_part(self) -> Frames:
        if self._part < 0:
            return ()
        self._part = -1
        text = self._text.getvalue()
        place = {**self._build_place(), **self._build_index()}
        self._texts[self._field].append(text)
        frames = self.events.build_event(f"response.{TEXT_EVENT[self._field]}.done", {**place, "text": text})
        part = {"type": PART_TYPE[self._field], "text": text}
        return frames + self.events.build_event(
            f"response.{PART_EVENT[self._field]}.done", {**place, "part": part}
        )

    def close(self, extras: Extras) -> Frames:
        frames = self.close_part()
        parts = self._texts[self._field]
        rest = drop_invalid_fields(extras)
        frames += self._write_other_form("content" if self._field == "summary" else "summary", rest)
        item = self._build_item(rest)
        if self.with_seal and (self.seal is not None or self.is_foreign):
            item["encrypted_content"] = write_encrypted(self.seal, parts, redacted=self.redacted)
        return frames + self._build_done(item)

    def _write_other_form(self, field: str, extras: Extras) -> Frames:
        """The events of the other form of the thought, which was held back until the end."""
        texts = read_texts(extras.get(field), PART_TYPE[field])
        if extras.get(field) is not None:
            del extras[field]
        own_field, self._field = self._field, field
        frames = join_frames(self.write_thought(number, text) for number, text in enumerate(texts) if text)
        frames += self.close_part()
        self._field = own_field
        return frames

    def write_envelope_item(self, encrypted: str) -> Frames:
        """The events of an item that holds only an envelope."""
        return self.open() + self._build_done({**self._build_item({}), "encrypted_content": encrypted})

    def snapshot(self) -> Extras:
        return self._build_item(self.extras, unfinished=self._text.getvalue() if self._part >= 0 else "")


class CallEmitter(GrowingItemEmitter):
    """A call for the client. Arguments that are an object in the item are written whole at the end."""

    def __init__(
        self, events: EventNumbering, index: int, item_id: str, extras: Extras, call: CallFormat
    ) -> None:
        super().__init__(events, index, item_id, extras)
        self._call = call
        self.is_foreign = False
        self.named: Extras = {}

    def _build_item(self, status: str, extras: Extras, arguments: object) -> Extras:
        shape: Extras = {"id": self.id, "type": self._call.item, "status": status}
        shape |= {**extras, **self._call.constants}
        return {**shape, **self.named, self._call.field: arguments, "id": self.id}

    def open(self) -> Frames:
        if not self._call.is_text:
            return ()
        self._start_text(f"response.{self._event_name()}.delta", {})
        return self._build_added({**self._build_item(IN_PROGRESS, self.extras, ""), "status": IN_PROGRESS})

    def _event_name(self) -> str:
        return f"{self._call.item}_{self._call.field}"

    def write_text(self, text: str) -> Frames:
        if self._call.is_text:
            return super().write_text(text)
        self._text.write(text)
        return ()

    def close(self, extras: Extras) -> Frames:
        status = drop_invalid_fields(extras).get("status", COMPLETED)
        frames: Frames = ()
        if self.is_foreign and self.is_empty and self._call.kind == "function" and status == COMPLETED:
            # Empty arguments are not JSON, and client libraries fail on them.
            frames = self.write_text("{}")
        text = self._text.getvalue()
        value = build_arguments(text, self._call, own=not self.is_foreign)
        if not self._call.is_text and not isinstance(value, dict):
            value = build_arguments(text, self._call, own=False)
        item = self._build_item(COMPLETED, drop_invalid_fields(extras), value)
        if not self._call.is_text:
            return self._build_added({**item, "status": IN_PROGRESS}) + self._build_done(item)
        if status != INCOMPLETE:
            fields = {**self._build_place(), self._call.field: text}
            frames += self.events.build_event(f"response.{self._event_name()}.done", fields)
        return frames + self._build_done(item)

    def snapshot(self) -> Extras | None:
        if not self._call.is_text:
            return None
        return {**self._build_item(INCOMPLETE, self.extras, self._text.getvalue()), "status": INCOMPLETE}


class WholeItemEmitter(ItemEmitter):
    """An item that OpenAI made by itself: added, its steps, done."""

    def emit(self, item: Extras, steps: tuple[str, ...]) -> Frames:
        item = {**item, "id": self.id}
        added = {**item, "status": IN_PROGRESS} if "status" in item else item
        frames = [self._build_added(added)]
        kind = item.get("type")
        frames += [self.events.build_event(f"response.{kind}.{step}", self._build_place()) for step in steps]
        return join_frames(frames) + self._build_done(item)
