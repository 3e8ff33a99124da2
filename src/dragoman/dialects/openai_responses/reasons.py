"""Translates the end of a reply and its token usage."""

from dragoman.dialects.openai_responses.vocabulary import NAME
from dragoman.hub.content import Extras
from dragoman.hub.events import StopCause
from dragoman.hub.usage import Usage

#: The causes of `incomplete_details.reason`.
CAUSE_OF_REASON: dict[str, StopCause] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
    "max_messages": "other",
    "steered": "other",
}

#: The causes that make a response incomplete; with all others it is completed.
REASON_OF_CAUSE: dict[StopCause, str] = {
    "length": "max_output_tokens",
    "context_window": "max_output_tokens",
    "content_filter": "content_filter",
}

TERMINAL_STATUS: dict[str, str] = {
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}


def choose_reason(cause: StopCause, raw_cause: str, *, refused: bool) -> str:
    """The reason of an incomplete response, or empty. `raw_cause`: this dialect's own reason."""
    if CAUSE_OF_REASON.get(raw_cause) == cause:
        return raw_cause
    if cause == "refusal" and not refused:
        return "content_filter"
    return REASON_OF_CAUSE.get(cause, "")


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _details(value: object) -> Extras:
    return dict(value) if isinstance(value, dict) else {}


def read_usage(value: object) -> Usage | None:
    """The counts of a response; None if it has none. Fields of a wrong type count as absent."""
    if not isinstance(value, dict):
        return None
    rest: Extras = dict(value)
    incoming = _details(rest.pop("input_tokens_details", None))
    outgoing = _details(rest.pop("output_tokens_details", None))
    usage_input, usage_output = (
        _count(rest.pop("input_tokens", None)),
        _count(rest.pop("output_tokens", None)),
    )
    total = _count(rest.pop("total_tokens", None))
    if total is not None and total != (usage_input or 0) + (usage_output or 0):
        rest["total_tokens"] = total
    lasting = incoming.get("cache_write_tokens_details")
    usage = Usage(
        input=usage_input,
        output=usage_output,
        cache_read=_count(incoming.pop("cached_tokens", None)),
        cache_write=_count(incoming.pop("cache_write_tokens", None)),
        cache_write_long=_count(lasting.get("ttl_12h_tokens")) if isinstance(lasting, dict) else None,
        reasoning=_count(outgoing.pop("reasoning_tokens", None)),
        extras={
            **rest,
            **({"input_tokens_details": incoming} if incoming else {}),
            **({"output_tokens_details": outgoing} if outgoing else {}),
        },
    )
    return None if usage == Usage() else usage


def write_usage(usage: Usage | None, upstream: str) -> Extras | None:
    """Write the usage object with its details; None if the upstream reported no usage."""
    if usage is None:
        return None
    rest: Extras = dict(usage.extras) if upstream == NAME else {}
    incoming: Extras = {"cached_tokens": usage.cache_read or 0}
    if usage.cache_write is not None or upstream != NAME:
        incoming["cache_write_tokens"] = usage.cache_write or 0
    return {
        "input_tokens": usage.input or 0,
        "input_tokens_details": {**incoming, **_details(rest.pop("input_tokens_details", None))},
        "output_tokens": usage.output or 0,
        "output_tokens_details": {
            "reasoning_tokens": usage.reasoning or 0,
            **_details(rest.pop("output_tokens_details", None)),
        },
        "total_tokens": usage.total,
        **rest,
    }
