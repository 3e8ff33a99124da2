"""Output items on their way to a client: each kind climbs its own ladder of events.

An item is announced, grows by deltas, and is told whole at the end; its id and its place never change.
An item that is cut short is never told as done, because clients act on what is done.
"""

from typing import Final

import msgspec

from dragoman.dialects.openai_responses.calls import arguments_value
from dragoman.dialects.openai_responses.citations import spell_citation
from dragoman.dialects.openai_responses.reasoning import PART_TYPE, encrypted_content, spell_texts
from dragoman.dialects.openai_responses.vocabulary import CallItem
from dragoman.hub.content import Citation, Extras
from dragoman.hub.errors import UpstreamProtocolError
from dragoman.hub.seal import Seal
from dragoman.wire.fields import encode

_encode_text = msgspec.json.Encoder().encode

IN_PROGRESS: Final = "in_progress"
INCOMPLETE: Final = "incomplete"
COMPLETED: Final = "completed"


class Ladder:
    """Numbers and frames the events of one stream."""

    def __init__(self) -> None:
        self.sequence = 0

    def event(self, kind: str, fields: Extras) -> bytes:
        return self.frame(kind, encode(fields, blame=UpstreamProtocolError)[1:])

    def frame(self, kind: str, members: bytes) -> bytes:
        """An event whose members, after the first brace, are already written."""
        name = kind.encode()
        number = self.sequence
        self.sequence = number + 1
        return b'event: %b\ndata: {"type":"%b","sequence_number":%d,%b\n\n' % (name, name, number, members)


class ItemLadder:
    """What all items share. `extras` is what this dialect said of the item when it was announced."""

    def __init__(self, ladder: Ladder, index: int, item_id: str, extras: Extras) -> None:
        self.ladder = ladder
        self.index = index
        self.id = item_id
        self.extras = extras
        #: The finished item, written.
        self.final = b""
        self.texts: list[str] = []
        self._head = b""
        self._middle = b""
        self._tail = b""

    def snapshot(self) -> Extras | None:
        """The item as far as it got; None if it was never announced."""
        raise NotImplementedError

    def text(self, text: str) -> bytes:
        """A delta, by the template that `_grow` laid out."""
        self.texts.append(text)
        ladder = self.ladder
        number = ladder.sequence
        ladder.sequence = number + 1
        return b"%b%d%b%b%b" % (self._head, number, self._middle, _encode_text(text), self._tail)

    def _grow(self, kind: str, extra: Extras, tail: bytes = b"}\n\n") -> None:
        name = kind.encode()
        self.texts = []
        self._head = b'event: %b\ndata: {"type":"%b","sequence_number":' % (name, name)
        self._middle = b',%b,"delta":' % encode({**self._place(), **extra})[1:-1]
        self._tail = tail

    def _place(self) -> Extras:
        return {"item_id": self.id, "output_index": self.index}

    def _whole_text(self) -> str:
        if len(self.texts) > 1:
            self.texts = ["".join(self.texts)]
        return self.texts[0] if self.texts else ""

    def _added(self, item: Extras) -> bytes:
        return self.ladder.event("response.output_item.added", {"output_index": self.index, "item": item})

    def _done(self, item: Extras) -> bytes:
        self.final = encode(item, blame=UpstreamProtocolError)
        members = b'"output_index":%d,"item":%b}' % (self.index, self.final)
        return self.ladder.frame("response.output_item.done", members)


class MessageLadder(ItemLadder):
    """A message: one part after another, each text or refusal."""

    def __init__(self, ladder: Ladder, index: int, item_id: str, extras: Extras) -> None:
        super().__init__(ladder, index, item_id, extras)
        self._content: list[Extras] = []
        self._annotations: list[Extras | None] = []
        self._part_type = ""

    def _item(self, status: str, extras: Extras, content: list[Extras]) -> Extras:
        shape: Extras = {"type": "message", "status": status, "role": "assistant"}
        return {"id": self.id, **shape, **extras, "content": content}

    def open(self) -> bytes:
        item = self._item(IN_PROGRESS, self.extras, [])
        return self._added({**item, "id": self.id, "status": IN_PROGRESS})

    def open_part(self, part_type: str) -> bytes:
        self._part_type = part_type
        self._annotations = []
        place: Extras = {"content_index": len(self._content)}
        if part_type == "refusal":
            self._grow("response.refusal.delta", place)
        else:
            self._grow("response.output_text.delta", place, b',"logprobs":[]}\n\n')
        return self.ladder.event(
            "response.content_part.added", {**self._place(), **place, "part": self._part({})}
        )

    def whole_part(self, part: Extras) -> bytes:
        """A part that only this dialect knows."""
        place = {**self._place(), "content_index": len(self._content)}
        self._content.append(part)
        return self.ladder.event("response.content_part.added", {**place, "part": part}) + self.ladder.event(
            "response.content_part.done", {**place, "part": part}
        )

    def cite(self, citation: Citation, *, own: bool) -> bytes | None:
        """None if there is no way to say it."""
        annotation = spell_citation(citation, self._whole_text(), own=own)
        if annotation is None:
            return None
        self._annotations.append(annotation)
        place: Extras = {**self._place(), "content_index": len(self._content)}
        place["annotation_index"] = len(self._annotations) - 1
        return self.ladder.event("response.output_text.annotation.added", {**place, "annotation": annotation})

    def _part(self, extras: Extras) -> Extras:
        if self._part_type == "refusal":
            return {"type": "refusal", "refusal": self._whole_text(), **extras}
        shape: Extras = {"type": "output_text", "annotations": self._annotations, "logprobs": []}
        return {**shape, "text": self._whole_text(), **extras}

    def close_part(self, extras: Extras) -> bytes:
        part = self._part(extras)
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

    def close(self, extras: Extras) -> bytes:
        return self._done({**self._item(COMPLETED, extras, self._content), "id": self.id})

    def snapshot(self) -> Extras:
        content = [*self._content, self._part({})] if self._part_type else self._content
        return {**self._item(INCOMPLETE, self.extras, content), "id": self.id, "status": INCOMPLETE}


