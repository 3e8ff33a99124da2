"""Writes the events of output items, one class for each kind of item.

An item is added, grows by deltas, and is written whole when it is done. Its id and its index never change.
Clients act on completed items, so an item that is cut short is written as incomplete, or never as done.
Deltas are byte templates, because nearly the whole stream consists of them.
"""

from typing import NamedTuple

from dragoman.dialects.openai_responses.citations import write_citation
from dragoman.dialects.openai_responses.hosted import STEPS
from dragoman.dialects.openai_responses.item_emitter import (
    GrowingItemEmitter,
    ItemEmitter,
    ItemStart,
    drop_invalid,
)
from dragoman.dialects.openai_responses.names import (
    COMPLETED,
    FAILED,
    IN_PROGRESS,
    INCOMPLETE,
    CallFormat,
    build_arguments,
)
from dragoman.dialects.openai_responses.reasoning import PART_TYPE, read_texts, write_encrypted, write_texts
from dragoman.hub.blocks import Citation, Extras, Reasoning, ToolCall
from dragoman.wire.sse import Frames, join_frames


class MessageEmitter(GrowingItemEmitter):
    """A message: parts one after another, each a text or a refusal."""

    def __init__(self, start: ItemStart) -> None:
        super().__init__(start)
        self._content: list[Extras] = []
        self._annotations: list[Extras] = []
        #: `output_text` or `refusal` while a part is open.
        self._part_type = ""

    def _build_item(self, extras: Extras, content: list[Extras]) -> Extras:
        item: Extras = {"id": "", "type": "message", "status": COMPLETED, "role": "assistant", **extras}
        return {**item, "id": self._id, "content": content}

    def open(self) -> Frames:
        return self._write_added(self._build_item({**self.extras, "status": IN_PROGRESS}, []))

    def _find_position(self) -> Extras:
        return {"content_index": len(self._content)}

    def open_part(self, part_type: str) -> Frames:
        self._part_type = part_type
        self._annotations = []
        position = self._find_position()
        self._start_text(part_type, position, b"}" if part_type == "refusal" else b',"logprobs":[]}')
        return self._write_event("content_part.added", {**position, "part": self._build_part({})})

    def write_part(self, part: Extras) -> Frames:
        """The events of a part that only this dialect knows."""
        members = {**self._find_position(), "part": part}
        self._content.append(part)
        return self._write_event("content_part.added", members) + self._write_event(
            "content_part.done", members
        )

    def cite(self, citation: Citation, *, same_dialect: bool) -> Frames | None:
        """The event of a citation; None if this dialect cannot express it."""
        annotation = write_citation(citation, self._text.tell(), same_dialect=same_dialect)
        if annotation is None:
            return None
        position = {**self._find_position(), "annotation_index": len(self._annotations)}
        self._annotations.append(annotation)
        return self._write_event("output_text.annotation.added", {**position, "annotation": annotation})

    def _build_part(self, extras: Extras) -> Extras:
        text = self._text.getvalue()
        if self._part_type == "refusal":
            return {"type": "refusal", "refusal": text, **extras}
        part: Extras = {"type": "output_text", "annotations": self._annotations, "logprobs": []}
        return {**part, "text": text, **extras}

    def close_part(self, extras: Extras) -> Frames:
        part_type = self._part_type
        part, position = self._build_part(drop_invalid(extras)), self._find_position()
        self._content.append(part)
        self._part_type = ""
        names = ("refusal",) if part_type == "refusal" else ("text", "logprobs")
        values = {name: part[name] for name in names}
        return self._write_event(f"{part_type}.done", {**position, **values}) + self._write_event(
            "content_part.done", {**position, "part": part}
        )

    def close(self, extras: Extras) -> Frames:
        return self._write_done(self._build_item(drop_invalid(extras), self._content))

    def build_unfinished(self) -> Extras:
        content = [*self._content, self._build_part({})] if self._part_type else self._content
        return self._build_item({**self.extras, "status": INCOMPLETE}, content)


