"""Reads the event stream of a reply, also if an upstream sends events in another order or only some of them.

Only a terminal event completes a reply. Content that only the terminal event has is reported then.
"""

from collections.abc import Callable

from dragoman.dialects.base import Json, Source
from dragoman.dialects.errors import read_failure
from dragoman.dialects.frames import FrameReader
from dragoman.dialects.openai_responses.item_table import ItemTable
from dragoman.dialects.openai_responses.names import DONE
from dragoman.dialects.openai_responses.stop_reasons import CAUSE_OF_REASON, TERMINAL_STATUS, read_usage
from dragoman.dialects.openai_responses.stream_items import CallStreamItem, ReplyContext, index_in, text_in
from dragoman.hub.errors import DragomanError, Failure
from dragoman.hub.events import ReplyEvent, ReplyFinished, ReplyStarted, StopCause
from dragoman.wire.sse import Frame

#: Fields of a response that the hub knows; at the start also those without a final value.
HUB_FIELDS = frozenset({"id", "model", "created_at", "object", "output", "status", "usage", "error"})
LATE_FIELDS = HUB_FIELDS | {"incomplete_details", "completed_at", "service_tier"}

#: The key of an item that no event can name.
NOBODY = object()


class ResponsesStreamReader(FrameReader):
    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._context = ReplyContext(self.builder, source)
        self._items = ItemTable(self._context)
        # The block of the last delta, to which nearly every next delta belongs too.
        self._hot_id: object = NOBODY
        self._hot_part: object = NOBODY
        self._hot_block = -1

    def _read(self, payload: Json, event: str) -> None:
        kind = payload.get("type", event)
        handler = HANDLERS.get(kind) if isinstance(kind, str) else None
        if handler is not None:
            handler(self, payload)
        elif payload.get("error"):
            self._error(payload)
        elif not isinstance(kind, str) or not kind.startswith(QUIET):
            self.source.losses.add("", "an event of an unknown type was skipped")

    def _read_text(self, frame: Frame) -> None:
        if frame.data.strip() != DONE:
            super()._read_text(frame)

    def _read_whole(self, body: Json) -> None:
        if body.get("error") and not isinstance(body.get("output"), list):
            self._error(body)
        else:
            self._finish({"type": "", "response": body})

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

    def _start(self, payload: Json) -> None:
        response = payload.get("response")
        if self.builder.is_started or not isinstance(response, dict):
            return
        self._context.model = text_in(response, "model")
        created = response.get("created_at")
        self.builder.start(
            ReplyStarted(
                id=text_in(response, "id"),
                model=self._context.model,
                created=int(created) if isinstance(created, int | float) and abs(created) < 2**53 else 0,
                extras={name: value for name, value in response.items() if name not in LATE_FIELDS},
            )
        )

    def _finish(self, payload: Json) -> None:
        response = payload.get("response")
        if not isinstance(response, dict):
            response = {}
        self._start(payload)
        status = response.get("status")
        if status not in ("completed", "incomplete", "failed", "cancelled"):
            status = TERMINAL_STATUS.get(text_in(payload, "type"), status)
        if status in ("failed", "cancelled"):
            self._fail(response, cancelled=status == "cancelled")
            return
        if status not in ("completed", "incomplete"):
            # The response is still queued or in progress: more events must follow.
            return
        self._take_output(response.get("output"))
        usage = read_usage(response.get("usage"))
        if usage is not None:
            self.builder.report_usage(usage)
        cause, raw_cause = self._cause(response, str(status))
        extras = {name: value for name, value in response.items() if name not in HUB_FIELDS}
        self.builder.finish(ReplyFinished(cause=cause, raw_cause=raw_cause, extras=extras))

    def _cause(self, response: Json, status: str) -> tuple[StopCause, str]:
        if status == "completed":
            has_calls = any(isinstance(item, CallStreamItem) for item in self._items.all)
            return ("refusal" if self._context.refused and not has_calls else "end"), status
        details = response.get("incomplete_details")
        reason = text_in(details, "reason") if isinstance(details, dict) else ""
        return CAUSE_OF_REASON.get(reason, "other"), reason or status

    def _fail(self, response: Json, *, cancelled: bool) -> None:
        usage = read_usage(response.get("usage"))
        if usage is not None:
            self.builder.report_usage(usage)
        error = response.get("error")
        if error:
            failure = read_failure(error)
        elif cancelled:
            failure = Failure(kind="cancelled", message="the upstream cancelled the response")
        else:
            failure = Failure(kind="server", message="the upstream failed without saying why")
        self.builder.fail(failure, "cancelled" if cancelled else "failed")

    def _error(self, payload: Json) -> None:
        error = payload.get("error")
        status = payload.get("status")
        self.builder.fail(
            read_failure(error or payload, status=status if type(status) is int and status >= 400 else 0)
        )

    # Items

    def _add_item(self, payload: Json) -> None:
        item = payload.get("item")
        if isinstance(item, dict):
            found = self._items.find_added(item, payload.get("output_index"))
            if not found.added:
                found.adopt(item)

    def _done(self, payload: Json) -> None:
        item = payload.get("item")
        if isinstance(item, dict):
            self._items.find_done(item, payload.get("output_index"), open_only=True).finish(item)

    def _take_output(self, output: object) -> None:
        """Read the items of the terminal event, then finish the items that were added and never done."""
        if isinstance(output, list):
            for index, item in enumerate(output):
                if isinstance(item, dict):
                    self._items.find_done(item, index, open_only=False).finish(item)
        for left in self._items.all:
            left.finish({})

    # Content

    def _delta(self, payload: Json) -> str | None:
        delta = payload.get("delta")
        if isinstance(delta, str):
            return delta
        self.source.losses.add("delta", "a delta that is no text was skipped")
        return None

    def _remember_block(self, payload: Json, part: str, block: int) -> None:
        item_id = payload.get("item_id")
        if isinstance(item_id, str) and item_id:
            self._hot_id, self._hot_part, self._hot_block = item_id, payload.get(part, NOBODY), block

    def _text_delta(self, payload: Json) -> None:
        delta = payload.get("delta")
        if (
            payload.get("item_id") == self._hot_id
            and payload.get("content_index") == self._hot_part
            and isinstance(delta, str)
        ):
            self.builder.append(self._hot_block, delta)
            return
        text = self._delta(payload)
        if text is not None:
            index = index_in(payload, "content_index")
            self._remember_block(
                payload, "content_index", self._items.find_message(payload).append(index, text, "output_text")
            )

    def _arguments_delta(self, payload: Json) -> None:
        self._call_delta(payload, "function_call")

    def _input_delta(self, payload: Json) -> None:
        self._call_delta(payload, "custom_tool_call")

    def _call_delta(self, payload: Json, item_type: str) -> None:
        delta = payload.get("delta")
        if payload.get("item_id") == self._hot_id and self._hot_part is NOBODY and isinstance(delta, str):
            self.builder.append(self._hot_block, delta)
            return
        text = self._delta(payload)
        if text:
            block = self._items.find_call(payload, item_type).append(text)
            if block >= 0:
                self._remember_block(payload, "", block)

    def _refusal_delta(self, payload: Json) -> None:
        text = self._delta(payload)
        if text is not None:
            self._items.find_message(payload).append(index_in(payload, "content_index"), text, "refusal")

    def _summary_delta(self, payload: Json) -> None:
        text = self._delta(payload)
        if text is not None:
            self._items.find_reasoning(payload).append("summary", index_in(payload, "summary_index"), text)

    def _thought_delta(self, payload: Json) -> None:
        text = self._delta(payload)
        if text is not None:
            self._items.find_reasoning(payload).append("content", index_in(payload, "content_index"), text)

    def _text_done(self, payload: Json) -> None:
        index = index_in(payload, "content_index")
        self._items.find_message(payload).complete(index, text_in(payload, "text"), "output_text")

    def _refusal_done(self, payload: Json) -> None:
        index = index_in(payload, "content_index")
        self._items.find_message(payload).complete(index, text_in(payload, "refusal"), "refusal")

    def _arguments_done(self, payload: Json) -> None:
        self._items.find_call(payload, "function_call").complete(text_in(payload, "arguments"))

    def _input_done(self, payload: Json) -> None:
        self._items.find_call(payload, "custom_tool_call").complete(text_in(payload, "input"))

    def _summary_done(self, payload: Json) -> None:
        index = index_in(payload, "summary_index")
        self._items.find_reasoning(payload).complete("summary", index, text_in(payload, "text"))

    def _thought_done(self, payload: Json) -> None:
        index = index_in(payload, "content_index")
        self._items.find_reasoning(payload).complete("content", index, text_in(payload, "text"))

    def _part_added(self, payload: Json) -> None:
        part = payload.get("part")
        if not isinstance(part, dict):
            return
        if part.get("type") == "reasoning_text":
            self._items.find_reasoning(payload).begin("content")
        elif part.get("type") in ("output_text", "refusal"):
            self._items.find_message(payload).begin(index_in(payload, "content_index"), part)

    def _part_done(self, payload: Json) -> None:
        part = payload.get("part")
        if not isinstance(part, dict):
            return
        index = index_in(payload, "content_index")
        if part.get("type") == "reasoning_text":
            self._items.find_reasoning(payload).complete("content", index, text_in(part, "text"))
        else:
            self._items.find_message(payload).complete_part(index, part)

    def _summary_part(self, payload: Json) -> None:
        item = self._items.find_reasoning(payload)
        item.begin("summary")
        part = payload.get("part")
        if isinstance(part, dict) and text_in(part, "text"):
            item.complete("summary", index_in(payload, "summary_index"), text_in(part, "text"))

    def _annotation(self, payload: Json) -> None:
        annotation = payload.get("annotation")
        if isinstance(annotation, dict):
            self._items.find_message(payload).cite(index_in(payload, "content_index"), annotation)


