"""Translates finish reasons and token usage.

Gemini uses `STOP` for an answer, a stop sequence and a tool call; the content shows the difference. Its
`candidatesTokenCount` does not include thoughts; the hub's `output` does.
"""

from dragoman.dialects.base import Json
from dragoman.hub.builder import reconcile_cause
from dragoman.hub.events import ReplyFinished, StopCause
from dragoman.hub.usage import Usage

CAUSES: dict[str, StopCause] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    # The server's own limit for one request; the client can request the rest.
    "CONTINUATION": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "MALFORMED_FUNCTION_CALL": "malformed_call",
    "UNEXPECTED_TOOL_CALL": "malformed_call",
    "MALFORMED_RESPONSE": "other",
    "TOO_MANY_TOOL_CALLS": "other",
    "LANGUAGE": "other",
    "NO_IMAGE": "other",
    "IMAGE_OTHER": "other",
    "OTHER": "other",
}

#: Values of servers that fill every field: the reply continues.
NO_REASON = frozenset({"", "FINISH_REASON_UNSPECIFIED"})
NOT_BLOCKED = frozenset({"", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"})

REASONS: dict[StopCause, str] = {
    "end": "STOP",
    "tool_calls": "STOP",
    "stop_sequence": "STOP",
    "length": "MAX_TOKENS",
    "context_window": "MAX_TOKENS",
    "refusal": "SAFETY",
    "content_filter": "SAFETY",
    "malformed_call": "MALFORMED_FUNCTION_CALL",
    "pause": "OTHER",
    "compaction": "OTHER",
    "other": "OTHER",
}


def choose_finish_reason(finished: ReplyFinished, *, native: bool, has_calls: bool, visible: bool) -> str:
    """The finish reason to write. `native`: the reply comes from Gemini, whose own reason is kept if it fits.

    A reply without visible content does not end with `STOP`: Gemini CLI would treat the stream as broken and
    retry. `OTHER` reports something unusual without an invented text.
    """
    raw = finished.raw_cause
    if native and raw in CAUSES and reconcile_cause(CAUSES[raw], has_calls=has_calls) == finished.cause:
        return raw
    reason = REASONS[finished.cause]
    return "OTHER" if reason == "STOP" and not visible else reason


def _count(raw: Json, name: str) -> int | None:
    value = raw.get(name)
    return value if type(value) is int and value >= 0 else None


def _is_wrong(name: str, value: object) -> bool:
    """Whether a count is not a number of tokens. Clients fail on such a value."""
    return name.endswith("TokenCount") and (type(value) is not int or value < 0)


def _count_modality(raw: Json, name: str, modality: str) -> int | None:
    """The tokens of one modality in a list of details."""
    details = raw.get(name)
    if not isinstance(details, list):
        return None
    for detail in details:
        if isinstance(detail, dict) and detail.get("modality") == modality:
            return _count(detail, "tokenCount")
    return None


def read_usage(raw: Json) -> Usage:
    """The counts of `usageMetadata`. The extras keep the whole object for Gemini clients."""
    raw = {name: value for name, value in raw.items() if not _is_wrong(name, value)}
    candidates, thoughts = _count(raw, "candidatesTokenCount"), _count(raw, "thoughtsTokenCount")
    has_output = candidates is not None or thoughts is not None
    return Usage(
        input=_count(raw, "promptTokenCount"),
        output=(candidates or 0) + (thoughts or 0) if has_output else None,
        cache_read=_count(raw, "cachedContentTokenCount"),
        reasoning=thoughts,
        tool_input=_count(raw, "toolUsePromptTokenCount"),
        audio_input=_count_modality(raw, "promptTokensDetails", "AUDIO"),
        audio_output=_count_modality(raw, "candidatesTokensDetails", "AUDIO"),
        extras=raw,
    )


def write_usage(usage: Usage, *, native: bool) -> Json:
    """Write `usageMetadata`; an empty object if no count is known."""
    if native and usage.extras:
        return usage.extras
    counts: Json = {
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": None
        if usage.output is None
        else max(0, usage.output - (usage.reasoning or 0)),
        "thoughtsTokenCount": usage.reasoning,
        "toolUsePromptTokenCount": usage.tool_input,
    }
    known = {name: value for name, value in counts.items() if value is not None}
    if known:
        known["totalTokenCount"] = usage.total + (usage.tool_input or 0)
    return known