class _ReasoningEvents(NamedTuple):
    """The names of events and indexes for one form of reasoning."""

    part: str
    text: str
    position: str


_REASONING_EVENTS = {
    "summary": _ReasoningEvents("reasoning_summary_part", "reasoning_summary_text", "summary_index"),
    "content": _ReasoningEvents("content_part", "reasoning_text", "content_index"),
}


class ReasoningEmitter(GrowingItemEmitter):
    """Reasoning in parts: summaries, or the reasoning itself if it comes from this dialect."""

    def __init__(self, start: ItemStart, block: Reasoning, *, same_dialect: bool, with_seal: bool) -> None:
        super().__init__(start)
        self._field = "content" if same_dialect and block.raw else "summary"
        self._texts: dict[str, list[str]] = {"summary": [], "content": []}
        #: The number of the open part in the hub's block; -1 if none is open.
        self._part = -1
        self._same_dialect = same_dialect
        self._with_seal = with_seal
        self._redacted = block.redacted
        self.seal = block.seal

    def _build_item(self, extras: Extras, *, unfinished: str = "") -> Extras:
        item: Extras = {"id": "", "type": "reasoning", **extras, "summary": []}
        item["id"] = self._id
        for field, finished in self._texts.items():
            is_current = field == self._field
            texts = [*finished, unfinished] if unfinished and is_current else finished
            if texts or (is_current and field == "content"):
                item[field] = write_texts(texts, PART_TYPE[field])
        return item

    def open(self) -> Frames:
        return self._write_added(self._build_item(self.extras))

    def write_part_text(self, part: int, text: str) -> Frames:
        if part == self._part:
            return self.write_text(text)
        return self._close_part() + self._open_part(part) + self.write_text(text)

    def write_texts(self, texts: list[str]) -> Frames:
        # The first text may begin the part. A run has no other part.
        first, rest = self.write_part_text(0, texts[0]), texts[1:]
        return first + super().write_texts(rest) if rest else first

    def _build_part_event(self, text: str) -> Extras:
        part = {"type": PART_TYPE[self._field], "text": text}
        return {**self._find_position(), "part": part}

    def _find_position(self) -> Extras:
        return {_REASONING_EVENTS[self._field].position: len(self._texts[self._field])}

    def _open_part(self, part: int) -> Frames:
        self._part = part
        events = _REASONING_EVENTS[self._field]
        self._start_text(events.text, self._find_position())
        return self._write_event(f"{events.part}.added", self._build_part_event(""))

    def _close_part(self) -> Frames:
        if self._part < 0:
            return ()
        self._part = -1
        text, events = self._text.getvalue(), _REASONING_EVENTS[self._field]
        frames = self._write_event(f"{events.text}.done", {**self._find_position(), "text": text})
        frames += self._write_event(f"{events.part}.done", self._build_part_event(text))
        self._texts[self._field].append(text)
        return frames

    def close(self, extras: Extras) -> Frames:
        frames = self._close_part()
        members = drop_invalid(extras)
        frames += self._write_other_form(members)
        item = self._build_item(members)
        if self._with_seal and (self.seal is not None or not self._same_dialect):
            parts = self._texts[self._field]
            item["encrypted_content"] = write_encrypted(self.seal, parts, redacted=self._redacted)
        return frames + self._write_done(item)

    def _write_other_form(self, members: Extras) -> Frames:
        """The events of the other form of the reasoning, which the reader kept in the extras."""
        field = self._field
        other = "content" if field == "summary" else "summary"
        texts = read_texts(members.get(other), PART_TYPE[other])
        if members.get(other) is not None:
            del members[other]
        self._field = other
        frames = join_frames(self.write_part_text(number, text) for number, text in enumerate(texts) if text)
        frames += self._close_part()
        self._field = field
        return frames

    def emit_envelope(self, envelope: str) -> Frames:
        """The events of an item that holds only an envelope."""
        return self.open() + self._write_done({**self._build_item({}), "encrypted_content": envelope})

    def build_unfinished(self) -> Extras:
        return self._build_item(self.extras, unfinished=self._text.getvalue() if self._part >= 0 else "")


