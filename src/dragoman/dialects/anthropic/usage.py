"""Translates token usage.

Anthropic counts cached prompt tokens apart from `input_tokens`; the hub's `input` is the whole prompt.
"""

from dragoman.dialects.anthropic.names import object_of
from dragoman.dialects.interfaces import Json
from dragoman.hub.usage import Usage

_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def read_count(value: object) -> int | None:
    """A token count, if the value is one."""
    if type(value) is int and value >= 0:
        return value
    if type(value) is float and value.is_integer() and 0 <= value < 2**53:
        return int(value)
    return None


class UsageReader:
    """Combines the usage objects of one reply: a later object replaces the counts that it contains."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def read(self, report: Json) -> Usage:
        """The counts after this object. Fields that are no counts are its extras."""
        extras: Json = {}
        for name, value in report.items():
            count = read_count(value) if name in _COUNTS else None
            if count is None:
                extras[name] = value
            else:
                self._counts[name] = count
        counts = self._counts
        fresh = counts.get("input_tokens")
        read = counts.get("cache_read_input_tokens")
        write = counts.get("cache_creation_input_tokens")
        return Usage(
            input=None if fresh is None else fresh + (read or 0) + (write or 0),
            output=counts.get("output_tokens"),
            cache_read=read,
            cache_write=write,
            cache_write_long=read_count(
                object_of(report.get("cache_creation")).get("ephemeral_1h_input_tokens")
            ),
            reasoning=read_count(object_of(report.get("output_tokens_details")).get("thinking_tokens")),
            web_searches=read_count(object_of(report.get("server_tool_use")).get("web_search_requests")),
            extras=extras,
        )


def write_usage(usage: Usage, *, same_dialect: bool) -> Json:
    """The `usage` of a whole reply or of its `message_delta`."""
    cached = (usage.cache_read or 0) + (usage.cache_write or 0)
    written: Json = {"input_tokens": max(0, (usage.input or 0) - cached)}
    if usage.cache_write is not None:
        written["cache_creation_input_tokens"] = usage.cache_write
    if usage.cache_read is not None:
        written["cache_read_input_tokens"] = usage.cache_read
    written["output_tokens"] = usage.output or 0
    extras = usage.extras if same_dialect else {}
    if usage.reasoning is not None and "output_tokens_details" not in extras:
        written["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    if usage.web_searches is not None and "server_tool_use" not in extras:
        written["server_tool_use"] = {"web_search_requests": usage.web_searches, "web_fetch_requests": 0}
    for name, value in extras.items():
        written.setdefault(name, value)
    return written
