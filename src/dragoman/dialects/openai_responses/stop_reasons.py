"""Reads and writes why a reply ended."""

from dragoman.hub.events import StopCause

#: The hub's cause for each `incomplete_details.reason`.
CAUSE_OF_REASON: dict[str, StopCause] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
    # The server stopped at the end of an item, as it was asked to. An empty output is no failure.
    "max_messages": "end",
    "steered": "end",
}

#: Causes that make a response incomplete; every other one completes it.
REASON_OF_CAUSE: dict[StopCause, str] = {
    "length": "max_output_tokens",
    "context_window": "max_output_tokens",
    "content_filter": "content_filter",
}

#: The status of a response after each terminal event.
TERMINAL_STATUS: dict[str, str] = {
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}


def choose_reason(cause: StopCause, raw_cause: str, *, has_refusal: bool) -> str:
    """Why the response is incomplete; empty if it is complete. `raw_cause`: the reason in this dialect."""
    if CAUSE_OF_REASON.get(raw_cause) == cause:
        return raw_cause
    if cause == "refusal" and not has_refusal:
        return "content_filter"
    return REASON_OF_CAUSE.get(cause, "")
