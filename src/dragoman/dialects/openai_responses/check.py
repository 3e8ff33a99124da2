"""Judges a stream by this dialect's grammar, as its strictest readers would: the vendor's SDK, AI SDK, Codex.

Written from the documented grammar and sharing nothing with our reader and writer, so that a mistake there
cannot hide here. What an event must hold is a table; what it may follow is the judge's memory of open items.
"""

from collections.abc import Callable

import msgspec

from dragoman.dialects.base import Json, Violation
from dragoman.dialects.openai_responses.check_shapes import (
    EVENT_FIELDS,
    INCOMPLETE_REASONS,
    ITEM_FIELDS,
    ITEM_PREFIXES,
    ITEMS_WITH_STATUS,
    RESPONSE_FIELDS,
    STATUS_OF_LIFECYCLE,
    TEXT_EVENTS,
    USAGE_FIELDS,
    TextEvent,
    complaints_about,
    is_step,
)
from dragoman.hub.errors import DragomanError
from dragoman.wire.sse import Frame, SseReader


class OpenPart:
    """A part, or a call's arguments, while its text arrives."""

    def __init__(self, index: int, part_type: str) -> None:
        self.index = index
        self.part_type = part_type
        self.texts: list[str] = []
        self.annotations: list[object] = []
        self.is_told = False


class OpenItem:
    def __init__(self, index: int, item: Json) -> None:
        self.index = index
        self.item = item
        self.id = item.get("id")
        self.type = str(item.get("type"))
        #: Finished parts by the field of the item that lists them.
        self.parts: dict[str, list[object]] = {"content": [], "summary": []}
        self.part: OpenPart | None = None
        is_call = self.type in ("function_call", "custom_tool_call")
        self.arguments = OpenPart(0, self.type) if is_call else None


