"""Translates finish reasons and token usage.

Compatible servers use further finish reasons. A reason that is not in the tables has the cause `other`.
"""

from typing import TypeGuard

import msgspec

from dragoman.hub.errors import FailureKind
from dragoman.hub.events import StopCause
from dragoman.hub.usage import Usage

CAUSE_OF_REASON: dict[str, StopCause] = {
    "stop": "end",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    # Reasons that compatible servers pass on from the model or vendor behind them.
    "end_turn": "end",
    "end": "end",
    "eos": "end",
    "eos_token": "end",
    "complete": "end",
    "stop_sequence": "stop_sequence",
    "max_tokens": "length",
    "max_length": "length",
    "max_output_tokens": "length",
    "model_length": "context_window",
    "model_context_window_exceeded": "context_window",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "refusal": "refusal",
    "safety": "content_filter",
    "recitation": "content_filter",
    "prohibited_content": "content_filter",
    "blocklist": "content_filter",
    "sensitive": "content_filter",
    "malformed_function_call": "malformed_call",
    "unexpected_tool_call": "malformed_call",
    "malformed_response": "malformed_call",
    "too_many_tool_calls": "malformed_call",
    "pause_turn": "pause",
}

#: Finish reasons that report a failure instead of the end of an answer.
FAILURE_OF_REASON: dict[str, FailureKind] = {
    "error": "server",
    "network_error": "server",
    "abort": "server",
    "insufficient_system_resource": "overloaded",
}

REASON_OF_CAUSE: dict[StopCause, str] = {
    "end": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "stop_sequence": "stop",
    "refusal": "content_filter",
    "content_filter": "content_filter",
    "context_window": "length",
    "pause": "stop",
    "malformed_call": "stop",
    "compaction": "stop",
    "other": "stop",
}

#: The only reasons that clients of this dialect know.
FINISH_REASONS = frozenset(("stop", "length", "tool_calls", "content_filter", "function_call"))


def read_cause(reason: str) -> StopCause:
    """The cause of a finish reason.

    Some vendors write reasons in capitals. Google's compatible endpoint writes its own reason after a colon,
    as in `function_call_filter: MALFORMED_FUNCTION_CALL`.
    """
    return CAUSE_OF_REASON.get(reason) or CAUSE_OF_REASON.get(reason.rpartition(": ")[2].lower(), "other")


def write_reason(cause: StopCause, *, has_refusal_text: bool) -> str:
    """The finish reason for a cause. A refusal with a text in the message is a plain `stop`."""
    return "stop" if cause == "refusal" and has_refusal_text else REASON_OF_CAUSE[cause]


INPUT_DETAILS = "prompt_tokens_details"
OUTPUT_DETAILS = "completion_tokens_details"

#: The names of the hub's counts, by the object that holds them ("" is the usage object itself).
USAGE_FIELDS: dict[str, dict[str, str]] = {
    "": {"prompt_tokens": "input", "completion_tokens": "output"},
    INPUT_DETAILS: {
        "cached_tokens": "cache_read",
        "cache_write_tokens": "cache_write",
        "audio_tokens": "audio_input",
    },
    OUTPUT_DETAILS: {"reasoning_tokens": "reasoning", "audio_tokens": "audio_output"},
}

#: Other names of a count, used only if the usual name is missing. They stay in the extras.
USAGE_ALIASES: dict[str, str] = {
    "input_tokens": "input",
    "output_tokens": "output",
    "prompt_cache_hit_tokens": "cache_read",
    "cached_tokens": "cache_read",
    "cache_read_input_tokens": "cache_read",
    "cache_creation_input_tokens": "cache_write",
    "created_cache_tokens": "cache_write",
    "reasoning_tokens": "reasoning",
}


def read_usage(value: dict[str, object]) -> Usage:
    """The counts of a usage object. Unknown fields stay in the extras."""
    rest = dict(value)
    counts: dict[str, int] = {}
    for place, names in USAGE_FIELDS.items():
        details = rest if not place else rest.get(place)
        if not isinstance(details, dict):
            continue
        if place:
            details = dict(details)
        for name, count in names.items():
            number = details.get(name)
            if is_count(number):
                counts[count] = number
            if number is not None or not place:
                details.pop(name, None)
        if place and details:
            rest[place] = details
        elif place and value[place]:
            del rest[place]
    for name, count in USAGE_ALIASES.items():
        number = rest.get(name)
        if count not in counts and is_count(number):
            counts[count] = number
    # The total is always written as the sum, so the server's value is not kept.
    rest.pop("total_tokens", None)
    return msgspec.convert({**counts, "extras": rest}, Usage)


def is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def write_usage(usage: Usage, *, own: bool) -> dict[str, object]:
    """Write a usage object. `own`: the counts come from this dialect, so unknown fields are written too."""
    prompt, completion = usage.input or 0, usage.output or 0
    written: dict[str, object] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    for place in (INPUT_DETAILS, OUTPUT_DETAILS):
        details: dict[str, object] = {
            name: number
            for name, count in USAGE_FIELDS[place].items()
            if (number := getattr(usage, count)) is not None
        }
        if details:
            written[place] = details
    if own:
        for name, value in usage.extras.items():
            known = written.get(name)
            if isinstance(known, dict) and isinstance(value, dict):
                written[name] = {**known, **value}
            else:
                written[name] = value
    return written
