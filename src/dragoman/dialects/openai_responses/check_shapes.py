"""What each event, item and response of this dialect must hold, for the judge: tables and nothing else."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dragoman.dialects.base import Json

#: The JSON types that a member may have; None among them: it may be null.
Shape = Mapping[str, tuple[type | None, ...]]

TEXT = (str,)
INDEX = (int,)
OBJECT = (dict,)
LIST = (list,)
NUMBER = (int, float)
FLAG = (bool,)


def complaints_about(value: Json, shape: Shape) -> Iterator[str]:
    """What is missing or of a wrong type."""
    for name, types in shape.items():
        if name not in value:
            yield f"{name} is missing"
            continue
        member = value[name]
        if member is None:
            if None not in types:
                yield f"{name} is null"
        elif type(member) not in types:
            yield f"{name} has a wrong type"


ITEM_EVENT: Shape = {"item_id": TEXT, "output_index": INDEX}
PART_EVENT: Shape = {**ITEM_EVENT, "content_index": INDEX}
SUMMARY_EVENT: Shape = {**ITEM_EVENT, "summary_index": INDEX}
DELTA: Shape = {"delta": TEXT}

EVENT_FIELDS: dict[str, Shape] = {
    "response.created": {"response": OBJECT},
    "response.queued": {"response": OBJECT},
    "response.in_progress": {"response": OBJECT},
    "response.completed": {"response": OBJECT},
    "response.incomplete": {"response": OBJECT},
    "response.failed": {"response": OBJECT},
    "error": {"code": (str, None), "message": TEXT, "param": (str, None)},
    "response.output_item.added": {"output_index": INDEX, "item": OBJECT},
    "response.output_item.done": {"output_index": INDEX, "item": OBJECT},
    "response.content_part.added": {**PART_EVENT, "part": OBJECT},
    "response.content_part.done": {**PART_EVENT, "part": OBJECT},
    "response.output_text.delta": {**PART_EVENT, **DELTA, "logprobs": LIST},
    "response.output_text.done": {**PART_EVENT, "text": TEXT, "logprobs": LIST},
    "response.output_text.annotation.added": {
        **PART_EVENT,
        "annotation_index": INDEX,
        "annotation": OBJECT,
    },
    "response.refusal.delta": {**PART_EVENT, **DELTA},
    "response.refusal.done": {**PART_EVENT, "refusal": TEXT},
    "response.reasoning_text.delta": {**PART_EVENT, **DELTA},
    "response.reasoning_text.done": {**PART_EVENT, "text": TEXT},
    "response.reasoning_summary_part.added": {**SUMMARY_EVENT, "part": OBJECT},
    "response.reasoning_summary_part.done": {**SUMMARY_EVENT, "part": OBJECT},
    "response.reasoning_summary_text.delta": {**SUMMARY_EVENT, **DELTA},
    "response.reasoning_summary_text.done": {**SUMMARY_EVENT, "text": TEXT},
    "response.function_call_arguments.delta": {**ITEM_EVENT, **DELTA},
    "response.function_call_arguments.done": {**ITEM_EVENT, "arguments": TEXT},
    "response.custom_tool_call_input.delta": {**ITEM_EVENT, **DELTA},
    "response.custom_tool_call_input.done": {**ITEM_EVENT, "input": TEXT},
    "step": ITEM_EVENT,
}

#: Events that show how a vendor's own tool gets on.
STEP_EVENTS = (
    "response.web_search_call.",
    "response.file_search_call.",
    "response.code_interpreter_call.",
    "response.code_interpreter_call_code.",
    "response.image_generation_call.",
    "response.mcp_call.",
    "response.mcp_call_arguments.",
    "response.mcp_list_tools.",
    "response.shell_call_command.",
    "response.shell_call_output_content.",
    "response.compaction.",
)


def is_step(kind: str) -> bool:
    return kind.startswith(STEP_EVENTS)


class TextEvent(NamedTuple):
    """A delta or a finished text: which part takes it, how it names the part, where its text stands."""

    part_type: str
    index_field: str
    text_field: str


TEXT_EVENTS: dict[str, TextEvent] = {
    "response.output_text.delta": TextEvent("output_text", "content_index", "delta"),
    "response.output_text.done": TextEvent("output_text", "content_index", "text"),
    "response.refusal.delta": TextEvent("refusal", "content_index", "delta"),
    "response.refusal.done": TextEvent("refusal", "content_index", "refusal"),
    "response.reasoning_text.delta": TextEvent("reasoning_text", "content_index", "delta"),
    "response.reasoning_text.done": TextEvent("reasoning_text", "content_index", "text"),
    "response.reasoning_summary_text.delta": TextEvent("summary_text", "summary_index", "delta"),
    "response.reasoning_summary_text.done": TextEvent("summary_text", "summary_index", "text"),
    "response.function_call_arguments.delta": TextEvent("function_call", "", "delta"),
    "response.function_call_arguments.done": TextEvent("function_call", "", "arguments"),
    "response.custom_tool_call_input.delta": TextEvent("custom_tool_call", "", "delta"),
    "response.custom_tool_call_input.done": TextEvent("custom_tool_call", "", "input"),
}

STATUS_OF_LIFECYCLE = {
    # In the background a response waits before it begins.
    "response.created": ("in_progress", "queued"),
    "response.queued": ("queued",),
    "response.in_progress": ("in_progress",),
    "response.completed": ("completed",),
    "response.incomplete": ("incomplete",),
    "response.failed": ("failed",),
}

INCOMPLETE_REASONS = frozenset({"max_output_tokens", "content_filter", "max_messages", "steered"})

RESPONSE_FIELDS: Shape = {
    "id": TEXT,
    "object": TEXT,
    "created_at": NUMBER,
    "completed_at": (int, float, None),
    "status": TEXT,
    "incomplete_details": (dict, None),
    "model": TEXT,
    "previous_response_id": (str, None),
    "instructions": (str, list, None),
    "output": LIST,
    "error": (dict, None),
    "tools": LIST,
    "tool_choice": (str, dict),
    "truncation": TEXT,
    "parallel_tool_calls": FLAG,
    "text": OBJECT,
    "top_p": NUMBER,
    "presence_penalty": NUMBER,
    "frequency_penalty": NUMBER,
    "top_logprobs": INDEX,
    "temperature": NUMBER,
    "reasoning": (dict, None),
    "usage": (dict, None),
    "max_output_tokens": (int, None),
    "max_tool_calls": (int, None),
    "store": FLAG,
    "background": FLAG,
    "service_tier": TEXT,
    "metadata": OBJECT,
    "safety_identifier": (str, None),
    "prompt_cache_key": (str, None),
}

USAGE_FIELDS: Shape = {
    "input_tokens": INDEX,
    "input_tokens_details": OBJECT,
    "output_tokens": INDEX,
    "output_tokens_details": OBJECT,
    "total_tokens": INDEX,
}

#: What an item of each type must hold, announced or done; the empty name stands for all others.
ITEM_FIELDS: dict[str, Shape] = {
    "": {"id": TEXT, "type": TEXT},
    "message": {"id": TEXT, "type": TEXT, "status": TEXT, "role": TEXT, "content": LIST},
    "function_call": {
        "id": TEXT,
        "type": TEXT,
        "status": TEXT,
        "call_id": TEXT,
        "name": TEXT,
        "arguments": TEXT,
    },
    "custom_tool_call": {"id": TEXT, "type": TEXT, "call_id": TEXT, "name": TEXT, "input": TEXT},
    "reasoning": {"id": TEXT, "type": TEXT, "summary": LIST},
    "web_search_call": {"id": TEXT, "type": TEXT, "status": TEXT, "action": OBJECT},
    "local_shell_call": {"id": TEXT, "type": TEXT, "status": TEXT, "call_id": TEXT, "action": OBJECT},
    "shell_call": {"id": TEXT, "type": TEXT, "status": TEXT, "call_id": TEXT, "action": OBJECT},
    "apply_patch_call": {"id": TEXT, "type": TEXT, "status": TEXT, "call_id": TEXT, "operation": OBJECT},
    "tool_search_call": {"id": TEXT, "type": TEXT, "status": TEXT, "execution": TEXT, "arguments": OBJECT},
}

ITEMS_WITH_STATUS = frozenset(name for name, shape in ITEM_FIELDS.items() if "status" in shape)

ITEM_PREFIXES = {
    "message": "msg_",
    "function_call": "fc_",
    "custom_tool_call": "ctc_",
    "reasoning": "rs_",
    "web_search_call": "ws_",
}
