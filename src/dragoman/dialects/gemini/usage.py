"""Translates token usage. `candidatesTokenCount` does not include thoughts; the hub's `output` does."""

from dragoman.dialects.interfaces import Json
from dragoman.hub.usage import Usage


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