class CallEmitter(GrowingItemEmitter):
    """A call for the client. Arguments that are an object in the item are written whole at the end."""

    def __init__(
        self, start: ItemStart, block: ToolCall, call: CallFormat, call_id: str, *, same_dialect: bool
    ) -> None:
        super().__init__(start)
        self._call = call
        self._same_dialect = same_dialect
        #: White space at the beginning of the arguments. Alone it is not JSON.
        self._blank = ""
        self.call_id = call_id
        self._named: Extras = {"call_id": call_id}
        if not call.name:
            self._named["name"] = block.name
        if block.namespace:
            self._named["namespace"] = block.namespace

    def _build_item(self, extras: Extras, arguments: object) -> Extras:
        item: Extras = {"id": "", "type": self._call.item, "status": COMPLETED, **extras}
        item |= {**self._call.constants, **self._named, self._call.field: arguments}
        return {**item, "id": self._id}

    def open(self) -> Frames:
        if not self._call.is_text:
            return ()
        self._start_text(self._find_event_name(), {})
        return self._write_added(self._build_item({**self.extras, "status": IN_PROGRESS}, ""))

    def _find_event_name(self) -> str:
        return f"{self._call.item}_{self._call.field}"

    def write_text(self, text: str) -> Frames:
        if self._call.kind == "function" and not self._text.tell():
            text, self._blank = self._blank + text, ""
            if not text.strip():
                self._blank = text
                return ()
        if self._call.is_text:
            return super().write_text(text)
        self._text.write(text)
        return ()

    def write_texts(self, texts: list[str]) -> Frames:
        if self._text.tell() and self._call.is_text:
            return super().write_texts(texts)
        return join_frames(map(self.write_text, texts))

    def close(self, extras: Extras) -> Frames:
        members = drop_invalid(extras)
        status = members.get("status", COMPLETED)
        frames: Frames = ()
        is_missing = self._call.kind == "function" and status == COMPLETED and not self._text.tell()
        has_blank, self._blank = bool(self._blank), ""
        if is_missing and (has_blank or not self._same_dialect):
            # Empty arguments are not JSON, and client libraries fail on them.
            frames = self.write_text("{}")
        text = self._text.getvalue()
        arguments = build_arguments(text, self._call, same_dialect=self._same_dialect)
        if not self._call.is_text and not isinstance(arguments, dict):
            arguments = build_arguments(text, self._call, same_dialect=False)
        item = self._build_item(members, arguments)
        if not self._call.is_text:
            return self._write_added({**item, "status": IN_PROGRESS}) + self._write_done(item)
        if status != INCOMPLETE:
            frames += self._write_event(f"{self._find_event_name()}.done", {self._call.field: text})
        return frames + self._write_done(item)

    def build_unfinished(self) -> Extras | None:
        if not self._call.is_text:
            return None
        return self._build_item({**self.extras, "status": INCOMPLETE}, self._text.getvalue())


class HostedItemEmitter(ItemEmitter):
    """A whole item of a tool that the vendor ran: added, its steps, done."""

    def emit(self, item: Extras) -> Frames:
        """The frames of the whole item."""
        kind = str(item.get("type"))
        steps = STEPS.get(kind, ())
        if item.get("status") == FAILED:
            steps = (*steps[:-1], FAILED) if kind.startswith("mcp_") else steps[:-1]
        item = {**item, "id": self._id}
        added = {**item, "status": IN_PROGRESS} if "status" in item else item
        frames = self._write_added(added)
        frames += join_frames(self._write_event(f"{kind}.{step}", {}) for step in steps)
        return frames + self._write_done(item)
