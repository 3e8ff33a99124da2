"""Checks a stream against the grammar of the Responses API, as strictly as its SDK, AI SDK and Codex do."""

import re

import msgspec

from dragoman.dialects.interfaces import Json, Violation
from dragoman.dialects.stream_check_toolkit import Exactly, FieldRules, StreamChecker, fields, one_of

_MOVES = {
    "NEW": {"start": "STARTED"},
    "STARTED": {"start": "STARTED", "event": "OPEN", "error": "FAILING", "end": "ENDED", "failure": "ENDED"},
    "OPEN": {"event": "OPEN", "error": "FAILING", "end": "ENDED", "failure": "ENDED"},
    "FAILING": {"failure": "ENDED"},
    "ENDED": {"[DONE]": "CLOSED"},
    "CLOSED": {},
}
#: The move that an event makes; all others are an "event". In the background a response is queued at first.
_MOVE_OF_EVENT = {
    **dict.fromkeys(("response.created", "response.queued"), "start"),
    **dict.fromkeys(("response.completed", "response.incomplete"), "end"),
    "response.failed": "failure",
    "error": "error",
}

_RESPONSE: FieldRules = {
    **fields("object model truncation service_tier", "text"),
    **fields("previous_response_id safety_identifier prompt_cache_key", ("text", None)),
    **fields("created_at top_p presence_penalty frequency_penalty temperature", "number"),
    **fields("max_output_tokens max_tool_calls", ("count", None)),
    **fields("text metadata", "object"),
    **fields("reasoning usage error incomplete_details", ("object", None)),
    **fields("output tools", "list"),
    **fields("parallel_tool_calls store background", "flag"),
    "id": "name",
    "completed_at": ("number", None),
    "instructions": ("text", "list", None),
    "tool_choice": ("text", "object"),
    "top_logprobs": "count",
}
_USAGE: FieldRules = {
    **fields("input_tokens output_tokens total_tokens", "count"),
    **fields("input_tokens_details output_tokens_details", "object"),
}
_REASON: FieldRules = {"reason": one_of("max_output_tokens content_filter max_messages steered")}
_EMPTY, _NULL = Exactly([]), Exactly(None)
#: What the response holds in each event of its life.
_RESPONSES: dict[str, FieldRules] = {
    "response.created": {"status": one_of("in_progress queued"), "output": _EMPTY},
    "response.queued": {"status": Exactly("queued"), "output": _EMPTY},
    "response.in_progress": {"status": Exactly("in_progress"), "output": _EMPTY},
    "response.completed": {"status": Exactly("completed"), "error": _NULL, "incomplete_details": _NULL},
    "response.incomplete": {"status": Exactly("incomplete"), "error": _NULL, "incomplete_details": _REASON},
    "response.failed": {"status": Exactly("failed"), "error": {"code": "name", "message": "name"}},
}

_ITEM: FieldRules = {"output_index": "count", "item": {"type": "text"}}
_ITEM_EVENT: FieldRules = {"item_id": "text", "output_index": "count"}
_ANNOTATION = {**_ITEM_EVENT, **fields("content_index annotation_index", "count"), "annotation": "object"}
#: Events that carry a text in deltas and once more as a whole: the type of the part (or item) that takes it,
#: the field that names the part, the field of the whole text.
_TEXTS = {
    "response.output_text": ("output_text", "content_index", "text"),
    "response.refusal": ("refusal", "content_index", "refusal"),
    "response.reasoning_text": ("reasoning_text", "content_index", "text"),
    "response.reasoning_summary_text": ("summary_text", "summary_index", "text"),
    "response.function_call_arguments": ("function_call", "", "arguments"),
    "response.custom_tool_call_input": ("custom_tool_call", "", "input"),
}
_TEXT_FIELDS = {takes: whole for takes, _, whole in _TEXTS.values()}
#: Events that open and close a part, with the field that names the part.
_PARTS = {"response.content_part": "content_index", "response.reasoning_summary_part": "summary_index"}
_EVENTS: dict[str, FieldRules] = {
    **{kind: {"response": {**_RESPONSE, **rules}} for kind, rules in _RESPONSES.items()},
    **{
        f"{base}.{phase}": {**_ITEM_EVENT, index: "count", "part": {"type": "text"}}
        for base, index in _PARTS.items()
        for phase in ("added", "done")
    },
    **{
        f"{base}.{phase}": {
            **{**_ITEM_EVENT, **fields(index, "count"), field: "text"},
            **fields("logprobs" if base == "response.output_text" else "", "list"),
        }
        for base, (_, index, whole) in _TEXTS.items()
        for phase, field in (("delta", "delta"), ("done", whole))
    },
    "response.output_item.added": _ITEM,
    "response.output_item.done": _ITEM,
    "response.output_text.annotation.added": _ANNOTATION,
    "error": {"message": "text", **fields("code param", ("text", None))},
}
#: The progress of a vendor's own tool.
_TOOL_EVENT = re.compile(
    r"response\.(?:web_search_call|file_search_call|code_interpreter_call(?:_code)?|image_generation_call"
    r"|mcp_call(?:_arguments)?|mcp_list_tools|shell_call_command|shell_call_output_content|compaction)\..*"
)

