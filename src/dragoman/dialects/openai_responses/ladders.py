"""Output items on their way to a client: each kind climbs its own ladder of events.

An item is announced, grows by deltas, and is told whole at the end; its id and its place never change.
Clients act on what is completed, so an item that was cut short is told as incomplete, or not as done at all.
"""

from abc import ABC, abstractmethod
from io import StringIO
from typing import Final

import msgspec

from dragoman.dialects.openai_responses.calls import arguments_value
from dragoman.dialects.openai_responses.citations import spell_citation
from dragoman.dialects.openai_responses.reasoning import PART_TYPE, encrypted_content, spell_texts, texts_of
from dragoman.dialects.openai_responses.vocabulary import CallItem
from dragoman.hub.content import Citation, Extras
from dragoman.hub.errors import UpstreamProtocolError
from dragoman.hub.seal import Seal
from dragoman.wire.fields import encode
from dragoman.wire.sse import Frame, Frames, join_frames

_encode_text = msgspec.json.Encoder().encode

IN_PROGRESS: Final = "in_progress"
INCOMPLETE: Final = "incomplete"
COMPLETED: Final = "completed"


class Ladder:
    """Numbers and frames the events of one stream."""

    def __init__(self) -> None:
        self.sequence = 0

    def event(self, kind: str, fields: Extras) -> Frames:
        return self.frame(kind, encode(fields, blame=UpstreamProtocolError)[1:])

    def frame(self, kind: str, members: bytes) -> Frames:
        """An event whose members, after the first brace, are already written."""
        name = kind.encode()
        number = self.sequence
        self.sequence = number + 1
        return (Frame(kind, b'{"type":"%b","sequence_number":%d,%b' % (name, number, members)),)


#: What may be said of a finished item by who made it; for anything else it is completed.
ENDS = (COMPLETED, INCOMPLETE, "failed")
#: Members that readers take for granted, by the type they have.
MEMBER_TYPES: dict[str, type] = {"role": str, "logprobs": list}


def fitting(extras: Extras) -> Extras:
    """What an upstream of this dialect said of an item, without what no reader would accept."""
    kept: Extras = {}
    for name, value in extras.items():
        expected = MEMBER_TYPES.get(name)
        if name == "status":
            if value in ENDS:
                kept[name] = value
        elif expected is None or isinstance(value, expected):
            kept[name] = value
    return kept


class ItemLadder:
    """What all items share. `extras` is what this dialect said of the item when it was announced."""

    def __init__(self, ladder: Ladder, index: int, item_id: str, extras: Extras) -> None:
        self.ladder = ladder
        self.index = index
        self.id = item_id
        self.extras = fitting(extras)
        #: The finished item, written.
        self.final = b""
        self._text = StringIO()
        self._length = 0
        self._kind = ""
        self._head = b""
        self._middle = b""
        self._tail = b""

    def text(self, text: str) -> Frames:
        """A delta, by the template that `_grow` laid out."""
        self._text.write(text)
        self._length += len(text)
        ladder = self.ladder
        number = ladder.sequence
        ladder.sequence = number + 1
        data = b"%b%d%b%b%b" % (self._head, number, self._middle, _encode_text(text), self._tail)
        return (Frame(self._kind, data),)

    def _grow(self, kind: str, extra: Extras, tail: bytes = b"}") -> None:
        name = kind.encode()
        self._text = StringIO()
        self._length = 0
        self._kind = kind
        self._head = b'{"type":"%b","sequence_number":' % name
        self._middle = b',%b,"delta":' % encode({**self._place(), **extra})[1:-1]
        self._tail = tail

    def _place(self) -> Extras:
        return {"item_id": self.id, "output_index": self.index}

    @property
    def is_empty(self) -> bool:
        return not self._length

    def _added(self, item: Extras) -> Frames:
        return self.ladder.event("response.output_item.added", {"output_index": self.index, "item": item})

    def _done(self, item: Extras) -> Frames:
        self.final = encode(item, blame=UpstreamProtocolError)
        members = b'"output_index":%d,"item":%b}' % (self.index, self.final)
        return self.ladder.frame("response.output_item.done", members)


class GrowingLadder(ItemLadder, ABC):
    """An item that comes piece by piece, and may be asked what it is before it is whole."""

    @abstractmethod
    def snapshot(self) -> Extras | None:
        """The item as far as it got; None if it was never announced."""

    @abstractmethod
    def close(self, extras: Extras) -> Frames:
        """The rest of its events. `extras`: what is said of the item now that it ends, such as its status."""


