"""Reads the event stream of a reply, also if an upstream sends events in another order or only some of them.

Only a terminal event completes a reply. Content that only the terminal event has is reported then.
"""

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from dragoman.dialects.delta_template import EVENT_NUMBER, PADDING, TextChange
from dragoman.dialects.errors import read_failure
from dragoman.dialects.frames import FrameReader
from dragoman.dialects.interfaces import Json, UpstreamContext
from dragoman.dialects.openai_responses.names import (
    CALL_OF_ITEM,
    COMPLETED,
    DONE,
    FAILED,
    INCOMPLETE,
    get_index,
    get_object,
    get_text,
    omit,
)
from dragoman.dialects.openai_responses.stop_reasons import CAUSE_OF_REASON, TERMINAL_STATUS
from dragoman.dialects.openai_responses.stream_items import CallItem, ItemTable
from dragoman.dialects.openai_responses.streamed_text import LastText, ReplyContext, StreamedText
from dragoman.dialects.openai_responses.usage import read_usage
from dragoman.hub.blocks import Reasoning
from dragoman.hub.errors import DragomanError, Failure
from dragoman.hub.events import ReplyEvent, ReplyFinished, ReplyStarted, StopCause
from dragoman.wire.sse import Frame

_CANCELLED = "cancelled"

#: Members of a response that the hub knows; at the start also those that have no final value yet.
_HUB_MEMBERS = frozenset({"id", "model", "created_at", "object", "output", "status", "usage", "error"})
_LATE_MEMBERS = _HUB_MEMBERS | {"incomplete_details", "completed_at", "service_tier"}

#: The part of a call, which has no index.
_WHOLE_CALL = object()