_CALL: FieldRules = {"id": "text", "call_id": "text"}
#: What an item holds, when it is added and when it is done.
_ITEMS: dict[str, FieldRules] = {
    "message": {"id": re.compile("msg_.*"), "role": "text", "content": "list"},
    "function_call": {**_CALL, "id": re.compile("fc_.*"), "name": "text", "arguments": "text"},
    "custom_tool_call": {**_CALL, "id": re.compile("ctc_.*"), "name": "text", "input": "text"},
    "reasoning": {"id": re.compile("rs_.*"), "summary": "list"},
    "web_search_call": {"id": re.compile("ws_.*"), "action": "object"},
    "local_shell_call": {**_CALL, "action": "object"},
    "shell_call": {**_CALL, "action": "object"},
    "apply_patch_call": {**_CALL, "operation": "object"},
    "tool_search_call": {"id": "text", "execution": "text", "arguments": "object"},
}
_ITEMS_WITH_STATUS = _ITEMS.keys() - {"custom_tool_call", "reasoning"}
#: The type of the item that a part belongs to.
_OWNERS = {"output_text": "message", "refusal": "message", "reasoning_text": "reasoning"}


class _OpenText(msgspec.Struct):
    """A part, or the arguments of a call, while its text arrives."""

    index: int
    part_type: str
    deltas: list[str] = []
    annotations: list[object] = []
    is_done: bool = False

    @property
    def text(self) -> str:
        return "".join(self.deltas)


class _OpenItem(msgspec.Struct):
    """The item between its `added` and its `done`, with its finished parts and the open one."""

    index: int
    item: Json
    type: str
    arguments: _OpenText
    content: list[object] = []
    summary: list[object] = []
    part: _OpenText | None = None