class MessageLadder(GrowingLadder):
    """A message: one part after another, each text or refusal."""

    def __init__(self, ladder: Ladder, index: int, item_id: str, extras: Extras) -> None:
        super().__init__(ladder, index, item_id, extras)
        self._content: list[Extras] = []
        self._annotations: list[Extras | None] = []
        self._part_type = ""

    def _item(self, status: str, extras: Extras, content: list[Extras]) -> Extras:
        shape: Extras = {"type": "message", "status": status, "role": "assistant"}
        return {"id": self.id, **shape, **extras, "content": content}

    def open(self) -> Frames:
        item = self._item(IN_PROGRESS, self.extras, [])
        return self._added({**item, "id": self.id, "status": IN_PROGRESS})

    def open_part(self, part_type: str) -> Frames:
        self._part_type = part_type
        self._annotations = []
        place: Extras = {"content_index": len(self._content)}
        if part_type == "refusal":
            self._grow("response.refusal.delta", place)
        else:
            self._grow("response.output_text.delta", place, b',"logprobs":[]}')
        return self.ladder.event(
            "response.content_part.added", {**self._place(), **place, "part": self._part({})}
        )

    def whole_part(self, part: Extras) -> Frames:
        """A part that only this dialect knows."""
        place = {**self._place(), "content_index": len(self._content)}
        self._content.append(part)
        return self.ladder.event("response.content_part.added", {**place, "part": part}) + self.ladder.event(
            "response.content_part.done", {**place, "part": part}
        )

    def cite(self, citation: Citation, *, own: bool) -> Frames | None:
        """None if there is no way to say it."""
        annotation = spell_citation(citation, self._length, own=own)
        if annotation is None:
            return None
        self._annotations.append(annotation)
        place: Extras = {**self._place(), "content_index": len(self._content)}
        place["annotation_index"] = len(self._annotations) - 1
        return self.ladder.event("response.output_text.annotation.added", {**place, "annotation": annotation})

    def _part(self, extras: Extras) -> Extras:
        if self._part_type == "refusal":
            return {"type": "refusal", "refusal": self._text.getvalue(), **extras}
        shape: Extras = {"type": "output_text", "annotations": self._annotations, "logprobs": []}
        return {**shape, "text": self._text.getvalue(), **extras}

    def close_part(self, extras: Extras) -> Frames:
        part = self._part(fitting(extras))
        place: Extras = {**self._place(), "content_index": len(self._content)}
        self._content.append(part)
        self._part_type = ""
        if part["type"] == "refusal":
            said = self.ladder.event("response.refusal.done", {**place, "refusal": part["refusal"]})
        else:
            said = self.ladder.event(
                "response.output_text.done", {**place, "text": part["text"], "logprobs": part["logprobs"]}
            )
        return said + self.ladder.event("response.content_part.done", {**place, "part": part})

    def close(self, extras: Extras) -> Frames:
        return self._done({**self._item(COMPLETED, fitting(extras), self._content), "id": self.id})

    def snapshot(self) -> Extras:
        content = [*self._content, self._part({})] if self._part_type else self._content
        return {**self._item(INCOMPLETE, self.extras, content), "id": self.id, "status": INCOMPLETE}


#: How each form of thought names its parts.
PART_INDEX = {"summary": "summary_index", "content": "content_index"}
PART_EVENT = {"summary": "reasoning_summary_part", "content": "content_part"}
TEXT_EVENT = {"summary": "reasoning_summary_text", "content": "reasoning_text"}