class ResponsesStreamReader(FrameReader):
    """Owns the items of one reply. `_HANDLERS` has the method for each event."""

    varying: ClassVar = {"sequence_number": EVENT_NUMBER, "obfuscation": PADDING}
    #: The whole text of an item is compared with its deltas.
    keeps_texts: ClassVar = True

    def __init__(self, context: UpstreamContext) -> None:
        super().__init__(context)
        self._context = ReplyContext(self.builder, context)
        self._items = ItemTable(self._context)
        self._last = LastText(self.builder)

    def _read(self, payload: Json, event: str) -> None:
        self._last.current = None
        kind = payload.get("type", event)
        handler = _HANDLERS.get(kind) if isinstance(kind, str) else None
        if handler is not None:
            handler(self, payload)
        elif payload.get("error"):
            self._on_error(payload)
        elif not isinstance(kind, str) or not kind.startswith(_PROGRESS_EVENTS):
            self.context.losses.add("", "an event of an unknown type was skipped")

    def _read_text(self, frame: Frame) -> None:
        if frame.data.strip() != DONE:
            super()._read_text(frame)

    def _read_whole(self, body: Json) -> None:
        if body.get("error") and not isinstance(body.get("output"), list):
            self._on_error(body)
        else:
            self._on_response_ended({"type": "", "response": body})

    def read_body(self, body: Json) -> list[ReplyEvent]:
        """The events of a whole response."""
        try:
            self._read_whole(body)
        except DragomanError as error:
            self.builder.fail(error.failure)
        return self.builder.take()

    def _end(self) -> None:
        """Nothing to do: without a terminal event the reply is truncated."""

    # Lifecycle

    def _on_response_started(self, payload: Json) -> None:
        response = payload.get("response")
        if self.builder.is_started or not isinstance(response, dict):
            return
        self._context.model = get_text(response, "model")
        created = response.get("created_at")
        self.builder.start(
            ReplyStarted(
                id=get_text(response, "id"),
                model=self._context.model,
                created=int(created) if isinstance(created, int | float) and abs(created) < 2**53 else 0,
                extras=omit(response, _LATE_MEMBERS),
            )
        )

    def _on_response_ended(self, payload: Json) -> None:
        response = get_object(payload, "response")
        self._on_response_started(payload)
        status = response.get("status")
        if status not in (COMPLETED, INCOMPLETE, FAILED, _CANCELLED):
            status = TERMINAL_STATUS.get(get_text(payload, "type"), status)
        if status in (FAILED, _CANCELLED):
            self._report_usage(response)
            self._fail(response, is_cancelled=status == _CANCELLED)
        elif status in (COMPLETED, INCOMPLETE):
            self._finish_items(response.get("output"))
            self._report_usage(response)
            cause, raw_cause = self._read_cause(response, str(status))
            extras = omit(response, _HUB_MEMBERS)
            self.builder.finish(ReplyFinished(cause=cause, raw_cause=raw_cause, extras=extras))
        # Any other response is still queued or in progress: more events must follow.

    def _report_usage(self, response: Json) -> None:
        usage = read_usage(response.get("usage"))
        if usage is not None:
            self.builder.report_usage(usage)

    def _read_cause(self, response: Json, status: str) -> tuple[StopCause, str]:
        if status == COMPLETED:
            has_calls = any(isinstance(item, CallItem) for item in self._items.all)
            return ("refusal" if self._context.has_refusal and not has_calls else "end"), status
        reason = get_text(get_object(response, "incomplete_details"), "reason")
        return CAUSE_OF_REASON.get(reason, "other"), reason or status

    def _fail(self, response: Json, *, is_cancelled: bool) -> None:
        error = response.get("error")
        if error:
            failure = read_failure(error)
        elif is_cancelled:
            failure = Failure(kind="cancelled", message="the upstream cancelled the response")
        else:
            failure = Failure(kind="server", message="the upstream failed without a reason")
        self.builder.fail(failure, "cancelled" if is_cancelled else "failed")

    def _on_error(self, payload: Json) -> None:
        status = payload.get("status")
        status = status if type(status) is int and status >= 400 else 0
        self.builder.fail(read_failure(payload.get("error") or payload, status=status))

    # Items

    def _on_item_added(self, payload: Json) -> None:
        item = payload.get("item")
        if isinstance(item, dict):
            found = self._items.find_added(item, payload.get("output_index"))
            if not found.added:
                found.start(item)

    def _on_item_done(self, payload: Json) -> None:
        item = payload.get("item")
        if isinstance(item, dict):
            self._items.find_done(item, payload.get("output_index"), is_terminal=False).finish(item)

    def _finish_items(self, output: object) -> None:
        """Read the items of the terminal event, then finish the items that were added and never done."""
        for index, item in enumerate(output if isinstance(output, list) else ()):
            if isinstance(item, dict):
                self._items.find_done(item, index, is_terminal=True).finish(item, is_last=True)
        for unfinished in self._items.all:
            unfinished.finish({}, is_last=True)

    # Content

    def _take_delta(self, payload: Json) -> str | None:
        delta = payload.get("delta")
        if isinstance(delta, str):
            return delta
        self.context.losses.add("delta", "a delta that is no text was skipped")
        return None

    def _note(self, payload: Json, text: StreamedText | None) -> None:
        """Note the text that this delta has extended: later deltas that look like it extend the same text."""
        item_id, last = payload.get("item_id"), self._last
        if text is None or text.block < 0 or not isinstance(item_id, str) or not item_id:
            return
        last.current = text
        if self._template.can_learn:
            take, take_run = partial(last.take, text), partial(last.take_run, text)
            count = partial(last.count, text) if self.builder.is_text(text.block, Reasoning) else None
            self._template.learn(self._frame, payload, TextChange(payload, "delta", take, take_run, count))

    def _remember(self, payload: Json, part: object, text: StreamedText) -> None:
        item_id = payload.get("item_id")
        if isinstance(item_id, str) and item_id and text.block >= 0:
            self._last.item, self._last.part, self._last.text = item_id, part, text

    def _continue(self, payload: Json, part: object) -> bool:
        """Add a delta to the same text as the one before. False if it belongs to another text."""
        delta, last = payload.get("delta"), self._last
        if payload.get("item_id") != last.item or part != last.part or not isinstance(delta, str):
            return False
        last.text.append(delta)
        self._note(payload, last.text)
        return True

    def _on_text_delta(self, payload: Json, part_type: str = "output_text") -> None:
        part = payload.get("content_index")
        if self._continue(payload, part):
            return
        delta = self._take_delta(payload)
        if delta is not None:
            item = self._items.find_message(payload)
            text = item.append(get_index(payload, "content_index"), delta, part_type)
            self._remember(payload, part, text)
            self._note(payload, text)

    def _on_text_done(self, payload: Json, part_type: str, name: str) -> None:
        index = get_index(payload, "content_index")
        self._items.find_message(payload).complete(index, get_text(payload, name), part_type)

    def _on_arguments_delta(self, payload: Json, item_type: str = "function_call") -> None:
        if self._continue(payload, _WHOLE_CALL):
            return
        delta = self._take_delta(payload)
        if delta:
            text = self._items.find_call(payload, item_type).append(delta)
            self._remember(payload, _WHOLE_CALL, text)
            self._note(payload, text)

    def _on_arguments_done(self, payload: Json, item_type: str) -> None:
        text = get_text(payload, CALL_OF_ITEM[item_type].field)
        self._items.find_call(payload, item_type).complete(text)

    def _on_reasoning_delta(self, payload: Json, field: str) -> None:
        delta = self._take_delta(payload)
        if delta is not None:
            item = self._items.find_reasoning(payload)
            self._note(payload, item.append(field, get_index(payload, f"{field}_index"), delta))

    def _on_reasoning_done(self, payload: Json, field: str) -> None:
        index = get_index(payload, f"{field}_index")
        self._items.find_reasoning(payload).complete(field, index, get_text(payload, "text"))

    def _on_part_added(self, payload: Json) -> None:
        part = get_object(payload, "part")
        if part.get("type") == "reasoning_text":
            self._items.find_reasoning(payload).open("content")
        elif part.get("type") in ("output_text", "refusal"):
            self._items.find_message(payload).open_part(get_index(payload, "content_index"), part)

    def _on_part_done(self, payload: Json) -> None:
        part = payload.get("part")
        if not isinstance(part, dict):
            return
        index = get_index(payload, "content_index")
        if part.get("type") == "reasoning_text":
            self._items.find_reasoning(payload).complete("content", index, get_text(part, "text"))
        else:
            self._items.find_message(payload).complete_part(index, part)

    def _on_summary_part(self, payload: Json) -> None:
        item = self._items.find_reasoning(payload)
        item.open("summary")
        text = get_text(get_object(payload, "part"), "text")
        if text:
            item.complete("summary", get_index(payload, "summary_index"), text)

    def _on_annotation_added(self, payload: Json) -> None:
        annotation = payload.get("annotation")
        if isinstance(annotation, dict):
            self._items.find_message(payload).cite(get_index(payload, "content_index"), annotation)


