"""Translates token usage."""

from dragoman.dialects.openai_responses.names import get_object
from dragoman.hub.blocks import Extras
from dragoman.hub.usage import Usage


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


def write_usage(usage: Usage | None, *, same_dialect: bool) -> Extras | None:
    """The usage object with all members that clients require; None if the upstream reported nothing."""
    if usage is None:
        return None
    rest: Extras = dict(usage.extras) if same_dialect else {}
    input_details: Extras = {"cached_tokens": usage.cache_read or 0}
    if usage.cache_write is not None or not same_dialect:
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