class Judge:
    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self._frame = 0
        self._sequence = 0
        self._response_id: object = None
        self._begun = False
        self._erred = False
        self._ended = False
        self._closed = False
        self._open: OpenItem | None = None
        self._done: list[Json] = []
        self._ids: set[str] = set()
        self._call_ids: set[tuple[str, str]] = set()

    def blame(self, message: str) -> None:
        self.violations.append(Violation(self._frame, message))

    def frame(self, frame: Frame) -> None:
        self._frame += 1
        if frame.data.strip() == b"[DONE]":
            if not self._ended or self._closed:
                self.blame("[DONE] out of place")
            self._closed = True
            return
        try:
            payload = msgspec.json.decode(frame.data)
        except (ValueError, RecursionError):
            payload = None
        if not isinstance(payload, dict):
            self.blame("the data is not a JSON object")
            return
        if self._ended:
            self.blame("an event after the terminal event")
            return
        kind = payload.get("type")
        if not isinstance(kind, str):
            self.blame("an event without a type")
            return
        if frame.event != kind:
            self.blame(f"the event name is not the type {kind}")
        if payload.get("sequence_number") != self._sequence:
            self.blame(f"expected sequence_number {self._sequence}")
        self._sequence += 1
        self._event(kind, payload)

    def _event(self, kind: str, payload: Json) -> None:
        fields = EVENT_FIELDS.get(kind)
        if fields is None and not is_step(kind):
            self.blame(f"{kind} is not an event of this dialect")
            return
        for complaint in complaints_about(payload, fields or EVENT_FIELDS["step"]):
            self.blame(f"{kind}: {complaint}")
            return
        if not self._begun and kind not in ("response.created", "response.queued"):
            self.blame(f"{kind} before response.created")
            return
        if self._erred and kind != "response.failed":
            self.blame(f"{kind} after error")
        text_event = TEXT_EVENTS.get(kind)
        if text_event is not None:
            self._text(kind, text_event, payload)
        else:
            HANDLERS.get(kind, Judge._step)(self, kind, payload)

    def end(self) -> None:
        self._frame += 1
        if not self._ended:
            self.blame("the stream ended without a terminal event")

    # Lifecycle

    def _lifecycle(self, kind: str, payload: Json) -> None:
        response = payload["response"]
        if not isinstance(response, dict):
            return
        if kind == "response.created" and self._begun and self._response_id is not None and self._done:
            self.blame("response.created after items")
        for complaint in complaints_about(response, RESPONSE_FIELDS):
            self.blame(f"{kind}: response.{complaint}")
        if self._begun and response.get("id") != self._response_id:
            self.blame(f"{kind}: the response's id changed")
        self._begun = True
        self._response_id = response.get("id")
        if response.get("status") not in STATUS_OF_LIFECYCLE[kind]:
            self.blame(f"{kind}: the response's status does not fit")
        usage = response.get("usage")
        if isinstance(usage, dict):
            for complaint in complaints_about(usage, USAGE_FIELDS):
                self.blame(f"{kind}: response.usage.{complaint}")
        output = response.get("output")
        if kind in ("response.created", "response.queued", "response.in_progress"):
            if output:
                self.blame(f"{kind}: the output is not empty")
            return
        self._ended = True
        self._ending(kind, response, output if isinstance(output, list) else [])

    def _ending(self, kind: str, response: Json, output: list[object]) -> None:
        if kind == "response.failed":
            error = response.get("error")
            if not isinstance(error, dict) or not error.get("code") or not error.get("message"):
                self.blame(f"{kind}: response.error has no code and message")
            rest = output[len(self._done) :]
            if output[: len(self._done)] != self._done or len(rest) > 1:
                self.blame(f"{kind}: the output is not what was told")
            if any(isinstance(item, dict) and item.get("status") == "completed" for item in rest):
                self.blame(f"{kind}: an unfinished item is called completed")
            return
        if self._open is not None:
            self.blame(f"{kind}: an item is unfinished")
        if output != self._done:
            self.blame(f"{kind}: the output is not what was told")
        if response.get("error") is not None:
            self.blame(f"{kind}: response.error is set")
        details = response.get("incomplete_details")
        if kind == "response.incomplete":
            if not isinstance(details, dict) or str(details.get("reason")) not in INCOMPLETE_REASONS:
                self.blame(f"{kind}: response.incomplete_details has no known reason")
        elif details is not None:
            self.blame(f"{kind}: response.incomplete_details is set")

    def _error(self, kind: str, payload: Json) -> None:
        self._erred = True

    # Items

    def _added(self, kind: str, payload: Json) -> None:
        item = payload["item"]
        if not isinstance(item, dict):
            return
        if self._open is not None:
            self.blame("an item was added before the one before it was done")
        if payload["output_index"] != len(self._done):
            self.blame(f"an item was added at another place than {len(self._done)}")
        self._shape(kind, item, begun=True)
        opened = OpenItem(len(self._done), item)
        if str(opened.id) in self._ids:
            self.blame("two items have the same id")
        self._ids.add(str(opened.id))
        self._open = opened

    def _shape(self, kind: str, item: Json, *, begun: bool) -> None:
        item_type = str(item.get("type"))
        for complaint in complaints_about(item, ITEM_FIELDS.get(item_type, ITEM_FIELDS[""])):
            self.blame(f"{kind}: item.{complaint}")
        prefix = ITEM_PREFIXES.get(item_type)
        if prefix is not None and not str(item.get("id")).startswith(prefix):
            self.blame(f"{kind}: the id of a {item_type} does not begin with {prefix}")
        if item_type in ITEMS_WITH_STATUS:
            status = item.get("status")
            if status not in (("in_progress",) if begun else ("completed", "incomplete", "failed")):
                self.blame(f"{kind}: the item's status does not fit")

    def _about(self, kind: str, payload: Json) -> OpenItem | None:
        """The open item, if the event is about it."""
        opened = self._open
        if opened is None:
            self.blame(f"{kind} without an open item")
        elif payload.get("item_id") != opened.id or payload.get("output_index") != opened.index:
            self.blame(f"{kind} is not about the open item")
            return None
        return opened

    def _step(self, kind: str, payload: Json) -> None:
        opened = self._about(kind, payload)
        if opened is not None and not kind.startswith(f"response.{opened.type}"):
            self.blame(f"{kind} for a {opened.type}")

    def _item_done(self, kind: str, payload: Json) -> None:
        item, opened = payload["item"], self._open
        self._open = None
        if not isinstance(item, dict):
            return
        if opened is None or payload["output_index"] != opened.index:
            self.blame("an item was done that was not open")
            return
        self._shape(kind, item, begun=False)
        if (item.get("id"), item.get("type")) != (opened.id, opened.item.get("type")):
            self.blame("the item's identity changed")
        if "call_id" in opened.item and item.get("call_id") != opened.item.get("call_id"):
            self.blame("the call's id changed")
        if "call_id" in item:
            # A call and its output share an id; two calls do not.
            identity = (opened.type, str(item["call_id"]))
            if identity in self._call_ids:
                self.blame("two calls have the same id")
            self._call_ids.add(identity)
        self._content(opened, item)
        self._done.append(item)

    def _content(self, opened: OpenItem, item: Json) -> None:
        """Whether the finished item holds what its events told."""
        if opened.part is not None:
            self.blame("an item was done with an open part")
        for field, parts in opened.parts.items():
            if (item.get(field) or []) != parts and opened.type in ("message", "reasoning"):
                self.blame(f"the item's {field} is not what was told")
        if opened.arguments is not None:
            field = "arguments" if opened.type == "function_call" else "input"
            if item.get(field) != "".join(opened.arguments.texts):
                self.blame(f"the item's {field} is not what was told")
            if not opened.arguments.is_told and item.get("status") == "completed":
                self.blame(f"the item's {field} were never told to be done")

    # Parts

    def _part_added(self, kind: str, payload: Json) -> None:
        opened = self._about(kind, payload)
        part = payload["part"]
        if opened is None or not isinstance(part, dict):
            return
        is_summary = kind == "response.reasoning_summary_part.added"
        field = "summary" if is_summary else "content"
        index = payload["summary_index" if is_summary else "content_index"]
        wanted = "message" if part.get("type") in ("output_text", "refusal") else "reasoning"
        if opened.type != wanted and part.get("type") in ("output_text", "refusal", "reasoning_text"):
            self.blame(f"{kind}: the part does not fit a {opened.type}")
        if opened.part is not None:
            self.blame(f"{kind}: the part before it is open")
        if index != len(opened.parts[field]):
            self.blame(f"{kind}: expected index {len(opened.parts[field])}")
        opened.part = OpenPart(len(opened.parts[field]), str(part.get("type")))

    def _part_done(self, kind: str, payload: Json) -> None:
        opened = self._about(kind, payload)
        part = payload["part"]
        if opened is None or not isinstance(part, dict):
            return
        is_summary = kind == "response.reasoning_summary_part.done"
        index = payload["summary_index" if is_summary else "content_index"]
        told, opened.part = opened.part, None
        if told is None or told.index != index or told.part_type != part.get("type"):
            self.blame(f"{kind}: that part is not open")
            return
        text_field = "refusal" if told.part_type == "refusal" else "text"
        if told.is_told and part.get(text_field) != "".join(told.texts):
            self.blame(f"{kind}: the text is not what was told")
        if (
            told.part_type in ("output_text", "refusal", "reasoning_text", "summary_text")
            and not told.is_told
        ):
            self.blame(f"{kind}: the text was never told to be done")
        if told.part_type == "output_text" and part.get("annotations") != told.annotations:
            self.blame(f"{kind}: the annotations are not what was told")
        opened.parts["summary" if is_summary else "content"].append(part)

    def _text(self, kind: str, event: TextEvent, payload: Json) -> None:
        """A delta, or the whole text at the end of the deltas."""
        opened = self._about(kind, payload)
        if opened is None:
            return
        part = opened.arguments if event.index_field == "" else opened.part
        if part is None or part.part_type != event.part_type or part.is_told:
            self.blame(f"{kind} without a part that takes it")
            return
        if event.index_field and payload[event.index_field] != part.index:
            self.blame(f"{kind} for another part than the open one")
        text = str(payload[event.text_field])
        if kind.endswith(".delta"):
            part.texts.append(text)
            return
        part.is_told = True
        if text != "".join(part.texts):
            self.blame(f"{kind}: the text is not what the deltas told")

    def _annotation(self, kind: str, payload: Json) -> None:
        opened = self._about(kind, payload)
        part = opened.part if opened else None
        if part is None or part.part_type != "output_text" or payload["content_index"] != part.index:
            self.blame(f"{kind} without a text that takes it")
            return
        if payload["annotation_index"] != len(part.annotations):
            self.blame(f"{kind}: expected annotation_index {len(part.annotations)}")
        part.annotations.append(payload["annotation"])


HANDLERS: dict[str, Callable[[Judge, str, Json], None]] = {
    **dict.fromkeys(STATUS_OF_LIFECYCLE, Judge._lifecycle),
    "error": Judge._error,
    "response.output_item.added": Judge._added,
    "response.output_item.done": Judge._item_done,
    "response.content_part.added": Judge._part_added,
    "response.content_part.done": Judge._part_done,
    "response.reasoning_summary_part.added": Judge._part_added,
    "response.reasoning_summary_part.done": Judge._part_done,
    "response.output_text.annotation.added": Judge._annotation,
}


def check_stream(stream: bytes) -> list[Violation]:
    """Everything that a strict reader would refuse; empty for a legal stream."""
    judge = Judge()
    reader = SseReader()
    try:
        for frame in [*reader.feed(stream), *reader.close()]:
            judge.frame(frame)
    except DragomanError as error:
        judge.blame(error.message)
    if reader.stray:
        judge.blame("a line that is not part of an event stream")
    judge.end()
    return judge.violations