class ReasoningLadder(ItemLadder):
    """Thought, in parts: summaries, or (to clients that get it from this very dialect) thought itself."""

    def __init__(self, ladder: Ladder, index: int, item_id: str, extras: Extras, *, raw: bool) -> None:
        super().__init__(ladder, index, item_id, extras)
        self._field = "content" if raw else "summary"
        self._parts: list[str] = []
        self._part = -1
        self.redacted = False
        self.seal: Seal | None = None

    def _item(self, extras: Extras, parts: list[str]) -> Extras:
        item: Extras = {"id": self.id, "type": "reasoning", "summary": [], **extras}
        if parts or self._field == "content":
            item[self._field] = spell_texts(parts, PART_TYPE[self._field])
        return {**item, "id": self.id}

    def open(self) -> bytes:
        return self._added(self._item(self.extras, []))

    def thought(self, part: int, text: str) -> bytes:
        if part == self._part:
            return self.text(text)
        return self.close_part() + self._open_part(part) + self.text(text)

    def _index(self) -> Extras:
        return {"content_index" if self._field == "content" else "summary_index": len(self._parts)}

    def _spelled_part(self, text: str) -> Extras:
        return {"type": PART_TYPE[self._field], "text": text}

    def _open_part(self, part: int) -> bytes:
        self._part = part
        raw = self._field == "content"
        self._grow(f"response.{'reasoning_text' if raw else 'reasoning_summary_text'}.delta", self._index())
        kind = "response.content_part.added" if raw else "response.reasoning_summary_part.added"
        return self.ladder.event(kind, {**self._place(), **self._index(), "part": self._spelled_part("")})

    def close_part(self) -> bytes:
        if self._part < 0:
            return b""
        text = self._whole_text()
        place = {**self._place(), **self._index()}
        raw = self._field == "content"
        kind = f"response.{'reasoning_text' if raw else 'reasoning_summary_text'}.done"
        said = self.ladder.event(kind, {**place, "text": text})
        kind = "response.content_part.done" if raw else "response.reasoning_summary_part.done"
        said += self.ladder.event(kind, {**place, "part": self._spelled_part(text)})
        self._parts.append(text)
        self._part = -1
        return said

    def close(self, extras: Extras, *, with_seal: bool) -> bytes:
        said = self.close_part()
        item = self._item(extras, self._parts)
        if self.seal is not None and with_seal:
            item["encrypted_content"] = encrypted_content(self.seal, self._parts, redacted=self.redacted)
        return said + self._done(item)

    def carry(self, encrypted: str) -> bytes:
        """An item that holds nothing but an envelope."""
        return self.open() + self._done({**self._item({}, []), "encrypted_content": encrypted})

    def snapshot(self) -> Extras:
        parts = [*self._parts, self._whole_text()] if self._part >= 0 else self._parts
        return self._item(self.extras, parts)


class CallLadder(ItemLadder):
    """A call for the client. Arguments that are an object in the item can only be told whole."""

    def __init__(self, ladder: Ladder, index: int, item_id: str, extras: Extras, call: CallItem) -> None:
        super().__init__(ladder, index, item_id, extras)
        self._call = call
        self.named: Extras = {}

    def _item(self, status: str, extras: Extras, arguments: object) -> Extras:
        shape: Extras = {"id": self.id, "type": self._call.item, "status": status}
        shape |= extras or self._call.extras
        return {**shape, **self.named, self._call.field: arguments, "id": self.id}

    def open(self) -> bytes:
        if not self._call.text:
            return b""
        self._grow(f"response.{self._stem()}.delta", {})
        return self._added({**self._item(IN_PROGRESS, self.extras, ""), "status": IN_PROGRESS})

    def _stem(self) -> str:
        return f"{self._call.item}_{self._call.field}"

    def text(self, text: str) -> bytes:
        if self._call.text:
            return super().text(text)
        self.texts.append(text)
        return b""

    def close(self, extras: Extras) -> bytes:
        text = self._whole_text()
        item = self._item(COMPLETED, extras, arguments_value(text, self._call, own=bool(extras)))
        if not self._call.text:
            return self._added({**item, "status": IN_PROGRESS}) + self._done(item)
        if item["status"] == INCOMPLETE:
            return self._done(item)
        fields = {**self._place(), self._call.field: text}
        return self.ladder.event(f"response.{self._stem()}.done", fields) + self._done(item)

    def snapshot(self) -> Extras | None:
        if not self._call.text:
            return None
        return {**self._item(INCOMPLETE, self.extras, self._whole_text()), "status": INCOMPLETE}


class WholeLadder(ItemLadder):
    """An item that the vendor made by itself: announced, its steps, done."""

    def climb(self, item: Extras, steps: tuple[str, ...]) -> bytes:
        item = {**item, "id": self.id}
        begun = {**item, "status": IN_PROGRESS} if "status" in item else item
        said = [self._added(begun)]
        kind = item.get("type")
        said += [self.ladder.event(f"response.{kind}.{step}", self._place()) for step in steps]
        return b"".join(said) + self._done(item)
