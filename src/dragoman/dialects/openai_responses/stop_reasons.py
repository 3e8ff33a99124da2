"""Reads and writes why a reply ended and how many tokens it used."""

from dragoman.dialects.openai_responses.names import get_object
from dragoman.hub.content import Extras
from dragoman.hub.events import StopCause
from dragoman.hub.usage import Usage

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


def _take_count(values: Extras, name: str) -> int | None:
    value = values.pop(name, None)
    return value if type(value) is int and value >= 0 else None


def _take_details(values: Extras, name: str) -> Extras:
    details = dict(get_object(values, name))
    values.pop(name, None)
    return details


def read_usage(value: object) -> Usage | None:
    """The counts of a response; None if it has none. A member of a wrong type counts as absent."""
    if not isinstance(value, dict):
        return None
    rest: Extras = dict(value)
    details = {name: _take_details(rest, name) for name in ("input_tokens_details", "output_tokens_details")}
    input_details, output_details = details.values()
    total = _take_count(rest, "total_tokens")
    input_tokens, output_tokens = _take_count(rest, "input_tokens"), _take_count(rest, "output_tokens")
    if total is not None and total != (input_tokens or 0) + (output_tokens or 0):
        rest["total_tokens"] = total
    long_writes = get_object(input_details, "cache_write_tokens_details")
    usage = Usage(
        input=input_tokens,
        output=output_tokens,
        cache_read=_take_count(input_details, "cached_tokens"),
        cache_write=_take_count(input_details, "cache_write_tokens"),
        cache_write_long=_take_count(dict(long_writes), "ttl_12h_tokens"),
        reasoning=_take_count(output_details, "reasoning_tokens"),
        extras={**rest, **{name: members for name, members in details.items() if members}},
    )
    return None if usage == Usage() else usage


def write_usage(usage: Usage | None, *, own: bool) -> Extras | None:
    """The usage object with all members that clients require; None if the upstream reported nothing."""
    if usage is None:
        return None
    rest: Extras = dict(usage.extras) if own else {}
    input_details: Extras = {"cached_tokens": usage.cache_read or 0}
    if usage.cache_write is not None or not own:
        input_details["cache_write_tokens"] = usage.cache_write or 0
    return {
        "input_tokens": usage.input or 0,
        "input_tokens_details": input_details | _take_details(rest, "input_tokens_details"),
        "output_tokens": usage.output or 0,
        "output_tokens_details": {
            "reasoning_tokens": usage.reasoning or 0,
            **_take_details(rest, "output_tokens_details"),
        },
        "total_tokens": usage.total,
        **rest,
    }