_Reader = ResponsesStreamReader
_HANDLERS: dict[str, Callable[[ResponsesStreamReader, Json], None]] = {
    "response.output_text.delta": _Reader._on_text_delta,
    "response.output_text.done": partial(_Reader._on_text_done, part_type="output_text", name="text"),
    "response.output_text.annotation.added": _Reader._on_annotation_added,
    "response.refusal.delta": partial(_Reader._on_text_delta, part_type="refusal"),
    "response.refusal.done": partial(_Reader._on_text_done, part_type="refusal", name="refusal"),
    "response.function_call_arguments.delta": _Reader._on_arguments_delta,
    "response.function_call_arguments.done": partial(_Reader._on_arguments_done, item_type="function_call"),
    "response.custom_tool_call_input.delta": partial(
        _Reader._on_arguments_delta, item_type="custom_tool_call"
    ),
    "response.custom_tool_call_input.done": partial(_Reader._on_arguments_done, item_type="custom_tool_call"),
    "response.reasoning_summary_text.delta": partial(_Reader._on_reasoning_delta, field="summary"),
    "response.reasoning_summary_text.done": partial(_Reader._on_reasoning_done, field="summary"),
    "response.reasoning_summary_part.added": _Reader._on_summary_part,
    "response.reasoning_summary_part.done": _Reader._on_summary_part,
    "response.reasoning_text.delta": partial(_Reader._on_reasoning_delta, field="content"),
    "response.reasoning_text.done": partial(_Reader._on_reasoning_done, field="content"),
    "response.reasoning.delta": partial(_Reader._on_reasoning_delta, field="content"),
    "response.reasoning.done": partial(_Reader._on_reasoning_done, field="content"),
    "response.content_part.added": _Reader._on_part_added,
    "response.content_part.done": _Reader._on_part_done,
    "response.output_item.added": _Reader._on_item_added,
    "response.output_item.done": _Reader._on_item_done,
    "response.created": _Reader._on_response_started,
    "response.queued": _Reader._on_response_started,
    "response.in_progress": _Reader._on_response_started,
    **dict.fromkeys(TERMINAL_STATUS, _Reader._on_response_ended),
    "error": _Reader._on_error,
}

#: Events that only report progress: the finished item has all their content.
_PROGRESS_EVENTS = (
    "response.web_search_call.",
    "response.file_search_call.",
    "response.code_interpreter_call",
    "response.image_generation_call.",
    "response.mcp_call",
    "response.mcp_list_tools.",
    "response.shell_call",
    "response.apply_patch_call",
    "response.compaction.",
    "response.audio.",
)
