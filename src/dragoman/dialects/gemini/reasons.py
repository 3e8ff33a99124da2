"""Why a reply ended and what it cost, both ways, as tables.

Gemini says `STOP` for an answer, a stop sequence and a tool call alike: the content tells them apart.
Its `candidatesTokenCount` leaves the thoughts out, our `output` has them in.
"""

from dragoman.dialects.base import Json
from dragoman.hub.builder import reconcile_cause
from dragoman.hub.events import ReplyFinished, StopCause
from dragoman.hub.usage import Usage

CAUSES: dict[str, StopCause] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    # The server's own limit for one request; the rest could be asked for.
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

#: Said by servers that fill in every field: the reply goes on.
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


def finish_reason(finished: ReplyFinished, *, native: bool, has_calls: bool, visible: bool) -> str:
    """The word for this ending. `native`: the reply comes from Gemini, whose own word then stands.

    An answer with nothing to see in it is not called `STOP`: Gemini CLI would take that for a fault of
    the stream and ask again. `OTHER` says that something is odd without inventing a text.
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
    """A count that is none. Clients would choke on it, and it says nothing."""
    return name.endswith("TokenCount") and (type(value) is not int or value < 0)


def _of_modality(raw: Json, name: str, modality: str) -> int | None:
    """The tokens of one modality in a list of details."""
    details = raw.get(name)
    if not isinstance(details, list):
        return None
    for detail in details:
        if isinstance(detail, dict) and detail.get("modality") == modality:
            return _count(detail, "tokenCount")
    return None


def read_usage(raw: Json) -> Usage:
    """The counts of `usageMetadata`, and all of it in the extras, so that Gemini clients see it unchanged."""
    raw = {name: value for name, value in raw.items() if not _is_wrong(name, value)}
    candidates, thoughts = _count(raw, "candidatesTokenCount"), _count(raw, "thoughtsTokenCount")
    told = candidates is not None or thoughts is not None
    return Usage(
        input=_count(raw, "promptTokenCount"),
        output=(candidates or 0) + (thoughts or 0) if told else None,
        cache_read=_count(raw, "cachedContentTokenCount"),
        reasoning=thoughts,
        tool_input=_count(raw, "toolUsePromptTokenCount"),
        audio_input=_of_modality(raw, "promptTokensDetails", "AUDIO"),
        audio_output=_of_modality(raw, "candidatesTokensDetails", "AUDIO"),
        extras=raw,
    )


def write_usage(usage: Usage, *, native: bool) -> Json:
    """`usageMetadata`, or an empty object when nothing is known."""
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
    told = {name: value for name, value in counts.items() if value is not None}
    if told:
        told["totalTokenCount"] = usage.total + (usage.tool_input or 0)
    return told
