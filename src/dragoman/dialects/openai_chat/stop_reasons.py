"""Translates finish reasons.

Compatible servers use further finish reasons. A reason that is not in the tables has the cause `other`.
"""

from dragoman.hub.errors import FailureKind
from dragoman.hub.events import StopCause

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