class ReasoningLadder(GrowingLadder):
    """Thought, in parts: summaries, or (to clients that get it from this very dialect) thought itself."""

    def __init__(self, ladder: Ladder, index: int, item_id: str, extras: Extras, *, raw: bool) -> None:
        super().__init__(ladder, index, item_id, extras)
        self._field = "content" if raw else "summary"
        self._told: dict[str, list[str]] = {"summary": [], "content": []}
        self._part = -1
        self.redacted = False
        self.is_foreign = False
        self.with_seal = True
        self.seal: Seal | None = None

    def _item(self, extras: Extras, *, unfinished: str = "") -> Extras:
        item: Extras = {"id": self.id, "type": "reasoning", **extras, "summary": []}
        for field, texts in self._told.items():
            more = [unfinished] if unfinished and field == self._field else []
            if texts or more or (field == self._field == "content"):
                item[field] = spell_texts([*texts, *more], PART_TYPE[field])
        return {**item, "id": self.id}

    def open(self) -> Frames:
        return self._added(self._item(self.extras))

    def thought(self, part: int, text: str) -> Frames:
        if part == self._part:
            return self.text(text)
        return self.close_part() + self._open_part(part) + self.text(text)

    def _index(self) -> Extras:
        return {PART_INDEX[self._field]: len(self._told[self._field])}

    def _open_part(self, part: int) -> Frames:
        self._part = part
        self._grow(f"response.{TEXT_EVENT[self._field]}.delta", self._index())
        spelled = {"type": PART_TYPE[self._field], "text": ""}
        kind = f"response.{PART_EVENT[self._field]}.added"
        return self.ladder.event(kind, {**self._place(), **self._index(), "part": spelled})

    def close_part(self) -> Frames:
        if self._part < 0:
            return ()
        self._part = -1
        text = self._text.getvalue()
        place = {**self._place(), **self._index()}
        self._told[self._field].append(text)
        said = self.ladder.event(f"response.{TEXT_EVENT[self._field]}.done", {**place, "text": text})
        part = {"type": PART_TYPE[self._field], "text": text}
        return said + self.ladder.event(f"response.{PART_EVENT[self._field]}.done", {**place, "part": part})

    def close(self, extras: Extras) -> Frames:
        said = self.close_part()
        parts = self._told[self._field]
        rest = fitting(extras)
        said += self._tell_aside("content" if self._field == "summary" else "summary", rest)
        item = self._item(rest)
        if self.with_seal and (self.seal is not None or self.is_foreign):
            item["encrypted_content"] = encrypted_content(self.seal, parts, redacted=self.redacted)
        return said + self._done(item)

    def _tell_aside(self, field: str, extras: Extras) -> Frames:
        """What was set aside while the thought was told in its other form."""
        texts = texts_of(extras.get(field), PART_TYPE[field])
        if extras.get(field) is not None:
            del extras[field]
        own_field, self._field = self._field, field
        said = join_frames(self.thought(number, text) for number, text in enumerate(texts) if text)
        said += self.close_part()
        self._field = own_field
        return said

    def carry(self, encrypted: str) -> Frames:
        """An item that holds nothing but an envelope."""
        return self.open() + self._done({**self._item({}), "encrypted_content": encrypted})

    def snapshot(self) -> Extras:
        return self._item(self.extras, unfinished=self._text.getvalue() if self._part >= 0 else "")


class CallLadder(GrowingLadder):
    """A call for the client. Arguments that are an object in the item can only be told whole."""

    def __init__(self, ladder: Ladder, index: int, item_id: str, extras: Extras, call: CallItem) -> None:
        super().__init__(ladder, index, item_id, extras)
        self._call = call
        self.is_foreign = False
        self.named: Extras = {}

    def _item(self, status: str, extras: Extras, arguments: object) -> Extras:
        shape: Extras = {"id": self.id, "type": self._call.item, "status": status}
        shape |= {**extras, **self._call.extras}
        return {**shape, **self.named, self._call.field: arguments, "id": self.id}

    def open(self) -> Frames:
        if not self._call.text:
            return ()
        self._grow(f"response.{self._stem()}.delta", {})
        return self._added({**self._item(IN_PROGRESS, self.extras, ""), "status": IN_PROGRESS})

    def _stem(self) -> str:
        return f"{self._call.item}_{self._call.field}"

    def text(self, text: str) -> Frames:
        if self._call.text:
            return super().text(text)
        self._text.write(text)
        return ()

    def close(self, extras: Extras) -> Frames:
        status = fitting(extras).get("status", COMPLETED)
        said: Frames = ()
        if self.is_foreign and self.is_empty and self._call.kind == "function" and status == COMPLETED:
            # No arguments at all is not JSON, and client libraries stumble over it.
            said = self.text("{}")
        text = self._text.getvalue()
        value = arguments_value(text, self._call, own=not self.is_foreign)
        if not self._call.text and not isinstance(value, dict):
            value = arguments_value(text, self._call, own=False)
        item = self._item(COMPLETED, fitting(extras), value)
        if not self._call.text:
            return self._added({**item, "status": IN_PROGRESS}) + self._done(item)
        if status != INCOMPLETE:
            fields = {**self._place(), self._call.field: text}
            said += self.ladder.event(f"response.{self._stem()}.done", fields)
        return said + self._done(item)

    def snapshot(self) -> Extras | None:
        if not self._call.text:
            return None
        return {**self._item(INCOMPLETE, self.extras, self._text.getvalue()), "status": INCOMPLETE}


class WholeLadder(ItemLadder):
    """An item that the vendor made by itself: announced, its steps, done."""

    def climb(self, item: Extras, steps: tuple[str, ...]) -> Frames:
        item = {**item, "id": self.id}
        begun = {**item, "status": IN_PROGRESS} if "status" in item else item
        said = [self._added(begun)]
        kind = item.get("type")
        said += [self.ladder.event(f"response.{kind}.{step}", self._place()) for step in steps]
        return join_frames(said) + self._done(item)