class ResponsesChecker(StreamChecker):
    """Checks one stream of the Responses API; see `StreamChecker`."""

    def __init__(self) -> None:
        super().__init__(_MOVES)
        self._sequence = 0
        self._response_id: object = None
        self._item: _OpenItem | None = None
        self._done: list[Json] = []
        self._ids: set[str] = set()

    def check_frame(self, event: str, data: bytes) -> None:
        if data.strip() == b"[DONE]":
            self.move("[DONE]")
            return
        payload = self.decode(data)
        if payload is None:
            return
        self.kind = kind = str(payload.get("type", ""))
        self.require(event == kind, "the event name is not the type")
        number, self._sequence = self._sequence, self._sequence + 1
        self.require(payload.get("sequence_number") == number, f"expected sequence_number {number}")
        rules = _ITEM_EVENT if _TOOL_EVENT.fullmatch(kind) else _EVENTS.get(kind)
        if rules is None:
            self.report("an event of an unknown type")
        elif self.move(_MOVE_OF_EVENT.get(kind, "event")) and self.check_fields(payload, rules):
            self._check_event(payload)

    def check_end(self) -> None:
        self.require(self.state in ("ENDED", "CLOSED"), "the stream ends without a terminal event")

    def _check_event(self, payload: Json) -> None:
        match payload:
            case {"response": dict(response)}:
                self._check_response(response)
            case {"type": "response.output_item.added", "item": dict(item)}:
                self._add_item(payload, item)
            case {"item": dict(item)}:
                self._finish_item(payload, item)
            case {"item_id": item_id, "output_index": index}:
                if self._item and (item_id, index) == (self._item.item.get("id"), self._item.index):
                    self._check_item_event(payload, self._item)
                else:
                    self.report("the event is not about the open item")

    def _check_response(self, response: Json) -> None:
        self._response_id = self._response_id or response["id"]
        self.require(response["id"] == self._response_id, "the response's id changed")
        if isinstance(usage := response["usage"], dict):
            self.check_fields(usage, _USAGE, "response.usage")
        output = response["output"]
        if self.state != "ENDED" or not isinstance(output, list):
            return
        # A failed response may list the item that was open, as incomplete.
        is_failed = response["status"] == "failed"
        rest = output[len(self._done) :]
        is_same = output[: len(self._done)] == self._done and len(rest) <= is_failed
        self.require(is_same, "the output differs from the items in the stream")
        self.require(is_failed or self._item is None, "an item is open")
        completed = any(isinstance(item, dict) and item.get("status") == "completed" for item in rest)
        self.require(not completed, "an open item has the status completed")

    def _check_item(self, item: Json, status: str) -> None:
        rules = dict(_ITEMS.get(str(item["type"]), {"id": "text"}))
        if item["type"] in _ITEMS_WITH_STATUS:
            rules["status"] = one_of(status)
        self.check_fields(item, rules, "item")

    def _require_new(self, identity: str) -> None:
        self.require(identity not in self._ids, "two items have the same id or call_id")
        self._ids.add(identity)

    def _add_item(self, payload: Json, item: Json) -> None:
        index, item_type = len(self._done), str(item["type"])
        self._check_item(item, "in_progress")
        self.require(self._item is None, "the previous item is open")
        self.require(payload["output_index"] == index, f"output_index is not {index}")
        self._require_new(str(item.get("id")))
        self._item = _OpenItem(index, item, item_type, arguments=_OpenText(0, item_type))

    def _finish_item(self, payload: Json, item: Json) -> None:
        opened, self._item = self._item, None
        if opened is None or payload["output_index"] != opened.index:
            self.report("the item is not open")
            return
        self._check_item(item, "completed incomplete failed")
        self._done.append(item)
        for name in opened.item.keys() & {"id", "type", "call_id"}:
            self.require(item.get(name) == opened.item[name], f"the {name} of the item changed")
        if "call_id" in item:
            # A call and its output share an id; two calls do not.
            self._require_new(f"{opened.type} {item['call_id']}")
        self.require(opened.part is None, "a part of the item is open")
        if opened.type in ("message", "reasoning"):
            parts = (item.get("content") or [], item.get("summary") or [])
            self.require(parts == (opened.content, opened.summary), "the item differs from its parts")
        if opened.type in _TEXT_FIELDS:
            text, arguments = item.get(_TEXT_FIELDS[opened.type]), opened.arguments
            self.require(text == arguments.text, "the arguments differ from the deltas")
            is_done = arguments.is_done or item.get("status") != "completed"
            self.require(is_done, "the arguments have no done event")

    def _check_item_event(self, payload: Json, item: _OpenItem) -> None:
        base, _, phase = self.kind.rpartition(".")
        part = payload.get("part")
        if base in _TEXTS:
            self._check_text(payload, item, *_TEXTS[base])
        elif isinstance(part, dict):
            parts = item.content if "content_index" in payload else item.summary
            index = payload[_PARTS[base]]
            check = self._add_part if phase == "added" else self._finish_part
            check(item, part, index, parts)
        elif base == "response.output_text.annotation":
            self._add_annotation(payload, item.part)
        else:
            self.require(self.kind.startswith(f"response.{item.type}"), f"the open item is a {item.type}")

    def _add_part(self, item: _OpenItem, part: Json, index: object, parts: list[object]) -> None:
        part_type = str(part["type"])
        self.require(_OWNERS.get(part_type, item.type) == item.type, f"the part does not fit a {item.type}")
        self.require(item.part is None, "the previous part is open")
        self.require(index == len(parts), f"the index is not {len(parts)}")
        item.part = _OpenText(len(parts), part_type)

    def _finish_part(self, item: _OpenItem, part: Json, index: object, parts: list[object]) -> None:
        opened, item.part = item.part, None
        if opened is None or (opened.index, opened.part_type) != (index, part["type"]):
            self.report("the part is not open")
            return
        parts.append(part)
        if text_field := _TEXT_FIELDS.get(opened.part_type):
            self.require(opened.is_done, "the text has no done event")
            self.require(part.get(text_field) == opened.text, "the text differs from the deltas")
        is_same = opened.part_type != "output_text" or part.get("annotations") == opened.annotations
        self.require(is_same, "the annotations differ from those in the stream")

    def _check_text(self, payload: Json, item: _OpenItem, takes: str, index_field: str, whole: str) -> None:
        """A delta, or the whole text after the deltas."""
        part = item.part if index_field else item.arguments
        if part is None or part.part_type != takes or part.is_done:
            self.report("no open part takes this text")
            return
        self.require(payload.get(index_field, part.index) == part.index, f"{index_field} is not {part.index}")
        if "delta" in payload:
            part.deltas.append(str(payload["delta"]))
            return
        part.is_done = True
        self.require(payload[whole] == part.text, "the text differs from the deltas")

    def _add_annotation(self, payload: Json, part: _OpenText | None) -> None:
        if part and part.part_type == "output_text" and payload["content_index"] == part.index:
            index = len(part.annotations)
            self.require(payload["annotation_index"] == index, f"annotation_index is not {index}")
            part.annotations.append(payload["annotation"])
        else:
            self.report("no open part takes this annotation")


def check_stream(stream: bytes) -> list[Violation]:
    """Everything in the stream that a strict client refuses, in order."""
    return ResponsesChecker().check_sse_stream(stream)