HANDLERS: dict[str, Callable[[ResponsesStreamReader, Json], None]] = {
    "response.output_text.delta": ResponsesStreamReader._text_delta,
    "response.function_call_arguments.delta": ResponsesStreamReader._arguments_delta,
    "response.custom_tool_call_input.delta": ResponsesStreamReader._input_delta,
    "response.reasoning_summary_text.delta": ResponsesStreamReader._summary_delta,
    "response.reasoning_text.delta": ResponsesStreamReader._thought_delta,
    "response.reasoning.delta": ResponsesStreamReader._thought_delta,
    "response.refusal.delta": ResponsesStreamReader._refusal_delta,
    "response.created": ResponsesStreamReader._start,
    "response.queued": ResponsesStreamReader._start,
    "response.in_progress": ResponsesStreamReader._start,
    "response.output_item.added": ResponsesStreamReader._add_item,
    "response.output_item.done": ResponsesStreamReader._done,
    "response.content_part.added": ResponsesStreamReader._part_added,
    "response.content_part.done": ResponsesStreamReader._part_done,
    "response.output_text.annotation.added": ResponsesStreamReader._annotation,
    "response.output_text.done": ResponsesStreamReader._text_done,
    "response.refusal.done": ResponsesStreamReader._refusal_done,
    "response.function_call_arguments.done": ResponsesStreamReader._arguments_done,
    "response.custom_tool_call_input.done": ResponsesStreamReader._input_done,
    "response.reasoning_summary_part.added": ResponsesStreamReader._summary_part,
    "response.reasoning_summary_part.done": ResponsesStreamReader._summary_part,
    "response.reasoning_summary_text.done": ResponsesStreamReader._summary_done,
    "response.reasoning_text.done": ResponsesStreamReader._thought_done,
    "response.reasoning.done": ResponsesStreamReader._thought_done,
    **dict.fromkeys(TERMINAL_STATUS, ResponsesStreamReader._finish),
    "error": ResponsesStreamReader._error,
}

#: Events that only report progress: the finished item has all their content.
QUIET = (
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
